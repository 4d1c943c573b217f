/**
 * Stacks that the workflows know, and what they do with each; and `pr-<number>`, which a label of a pull request brings up, and
 * which ends with it.
 */

import { parse, stringify } from "yaml";
import { z } from "zod";
import { CONFIG_NAMESPACE } from "../../infra/problems.ts";
import { UserError } from "../errors.ts";
import type { GitHub } from "./github.ts";

interface StackPipeline {
  /** Whether each pull request shows what it changes in it; that takes no credentials. */
  readonly isPreviewed: boolean;
  /** Why `deploy` and `drift` never touch it; null: they do once the repository's variable names it. */
  readonly keptBack: string | null;
}

/** By name; a test holds it against the stack files of the project. */
export const STACK_PIPELINES: Readonly<Record<string, StackPipeline>> = {
  dev: { isPreviewed: true, keptBack: "it is an example, with the number of nobody's account" },
  kind: { isPreviewed: true, keptBack: "it is for a cluster on somebody's own machine" },
  local: { isPreviewed: true, keptBack: "it is for processes of somebody's own machine" },
  onprem: { isPreviewed: true, keptBack: null },
  prod: { isPreviewed: true, keptBack: "it is an example, with the number of nobody's account" },
};

export type MatrixPurpose = "preview" | "deployed";
export const MATRIX_PURPOSES: readonly MatrixPurpose[] = ["preview", "deployed"];

/**
 * Names of stacks, sorted, as a job's matrix takes them.
 *
 * @param deployed - The repository's variable: names between spaces or commas; empty where nothing is deployed.
 * @throws UserError where the variable names a stack that there is not, or that is never deployed.
 */
export function matrixStacks(
  purpose: MatrixPurpose,
  deployed: string,
  pipelines: Readonly<Record<string, StackPipeline>> = STACK_PIPELINES,
): readonly string[] {
  const names = Object.keys(pipelines).toSorted();
  if (purpose === "preview") return names.filter((name) => pipelines[name]?.isPreviewed);
  const wanted = new Set(deployed.split(/[\s,]+/).filter((name) => name !== ""));
  for (const name of wanted) {
    const pipeline = pipelines[name];
    if (pipeline === undefined)
      throw new UserError(
        `There is no stack ${JSON.stringify(name)} to deploy; there are ${names.join(", ")}.`,
      );
    if (pipeline.keptBack !== null)
      throw new UserError(`The stack ${name} is not deployed: ${pipeline.keptBack}.`);
  }
  return [...wanted].toSorted();
}

/** Who may set a label decides who may ask for a stack; who approves the environment decides whether it is given. */
const PREVIEW_LABEL = "preview-stack";

/** The stack file that they are made from. */
export const PREVIEW_TEMPLATE = "kind";

const STACK_NAME = /^pr-([1-9]\d{0,8})$/;

/** @throws UserError where it is no number of a pull request. */
export function previewStackName(pullRequest: string): string {
  const name = `pr-${pullRequest}`;
  if (!STACK_NAME.test(name))
    throw new UserError(`${JSON.stringify(pullRequest)} is no number of a pull request, such as 12.`);
  return name;
}

interface PreviewStackOptions {
  /** As {@link previewStackName} gives it. */
  readonly stack: string;
  /** Where the cluster pulls images from; empty: as the template says. */
  readonly registry: string;
}

/** The stack file of one pull request: the template's, in a namespace of its own, which goes with the stack. */
export function previewStackFile(template: string, { stack, registry }: PreviewStackOptions): string {
  const { config } = z.object({ config: z.record(z.string(), z.unknown()) }).parse(parse(template));
  const key = (name: string) => `${CONFIG_NAMESPACE}:${name}`;
  const images = {
    ...(config[key("images")] as object | undefined),
    ...(registry === "" ? {} : { registry }),
  };
  return stringify({
    config: {
      ...config,
      [key("namespace")]: `${String(config[key("namespace")])}-${stack}`,
      [key("createNamespace")]: true,
      [key("images")]: images,
      // None of them: `down` takes the namespace, and the claims of its databases.
      [key("retain")]: [],
      // Several of these share a cluster, and a PriorityClass is the cluster's.
      [key("priorityClasses")]: "none",
    },
  });
}

/** Of `pulumi stack ls --json`. */
export const listedStacksSchema = z.array(
  z.object({
    name: z.string(),
    /** Of the last operation; absent before the first one. */
    lastUpdate: z.iso.datetime({ offset: true }).optional(),
  }),
);

interface EndedStack {
  readonly stack: string;
  readonly pullRequest: number;
  readonly reason: string;
}

const pullRequestSchema = z.object({
  state: z.enum(["open", "closed"]),
  labels: z.array(z.object({ name: z.string() })),
});

/**
 * Which of the stacks that there are have had their time. The state is asked, and no list of what was once brought up: what an
 * interrupted job has left is found too.
 *
 * @param hours - Most time since the last update.
 * @param now - In milliseconds of Unix time.
 */
export async function endedStacks(
  github: GitHub,
  stacks: z.infer<typeof listedStacksSchema>,
  { hours, now }: { readonly hours: number; readonly now: number },
): Promise<EndedStack[]> {
  const ended: EndedStack[] = [];
  for (const { name, lastUpdate } of stacks) {
    // Some backends say where it belongs to: organization/project/stack.
    const stack = name.split("/").at(-1) ?? "";
    const number = Number(STACK_NAME.exec(stack)?.[1]);
    if (Number.isNaN(number)) continue;
    const pullRequest = await github.find(`/pulls/${number}`, pullRequestSchema);
    const reason = endReason(pullRequest, lastUpdate, { hours, now });
    if (reason !== undefined) ended.push({ stack, pullRequest: number, reason });
  }
  return ended;
}

function endReason(
  pullRequest: z.infer<typeof pullRequestSchema> | undefined,
  lastUpdate: string | undefined,
  { hours, now }: { readonly hours: number; readonly now: number },
): string | undefined {
  if (pullRequest === undefined) return "its pull request is gone";
  if (pullRequest.state === "closed") return "its pull request is closed";
  if (!pullRequest.labels.some(({ name }) => name === PREVIEW_LABEL))
    return `the label ${PREVIEW_LABEL} is gone`;
  if (lastUpdate === undefined) return undefined;
  const age = (now - Date.parse(lastUpdate)) / 3_600_000;
  return age > hours ? `its last update was ${age.toFixed(1)} hours ago, and it has ${hours}` : undefined;
}
