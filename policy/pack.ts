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
import { type CheckedResource, UNKNOWN } from "./rule.ts";
import { findings, rules, type StackPolicy, stackPolicy } from "./stack-policy.ts";

const ENFORCEMENT = {
  mandatory: "mandatory",
  advisory: "advisory",
  off: "disabled",
} as const satisfies Record<PolicyLevel, string>;

/** Starts the pack. The CLI gives it the stack's name and configuration, which levels and facts come from as in `npx engine-room diff`. */
export function servePack(): void {
  const policy = stackPolicy(pulumi.getStack(), pulumi.runtime.allConfig());
  new PolicyPack("engine-room", { policies: policy === null ? [] : packPolicies(policy) });
}

/** A policy for each rule, and one for all undecided findings: a policy has one level, and these are advice. */
export function packPolicies({ levels, facts }: StackPolicy): Policies {
  /** Findings of a rule in the resources that the pack is given. */
  const found = (name: PolicyName, given: readonly (PolicyResource | ResourceValidationArgs)[]) => {
    return findings(rules[name], { resources: given.map(checkedResource), facts });
  };
  return [
    ...POLICY_NAMES.map((name): Policies[number] => {
      const { description, scope } = rules[name];
      const common = { name, description, enforcementLevel: ENFORCEMENT[levels[name]] };
      const tell = (given: Parameters<typeof found>[1], report: ReportViolation) => {
        for (const { reason, fix, resource, isUndecided } of found(name, given))
          if (!isUndecided) report(`${reason} ${fix}`, resource.urn);
      };
      return scope === "resource"
        ? { ...common, validateResource: (args, report) => tell([args], report) }
        : { ...common, validateStack: ({ resources }, report) => tell(resources, report) };
    }),
    {
      name: "not-decided-before-up",
      description: "Findings that can't be decided before `up`, or not within a policy pack.",
      enforcementLevel: "advisory",
      validateStack: ({ resources }, report) => {
        for (const name of POLICY_NAMES.filter((one) => levels[one] !== "off"))
          for (const { reason, fix, resource, isUndecided } of found(name, resources))
            if (isUndecided) report(`${name}: ${reason} ${fix}`, resource.urn);
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
  const entries = Object.keys(value).map((key): [string, unknown] => {
    try {
      return [key, withoutProxies((value as Record<string, unknown>)[key])];
    } catch (error) {
      // By name, since the types of the SDK don't have the class.
      if ((error as Error).constructor.name === "UnknownValueError") return [key, UNKNOWN];
      throw error;
    }
  });
  return Array.isArray(value) ? entries.map(([, entry]) => entry) : Object.fromEntries(entries);
}
