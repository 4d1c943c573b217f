/**
 * The stack file, parsed once into a frozen, complete StackConfig. Defaults are written in the schemas beside this file, each
 * beside its unit; rules over several keys are in plan/checks.
 */
import type { z } from "zod";
import { nearestName } from "../nearest-name.ts";
import { ConfigError, type Problem, showValue } from "../problems.ts";
import { ec2Stack, eksStack } from "./aws-stacks.ts";
import { secret } from "./common.ts";
import { dockerCpuStack, dockerStack } from "./docker-stacks.ts";
import { kubernetesCpuStack, kubernetesStack } from "./kubernetes-stacks.ts";
import { localStack } from "./local-stack.ts";
import { parseBySchema } from "./schema-problems.ts";

const awsSchemas = { eks: eksStack, ec2: ec2Stack };

/** By platform and tier; the first tier is that of a stack file which names none, as the first compute is on AWS. */
const stackSchemas = {
  local: { cpu: localStack },
  docker: { gpu: dockerStack, cpu: dockerCpuStack },
  kubernetes: { gpu: kubernetesStack, cpu: kubernetesCpuStack },
  aws: { gpu: eksStack },
};

type Platform = keyof typeof stackSchemas;
type Tier = "gpu" | "cpu";
type Compute = keyof typeof awsSchemas;
type StackSchema =
  | typeof localStack
  | typeof dockerStack
  | typeof dockerCpuStack
  | typeof kubernetesStack
  | typeof kubernetesCpuStack
  | typeof eksStack
  | typeof ec2Stack;

const PLATFORMS = Object.keys(stackSchemas) as Platform[];
const COMPUTES = Object.keys(awsSchemas) as Compute[];

export type StackConfig = Readonly<z.infer<StackSchema>>;
export type GpuStackConfig = Extract<StackConfig, { tier: "gpu" }>;
export type CpuStackConfig = Extract<StackConfig, { tier: "cpu" }>;

type Values = Readonly<Record<string, unknown>>;

type ReadStack =
  | { readonly config: StackConfig; readonly problems: readonly [] }
  | { readonly config: null; readonly problems: readonly Problem[] };

/**
 * Parses the `config:` of a stack.
 *
 * @param values - Keys without the project's prefix; objects and arrays as such, not as JSON text.
 * @throws ConfigError with every problem of the schema at once: path, value, reason, fix.
 */
export function parseConfig(values: Values): StackConfig {
  const { config, problems } = readStack(values);
  if (config === null) throw new ConfigError(problems);
  return config;
}

/** The same, without throwing. */
export function readStack(values: Values): ReadStack {
  const { schema, kind, problems } = likelyKind(values);
  const parsed = parseBySchema(schema as z.ZodType<StackConfig>, { ...values, ...kind });
  if (parsed.data === null) return { config: null, problems: [...problems, ...parsed.problems] };
  return problems.length === 0
    ? { config: deepFreeze(parsed.data), problems: [] }
    : { config: null, problems };
}

/** Where the values of a stack are that its schema takes for secrets, encrypted or in plain text. */
export function secretPaths(values: Values): readonly Path[] {
  return secretsIn(likelyKind(values).schema, values);
}

/**
 * The kind of stack that a file describes. Where it names none that exists, a problem, and the kind that is probably meant, so
 * that its other problems can be reported too.
 */
function likelyKind(values: Values) {
  const platform = PLATFORMS.find((name) => name === values.platform) ?? likelyPlatform(values);
  const schemas: Readonly<Partial<Record<Tier, StackSchema>>> = stackSchemas[platform];
  const tiers = Object.keys(schemas) as [Tier];
  const tier = nearest(values.tier, tiers) ?? tiers[0];
  const compute = platform === "aws" ? likelyCompute(values) : undefined;
  const isOtherTier = values.tier !== undefined && values.tier !== tier;
  const isOtherCompute = compute !== undefined && values.compute !== undefined && values.compute !== compute;
  return {
    schema: compute === undefined ? (schemas[tier] as StackSchema) : awsSchemas[compute],
    kind: { platform, tier, ...(isOtherCompute ? { compute } : {}) },
    problems: [
      ...(values.platform === platform ? [] : [unknownPlatform(values.platform, platform)]),
      ...(isOtherTier ? [unknownTier(values.tier, platform, tiers)] : []),
      ...(isOtherCompute ? [unknownCompute(values.compute)] : []),
    ],
  };
}

