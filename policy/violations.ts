/** The rules over a stack's resources, without the Pulumi CLI: for `npm run diff` and tests. */
import { POLICY_NAMES, type PolicyName } from "../infra/plan/catalogue/policies.ts";
import type { PolicyViolation } from "../scripts/diff/types.ts";
import type { CheckedResource, CheckedStack, Finding, Rule } from "./rule.ts";
import { rules, type StackPolicy } from "./stack-policy.ts";

/** The parts of a stack that are there to check. */
export interface CheckedSide {
  /** As `renderStack` returns them; null: there is no graph. */
  readonly resources: readonly CheckedResource[] | null;
  /** Outputs of the stack, or those that its plan knows; null: neither is there. */
  readonly outputs: Readonly<Record<string, unknown>> | null;
}

/** Violations of the base of a comparison. */
interface BaseViolations {
  readonly found: readonly PolicyViolation[];
  /** Policies that could not be checked on the base. */
  readonly unchecked: readonly string[];
}

/**
 * Every rule that a stack breaks, sorted by level, name and resource; findings that can't be decided before `up` are among
 * them as advice. Same resources, same bytes.
 *
 * @param base - @default nothing was deployed from the base
 */
export function violations(
  side: CheckedSide,
  { levels, facts }: StackPolicy,
  base: BaseViolations = { found: [], unchecked: [] },
): PolicyViolation[] {
  const stack: CheckedStack = { resources: side.resources ?? [], facts, outputs: side.outputs ?? {} };
  const found = POLICY_NAMES.filter((name) => levels[name] !== "off" && canBeChecked(name, side)).flatMap(
    (policy) =>
      findings(rules[policy], stack).map(({ resource, reason, fix, isUndecided }): PolicyViolation => {
        const level = isUndecided === true || levels[policy] !== "mandatory" ? "advisory" : "mandatory";
        return { policy, level, resource: resource?.urn ?? null, reason, fix, isNew: true };
      }),
  );
  const known = knownViolations(found, base.found);
  return found
    .map((violation) => ({
      ...violation,
      isNew: known.has(violation) ? false : base.unchecked.includes(violation.policy) ? null : true,
    }))
    .toSorted((a, b) => {
      const [left, right] = [sortKey(a), sortKey(b)];
      return left < right ? -1 : left > right ? 1 : 0;
    });
}

/** Policies of the stack that can't be checked: a stack that can only be planned has no resources. */
export function uncheckedPolicies(side: CheckedSide, { levels }: StackPolicy): readonly PolicyName[] {
  return POLICY_NAMES.filter((name) => levels[name] !== "off" && !canBeChecked(name, side));
}

function canBeChecked(name: PolicyName, { resources, outputs }: CheckedSide): boolean {
  return (rules[name].scope === "outputs" ? outputs : resources) !== null;
}

/** @returns With the resource of each finding; null: about the stack as a whole. */
export function findings(
  rule: Rule,
  stack: CheckedStack,
): readonly (Finding & { readonly resource: CheckedResource | null })[] {
  if (rule.scope === "outputs")
    return [...rule.check(stack.outputs, stack.facts)].map((finding) => ({ ...finding, resource: null }));
  return stack.resources.flatMap((resource) => {
    const check = rule.checks[resource.type] ?? rule.checks[`${resource.type.split(":")[0]}:*`];
    return [...(check?.(resource, stack) ?? [])].map((finding) => ({ ...finding, resource }));
  });
}

function sortKey({ level, policy, resource, reason }: PolicyViolation): string {
  return JSON.stringify([level === "mandatory" ? 0 : 1, policy, resource ?? "", reason]);
}

/** An engine key, or the hash of a name or of an image's content: it changes with the content. */
const HASH = /(?<![0-9A-Za-z])[0-9a-f]{12,64}(?![0-9A-Za-z])/g;

/** In what a violation of the base equals one of the head, from the strictest to the widest. */
const IDENTITIES: readonly ((violation: PolicyViolation) => readonly (string | undefined)[])[] = [
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
function knownViolations(
  found: readonly PolicyViolation[],
  ofBase: readonly PolicyViolation[],
): ReadonlySet<PolicyViolation> {
  const known = new Set<PolicyViolation>();
  let left = ofBase;
  for (const identity of IDENTITIES) {
    const unmatched = new Map<string, PolicyViolation[]>();
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
