/**
 * The gateway's configuration, as config-file.ts reads it. Every key has its unit in its name and its default beside it; a
 * key that does not exist here is refused, so that a typo never passes as a default.
 */
import { requestProfile, requestProfileSchema } from "@engine-room/triton-requests";
import { Template } from "@huggingface/jinja";
import { z } from "zod";
import { IMAGE_HOST_PROBLEM, parseImageHost } from "./images/fetch-image.ts";

/** An HTTP address of a server behind the gateway. */
const httpOrigin = z
  .string()
  .refine(
    (text) => /^https?:\/\/[^/?#@]+\/?$/.test(text) && URL.canParse(text),
    "must be http://HOST:PORT or https://HOST:PORT, without path, query and password",
  )
  .transform((text) => new URL(text).origin);

const modelId = z
  .string()
  .min(1)
  .max(128)
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9._:/-]*$/,
    "must start with a letter or digit and hold only letters, digits and . _ : / -",
  );

const chatTemplate = z.string().superRefine((source, context) => {
  try {
    new Template(source);
  } catch (error) {
    context.addIssue({
      code: "custom",
      message: `is not a valid Jinja template: ${(error as Error).message}`,
    });
  }
});

const dimension = z.int().min(1).max(65_536);
const batchRows = z.int().min(1).max(4096);

/** The Triton of the encoders; its models are those of containers/cpu-models, under the same names on every stack. */
const encoders = z.strictObject({
  /** Triton's HTTP address. */
  http: httpOrigin,
  /** The id by which clients ask for the text encoder. */
  modelName: modelId,
  /** Numbers of a text's vector. */
  dimension,
  /** Numbers of an image's vector. */
  imageDimension: dimension,
  /** Rows of one Triton request at most: `max_batch_size` of its config.pbtxt. */
  maxBatchSize: batchRows,
  /** Words that the encoder was trained with, before texts of searches and of documents; /v1/embeddings leaves them to its client. */
  prefixes: z.strictObject({ query: z.string().default(""), document: z.string().default("") }).prefault({}),
});

const model = z.strictObject({
  /** The id by which clients ask for it. */
  name: modelId,
  /** Triton's HTTP address. */
  http: httpOrigin,
  /** Form of the model's requests. */
  profile: requestProfileSchema.default(requestProfile("inflight_batcher_llm")),
  /** Jinja template, as in tokenizer_config.json. Absent: the model completes text and does not chat. */
  chatTemplate: chatTemplate.optional(),
  /** Texts that end an answer and are never shown, in addition to those of the request. */
  stopWords: z.array(z.string().min(1)).max(16).default([]),
  /** Largest answer that a request may ask for. */
  maxTokens: z.int().min(1).default(1024),
  /** Prompt and answer together: `max_seq_len` of the engine. */
  contextTokens: z.int().min(2).default(2048),
  /** Seconds until a model that scales to zero answers, without a running server; the Retry-After of its clients. */
  coldStartSeconds: z.int().min(1).max(86_400).optional(),
});

const checkedModel = model.superRefine(({ maxTokens, contextTokens }, context) => {
  if (maxTokens < contextTokens) return;
  const message = `${maxTokens} leaves no room for a prompt in a context of ${contextTokens} tokens: use ${contextTokens - 1} or less`;
  context.addIssue({ code: "custom", path: ["maxTokens"], message });
});

const apiKey = z.strictObject({
  /** The key's owner, in logs and metrics in place of the key. */
  name: z
    .string()
    .regex(
      /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/,
      "must be 1 to 64 letters, digits and . _ -, starting with a letter or digit",
    ),
  /** SHA-256 of the key in hexadecimal: `printf %s "$KEY" | sha256sum`. */
  sha256: z
    .string()
    .regex(/^[0-9a-fA-F]{64}$/, "must be 64 hexadecimal digits: the SHA-256 of the key, never the key itself")
    .transform((hex) => hex.toLowerCase()),
});

