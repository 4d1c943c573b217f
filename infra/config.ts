/**
 * The stack file, parsed once. Everything behind this file works on a frozen, complete StackConfig; nothing else reads
 * configuration. Defaults are written here, each beside its unit.
 */
import { z } from "zod";
import { crossFieldProblems, DEFAULT_CONTEXT_TOKENS, schemaProblems } from "./config-problems.ts";
import { MODEL_NAMES, VISION_WEIGHTS } from "./plan/catalogue/cpu-models.ts";
import { ConfigError, type Problem, showValue } from "./problems.ts";

/** Where a stack runs. */
export const PLATFORMS = ["local", "docker", "kubernetes", "aws"] as const;
export type Platform = (typeof PLATFORMS)[number];

/** Platforms that this version can deploy to; the others are refused in one sentence. */
export const AVAILABLE_PLATFORMS = ["local"] as const satisfies readonly Platform[];

/** Names end in paths, Triton model names, Kubernetes objects and host names: RFC 1123 labels, 40 characters at most. */
export const resourceName = z
  .string()
  .max(40)
  .regex(
    /^[a-z]([a-z0-9-]*[a-z0-9])?$/,
    "must be lower-case letters, digits and hyphens, starting with a letter",
  );

/** 0 picks a free port at the first `up` and keeps it. */
const port = z.int().min(0).max(65535).default(0);

const tritonPorts = z.strictObject({ http: port, grpc: port, metrics: port }).prefault({});

/** One language model: which, under what name, and how much of the machine it may take. */
const localModel = z.strictObject({
  name: resourceName,
  model: z.enum(MODEL_NAMES),
  /** Requests generated at the same time (slots of continuous batching); each has its own context. */
  parallelRequests: z.int().min(1).max(32).default(4),
  /** Prompt and answer together, per request, in tokens. */
  contextTokens: z.int().min(256).max(131_072).default(DEFAULT_CONTEXT_TOKENS),
  /** Most tokens that one request may ask for; absent: half of the context. */
  maxTokens: z.int().min(1).max(131_071).optional(),
  /** CPU threads; 0 takes all cores but one, which is left to the servers around it. */
  threads: z.int().min(0).max(256).default(0),
  ports: tritonPorts,
});

const localEncoders = z
  .strictObject({
    /** Most requests that Triton joins into one run of an encoder. */
    maxBatchSize: z.int().min(1).max(256).default(32),
    /** How long a request may wait for others to join its batch; 0 joins those that came during the last run. */
    maxQueueDelayMicroseconds: z.int().min(0).max(1_000_000).default(0),
    dynamicBatching: z.boolean().default(true),
    /** CPU threads of one encoder; 0 takes what the machine has. */
    threads: z.int().min(0).max(256).default(0),
    /** `auto`: CLIP from the model hub where it answers, else what a package carries, else seeded. */
    visionWeights: z.enum(VISION_WEIGHTS).default("auto"),
    ports: tritonPorts,
  })
  .prefault({});

/** Only the hash of an API key is configured, so there is no secret to keep: `npm run key` makes both. */
const apiKey = z.strictObject({
  name: resourceName,
  sha256: z.string().regex(/^[0-9a-f]{64}$/, "must be 64 lower-case hexadecimal digits"),
});

const gateway = z
  .strictObject({
    port,
    /** None: the gateway answers everybody who reaches its address. */
    apiKeys: z.array(apiKey).default([]),
    /** Per key, or per client address without keys; 0 is no limit. */
    requestsPerMinute: z.int().min(0).max(1_000_000).default(0),
    limits: z
      .strictObject({
        bodyMiB: z.int().min(1).max(256).default(10),
        requestSeconds: z.int().min(1).max(3600).default(300),
        concurrentRequests: z.int().min(1).max(100_000).default(256),
        queuedRequests: z.int().min(0).max(100_000).default(1024),
      })
      .prefault({}),
  })
  .prefault({});

const localStack = z.strictObject({
  platform: z.literal("local"),
  models: z.array(localModel).min(1).max(16),
  encoders: localEncoders,
  gateway,
  /** Python of the services: `3.10` to `3.12`; absent takes the newest that is installed. */
  pythonVersion: z.enum(["3.10", "3.11", "3.12"]).optional(),
});

/** All platforms in one schema; a platform joins it together with its components. */
export const stackSchema = z.discriminatedUnion("platform", [localStack]);

export type StackConfig = Readonly<z.infer<typeof stackSchema>>;
export type LocalStackConfig = Readonly<z.infer<typeof localStack>>;
export type LocalModelConfig = Readonly<z.infer<typeof localModel>>;
export type GatewayConfig = Readonly<z.infer<typeof gateway>>;

/**
 * Parses the `config:` of a stack.
 *
 * @param values - Keys without the project's prefix; objects and arrays as such, not as JSON text.
 * @throws ConfigError with every problem at once: path, value, reason, fix.
 */
export function parseConfig(values: Readonly<Record<string, unknown>>): StackConfig {
  const { platform } = values;
  if (isPlatform(platform) && !isAvailable(platform)) throw new ConfigError([notAvailable(platform)]);
  // Without a platform that exists, the rest is read as for the default one, so that its mistakes are reported too.
  const readable = isPlatform(platform) ? values : { ...values, platform: AVAILABLE_PLATFORMS[0] };
  const parsed = stackSchema.safeParse(readable, { reportInput: true });
  const problems = [
    ...(isPlatform(platform) ? [] : [noPlatform(platform)]),
    ...(parsed.success ? [] : schemaProblems(parsed.error, readable, stackSchema)),
    ...crossFieldProblems(readable),
  ];
  if (!parsed.success || problems.length > 0) throw new ConfigError(problems);
  return deepFreeze(parsed.data);
}

/**
 * What the Pulumi runtime hands to a program, as `parseConfig` wants it: only this project's keys, without the prefix,
 * structured values parsed.
 */
export function fromRuntimeConfig(
  all: Readonly<Record<string, string>>,
  project: string,
): Record<string, unknown> {
  const prefix = `${project}:`;
  return Object.fromEntries(
    Object.entries(all)
      .filter(([key]) => key.startsWith(prefix))
      .map(([key, text]) => [key.slice(prefix.length), /^\s*[[{]/.test(text) ? parseJson(key, text) : text]),
  );
}

function parseJson(key: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ConfigError([
      {
        path: key,
        value: `${text.length} characters`,
        reason: `This is no JSON: ${(error as Error).message}.`,
        fix: "Set it as YAML in the stack file, or with `pulumi config set --path`.",
      },
    ]);
  }
}

function isPlatform(value: unknown): value is Platform {
  return (PLATFORMS as readonly unknown[]).includes(value);
}

function isAvailable(platform: Platform): boolean {
  return (AVAILABLE_PLATFORMS as readonly Platform[]).includes(platform);
}

function noPlatform(platform: unknown): Problem {
  return {
    path: "platform",
    value: showValue(platform),
    reason: platform === undefined ? "It is required." : "There is no platform of that name.",
    fix: `Set \`engine-room:platform: ${AVAILABLE_PLATFORMS[0]}\`.`,
  };
}

function notAvailable(platform: Platform) {
  return {
    path: "platform",
    value: JSON.stringify(platform),
    reason: `The platform ${platform} is not in this version; available: ${AVAILABLE_PLATFORMS.join(", ")}.`,
    fix: "Set `engine-room:platform: local`, or use a later version.",
  };
}

function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    Object.values(value).forEach(deepFreeze);
  }
  return value;
}
