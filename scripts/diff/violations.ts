/**
 * Finds violations of rules by the head, and those that the base has too: by the head's rules, and the stricter of both
 * stack files' levels.
 */
import { POLICY_NAMES, type PolicyLevel, type PolicyName } from "../../infra/plan/catalogue/types.ts";
import {
  type BasePolicy,
  type CheckedSide,
  type StackPolicy,
  uncheckedPolicies,
  type Violation,
  violations,
} from "../../policy/stack-policy.ts";
import { urnParts } from "../program/serialized.ts";
import type { RenderedTree } from "./rendered-tree.ts";
import { resourceLabel } from "./resource-names.ts";
import type { LevelChange, PolicyViolation, StackDiff } from "./types.ts";

const LEVELS: readonly PolicyLevel[] = ["off", "advisory", "mandatory"];

export function isLower({ before, after }: Pick<LevelChange, "before" | "after">): boolean {
  return LEVELS.indexOf(after) < LEVELS.indexOf(before);
}

/** Levels that differ between the sides; empty if one is unknown. */
export function levelChanges(base: BasePolicy | null, head: StackPolicy | null): readonly LevelChange[] {
  if (base === null || head === null) return [];
  return POLICY_NAMES.toSorted()
    .map((policy) => ({ policy, before: base.levels[policy], after: head.levels[policy] }))
    .filter(({ before, after }) => before !== after);
}

/**
 * Returns the rules for the head: a change that lowers a level, raises the cap or stops retaining the stack is judged
 * by the base's rules.
 *
 * @param base - Null when the base does not have the stack.
 */
export function stricter(base: BasePolicy | null, head: StackPolicy | null): StackPolicy | null {
  if (base === null || head === null) return head;
  const caps = [base.facts.hourlyUsdCap, head.facts.hourlyUsdCap].filter((cap) => cap !== null);
  const levels = Object.fromEntries(
    levelChanges(base, head)
      .filter(isLower)
      .map(({ policy, before }) => [policy, before]),
  );
  return {
    levels: { ...head.levels, ...levels },
    facts: {
      ...head.facts,
      keepsDocuments: base.facts.keepsDocuments || head.facts.keepsDocuments,
      hourlyUsdCap: caps.length === 0 ? null : Math.min(...caps),
    },
  };
}

/**
 * @param base - Null when the base does not have the stack, and has no violations.
 * @param policy - Null when the stack file has problems, and can't be checked.
 */
export function stackViolations(
  base: CheckedSide | null,
  head: RenderedTree,
  policy: StackPolicy | null,
): Pick<StackDiff, "violations" | "uncheckedPolicies"> {
  if (policy === null) return { violations: [], uncheckedPolicies: [] };
  const found = violations(head, policy);
  const known = knownViolations(found, base === null ? [] : violations(base, ofOtherImages(policy)));
  const unasked: readonly string[] = base === null ? [] : uncheckedPolicies(base, policy);
  const labels = new Map((head.resources ?? []).map((resource) => [resource.urn, resourceLabel(resource)]));
  return {
    violations: found.map((violation) => ({
      ...violation,
      isNew: known.has(violation) ? false : unasked.includes(violation.policy) ? null : true,
      resource: violation.resource === null ? null : (labels.get(violation.resource) ?? violation.resource),
    })),
    uncheckedPolicies: uncheckedPolicies(head, policy).map((name) => ({
      policy: name,
      level: policy.levels[name] === "mandatory" ? "mandatory" : "advisory",
    })),
  };
}

/** For the base, whose images have other contents. */
function ofOtherImages(policy: StackPolicy): StackPolicy {
  return { ...policy, facts: { ...policy.facts, awaitedImages: null } };
}

/** Violations that the change introduces. */
export function newMandatory({ violations: all }: StackDiff): readonly PolicyViolation[] {
  return all.filter(({ level, isNew }) => level === "mandatory" && isNew === true);
}

/** Violations that the change may introduce: the base has the stack, and could not be checked. */
export function perhapsNewMandatory({ base, violations: all }: StackDiff): readonly PolicyViolation[] {
  return all.filter(({ level, isNew }) => level === "mandatory" && isNew === null && base.hasStack);
}

/** An engine key, or the hash of a name or of an image's content: it changes with the content. */
const HASH = /(?<![0-9A-Za-z])[0-9a-f]{12,64}(?![0-9A-Za-z])/g;

/**
 * Parts of a reason that make no difference to the rule: an image without a digest is as bad as another image, and so
 * is a release.
 */
const NAMED: Readonly<Partial<Record<PolicyName, RegExp>>> = {
  "image-has-digest": / runs \S+,/g,
  "release-has-fixes": /^\S+ runs on \S+/g,
};

/**
 * Criteria by which a violation of the base equals one of the head: the same resource for the same reason, then the
 * same resource, then another resource of its type, for renamed, moved or rebuilt resources.
 */
const IDENTITIES: readonly ((violation: Violation) => string)[] = [
  ({ policy, resource, reason }) => JSON.stringify([policy, resource, reason]),
  ({ policy, resource, reason }) => JSON.stringify([policy, resource, reasonWithoutNames(policy, reason)]),
  ({ policy, resource, reason }) =>
    JSON.stringify([policy, urnParts(resource ?? "").type, reasonWithoutNames(policy, reason)]),
];

function reasonWithoutNames(policy: PolicyName, reason: string): string {
  return reason.replaceAll(NAMED[policy] ?? HASH, "").replaceAll(HASH, "");
}

/**
 * Violations that the base has as well, so that a change only moved them. Each violation of the base counts once: a second
 * resource that breaks a rule for the same reason is new.
 */
export function knownViolations(
  found: readonly Violation[],
  ofBase: readonly Violation[],
): ReadonlySet<Violation> {
  const known = new Set<Violation>();
  const left = new Set(ofBase);
  for (const identity of IDENTITIES)
    for (const violation of found.filter((candidate) => !known.has(candidate))) {
      const same = [...left].find((earlier) => identity(earlier) === identity(violation));
      if (same === undefined) continue;
      left.delete(same);
      known.add(violation);
    }
  return known;
}
