/** All rules by name, their levels in a stack file, and their findings, without the Pulumi CLI. */
import { z } from "zod";
import { fromRuntimeConfig, readStack, type StackConfig } from "../infra/config/config.ts";
import { pulledImages } from "../infra/image-inputs.ts";
import {
  POLICY_LEVELS,
  POLICY_NAMES,
  type PolicyLevel,
  type PolicyName,
} from "../infra/plan/catalogue/types.ts";
import { planStack } from "../infra/plan/plan-stack.ts";
import {
  at,
  type CheckedResource,
  type CheckedStack,
  type Finding,
  type Rule,
  STACK,
  type StackFacts,
} from "./rule.ts";
import { engineStoreIsProtected, iamActionHasNoWildcard, storageIsEncrypted } from "./rules/data.ts";
import { apiIsNotOpenToAll, publicEndpointIsGuarded } from "./rules/network.ts";
import { gpuPodHasLimits, imageHasDigest } from "./rules/pods.ts";
import { priceIsBelowCap, releaseHasFixes, resourcesAreLabelled } from "./rules/stack.ts";

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

/** The parts of a stack that can be checked. */
export interface CheckedSide {
  /** As `renderStack` returns them; null without graph. */
  readonly resources: readonly CheckedResource[] | null;
  /** Outputs of the stack, or those that its plan knows; null when both are missing. */
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

const levelSchema = z.enum(POLICY_LEVELS);
const capSchema = z.number().min(0);

/** Stacks of a pull request: `preview-42`, `pr-42`. */
const PREVIEW_STACK = /^(pr|preview)-/;

/**
 * @param stack - Name of the stack.
 * @param values - Configuration of the stack as the Pulumi runtime has it: texts, under keys with their namespace.
 * @returns null if the stack file has problems: the program ends with them, and there are no resources to check.
 */
export function stackPolicy(stack: string, values: Readonly<Record<string, string>>): StackPolicy | null {
  const stackFile = fromRuntimeConfig(values);
  const { config } = readStack(stackFile);
  if (config === null) return null;
  const { platform, policies, gateway } = config;
  return {
    levels: levelsOf(stack, platform, policies.levels),
    facts: {
      platform,
      keepsDocuments: !("retain" in config) || (config.retain?.includes(stack) ?? true),
      hourlyUsdCap: policies.hourlyUsdCap ?? null,
      hasApiKeys: gateway.apiKeys.length > 0,
      exposure: "exposure" in gateway ? (gateway.exposure ?? null) : null,
      listenerEndsTls: !("route" in gateway) || gateway.route?.tls !== false,
      awaitedImages: awaitedImages(config, stackFile),
    },
  };
}

/** @param own - Levels of the stack file; a rule that it does not name has the level of the stack's kind. */
function levelsOf(
  stack: string,
  platform: unknown,
  own: Readonly<Partial<Record<PolicyName, PolicyLevel>>>,
): StackPolicy["levels"] {
  const levelOf = (name: PolicyName): PolicyLevel => {
    const { level = "mandatory", previewLevel = level } = rules[name];
    const byKind = platform === "local" ? "advisory" : PREVIEW_STACK.test(stack) ? previewLevel : level;
    return own[name] ?? byKind;
  };
  return Object.fromEntries(POLICY_NAMES.map((name) => [name, levelOf(name)])) as StackPolicy["levels"];
}

/** Policy of the base that applies to a change. */
export interface BasePolicy {
  readonly levels: StackPolicy["levels"];
  readonly facts: Pick<StackFacts, "keepsDocuments" | "hourlyUsdCap">;
}

/**
 * The same of a stack file of another version, which this schema refuses: each key that guards something is read by itself, and one
 * that can't be read counts as its default, or as retained.
 *
 * @param values - Keys without their namespace.
 */
export function basePolicy(
  stack: string,
  { platform, policies, retain }: Readonly<Record<string, unknown>>,
): BasePolicy {
  const levels = POLICY_NAMES.flatMap((name) => {
    const { data } = levelSchema.safeParse(at(policies, "levels", name));
    return data === undefined ? [] : [[name, data] as const];
  });
  return {
    levels: levelsOf(stack, platform, Object.fromEntries(levels)),
    facts: {
      keepsDocuments: Array.isArray(retain)
        ? retain.includes(stack)
        : retain !== undefined || platform !== "aws",
      hourlyUsdCap: capSchema.safeParse(at(policies, "hourlyUsdCap")).data ?? null,
    },
  };
}

/** None if the stack can't be planned, and so has no pods. */
function awaitedImages(config: StackConfig, stackFile: Readonly<Record<string, unknown>>): readonly string[] {
  const { plan } = planStack(config, stackFile);
  if (plan === null || !("cluster" in plan)) return [];
  const references = pulledImages(plan).images.map(({ reference }) => reference);
  return references.filter((reference) => !reference.includes("@sha256:"));
}

/**
 * Sorted by level, name and resource; findings that can't be decided before `up` are among them as advice. Same resources,
 * same bytes.
 */
export function violations(side: CheckedSide, { levels, facts }: StackPolicy): readonly Violation[] {
  const stack = { resources: checkedResources(side), facts };
  return POLICY_NAMES.filter((name) => levels[name] !== "off" && canBeChecked(name, side))
    .flatMap((policy) =>
      findings(rules[policy], stack).map(({ resource, reason, fix, isUndecided }): Violation => {
        const level = isUndecided === true || levels[policy] !== "mandatory" ? "advisory" : "mandatory";
        return { policy, level, resource: resource.type === STACK ? null : resource.urn, reason, fix };
      }),
    )
    .toSorted((a, b) => {
      const [left, right] = [sortKey(a), sortKey(b)];
      return left < right ? -1 : left > right ? 1 : 0;
    });
}

/** The resource of the stack gets the outputs, which a rendered graph has beside the resources. */
function checkedResources({ resources, outputs }: CheckedSide): readonly CheckedResource[] {
  const named = { type: STACK, name: "stack", urn: "", propertyDependencies: {}, options: {} };
  return [...(resources ?? []).filter(({ type }) => type !== STACK), { ...named, inputs: outputs ?? {} }];
}

function sortKey({ level, policy, resource, reason }: Violation): string {
  return JSON.stringify([level === "mandatory" ? 0 : 1, policy, resource ?? "", reason]);
}

/** Policies of the stack that can't be checked: a stack that can only be planned has no resources. */
export function uncheckedPolicies(side: CheckedSide, { levels }: StackPolicy): readonly PolicyName[] {
  return POLICY_NAMES.filter((name) => levels[name] !== "off" && !canBeChecked(name, side));
}

function canBeChecked(name: PolicyName, { resources, outputs }: CheckedSide): boolean {
  return (STACK in rules[name].checks ? outputs : resources) !== null;
}

/** @returns With the resource of each finding. */
export function findings(
  rule: Rule,
  stack: CheckedStack,
): readonly (Finding & { readonly resource: CheckedResource })[] {
  return stack.resources.flatMap((resource) => {
    const check = rule.checks[resource.type] ?? rule.checks[`${resource.type.split(":")[0]}:*`];
    return (check?.(resource, stack) ?? []).map((finding) => ({ ...finding, resource }));
  });
}
