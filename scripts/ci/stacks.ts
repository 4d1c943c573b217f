/**
 * Stacks of the workflows, and their use by each; and `pr-<number>`, which a label of a pull request brings up, and
 * which ends with it.
 */

import { parse, stringify } from "yaml";
import { z } from "zod";
import { pulledImages } from "../../infra/image-inputs.ts";
import { CONFIG_NAMESPACE } from "../../infra/problems.ts";
import { UserError } from "../errors.ts";
import { type StackReference, stackNames } from "../program/stack-file.ts";
import { readPlan } from "../program/targets.ts";
import type { GitHub } from "./github.ts";
import { LOCK_BRANCH } from "./lock-pull-request.ts";

const STACK_NAME = /^pr-([1-9]\d{0,8})$/;

/** Stacks that are never deployed by a job, and why. */
const OF_ONE_MACHINE: Readonly<Record<string, string>> = {
  kind: "it is for a cluster on a developer's own machine",
  local: "it is for processes on a developer's own machine",
};

/**
 * Stacks whose environment `preview-<stack>` would be that of another purpose, with other credentials; GitHub ignores
 * case.
 */
const TAKEN_NAMES = ["stack", "stack-images", "stack-end"];

function neverDeployed(name: string): string | undefined {
  return TAKEN_NAMES.includes(name.toLowerCase())
    ? `its environment preview-${name} is that of stacks of pull requests; give the stack another name`
    : OF_ONE_MACHINE[name];
}

const namesOf = (deployed: string): ReadonlySet<string> =>
  new Set(deployed.split(/[\s,]+/).filter((name) => name !== ""));

type MatrixPurpose = "preview" | "state-preview" | "deployed";
export const MATRIX_PURPOSES: readonly MatrixPurpose[] = ["preview", "state-preview", "deployed"];

/**
 * Names of stacks, sorted, for a job's matrix. Previews, which need no credentials, include all that have a stack file,
 * except those of pull requests. Previews against the state include those of the variable that can be deployed: a name
 * that is wrong, or whose file the change removes, must not prevent the others' previews.
 *
 * @param deployed - The repository's variable: names between spaces or commas; empty if nothing is deployed.
 * @param files - Stacks that have a file in the project.
 * @throws UserError if stacks are deployed, and the variable names one that does not exist, or that is never
 *   deployed.
 */
export function matrixStacks(
  purpose: MatrixPurpose,
  deployed: string,
  files: readonly string[] = stackNames(),
): readonly string[] {
  const names = files.filter((name) => !STACK_NAME.test(name));
  if (purpose === "preview") return names.toSorted();
  const wanted = namesOf(deployed);
  if (purpose === "state-preview")
    return names.filter((name) => wanted.has(name) && neverDeployed(name) === undefined).toSorted();
  for (const name of wanted) {
    if (!names.includes(name))
      throw new UserError(
        `There is no Pulumi.${name}.yaml to deploy; there are stack files of ${names.join(", ")}.`,
      );
    const reason = neverDeployed(name);
    if (reason !== undefined) throw new UserError(`The stack ${name} is not deployed: ${reason}.`);
  }
  return [...wanted].toSorted();
}

/** In place of names: the deployed stacks are unknown. */
const UNKNOWN_STACKS = "*";

/**
 * Without its file a deployed stack would stay as it is, and `deploy` would refuse the name, and with it all other stacks.
 *
 * @param deployed - As of {@link matrixStacks}; `*` if a fork's pull request is not told.
 * @param baseStacks - Stacks that have a file in the branch that the change is merged into.
 * @throws UserError with a sentence for each deployed stack whose file the change deletes or renames.
 */
