/** The rules as policies of @pulumi/policy: what each of them reports, and at which level. */
import type { Policies, ReportViolation } from "@pulumi/policy";
import { POLICY_NAMES, type PolicyLevel, type PolicyName } from "../infra/plan/catalogue/policies.ts";
import { fromResource, fromStackResource } from "./pack-resources.ts";
import type { CheckedStack, ResourceFinding, StackFacts } from "./rule.ts";
import { rules } from "./rules/index.ts";
import type { StackPolicy } from "./stack-policy.ts";
import { findings } from "./violations.ts";

const ENFORCEMENT = {
  mandatory: "mandatory",
  advisory: "advisory",
  off: "disabled",
} as const satisfies Record<PolicyLevel, string>;

/** Name of the policy that says what the others can't decide: one policy has one level. */
const UNDECIDED = "not-decided-before-up";

/** A policy for each rule, and one more for what they leave open. */
export function packPolicies({ levels, facts }: StackPolicy): Policies {
  return [
    ...POLICY_NAMES.map((name) => policyOf(name, levels[name], facts)),
    {
      name: UNDECIDED,
      description: "What rules can't decide before `up`, or not from within a policy pack.",
      enforcementLevel: "advisory",
      validateStack: ({ resources }, report) => {
        const stack = checkedStack(resources.map(fromStackResource), facts);
        for (const name of POLICY_NAMES.filter((one) => levels[one] !== "off"))
          for (const finding of findings(rules[name], stack))
            if (finding.isUndecided) say(report, finding, finding.resource?.urn, name);
      },
    },
  ];
}

function policyOf(name: PolicyName, level: PolicyLevel, facts: StackFacts): Policies[number] {
  const rule = rules[name];
  const common = { name, description: rule.description, enforcementLevel: ENFORCEMENT[level] };
  if (rule.scope === "resource")
    return {
      ...common,
      validateResource: (args, report) => {
        for (const finding of rule.check(fromResource(args))) if (!finding.isUndecided) say(report, finding);
      },
    };
  return {
    ...common,
    validateStack: ({ resources }, report) => {
      const stack = checkedStack(resources.map(fromStackResource), facts);
      for (const finding of rule.check(stack))
        if (!finding.isUndecided) say(report, finding, finding.resource?.urn);
    },
  };
}

function checkedStack(resources: CheckedStack["resources"], facts: StackFacts): CheckedStack {
  // At the end of a preview the stack has its outputs where others have inputs.
  const outputs = resources.find(({ type }) => type === "pulumi:pulumi:Stack")?.inputs ?? {};
  return { resources, facts, outputs };
}

function say(
  report: ReportViolation,
  { reason, fix }: ResourceFinding,
  urn?: string,
  policy?: PolicyName,
): void {
  report(`${policy === undefined ? "" : `${policy}: `}${reason} ${fix}`, urn);
}
