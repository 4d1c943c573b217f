/**
 * The stack file, parsed once. Everything behind this file works on a frozen, complete StackConfig; nothing else reads
 * configuration. Defaults are written in the schemas beside this file, each beside its unit.
 */
import type { z } from "zod";
import { nearestName } from "../nearest-name.ts";
import { ConfigError, type Problem, showValue } from "../problems.ts";
import { ec2Stack, eksStack } from "./aws-stacks.ts";
import { dockerCpuStack, kubernetesCpuStack, localStack } from "./cpu-stacks.ts";
import { dockerStack, kubernetesStack } from "./gpu-stacks.ts";
import { parseBySchema } from "./schema-problems.ts";
import { type Path, secretsIn } from "./secrets.ts";

/** Where a stack runs. */
const PLATFORMS = ["local", "docker", "kubernetes", "aws"] as const;
type Platform = (typeof PLATFORMS)[number];

type Tier = "gpu" | "cpu";

/** What a stack on AWS runs on. */
const COMPUTES = ["eks", "ec2"] as const;
type Compute = (typeof COMPUTES)[number];

const awsSchemas = { eks: eksStack, ec2: ec2Stack } as const satisfies Record<Compute, z.ZodType>;

/** The schema of every tier that a platform has; the first is that of a stack file which names none. */
const stackSchemas = {
  local: { cpu: localStack },
  docker: { gpu: dockerStack, cpu: dockerCpuStack },
  kubernetes: { gpu: kubernetesStack, cpu: kubernetesCpuStack },
  aws: { gpu: eksStack },
} as const satisfies Record<Platform, Partial<Record<Tier, z.ZodType>>>;

type StackSchema =
  | typeof localStack
  | typeof dockerStack
  | typeof dockerCpuStack
  | typeof kubernetesStack
  | typeof kubernetesCpuStack
  | typeof eksStack
  | typeof ec2Stack;

export type StackConfig = Readonly<z.infer<StackSchema>>;
export type GpuStackConfig = Extract<StackConfig, { tier: "gpu" }>;
export type CpuStackConfig = Extract<StackConfig, { tier: "cpu" }>;

type ReadStack =
  | { readonly config: StackConfig; readonly problems: readonly [] }
  | { readonly config: null; readonly problems: readonly Problem[] };

/**
 * Parses the `config:` of a stack.
 *
 * @param values - Keys without the project's prefix; objects and arrays as such, not as JSON text.
 * @throws ConfigError with every problem of the schema at once: path, value, reason, fix.
 */
export function parseConfig(values: Readonly<Record<string, unknown>>): StackConfig {
  const { config, problems } = readStack(values);
  if (config === null) throw new ConfigError(problems);
  return config;
}

/** The same, without throwing. */
export function readStack(values: Readonly<Record<string, unknown>>): ReadStack {
  const { platform, tier, tiers, compute, schema } = likelySchema(values);
  const hasOtherCompute = compute !== undefined && values.compute !== undefined && values.compute !== compute;
  const readable = { ...values, platform, tier, ...(hasOtherCompute ? { compute } : {}) };
  const parsed = parseBySchema(schema as z.ZodType<StackConfig>, readable);
  const problems = [
    ...(isPlatform(values.platform) ? [] : [noPlatform(values.platform, platform)]),
    ...(values.tier === undefined || values.tier === tier
      ? []
      : [noTier(values.tier, platform, Object.keys(tiers))]),
    ...(hasOtherCompute ? [noCompute(values.compute)] : []),
    ...(parsed.data === null ? parsed.problems : []),
  ];
  return parsed.data !== null && problems.length === 0
    ? { config: deepFreeze(parsed.data), problems: [] }
    : { config: null, problems };
}

/** Where the values of a stack are that its schema takes for secrets, encrypted or in clear. */
export function secretPaths(values: Readonly<Record<string, unknown>>): readonly Path[] {
  return secretsIn(likelySchema(values).schema, values);
}

function likelySchema(values: Readonly<Record<string, unknown>>) {
  const platform = isPlatform(values.platform) ? values.platform : likelyPlatform(values);
  const tiers: Readonly<Partial<Record<Tier, StackSchema>>> = stackSchemas[platform];
  const tier = likelyTier(values.tier, Object.keys(tiers) as Tier[]);
  const compute = platform === "aws" ? likelyCompute(values) : undefined;
  const schema = compute === undefined ? (tiers[tier] as StackSchema) : awsSchemas[compute];
  return { platform, tier, tiers, compute, schema };
}

