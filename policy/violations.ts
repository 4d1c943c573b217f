/** The rules over a stack's resources, without Pulumi's CLI: for `npm run diff` and for tests. */
import { POLICY_NAMES, type PolicyName } from "../infra/plan/catalogue/policies.ts";
import type { PolicyViolation } from "../scripts/diff/types.ts";
import { type BaseViolations, withNovelty } from "./known-violations.ts";
import type { CheckedResource, CheckedStack, Finding, Rule } from "./rule.ts";
import { rules } from "./rules/index.ts";
import type { StackPolicy } from "./stack-policy.ts";

/** What there is of a stack to look at. */
export interface CheckedSide {
  /** Those of `renderStack`, as they are; null: there is no graph. */
  readonly resources: readonly CheckedResource[] | null;
  /** Outputs of the stack, or of what its plan knows of them; null: neither is there. */
  readonly outputs: Readonly<Record<string, unknown>> | null;
}

/** Of a base that nothing was deployed from. */
const NOTHING: BaseViolations = { found: [], unchecked: [] };

/**
 * Every rule that a stack breaks, sorted by level, name and resource; what can't be decided before `up` is among them as
 * advice. Same resources, same bytes.
 *
 * @param base - Violations of what it is compared with. @default none
 */
export function violations(
  side: CheckedSide,
  { levels, facts }: StackPolicy,
  base: BaseViolations = NOTHING,
): PolicyViolation[] {
  const stack: CheckedStack = { resources: side.resources ?? [], facts, outputs: side.outputs ?? {} };
  const found = POLICY_NAMES.filter((name) => levels[name] !== "off" && canBeChecked(name, side)).flatMap(
    (name) => findings(rules[name], stack).map((finding) => toViolation(name, finding)),
  );
  return withNovelty(found, base).toSorted((a, b) => compare(sortKey(a), sortKey(b)));

  function toViolation(policy: PolicyName, { resource, reason, fix, isUndecided }: Finding): PolicyViolation {
    const level = isUndecided === true || levels[policy] !== "mandatory" ? "advisory" : "mandatory";
    return { policy, level, resource: resource?.urn ?? null, reason, fix, isNew: true };
  }
}

/** Policies of the stack that nothing is known for: a stack that can only be planned has no resources. */
export function uncheckedPolicies(side: CheckedSide, { levels }: StackPolicy): readonly PolicyName[] {
  return POLICY_NAMES.filter((name) => levels[name] !== "off" && !canBeChecked(name, side));
}

function canBeChecked(name: PolicyName, { resources, outputs }: CheckedSide): boolean {
  return (rules[name].scope === "outputs" ? outputs : resources) !== null;
}

/** What a rule finds in a stack, whichever its scope. */
export function findings(rule: Rule, stack: CheckedStack): readonly Finding[] {
  if (rule.scope !== "resource") return rule.check(stack);
  return stack.resources.flatMap((resource) =>
    rule.check(resource).map((finding): Finding => ({ ...finding, resource })),
  );
}

function sortKey({ level, policy, resource, reason }: PolicyViolation): string {
  return JSON.stringify([level === "mandatory" ? 0 : 1, policy, resource ?? "", reason]);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