const mongoUri = z
  .string()
  .refine(
    (text) => !/^[^/]*\/\/[^/?#]*@/.test(text),
    "holds a user or password: put the address into a file and name it in uriFile",
  );

const secretFile = z.string().min(1);

/** The two databases of documents. */
export const databases = z.strictObject({
  mongo: z
    .strictObject({
      /** Address without user and password. */
      uri: mongoUri.optional(),
      /** File that holds the address and nothing else. */
      uriFile: secretFile.optional(),
      database: z
        .string()
        .regex(/^[A-Za-z0-9_-]{1,63}$/, "must be 1 to 63 letters, digits and _ -")
        .default("engine_room"),
    })
    .refine(
      ({ uri, uriFile }) => (uri === undefined) !== (uriFile === undefined),
      "needs its address, once: give either uri or uriFile",
    ),
  vector: z.strictObject({
    /** HTTP address of a Qdrant. */
    url: httpOrigin,
    /** File with only its API key. Absent: it needs no key. */
    apiKeyFile: secretFile.optional(),
    collection: z
      .string()
      .regex(/^[A-Za-z0-9_-]{1,200}$/, "must be 1 to 200 letters, digits and _ -")
      .default("documents"),
  }),
});

/** The source of docs/limits.md. */
export const limits = z.strictObject({
  bodyBytes: z
    .int()
    .min(1024)
    .max(2 ** 30)
    .default(4 * 1024 * 1024)
    .describe("Largest request body; larger bodies are answered with 413. Images may be larger."),
  requestSeconds: z
    .number()
    .positive()
    .max(86_400)
    .default(300)
    .describe("Time from the request's arrival to its answer; then 504."),
  readSeconds: z
    .number()
    .positive()
    .max(3600)
    .default(10)
    .describe(
      "Time for a client to read its answer, plus a second for each 16 KiB of it; then its connection is closed.",
    ),
  memoryBytes: z
    .int()
    .min(64 * 1024)
    .default(64 * 1024 * 1024)
    .describe(
      "Bytes of requests and answers in memory, all together; beyond it those end whose clients have been sending or reading for the longest time. Requests that are being answered get three quarters of it; beyond that 503. There is room for four of the largest body, however large that is.",
    ),
  connections: z
    .int()
    .min(1)
    .max(1_000_000)
    .default(6144)
    .describe(
      "Connections at the same time; beyond it the connection is closed that is idle for the longest time.",
    ),
  // Triton queues and batches on its own, so this bounds memory, not load.
  concurrentRequests: z
    .int()
    .min(1)
    .max(65_536)
    .default(256)
    .describe("Requests that wait for Triton at one time."),
  queuedRequests: z
    .int()
    .min(0)
    .max(65_536)
    .default(1024)
    .describe(
      "Requests that wait for one of those places; the next one is answered with 503 and Retry-After.",
    ),
});

const file = z.strictObject({
  /** Address to listen on. */
  host: z.string().min(1).default("127.0.0.1"),
  /** Port to listen on; 0 for any free one. `--port` wins over it. */
  port: z.int().min(0).max(65_535).default(8080),
  /** The Triton that turns texts into vectors. Absent: /v1/embeddings has no model. */
  encoders: encoders.optional(),
  /** The language models, one Triton each. */
  models: z.array(checkedModel).default([]),
  /** Keys for /v1. Empty: everyone who reaches the address may use it. */
  apiKeys: z.array(apiKey).default([]),
  /** Per API key; per remote address without keys. Absent: no limit. */
  rateLimit: z.strictObject({ requestsPerMinute: z.int().min(1) }).optional(),
  limits: limits.prefault({}),
  /** Databases of documents. Absent: no documents, matches and answers. */
  databases: databases.optional(),
  /** Hosts from which images of documents, queries and chats may be fetched. None: an image is sent, never named by its address. */
  imageHosts: z
    .array(z.string().refine((entry) => parseImageHost(entry) !== undefined, IMAGE_HOST_PROBLEM))
    .default([]),
  log: z
    .strictObject({
      level: z.enum(["fatal", "error", "warn", "info", "debug", "trace", "silent"]).default("info"),
    })
    .prefault({}),
});

/** Schema of the configuration file. Rules over several keys are checked once each key is valid. */
export const gatewayConfigSchema = file.superRefine(({ encoders, models, apiKeys, databases }, context) => {
  const refuse = (path: PropertyKey[], message: string) =>
    context.addIssue({ code: "custom", path, message });
  if (encoders === undefined && models.length === 0)
    refuse(["models"], "is empty and there are no encoders: add a language model or `encoders`");
  for (const index of repeated([encoders?.modelName, ...models.map(({ name }) => name)]))
    refuse(["models", index - 1, "name"], "is used by another model: give each model its own id");
  for (const key of ["name", "sha256"] as const)
    for (const index of repeated(apiKeys.map((apiKey) => apiKey[key])))
      refuse(["apiKeys", index, key], "is used by another key: remove one of them, or give it its own");
  if (databases !== undefined && encoders === undefined)
    refuse(
      ["encoders"],
      "is required beside `databases`, because documents are found by their vectors: add it",
    );
});

/** Indices of values that repeat an earlier value. */
function repeated(values: readonly unknown[]): number[] {
  return values.flatMap((value, index) =>
    value !== undefined && values.indexOf(value) < index ? [index] : [],
  );
}

export type GatewayConfig = z.infer<typeof gatewayConfigSchema>;
/** Configuration before defaults. */
export type GatewayConfigInput = z.input<typeof gatewayConfigSchema>;
export type EncodersConfig = z.infer<typeof encoders>;
export type ModelConfig = z.infer<typeof checkedModel>;
export type DatabasesConfig = z.infer<typeof databases>;
export type ApiKeyConfig = z.infer<typeof apiKey>;
