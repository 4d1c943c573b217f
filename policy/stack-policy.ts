/** What a stack file says that rules need. */
import { fromRuntimeConfig, readStack } from "../infra/config/config.ts";
import { POLICY_NAMES, type PolicyLevel, type PolicyName } from "../infra/plan/catalogue/policies.ts";
import { policyLevel } from "./levels.ts";
import type { StackFacts } from "./rule.ts";

export interface StackPolicy {
  readonly levels: Readonly<Record<PolicyName, PolicyLevel>>;
  readonly facts: StackFacts;
}

/**
 * @param stack - Name of the stack.
 * @param values - The stack's configuration as the Pulumi runtime has it: every value a text, with the project's prefix.
 * @returns null where the stack file has problems: the program ends with them, and there are no resources to look at.
 */
export function stackPolicy(
  stack: string,
  values: Readonly<Record<string, string>>,
  project: string,
): StackPolicy | null {
  const { config } = readStack(fromRuntimeConfig(values, project));
  if (config === null) return null;
  const { platform, policies, gateway } = config;
  const own = policies.levels;
  const levels = Object.fromEntries(
    POLICY_NAMES.map((name) => [name, policyLevel(name, { name: stack, platform }, own)]),
  ) as Record<PolicyName, PolicyLevel>;
  return {
    levels,
    facts: {
      platform,
      keepsDocuments: !("retain" in config) || (config.retain?.includes(stack) ?? true),
      hourlyUsdCap: policies.hourlyUsdCap ?? null,
      hasApiKeys: gateway.apiKeys.length > 0,
      exposure: "exposure" in gateway ? (gateway.exposure ?? null) : null,
      listenerEndsTls: !("route" in gateway) || gateway.route?.tls !== false,
    },
  };
}
