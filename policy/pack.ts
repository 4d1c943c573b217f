/** The rules as a policy pack of @pulumi/policy: `pulumi preview --policy-pack policy`. */
import {
  type Policies,
  PolicyPack,
  type PolicyResource,
  type ReportViolation,
  type ResourceValidationArgs,
} from "@pulumi/policy";
import * as pulumi from "@pulumi/pulumi";
import { POLICY_NAMES, type PolicyLevel, type PolicyName } from "../infra/plan/catalogue/types.ts";
import { type CheckedResource, type CheckedStack, UNKNOWN } from "./rule.ts";
import { rules, type StackPolicy, stackPolicy } from "./stack-policy.ts";
import { findings } from "./violations.ts";

const ENFORCEMENT = {
  mandatory: "mandatory",
  advisory: "advisory",
  off: "disabled",
} as const satisfies Record<PolicyLevel, string>;

/** Starts the pack. The CLI gives it the stack's name and configuration, which levels and facts come from as in `npm run diff`. */
export function servePack(): void {
  const policy = stackPolicy(pulumi.getStack(), pulumi.runtime.allConfig(), pulumi.getProject());
  new PolicyPack("engine-room", { policies: policy === null ? [] : packPolicies(policy) });
}

/** A policy for each rule, and one for all undecided findings: a policy has one level, and these are advice. */
export function packPolicies({ levels, facts }: StackPolicy): Policies {
  /** Stack with the resources that the pack is given. At the end of a preview the inputs of the stack are its outputs. */
  const stackOf = (given: readonly (PolicyResource | ResourceValidationArgs)[]): CheckedStack => {
    const resources = given.map(checkedResource);
    const outputs = resources.find(({ type }) => type === "pulumi:pulumi:Stack")?.inputs ?? {};
    return { resources, facts, outputs };
  };
  const reportDecided = (name: PolicyName, stack: CheckedStack, report: ReportViolation) => {
    for (const { reason, fix, resource, isUndecided } of findings(rules[name], stack))
      if (!isUndecided) report(`${reason} ${fix}`, resource?.urn);
  };
  return [
    ...POLICY_NAMES.map((name): Policies[number] => {
      const { description, scope } = rules[name];
      const common = { name, description, enforcementLevel: ENFORCEMENT[levels[name]] };
      return scope === "resource"
        ? { ...common, validateResource: (args, report) => reportDecided(name, stackOf([args]), report) }
        : {
            ...common,
            validateStack: ({ resources }, report) => reportDecided(name, stackOf(resources), report),
          };
    }),
    {
      name: "not-decided-before-up",
      description: "Findings that can't be decided before `up`, or not within a policy pack.",
      enforcementLevel: "advisory",
      validateStack: ({ resources }, report) => {
        const stack = stackOf(resources);
        for (const name of POLICY_NAMES.filter((one) => levels[one] !== "off"))
          for (const { reason, fix, resource, isUndecided } of findings(rules[name], stack))
            if (isUndecided) report(`${name}: ${reason} ${fix}`, resource?.urn);
      },
    },
  ];
}

function checkedResource(resource: PolicyResource | ResourceValidationArgs): CheckedResource {
  const { type, name, urn, props, opts } = resource;
  // Dependencies are known only once all resources are; rules of scope `resource` need none.
  const dependencies = "propertyDependencies" in resource ? resource.propertyDependencies : {};
  return {
    type,
    name,
    urn,
    inputs: withoutProxies(props) as Record<string, unknown>,
    propertyDependencies: Object.fromEntries(
      Object.entries(dependencies).map(([key, resources]) => [key, resources.map((one) => one.urn)]),
    ),
    options: { protect: opts.protect, retainOnDelete: null },
  };
}

/** Inputs with {@link UNKNOWN} for unknown values, at which the SDK's proxies throw. */
function withoutProxies(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  const read = (key: string) => {
    try {
      return withoutProxies((value as Record<string, unknown>)[key]);
    } catch (error) {
      // By name, since the types of the SDK don't have the class.
      if ((error as Error).constructor.name === "UnknownValueError") return UNKNOWN;
      throw error;
    }
  };
  if (Array.isArray(value)) return Array.from({ length: value.length }, (_, index) => read(String(index)));
  return Object.fromEntries(Object.keys(value).map((key) => [key, read(key)]));
}
