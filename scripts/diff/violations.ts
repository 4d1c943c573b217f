/** Rules that the head breaks, and which of them the base breaks, too: by the head's rules and its stack file's levels. */
import type { StackPolicy } from "../../policy/stack-policy.ts";
import { violations } from "../../policy/violations.ts";
import type { RenderedTree } from "./rendered-tree.ts";
import { resourceLabel } from "./resource-label.ts";
import type { PolicyViolation } from "./types.ts";

interface ComparedTrees {
  readonly base: RenderedTree;
  readonly head: RenderedTree;
  /** null: the stack file has problems, and there is nothing to look at. */
  readonly policy: StackPolicy | null;
}

export function stackViolations({ base, head, policy }: ComparedTrees): readonly PolicyViolation[] {
  if (policy === null) return [];
  const before = violations(base.resources ?? [], { ...policy, outputs: base.outputs });
  const labels = new Map((head.resources ?? []).map((one) => [one.urn, resourceLabel(one)]));
  return violations(head.resources ?? [], { ...policy, outputs: head.outputs, base: before }).map(
    ({ resource, ...rest }) => ({
      ...rest,
      resource: resource === null ? null : (labels.get(resource) ?? resource),
    }),
  );
}