function nearest<Name extends string>(value: unknown, names: readonly Name[]): Name | undefined {
  return typeof value === "string" ? (nearestName(value, names) as Name | undefined) : undefined;
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

function likelyPlatform(values: Values): Platform {
  const [ofKey = "local"] = Object.entries(OWN_KEYS).flatMap(([key, name]) => (key in values ? [name] : []));
  return nearest(values.platform, PLATFORMS) ?? ofKey;
}

/** The compute that is named, in upper or lower case; for another name, the one whose schema refuses less of the rest. */
function likelyCompute(values: Values): Compute {
  const { compute = "eks" } = values;
  const named = COMPUTES.find((name) => name === String(compute).toLowerCase());
  if (named !== undefined) return named;
  const refused = (name: Compute) =>
    awsSchemas[name].safeParse({ ...values, compute: name }).error?.issues.length ?? 0;
  return refused("ec2") < refused("eks") ? "ec2" : "eks";
}

function unknownPlatform(platform: unknown, likely: Platform): Problem {
  return {
    path: "platform",
    value: showValue(platform),
    reason: platform === undefined ? "It is required." : "There is no platform of that name.",
    fix: `Set \`engine-room:platform: ${likely}\`; there are ${PLATFORMS.join(", ")}.`,
  };
}

function unknownTier(tier: unknown, platform: Platform, tiers: readonly Tier[]): Problem {
  return {
    path: "tier",
    value: showValue(tier),
    reason: `The platform ${platform} has the tier${tiers.length === 1 ? "" : "s"} ${tiers.join(" and ")}, and no other.`,
    fix: `Write ${tiers.join(" or ")}${tier === "cpu" || tier === "gpu" ? ", or another platform" : ""}.`,
  };
}

function unknownCompute(compute: unknown): Problem {
  return {
    path: "compute",
    value: showValue(compute),
    reason: "A stack on AWS is a cluster (eks) or one machine (ec2).",
    fix: `Write ${COMPUTES.join(" or ")}.`,
  };
}

/**
 * Configuration of the Pulumi runtime as `parseConfig` takes it: only this project's keys, without the prefix, structured values
 * parsed. The runtime makes texts of all that is neither list nor mapping, `true` and `false` too.
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

/** No part of the text is shown: it may hold a credential in plain text. */
function parseJson(key: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const position = /at position \d+/.exec((error as Error).message)?.[0];
    throw new ConfigError([
      {
        path: key,
        value: `${text.length} characters`,
        reason: `Invalid JSON${position === undefined ? "" : ` ${position}`}.`,
        fix: "Set it as YAML in the stack file, or with `pulumi config set --path`.",
      },
    ]);
  }
}

function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    Object.values(value).forEach(deepFreeze);
  }
  return value;
}

type Path = readonly (string | number)[];

/** Paths of the values that stand where the schema has a {@link secret}. */
function secretsIn(schema: z.core.$ZodType, value: unknown, path: Path = []): readonly Path[] {
  if (value === undefined || value === null) return [];
  if (schema === secret) return [path];
  const inner = (type: z.core.$ZodType, key: string | number) =>
    secretsIn(type, (value as Record<string | number, unknown>)[key], [...path, key]);
  const { def } = (schema as z.core.$ZodTypes)._zod;
  switch (def.type) {
    case "object":
      return Object.entries(def.shape).flatMap(([key, type]) => inner(type, key));
    case "record":
      return Object.keys(value).flatMap((key) => inner(def.valueType, key));
    case "array":
      return Array.isArray(value) ? value.flatMap((_, index) => inner(def.element, index)) : [];
    case "union":
      return def.options.flatMap((option) => secretsIn(option, value, path));
    case "pipe":
      return secretsIn(def.in, value, path);
    case "optional":
    case "nullable":
    case "default":
    case "prefault":
    case "readonly":
      return secretsIn(def.innerType, value, path);
    default:
      return [];
  }
}
