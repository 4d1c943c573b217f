/** Small graphs and stack files for comparisons. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { vi } from "vitest";
import type { StackPolicy } from "../../../policy/stack-policy.ts";
import { policyOf, stackDiff } from "../../../scripts/diff/compare.ts";
import { type RenderedTree, renderedHere } from "../../../scripts/diff/rendered-tree.ts";
import { type StackSettings, stackSettings } from "../../../scripts/diff/stack-settings.ts";
import type { ResourceChange, StackDiff } from "../../../scripts/diff/types.ts";
import type { StackReference } from "../../../scripts/program/stack-file.ts";
import type { RenderedResource } from "../../../scripts/render.ts";
import { program, withPlainTraces } from "../../infra/platforms/program.ts";

export const STACK = "urn:pulumi:demo::engine-room::pulumi:pulumi:Stack::engine-room-demo";

/** A resource at the top of the stack `demo`. */
export function resource(
  type: string,
  name: string,
  inputs: Record<string, unknown>,
  rest: Partial<RenderedResource> = {},
): RenderedResource {
  return {
    type,
    name,
    urn: `urn:pulumi:demo::engine-room::${type}::${name}`,
    parent: STACK,
    custom: true,
    inputs,
    dependencies: [],
    propertyDependencies: {},
    options: {},
    ...rest,
  };
}

/** A Deployment with one container. */
export function deployment(name: string, image: string, namespace = "models"): RenderedResource {
  return resource("kubernetes:apps/v1:Deployment", name, {
    metadata: { name, namespace },
    spec: { replicas: 1, selector: { app: name }, template: { spec: { containers: [{ name, image }] } } },
  });
}

const SECRET_KEY = "0".repeat(64);

interface RenderedText {
  readonly tree: RenderedTree;
  readonly settings: StackSettings;
  readonly policy: StackPolicy | null;
}

/** Rendered stacks by name and text; each is rendered once in a worker. */
const rendered = new Map<string, Promise<RenderedText>>();

/** The last rendering: the SDK runs one program at a time. */
let last: Promise<unknown> = Promise.resolve();

/** Renders a stack file by this tree. */
export function renderedText(text: string, name = "demo"): Promise<RenderedText> {
  const key = `${name}\n${text}`;
  const known = rendered.get(key) ?? last.then(() => render(name, text));
  last = known.catch(() => {});
  rendered.set(key, known);
  return known;
}

async function render(name: string, text: string): Promise<RenderedText> {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-diff-"));
  try {
    const stack = { name, configFile: join(folder, "stack.yaml") };
    writeFileSync(stack.configFile, text);
    return {
      tree: await renderedTree(stack),
      settings: stackSettings(stack),
      policy: policyOf(stack),
    };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Renders in this process, with the output of scripts/diff/render-child.ts. */
async function renderedTree(stack: StackReference): Promise<RenderedTree> {
  // Its warnings would be printed here.
  const printed = vi.spyOn(console, "warn").mockReturnValue(undefined);
  try {
    const here = await withPlainTraces(() => renderedHere(stack, SECRET_KEY, program));
    return JSON.parse(JSON.stringify(here)) as RenderedTree;
  } finally {
    printed.mockRestore();
  }
}

/** Compares both texts as stack files of this tree. */
export async function diffOfFiles(before: string, after: string): Promise<StackDiff> {
  const [base, head] = await Promise.all([renderedText(before), renderedText(after)]);
  return stackDiff("demo", { ref: null, commit: null, ...base, hasStack: true }, head);
}

/** Short text of a change: kind, label and paths. */
export function summary({ kind, label, properties }: ResourceChange): string {
  const isWhole = kind === "create" || kind === "delete";
  return `${kind} ${label}${isWhole ? "" : `: ${properties.map(({ path }) => path).join(", ")}`}`;
}
