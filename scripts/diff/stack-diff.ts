/** What merging a change would do to one stack, from what both trees' own code says of it. */
import type { StackPolicy } from "../../policy/stack-policy.ts";
import { type GraphChanges, graphChanges } from "./graph-changes.ts";
import { planDifferences } from "./plan-differences.ts";
import type { RenderedTree } from "./rendered-tree.ts";
import { changedSecrets, redacted, type StackSecrets } from "./stack-secrets.ts";
import type { ComparedTree, StackDiff } from "./types.ts";
import { stackViolations } from "./violations.ts";

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
 * Same two trees, same bytes.
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
