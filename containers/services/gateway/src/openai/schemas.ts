/**
 * Requests of the OpenAI API, as far as the models here can honour them. What would change an answer and can't be done
 * is refused with the reason; what changes nothing (`user`, `metadata` and the like) is taken and ignored; a key that the
 * API does not have is refused, because it most often is a typo. null means "not given", as in the API itself.
 */
import { z } from "zod";

/** Texts of one /v1/embeddings request at most; the API's own number. */
const MOST_INPUTS = 2048;
/** Prompts of one /v1/completions request at most: they all run at once. */
const MOST_PROMPTS = 16;

const modelId = z.string().min(1).max(256).describe("One of GET /v1/models.");

const tokenLimit = z.int().min(1).nullish();

const stop = z
  .union([z.string().min(1), z.array(z.string().min(1)).max(4)], {
    error: "must be a text, or a list of up to 4 texts, none of them empty",
  })
  .nullish()
  .describe("Texts before which the answer ends.");

/** Options that are taken and change nothing here. */
const ignored = {
  user: z.string().nullish(),
  metadata: z.record(z.string(), z.string()).nullish(),
  store: z.boolean().nullish(),
  service_tier: z.string().nullish(),
  safety_identifier: z.string().nullish(),
  prompt_cache_key: z.string().nullish(),
};

/** Options that would change the answer: only the value that asks for nothing is taken. */
const refused = {
  n: z.literal(1, { error: "must be 1: send a request for each answer" }).nullish(),
  logit_bias: z
    .record(z.string(), z.number())
    .refine((bias) => Object.keys(bias).length === 0, "is not supported; leave it out")
    .nullish(),
};

const sampling = {
  temperature: z
    .number()
    .min(0)
    .max(2)
    .nullish()
    .describe("0 takes the most probable token each time. Default 1."),
  top_p: z.number().gt(0).max(1).nullish().describe("Default 1."),
  top_k: z
    .int()
    .min(0)
    .max(100_000)
    .nullish()
    .describe(
      "Not in OpenAI's API: the number of most probable tokens to choose from; 0 for all. Default 0.",
    ),
  seed: z
    .int()
    .min(0)
    .nullish()
    .describe("Same seed, same request, same answer, as far as the server's batching allows."),
  frequency_penalty: z.number().min(-2).max(2).nullish(),
  presence_penalty: z.number().min(-2).max(2).nullish(),
  stop,
};

const streaming = {
  stream: z.boolean().nullish(),
  stream_options: z
    .strictObject({ include_usage: z.boolean().nullish(), include_obfuscation: z.boolean().nullish() })
    .nullish(),
};

function unsupportedPart<const Type extends string>(type: Type) {
  return z.looseObject({ type: z.literal(type) });
}

const textPart = z.strictObject({ type: z.literal("text"), text: z.string() });
const imagePart = z.strictObject({
  type: z.literal("image_url"),
  image_url: z.strictObject({
    url: z
      .string()
      .min(1)
      .describe(
        "The image itself as a data URL: data:image/jpeg;base64,… (or png, webp). Addresses are not fetched.",
      ),
    detail: z.enum(["auto", "low", "high"]).nullish().describe("Taken and ignored."),
  }),
});
const contentPart = z.discriminatedUnion(
  "type",
  [textPart, imagePart, unsupportedPart("input_audio"), unsupportedPart("file")],
  { error: "must be a part of type text or image_url" },
);
const content = z.union([z.string(), z.array(contentPart).min(1)], {
  error: "must be a text or a list of parts",
});

const message = z.strictObject({
  role: z.enum(["system", "developer", "user", "assistant"], {
    error: "must be system, developer, user or assistant; tools are not supported",
  }),
  content,
  name: z.string().max(64).optional(),
  refusal: z.string().nullish(),
});

/** A text that is there. */
const text = z.string({ error: "must be a text; token ids are not supported" }).min(1, "must not be empty");

