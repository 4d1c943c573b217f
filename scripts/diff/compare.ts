/** Compares the working tree with a commit, each by its own code, both at the same time. */
import { randomBytes } from "node:crypto";
import { realpath } from "node:fs/promises";
import { isAbsolute, join, relative } from "node:path";
import { exists } from "../../components/local/provider/files.ts";
import { type StackPolicy, stackPolicy } from "../../policy/stack-policy.ts";
import { projectRoot, readStackFile, requireStackFile, type StackReference } from "../program/stack-file.ts";
import { commitOf, withBaseTree } from "./base-tree.ts";
import { type GraphChanges, graphChanges } from "./graph-changes.ts";
import { planDifferences } from "./plan-differences.ts";
import { type RenderedTree, renderTree, unrendered } from "./rendered-tree.ts";
import { changedSecrets, redacted, type StackSecrets, stackSecrets } from "./stack-secrets.ts";
import type { ComparedTree, StackDiff } from "./types.ts";
import { stackViolations } from "./violations.ts";

interface Comparison {
  readonly stack: StackReference;
  /** What Git takes for a commit. */
  readonly ref: string;
  /** What the Pulumi CLI found of the working tree against the stack's state. */
  readonly preview?: GraphChanges | undefined;
  /** Absolute path. @default this project */
  readonly project?: string;
}

/** @throws UserError where Git has no such commit; ConfigError where the working tree has no file of the stack. */
export async function compareWithBase({
  stack,
  ref,
  preview,
  project = projectRoot,
}: Comparison): Promise<StackDiff> {
  // Only the two programs that render have it, and it ends with them.
  const secretKey = randomBytes(32).toString("hex");
  requireStackFile(stack);
  const commit = await commitOf(project, ref);
  return withBaseTree(project, commit, async (base) => {
    const render = (tree: string, configFile: string, name: string) =>
      renderTree({ project: tree, stack: stack.name, configFile, secretKey, out: join(base.scratch, name) });
    const baseSide = async (): Promise<Pick<BaseSide, "tree" | "secrets" | "hasStack">> => {
      if (base.project === null)
        return { tree: unrendered(base.failure ?? ""), secrets: new Map(), hasStack: true };
      const file = await fileInBase(stack, project);
      const configFile = join(base.project, file);
      if (!(await exists(configFile)))
        return {
          tree: unrendered(`It has no ${file}: the stack is new.`),
          secrets: new Map(),
          hasStack: false,
        };
      const tree = await render(base.project, configFile, "base.json");
      return { tree, secrets: stackSecrets({ name: stack.name, configFile }), hasStack: true };
    };
    const [tree, found] = await Promise.all([render(project, stack.configFile, "head.json"), baseSide()]);
    const hasPolicy = tree.resources !== null || tree.outputs !== null;
    const policy = hasPolicy ? stackPolicy(stack.name, readStackFile(stack).values) : null;
    const head = { ref: null, commit: null, tree, secrets: stackSecrets(stack), policy };
    return stackDiff(stack.name, { ref, commit, ...found }, head, preview);
  });
}

/**
 * Where the base has the stack's file, relative to the project: where the working tree has it. A file from elsewhere stands in
 * for the one that the stack has in the project, with which it is compared.
 */
export async function fileInBase({ name, configFile }: StackReference, project: string): Promise<string> {
  const path = relative(await realpath(project), await realpath(configFile).catch(() => configFile));
  return path.startsWith("..") || isAbsolute(path) ? `Pulumi.${name}.yaml` : path;
}

interface Side {
  readonly ref: string | null;
  readonly commit: string | null;
  readonly tree: RenderedTree;
  readonly secrets: StackSecrets;
}

interface BaseSide extends Side {
  /** Whether the base has the stack at all: where it has not, all of the head is new. */
  readonly hasStack: boolean;
}

interface HeadSide extends Side {
  /** Of its stack file; null where that has problems. */
  readonly policy: StackPolicy | null;
}

/**
 * What merging a change would do to one stack, from what both trees' own code says of it. Same two trees, same bytes.
 *
 * @param preview - What the Pulumi CLI found against the stack's state, in place of what the two graphs say.
 */
export function stackDiff(
  stack: string,
  base: BaseSide,
  head: HeadSide,
  preview: GraphChanges | null = null,
): StackDiff {
  const secrets = new Set([...base.secrets.values(), ...head.secrets.values()]);
  const graphs = preview ?? resourceChanges(base, head);
  return {
    stack,
    source: preview === null ? "rendered" : "pulumi-preview",
    base: comparedTree(base, base.hasStack, secrets),
    head: comparedTree(head, true, secrets),
    resources: graphs?.changes ?? null,
    unchanged: graphs?.unchanged ?? 0,
    plan: planChanges(base.tree, head.tree),
    secrets: base.hasStack ? changedSecrets(base.secrets, head.secrets) : [],
    ...stackViolations({
      base: base.tree,
      baseHasStack: base.hasStack,
      head: head.tree,
      policy: head.policy,
    }),
  };
}

function resourceChanges(base: BaseSide, head: Side): GraphChanges | null {
  if (head.tree.resources === null) return null;
  const after = { resources: head.tree.resources, hasMarks: head.tree.hasMarks };
  if (!base.hasStack) return graphChanges({ resources: [], hasMarks: true }, after);
  if (base.tree.resources === null) return null;
  return graphChanges({ resources: base.tree.resources, hasMarks: base.tree.hasMarks }, after);
}

/** Without a plan of the base, everything of the head's is new: it is shown alone. */
function planChanges(base: RenderedTree, head: RenderedTree): StackDiff["plan"] {
  if (head.plan === null) return null;
  const isOfAnotherForm = base.plan === null && base.resources !== null;
  return isOfAnotherForm ? null : planDifferences(base.plan, head.plan);
}

function comparedTree(
  { ref, commit, tree }: Side,
  hasStack: boolean,
  secrets: Iterable<string>,
): ComparedTree {
  return {
    ref,
    commit,
    hasStack,
    failure: tree.failure === null ? null : redacted(tree.failure, secrets),
    problems: tree.problems,
  };
}
