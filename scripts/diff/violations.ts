/** Violations of rules by the head, and which of them the base has, too: by the head's rules and its stack file's levels. */
import {
  type CheckedSide,
  type StackPolicy,
  uncheckedPolicies,
  type Violation,
  violations,
} from "../../policy/stack-policy.ts";
import type { RenderedTree } from "./rendered-tree.ts";
import { resourceLabel } from "./resource-names.ts";
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
  const found = violations(head, policy);
  const known = knownViolations(found, baseHasStack ? violations(before, policy) : []);
  const unchecked: readonly string[] = uncheckedPolicies(before, policy);
  const labels = new Map((head.resources ?? []).map((one) => [one.urn, resourceLabel(one)]));
  return {
    violations: found.map((violation) => ({
      ...violation,
      isNew: known.has(violation) ? false : unchecked.includes(violation.policy) ? null : true,
      resource: violation.resource === null ? null : (labels.get(violation.resource) ?? violation.resource),
    })),
    uncheckedPolicies: uncheckedPolicies(head, policy),
  };
}

/** Those that a change must not bring in. What the base could not be asked about is not known to be the change's. */
export function newMandatory({ violations: all }: StackDiff): readonly PolicyViolation[] {
  return all.filter(({ level, isNew }) => level === "mandatory" && isNew === true);
}

/** An engine key, or the hash of a name or of an image's content: it changes with the content. */
const HASH = /(?<![0-9A-Za-z])[0-9a-f]{12,64}(?![0-9A-Za-z])/g;

/** In what a violation of the base equals one of the head, from the strictest to the widest. */
const IDENTITIES: readonly ((violation: Violation) => readonly (string | undefined)[])[] = [
  ({ policy, resource, reason }) => [policy, resource ?? undefined, reason],
  // The Job of a rebuilt engine, a ConfigMap that is named after its content.
  ({ policy, resource, reason }) => [policy, resource?.replaceAll(HASH, ""), reason.replaceAll(HASH, "")],
  // A renamed resource: the type of a URN, `urn:pulumi:stack::project::parent$type::name`.
  ({ policy, resource, reason }) => [
    policy,
    resource?.split("::")[2]?.split("$").at(-1),
    reason.replaceAll(HASH, ""),
  ],
];

/**
 * Violations that the base has as well, so that a change only moved them. Each violation of the base counts once: a second
 * resource that breaks a rule for the same reason is new.
 */
export function knownViolations(
  found: readonly Violation[],
  ofBase: readonly Violation[],
): ReadonlySet<Violation> {
  const known = new Set<Violation>();
  let left = ofBase;
  for (const identity of IDENTITIES) {
    const unmatched = new Map<string, Violation[]>();
    for (const violation of left) {
      const key = JSON.stringify(identity(violation));
      unmatched.set(key, [...(unmatched.get(key) ?? []), violation]);
    }
    for (const violation of found.filter((one) => !known.has(one)))
      if (unmatched.get(JSON.stringify(identity(violation)))?.pop() !== undefined) known.add(violation);
    left = [...unmatched.values()].flat();
  }
  return known;
}
