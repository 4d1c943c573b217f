/** Compares the working tree with a commit, each by its own code, both at the same time. */
import { randomBytes } from "node:crypto";
import { basename } from "node:path";
import { exists } from "../../components/local/provider/files.ts";
import { type StackPolicy, stackPolicy } from "../../policy/stack-policy.ts";
import { projectRoot, readStackFile, requireStackFile, type StackReference } from "../program/stack-file.ts";
import type { GraphChanges } from "./graph-changes.ts";
import type { Installer } from "./node-packages.ts";
import { renderTree } from "./render-tree.ts";
import { type RenderedTree, unrendered } from "./rendered-tree.ts";
import { stackDiff } from "./stack-diff.ts";
import { type StackSecrets, stackSecrets } from "./stack-secrets.ts";
import { baseFile, commitOf, withBaseTree } from "./trees.ts";
import type { StackDiff } from "./types.ts";

interface Comparison {
  readonly stack: StackReference;
  /** What Git takes for a commit. */
  readonly ref: string;
  /** What the Pulumi CLI found of the working tree against the stack's state. */
  readonly preview?: GraphChanges | undefined;
  /** Absolute path. @default this project */
  readonly project?: string;
  /** @default `npm ci` without scripts */
  readonly install?: Installer;
}

/** @throws UserError where Git has no such commit; ConfigError where the working tree has no file of the stack. */
export async function compareWithBase({
  stack,
  ref,
  preview,
  project = projectRoot,
  install,
}: Comparison): Promise<StackDiff> {
  // Nobody has it but the two programs that render, and it ends with them.
  const secretKey = randomBytes(32).toString("hex");
  const { name, configFile } = stack;
  requireStackFile(stack);
  const commit = await commitOf(project, ref);
  const rendered = renderTree({ project, stack: name, configFile, secretKey });
  // It is awaited below; what fails of the base comes first.
  rendered.catch(() => {});
  const options = { project, commit, ...(install === undefined ? {} : { install }) };
  const base = await withBaseTree(options, async (tree) => {
    const side = (rendering: RenderedTree, secrets: StackSecrets, hasStack: boolean) => ({
      ref,
      commit,
      tree: rendering,
      secrets,
      hasStack,
    });
    if (tree.project === null) return side(unrendered(tree.failure ?? ""), new Map(), true);
    const file = await baseFile(configFile, project, tree.project);
    if (!(await exists(file)))
      return side(unrendered(`It has no ${basename(file)}: the stack is new.`), new Map(), false);
    const rendering = await renderTree({ project: tree.project, stack: name, configFile: file, secretKey });
    return side(rendering, stackSecrets({ name, configFile: file }), true);
  });
  const tree = await rendered;
  const policy = tree.resources === null && tree.outputs === null ? null : policyOf(stack);
  return stackDiff(
    name,
    base,
    { ref: null, commit: null, tree, secrets: stackSecrets(stack), policy },
    preview,
  );
}

function policyOf(stack: StackReference): StackPolicy | null {
  return stackPolicy(stack.name, readStackFile(stack).values);
}
