/** Small graphs and stack files for comparisons. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type StackPolicy, stackPolicy } from "../../../policy/stack-policy.ts";
import { renderTree } from "../../../scripts/diff/render-tree.ts";
import type { GraphResource, RenderedTree } from "../../../scripts/diff/rendered-tree.ts";
import { stackDiff } from "../../../scripts/diff/stack-diff.ts";
import { type StackSecrets, stackSecrets } from "../../../scripts/diff/stack-secrets.ts";
import type { ResourceChange, StackDiff } from "../../../scripts/diff/types.ts";
import { projectName, projectRoot, readStackFile } from "../../../scripts/program/stack-file.ts";

export const STACK = "urn:pulumi:demo::engine-room::pulumi:pulumi:Stack::engine-room-demo";

/** A resource at the top of the stack `demo`. */
export function resource(
  type: string,
  name: string,
  inputs: Record<string, unknown>,
  rest: Partial<Omit<GraphResource, "options">> & { options?: Partial<GraphResource["options"]> } = {},
): GraphResource {
  return {
    type,
    name,
    urn: `urn:pulumi:demo::engine-room::${type}::${name}`,
    parent: STACK,
    custom: true,
    inputs,
    propertyDependencies: {},
    ...rest,
    options: {
      protect: false,
      retainOnDelete: false,
      ignoreChanges: [],
      replaceOnChanges: [],
      aliases: [],
      ...rest.options,
    },
  };
}

/** A Deployment with one container. */
export function deployment(name: string, image: string, namespace = "models"): GraphResource {
  return resource("kubernetes:apps/v1:Deployment", name, {
    metadata: { name, namespace },
    spec: { replicas: 1, selector: { app: name }, template: { spec: { containers: [{ name, image }] } } },
  });
}

const secretKey = "0".repeat(64);

/** What this tree says of each stack file; a text is rendered once. */
const rendered = new Map<string, Promise<RenderedText>>();

interface RenderedText {
  readonly tree: RenderedTree;
  readonly secrets: StackSecrets;
  readonly policy: StackPolicy | null;
}

function renderText(text: string): Promise<RenderedText> {
  const known = rendered.get(text) ?? render(text);
  rendered.set(text, known);
  return known;
}

async function render(text: string): Promise<RenderedText> {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-diff-"));
  try {
    const stack = { name: "demo", configFile: join(folder, "stack.yaml") };
    writeFileSync(stack.configFile, text);
    const request = { project: projectRoot, stack: stack.name, configFile: stack.configFile, secretKey };
    return {
      tree: await renderTree(request),
      secrets: stackSecrets(stack),
      policy: stackPolicy(stack.name, readStackFile(stack).values, projectName()),
    };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Both texts as stack files of this tree, compared. */
export async function diffOfFiles(before: string, after: string): Promise<StackDiff> {
  const [base, head] = await Promise.all([renderText(before), renderText(after)]);
  const side = { ref: null, commit: null };
  return stackDiff("demo", { ...side, ...base, hasStack: true }, { ...side, ...head });
}

/** Kind, label and paths, as a hand writes them. */
export function summary({ kind, label, properties }: ResourceChange): string {
  const isWhole = kind === "create" || kind === "delete";
  return `${kind} ${label}${isWhole ? "" : `: ${properties.map(({ path }) => path).join(", ")}`}`;
}
