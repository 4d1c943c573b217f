/** The rules over a stack's resources, without Pulumi's CLI: for `npm run diff` and for tests. */
import { POLICY_NAMES, type PolicyName } from "../infra/plan/catalogue/policies.ts";
import type { PolicyViolation } from "../scripts/diff/types.ts";
import type { CheckedResource, CheckedStack, Finding, Rule } from "./rule.ts";
import { rules } from "./rules/index.ts";
import type { StackPolicy } from "./stack-policy.ts";

interface ViolationOptions extends StackPolicy {
  /** Outputs of the stack. */
  readonly outputs: Readonly<Record<string, unknown>>;
  /** Violations of what it is compared with: what stands there too is not new. @default none */
  readonly base?: readonly PolicyViolation[];
}

/**
 * Every rule that a stack breaks, sorted by level, name and resource; what can't be decided before `up` is among them as
 * advice. Same resources, same bytes.
 *
 * @param resources - Those of `renderStack`, as they are.
 */
export function violations(
  resources: readonly CheckedResource[],
  { levels, facts, outputs, base = [] }: ViolationOptions,
): PolicyViolation[] {
  const known = new Set(base.map(identity));
  return POLICY_NAMES.filter((name) => levels[name] !== "off")
    .flatMap((name) =>
      findings(rules[name], { resources, facts, outputs }).map((finding) => toViolation(name, finding)),
    )
    .map((violation) => ({ ...violation, isNew: !known.has(identity(violation)) }))
    .toSorted((a, b) => compare(sortKey(a), sortKey(b)));

  function toViolation(policy: PolicyName, { resource, reason, fix, isUndecided }: Finding): PolicyViolation {
    const level = isUndecided === true || levels[policy] !== "mandatory" ? "advisory" : "mandatory";
    return { policy, level, resource: resource?.urn ?? null, reason, fix, isNew: true };
  }
}

/** What a rule finds in a stack, whichever its scope. */
export function findings(rule: Rule, stack: CheckedStack): readonly Finding[] {
  if (rule.scope === "stack") return rule.check(stack);
  return stack.resources.flatMap((resource) =>
    rule.check(resource).map((finding): Finding => ({ ...finding, resource })),
  );
}

/** The same rule broken by the same resource for the same reason is the same violation. */
function identity({ policy, resource, reason }: PolicyViolation): string {
  return JSON.stringify([policy, resource, reason]);
}

function sortKey({ level, policy, resource, reason }: PolicyViolation): string {
  return JSON.stringify([level === "mandatory" ? 0 : 1, policy, resource ?? "", reason]);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