/** Body of POST /v1/chat/completions. */
export const chatCompletionRequest = z.strictObject({
  model: modelId,
  messages: z.array(message).min(1).max(4096),
  max_tokens: tokenLimit.describe("Older name of max_completion_tokens."),
  max_completion_tokens: tokenLimit.describe(
    "Default: what the context has room for, up to the model's limit.",
  ),
  ...sampling,
  ...streaming,
  ...refused,
  ...ignored,
  logprobs: z.literal(false, { error: "is not supported; leave it out" }).nullish(),
  response_format: z
    .strictObject({
      type: z.literal("text", { error: "must be text: the models here are not held to a format" }),
    })
    .nullish(),
  tools: z.array(z.unknown()).max(0, "is not supported; leave it out").nullish(),
  tool_choice: z.literal("none", { error: "must be none: tools are not supported" }).nullish(),
  modalities: z.array(z.literal("text", { error: "must be text" })).nullish(),
});

/** Body of POST /v1/completions. */
export const completionRequest = z.strictObject({
  model: modelId,
  prompt: z.union([text, z.array(text).min(1).max(MOST_PROMPTS)], {
    error: `must be a text, or a list of 1 to ${MOST_PROMPTS} texts; it must not be empty`,
  }),
  max_tokens: tokenLimit.describe("Default 16, as in OpenAI's API."),
  ...sampling,
  ...streaming,
  ...refused,
  ...ignored,
  best_of: z.literal(1, { error: "must be 1" }).nullish(),
  echo: z.literal(false, { error: "must be false: put the prompt before the answer yourself" }).nullish(),
  logprobs: z.literal(0, { error: "is not supported; leave it out" }).nullish(),
  suffix: z.literal("", { error: "is not supported; leave it out" }).nullish(),
});

/** Body of POST /v1/embeddings. */
export const embeddingRequest = z.strictObject({
  model: modelId,
  input: z.union([text, z.array(text).min(1).max(MOST_INPUTS)], {
    error: `must be a text, or a list of 1 to ${MOST_INPUTS} texts; it must not be empty`,
  }),
  encoding_format: z.enum(["float", "base64"]).nullish(),
  dimensions: z.int().min(1).nullish().describe("Must be the model's own, if given."),
  user: ignored.user,
});

export type ChatCompletionRequest = z.infer<typeof chatCompletionRequest>;
export type ChatMessage = z.infer<typeof message>;
export type CompletionRequest = z.infer<typeof completionRequest>;

/** Every error under /v1. */
export const errorResponse = z.object({
  error: z.object({
    message: z.string(),
    type: z.string(),
    param: z.string().nullable(),
    code: z.string().nullable(),
  }),
});

/** Tokens of a request. `estimated` is there, and true, only where the model did not count them itself. */
export const usage = z.object({
  prompt_tokens: z.int(),
  completion_tokens: z.int().optional(),
  total_tokens: z.int(),
  estimated: z.literal(true).optional(),
});

const finishReason = z.enum(["stop", "length"]);

export const chatCompletionResponse = z.object({
  id: z.string(),
  object: z.literal("chat.completion"),
  created: z.int(),
  model: z.string(),
  choices: z.array(
    z.object({
      index: z.int(),
      message: z.object({ role: z.literal("assistant"), content: z.string(), refusal: z.null() }),
      logprobs: z.null(),
      finish_reason: finishReason,
    }),
  ),
  usage,
});

export const completionResponse = z.object({
  id: z.string(),
  object: z.literal("text_completion"),
  created: z.int(),
  model: z.string(),
  choices: z.array(
    z.object({ index: z.int(), text: z.string(), logprobs: z.null(), finish_reason: finishReason }),
  ),
  usage,
});

export const embeddingResponse = z.object({
  object: z.literal("list"),
  data: z.array(
    z.object({
      object: z.literal("embedding"),
      index: z.int(),
      embedding: z.union([z.array(z.number()), z.string()]),
    }),
  ),
  model: z.string(),
  usage,
});

export const modelResponse = z.object({
  id: z.string(),
  object: z.literal("model"),
  created: z.int(),
  owned_by: z.string(),
});

export const modelListResponse = z.object({ object: z.literal("list"), data: z.array(modelResponse) });
