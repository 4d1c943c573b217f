/**
 * The gateway's configuration: one JSON file, parsed once. Every key has its unit in its name and its default beside
 * it; a key that does not exist here is refused, so that a typo never passes as a default.
 */
import { readFileSync } from "node:fs";
import { StartError } from "@engine-room/service-process";
import { Template } from "@huggingface/jinja";
import { z } from "zod";
import {
  crossFieldIssues,
  DEFAULT_CONTEXT_TOKENS,
  DEFAULT_MAX_TOKENS,
  describeCrossFieldIssue,
  describeIssue,
} from "./config-problems.ts";
import { namedProfile, profileName, requestProfileSchema, tokenId, tritonName } from "./profile-config.ts";
import {
  databasesSchema,
  httpOrigin,
  imageHostsSchema,
  imagesSchema,
  retrievalSchema,
} from "./retrieval-config.ts";

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
    context.addIssue({ code: "custom", message: `is no valid Jinja template: ${(error as Error).message}` });
  }
});

const encoders = z.strictObject({
  /** Triton's HTTP address. */
  http: httpOrigin,
  /** Triton model that turns texts into vectors. */
  textModel: tritonName.default("text_encoder"),
  /** Its input: BYTES, one text a row. */
  textInput: tritonName.default("text"),
  /** Its output: FP32, `dimension` values a row. */
  textOutput: tritonName.default("text_embedding"),
  /** Its output with the number of tokens of each row, INT32; null where it has none, and usage is then an estimate. */
  tokenCountOutput: tritonName.nullable().default("token_count"),
  /** The id by which clients ask for it. */
  modelName: modelId,
  dimension: z.int().min(1).max(65_536),
  /** Rows of one Triton request at most: `max_batch_size` of its config.pbtxt. */
  maxBatchSize: z.int().min(1).max(4096),
  /** Triton model that turns images into vectors. */
  visionModel: tritonName.default("vision_encoder"),
  /** Its input: BYTES, one image file a row. */
  imageInput: tritonName.default("image"),
  /** Its output: FP32, `imageDimension` values a row. */
  imageOutput: tritonName.default("image_embedding"),
  /** Absent: no search by image. */
  imageDimension: z.int().min(1).max(65_536).optional(),
  /** Triton model that takes the inputs of both encoders and gives the outputs of both. */
  ensembleModel: tritonName.default("llava_ensemble"),
  /** Rows of one request with images at most: `max_batch_size` of the two models above, if below `maxBatchSize`. */
  imageMaxBatchSize: z.int().min(1).max(4096).default(16),
});

const model = z.strictObject({
  /** The id by which clients ask for it. */
  name: modelId,
  /** Triton's HTTP address. */
  http: httpOrigin,
  /** How the model is asked, in full; the next four keys are the short form for a text model. */
  profile: requestProfileSchema.optional(),
  /** Triton model that answers /generate: `ensemble`, or `tensorrt_llm_bls`. Default `ensemble`. */
  tritonModel: tritonName.optional(),
  /** How that model names its tensors and cuts its text. Default `inflight_batcher_llm`. */
  flavour: profileName.optional(),
  /** Token id that ends an answer. Absent: the model's own. */
  endId: tokenId.optional(),
  /** Token id that fills a batch. Absent: the model's own. */
  padId: tokenId.optional(),
  /** Jinja template, as in tokenizer_config.json. Absent: the model completes text and does not chat. */
  chatTemplate: chatTemplate.optional(),
  /** What the template's `bos_token` stands for. Empty by default: TensorRT-LLM's tokenizer adds the real one itself. */
  bosToken: z.string().default(""),
  /** What the template's `eos_token` stands for. */
  eosToken: z.string().default(""),
  /** Texts that end an answer and are never shown, besides those of the request. */
  stopWords: z.array(z.string().min(1)).max(16).default([]),
  /** Largest answer that a request may ask for. */
  maxTokens: z.int().min(1).default(DEFAULT_MAX_TOKENS),
  /** Prompt and answer together: `max_seq_len` of the engine. */
  contextTokens: z.int().min(2).default(DEFAULT_CONTEXT_TOKENS),
  /** Of a model that may have no server: from none to one that answers. Its clients are told to come back then. */
  coldStartSeconds: z.int().min(1).max(86_400).optional(),
});

/** A model with its one profile, whichever way it was written. */
const profiledModel = model.transform(({ profile, tritonModel, flavour, endId, padId, ...rest }) => ({
  ...rest,
  profile: profile ?? namedProfile({ tritonModel, flavour, endId, padId }),
}));