export function requireDeployedFiles(
  deployed: string,
  baseStacks: readonly string[],
  stacks: readonly string[] = stackNames(),
): void {
  const isUnknown = deployed === UNKNOWN_STACKS;
  const names = isUnknown
    ? baseStacks.filter((name) => neverDeployed(name) === undefined)
    : namesOf(deployed);
  const lost = [...names].filter((name) => baseStacks.includes(name) && !stacks.includes(name));
  if (lost.length === 0) return;
  const sentences = lost
    .toSorted()
    .map((name) =>
      isUnknown
        ? `This change deletes Pulumi.${name}.yaml, and GitHub does not tell a fork's pull request whether the stack is deployed: delete the file from a branch of this repository.`
        : `This change deletes Pulumi.${name}.yaml, of a deployed stack: end the stack (\`npx engine-room down --stack ${name}\`) and take it out of DEPLOYED_STACKS first.`,
    );
  throw new UserError(sentences.join("\n"));
}

/**
 * A stack that pulls its images is deployed once images.lock.json has all digests; one on a Docker host builds what is
 * missing.
 *
 * @throws UserError with the command that builds them; ConfigError with all problems of its file.
 */
export function requireImages(stack: StackReference): void {
  const plan = readPlan(stack);
  if (plan.platform !== "kubernetes" && plan.platform !== "aws") return;
  for (const { reason, fix } of pulledImages(plan).problems)
    throw new UserError(
      `The stack ${stack.name} is not deployed before its images have digests. ${reason} The workflow \`images\` builds images of the stacks that IMAGES_STACKS names, and opens a pull request of the branch ${LOCK_BRANCH}: merge it, and \`deploy\` starts again. By hand: ${fix.replace("images --push", `images --stack ${stack.name} --push`)}`,
    );
}

/** Setting the label, which asks for a stack, and approving the environment, which grants it, are separate rights. */
const PREVIEW_LABEL = "preview-stack";

/** Template of these stacks. */
export const PREVIEW_TEMPLATE = "kind";

/** @throws UserError for anything but the number of a pull request. */
export function previewStackName(pullRequest: string): string {
  const name = `pr-${pullRequest}`;
  if (!STACK_NAME.test(name))
    throw new UserError(`${JSON.stringify(pullRequest)} is not the number of a pull request, such as 12.`);
  return name;
}

/**
 * Stack file of one pull request: the template's, in its own namespace, which is deleted with the stack.
 *
 * @param stack - As {@link previewStackName} gives it. @param registry - Registry from which the cluster pulls images;
 *   empty: the template's.
 */
export function previewStackFile(template: string, stack: string, registry: string): string {
  const { config } = z.object({ config: z.record(z.string(), z.unknown()) }).parse(parse(template));
  const key = (name: string) => `${CONFIG_NAMESPACE}:${name}`;
  const images = config[key("images")] as object | undefined;
  return stringify({
    config: {
      ...config,
      [key("namespace")]: `${String(config[key("namespace")])}-${stack}`,
      [key("createNamespace")]: true,
      [key("images")]: { ...images, ...(registry === "" ? {} : { registry }) },
      // Retains none: `down` deletes the namespace, and the claims of its databases.
      [key("retain")]: [],
      // Several of these share a cluster, and a PriorityClass is cluster-wide.
      [key("priorityClasses")]: "none",
    },
  });
}

/** Output of `pulumi stack ls --json`. */
export const listedStacksSchema = z.array(
  z.object({
    name: z.string(),
    /** End of the last operation; absent before the first one. */
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
 * Returns the stacks whose time is over. They come from the state, which also has those of an interrupted job.
 *
 * @param hours - Maximum time since the last update.
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
    const ageHours = lastUpdate === undefined ? 0 : (now - Date.parse(lastUpdate)) / 3_600_000;
    const reason = endReason(pullRequest, ageHours, hours);
    if (reason !== undefined) ended.push({ stack, pullRequest: number, reason });
  }
  return ended;
}

function endReason(
  pullRequest: z.infer<typeof pullRequestSchema> | undefined,
  ageHours: number,
  mostHours: number,
): string | undefined {
  if (pullRequest === undefined) return "its pull request is gone";
  if (pullRequest.state === "closed") return "its pull request is closed";
  if (!pullRequest.labels.some(({ name }) => name === PREVIEW_LABEL))
    return `the label ${PREVIEW_LABEL} is gone`;
  return ageHours > mostHours
    ? `its last update was ${ageHours.toFixed(1)} hours ago, and it has ${mostHours}`
    : undefined;
}
