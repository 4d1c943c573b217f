/** All rules by name, and what a stack file says about them. */
import { fromRuntimeConfig, readStack } from "../infra/config/config.ts";
import { POLICY_NAMES, type PolicyLevel, type PolicyName } from "../infra/plan/catalogue/types.ts";
import type { Rule, StackFacts } from "./rule.ts";
import { apiIsNotOpenToAll, iamActionHasNoWildcard } from "./rules/access.ts";
import { publicEndpointIsGuarded } from "./rules/endpoints.ts";
import { gpuPodHasLimits, imageHasDigest } from "./rules/pods.ts";
import { priceIsBelowCap, releaseHasFixes, resourcesAreLabelled } from "./rules/stack.ts";
import { engineStoreIsProtected, storageIsEncrypted } from "./rules/storage.ts";

export const rules: Readonly<Record<PolicyName, Rule>> = {
  "storage-is-encrypted": storageIsEncrypted,
  "public-endpoint-is-guarded": publicEndpointIsGuarded,
  "api-is-not-open-to-all": apiIsNotOpenToAll,
  "iam-action-has-no-wildcard": iamActionHasNoWildcard,
  "resources-are-labelled": resourcesAreLabelled,
  "price-is-below-cap": priceIsBelowCap,
  "gpu-pod-has-limits": gpuPodHasLimits,
  "image-has-digest": imageHasDigest,
  "engine-store-is-protected": engineStoreIsProtected,
  "release-has-fixes": releaseHasFixes,
};

export interface StackPolicy {
  readonly levels: Readonly<Record<PolicyName, PolicyLevel>>;
  readonly facts: StackFacts;
}

/** Stacks of a pull request: `preview-42`, `pr-42`. */
const PREVIEW_STACK = /^(pr|preview)-/;

/**
 * @param stack - Name of the stack.
 * @param values - Configuration of the stack as the Pulumi runtime has it: texts, under keys with the project's prefix.
 * @returns null where the stack file has problems: the program ends with them, and there are no resources to check.
 */
export function stackPolicy(
  stack: string,
  values: Readonly<Record<string, string>>,
  project: string,
): StackPolicy | null {
  const { config } = readStack(fromRuntimeConfig(values, project));
  if (config === null) return null;
  const { platform, policies, gateway } = config;
  const defaultLevel = ({ level, previewLevel = level }: Rule): PolicyLevel =>
    platform === "local" ? "advisory" : PREVIEW_STACK.test(stack) ? previewLevel : level;
  return {
    levels: Object.fromEntries(
      POLICY_NAMES.map((name) => [name, policies.levels[name] ?? defaultLevel(rules[name])]),
    ) as Record<PolicyName, PolicyLevel>,
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
