/** Which violations the base of a comparison has as well: those that a change only moves are none of its own. */
import type { PolicyViolation } from "../scripts/diff/types.ts";

export interface BaseViolations {
  readonly found: readonly PolicyViolation[];
  /** Policies that the base was not asked about. */
  readonly unchecked: readonly string[];
}

/** A key of an engine, the hash of a name or of an image's content: it changes with what it is made of. */
const KEY = /(?<![0-9A-Za-z])[0-9a-f]{12,64}(?![0-9A-Za-z])/g;

/**
 * From the surest to the widest. Each violation of the base is taken once, so that a second resource that breaks a policy
 * for the reason of a first one is new.
 */
const IDENTITIES: readonly ((violation: PolicyViolation) => readonly (string | null)[])[] = [
  ({ policy, resource, reason }) => [policy, resource, reason],
  // A rebuilt engine's Job, a ConfigMap named with its content.
  ({ policy, resource, reason }) => [
    policy,
    resource?.replaceAll(KEY, "") ?? null,
    reason.replaceAll(KEY, ""),
  ],
  // One of that type is gone, and another has come in its place: a rename.
  ({ policy, resource, reason }) => [policy, typeOf(resource), reason.replaceAll(KEY, "")],
];

/** Of a URN, `urn:pulumi:stack::project::parent$type::name`. */
function typeOf(urn: string | null): string | null {
  return urn?.split("::")[2]?.split("$").at(-1) ?? null;
}

/** @param found - With URNs as their resources. */
export function withNovelty(
  found: readonly PolicyViolation[],
  { found: ofBase, unchecked }: BaseViolations,
): PolicyViolation[] {
  const known = new Set<PolicyViolation>();
  let left = ofBase;
  for (const identity of IDENTITIES) {
    const keyOf = (violation: PolicyViolation) => JSON.stringify(identity(violation));
    const byKey = new Map<string, PolicyViolation[]>();
    for (const violation of left)
      byKey.set(keyOf(violation), [...(byKey.get(keyOf(violation)) ?? []), violation]);
    for (const violation of found)
      if (!known.has(violation) && byKey.get(keyOf(violation))?.pop() !== undefined) known.add(violation);
    left = [...byKey.values()].flat();
  }
  const isUnknown = new Set(unchecked);
  return found.map((violation) => ({
    ...violation,
    isNew: known.has(violation) ? false : isUnknown.has(violation.policy) ? null : true,
  }));
}
