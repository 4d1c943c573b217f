/** The rules over a stack's resources, without the Pulumi CLI: for `npm run diff` and tests. */
import { POLICY_NAMES, type PolicyLevel, type PolicyName } from "../infra/plan/catalogue/types.ts";
import type { CheckedResource, CheckedStack, Finding, Rule } from "./rule.ts";
import { rules, type StackPolicy } from "./stack-policy.ts";

/** The parts of a stack that are there to check. */
export interface CheckedSide {
  /** As `renderStack` returns them; null: there is no graph. */
  readonly resources: readonly CheckedResource[] | null;
  /** Outputs of the stack, or those that its plan knows; null: neither is there. */
  readonly outputs: Readonly<Record<string, unknown>> | null;
}

/** A rule that the stack breaks, and how much it matters for this stack. */
export interface Violation {
  readonly policy: PolicyName;
  readonly level: Exclude<PolicyLevel, "off">;
  /** URN; null: about the stack as a whole. */
  readonly resource: string | null;
  readonly reason: string;
  readonly fix: string;
}

/**
 * Sorted by level, name and resource; findings that can't be decided before `up` are among them as advice. Same resources,
 * same bytes.
 */
export function violations(side: CheckedSide, { levels, facts }: StackPolicy): readonly Violation[] {
  const stack: CheckedStack = { resources: side.resources ?? [], facts, outputs: side.outputs ?? {} };
  return POLICY_NAMES.filter((name) => levels[name] !== "off" && canBeChecked(name, side))
    .flatMap((policy) =>
      findings(rules[policy], stack).map(({ resource, reason, fix, isUndecided }): Violation => {
        const level = isUndecided === true || levels[policy] !== "mandatory" ? "advisory" : "mandatory";
        return { policy, level, resource: resource?.urn ?? null, reason, fix };
      }),
    )
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

function sortKey({ level, policy, resource, reason }: Violation): string {
  return JSON.stringify([level === "mandatory" ? 0 : 1, policy, resource ?? "", reason]);
}