const apiKey = z.strictObject({
  /** Who the key belongs to; shown in logs and metrics instead of the key. */
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

const limits = z.strictObject({
  /** Largest request body; a larger one is answered with 413. */
  bodyBytes: z
    .int()
    .min(1024)
    .max(2 ** 30)
    .default(4 * 1024 * 1024),
  /** From the request's arrival to the last byte of its answer; then 504. */
  requestSeconds: z.number().positive().max(86_400).default(300),
  /** Connections at the same time, of which each costs some tens of KiB; one more is closed at once. */
  connections: z.int().min(1).max(1_000_000).default(20_000),
  /** Requests that wait for Triton at one time. Triton queues and batches on its own, so this bounds memory, not load. */
  concurrentRequests: z.int().min(1).max(65_536).default(256),
  /** Requests that wait for one of those places; the next one is answered with 503 and Retry-After. */
  queuedRequests: z.int().min(0).max(65_536).default(1024),
});

const file = z.strictObject({
  /** Address to listen on. */
  host: z.string().min(1).default("127.0.0.1"),
  /** Port to listen on; 0 for any free one. `--port` wins over it. */
  port: z.int().min(0).max(65_535).default(8080),
  /** The Triton that turns texts into vectors. Absent: /v1/embeddings knows no model. */
  encoders: encoders.optional(),
  /** The language models, one Triton each. */
  models: z.array(profiledModel).default([]),
  /** Who may use /v1. None: everybody who reaches the address. */
  apiKeys: z.array(apiKey).default([]),
  /** Per API key; per remote address where there are no keys. Absent: no limit. */
  rateLimit: z.strictObject({ requestsPerMinute: z.int().min(1) }).optional(),
  limits: limits.prefault({}),
  /** Where documents are kept. Absent: there are no documents, matches and answers. */
  databases: databasesSchema.optional(),
  /** Hosts from which images of documents and queries may be fetched. None: an image is sent, never named by its address. */
  imageHosts: imageHostsSchema.default([]),
  images: imagesSchema.prefault({}),
  retrieval: retrievalSchema.prefault({}),
  log: z
    .strictObject({
      level: z.enum(["fatal", "error", "warn", "info", "debug", "trace", "silent"]).default("info"),
    })
    .prefault({}),
});

/** Schema of the configuration file. */
export const gatewayConfigSchema = file.superRefine((config, context) => {
  for (const { path, message } of crossFieldIssues(config))
    context.addIssue({ code: "custom", path: [...path], message });
});

export type GatewayConfig = z.infer<typeof gatewayConfigSchema>;
/** What a caller may write: defaults left out. */
export type GatewayConfigInput = z.input<typeof gatewayConfigSchema>;
export type EncodersConfig = z.infer<typeof encoders>;
export type ModelConfig = z.infer<typeof profiledModel>;
export type ApiKeyConfig = z.infer<typeof apiKey>;

/** The configuration can't be used. The message lists all problems, one a line, and is meant to be shown as it is. */
export class ConfigError extends StartError {
  override readonly name = "ConfigError";
}

/**
 * Reads and checks a configuration file. In place of `apiKeys` it may have `apiKeysFile`, the path of a JSON file with
 * nothing but that list, so that the hashes can be kept apart.
 *
 * @throws ConfigError with every problem: path, value, reason and fix.
 */
export function loadConfig(file: string): GatewayConfig {
  const values = readJson(file, "give the configuration with --config FILE.json");
  if (typeof values !== "object" || values === null || !("apiKeysFile" in values))
    return parseConfig(values, file);
  const { apiKeysFile, ...rest } = values;
  if ("apiKeys" in rest)
    throw new ConfigError(`${file}: apiKeys and apiKeysFile are both given; keep one of them`);
  if (typeof apiKeysFile !== "string")
    throw new ConfigError(`${file}: apiKeysFile is no text; write the path of a JSON file`);
  return parseConfig({ ...rest, apiKeys: readJson(apiKeysFile, "correct apiKeysFile") }, file);
}

/** The content of a file is in no message: it may be a secret. */
function readJson(file: string, fix: string): unknown {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw new ConfigError(`${file} can't be read (${(error as Error).message}); ${fix}`);
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    const position = /at position \d+/.exec((error as Error).message)?.[0];
    const place = position === undefined ? "" : `: it can't be read on ${position}`;
    throw new ConfigError(`${file} is not JSON${place}; correct it`);
  }
}

/** Checks values that are already in memory. `source` names them in the message. @throws ConfigError */
export function parseConfig(values: unknown, source = "configuration"): GatewayConfig {
  // The checks over several fields look at the raw values, so that they are not silent while another field is wrong.
  const parsed = file.safeParse(values);
  const problems = [
    ...(parsed.error?.issues.flatMap((issue) => describeIssue(issue, values)) ?? []),
    ...crossFieldIssues(values).map((issue) => describeCrossFieldIssue(issue, values)),
  ];
  if (parsed.success && problems.length === 0) return parsed.data;
  const count = problems.length === 1 ? "1 problem" : `${problems.length} problems`;
  throw new ConfigError(`${source}: ${count}\n${problems.map((line) => `  ${line}`).join("\n")}`);
}