/** What is meant; by default the first. Of no name, the one whose schema refuses less of the rest. */
function likelyCompute(values: Readonly<Record<string, unknown>>): Compute {
  const { compute = COMPUTES[0] } = values;
  const named = COMPUTES.find((name) => name === String(compute).toLowerCase());
  if (named !== undefined) return named;
  const refused = (one: Compute) =>
    awsSchemas[one].safeParse({ ...values, compute: one }).error?.issues.length ?? 0;
  return refused("ec2") < refused("eks") ? "ec2" : "eks";
}

function noCompute(value: unknown): Problem {
  return {
    path: "compute",
    value: showValue(value),
    reason: "A stack on AWS is a cluster (eks) or one machine (ec2).",
    fix: `Write ${COMPUTES.join(" or ")}.`,
  };
}

/** The tier that is meant; where none of the platform's has the name, the nearest, or its first. */
function likelyTier(value: unknown, tiers: readonly Tier[]): Tier {
  const [first = "gpu"] = tiers;
  if (typeof value !== "string") return first;
  return tiers.find((tier) => tier === value) ?? (nearestName(value, tiers) as Tier | undefined) ?? first;
}

function noTier(value: unknown, platform: Platform, tiers: readonly string[]): Problem {
  return {
    path: "tier",
    value: showValue(value),
    reason: `The platform ${platform} has the tier${tiers.length === 1 ? "" : "s"} ${tiers.join(" and ")}, and no other.`,
    fix: `Write ${tiers.join(" or ")}${value === "cpu" || value === "gpu" ? ", or another platform" : ""}.`,
  };
}

/**
 * What the Pulumi runtime hands to a program, as `parseConfig` wants it: only this project's keys, without the prefix,
 * structured values parsed. The runtime makes texts of all that is neither list nor mapping, `true` and `false` too.
 */
export function fromRuntimeConfig(
  all: Readonly<Record<string, string>>,
  project: string,
): Record<string, unknown> {
  const prefix = `${project}:`;
  return Object.fromEntries(
    Object.entries(all)
      .filter(([key]) => key.startsWith(prefix))
      .map(([key, text]) => [
        key.slice(prefix.length),
        /^(\s*[[{]|(true|false)$)/.test(text) ? parseJson(key, text) : text,
      ]),
  );
}

/** No part of the text is shown: it may hold a credential in clear. */
function parseJson(key: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const position = /at position \d+/.exec((error as Error).message)?.[0];
    throw new ConfigError([
      {
        path: key,
        value: `${text.length} characters`,
        reason: `This is no JSON${position === undefined ? "" : `: it can't be read on ${position}`}.`,
        fix: "Set it as YAML in the stack file, or with `pulumi config set --path`.",
      },
    ]);
  }
}

function isPlatform(value: unknown): value is Platform {
  return (PLATFORMS as readonly unknown[]).includes(value);
}

/** Keys that only one platform has. */
const OWN_KEYS: Readonly<Record<string, Platform>> = {
  region: "aws",
  compute: "aws",
  access: "aws",
  account: "aws",
  host: "docker",
  namespace: "kubernetes",
  context: "kubernetes",
  pools: "kubernetes",
};

/** Which platform is meant where none of that name exists, so that the mistakes below it are reported too. */
function likelyPlatform(values: Readonly<Record<string, unknown>>): Platform {
  const { platform } = values;
  const nearest = typeof platform === "string" ? nearestName(platform, PLATFORMS) : undefined;
  if (isPlatform(nearest)) return nearest;
  const key = Object.keys(OWN_KEYS).find((one) => one in values);
  return (key === undefined ? undefined : OWN_KEYS[key]) ?? "local";
}

function noPlatform(platform: unknown, likely: Platform): Problem {
  return {
    path: "platform",
    value: showValue(platform),
    reason: platform === undefined ? "It is required." : "There is no platform of that name.",
    fix: `Set \`engine-room:platform: ${likely}\`; there are ${PLATFORMS.join(", ")}.`,
  };
}

function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    Object.values(value).forEach(deepFreeze);
  }
  return value;
}
