/** Rules that the head breaks, and which of them the base breaks, too: by the head's rules and its stack file's levels. */
import type { StackPolicy } from "../../policy/stack-policy.ts";
import { type CheckedSide, uncheckedPolicies, violations } from "../../policy/violations.ts";
import type { RenderedTree } from "./rendered-tree.ts";
import { resourceLabel } from "./resource-label.ts";
import type { PolicyViolation, StackDiff } from "./types.ts";

interface ComparedTrees {
  readonly base: RenderedTree;
  /** Whether the base has the stack at all: where it has not, it breaks nothing. */
  readonly baseHasStack: boolean;
  readonly head: RenderedTree;
  /** null: the stack file has problems, and there is nothing to look at. */
  readonly policy: StackPolicy | null;
}

export function stackViolations({
  base,
  baseHasStack,
  head,
  policy,
}: ComparedTrees): Pick<StackDiff, "violations" | "uncheckedPolicies"> {
  if (policy === null) return { violations: [], uncheckedPolicies: [] };
  const before: CheckedSide = baseHasStack ? base : { resources: [], outputs: {} };
  const ofBase = baseHasStack ? violations(before, policy) : [];
  const known = { found: ofBase, unchecked: uncheckedPolicies(before, policy) };
  const labels = new Map((head.resources ?? []).map((one) => [one.urn, resourceLabel(one)]));
  return {
    violations: violations(head, policy, known).map(({ resource, ...rest }) => ({
      ...rest,
      resource: resource === null ? null : (labels.get(resource) ?? resource),
    })),
    uncheckedPolicies: uncheckedPolicies(head, policy),
  };
}

/** Those that a change must not bring in. What the base could not be asked about is not known to be the change's. */
export function newMandatory({ violations: all }: StackDiff): readonly PolicyViolation[] {
  return all.filter(({ level, isNew }) => level === "mandatory" && isNew === true);
}
