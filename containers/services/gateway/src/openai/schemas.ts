/**
 * Requests of the OpenAI API, as far as the models here can honour them. Unsupported options that would change an answer
 * are refused with the reason; options without effect (`user`, `metadata` and the like) are ignored; keys unknown to the
 * API are refused, because they most often are typos. null means "not given", as in the API itself.
 */
import { z } from "zod";

/** Texts of one /v1/embeddings request at most; the API's own number. */
const MOST_INPUTS = 2048;
/** Prompts of one /v1/completions request at most: they all run at once. */
const MOST_PROMPTS = 16;

const modelId = z.string().min(1).max(256).describe("One of GET /v1/models.");

const tokenLimit = z.int().min(1).nullish();

/** Options that are accepted and ignored. */
const ignored = {
  user: z.string().nullish(),
  metadata: z.record(z.string(), z.string()).nullish(),
  store: z.boolean().nullish(),
  service_tier: z.string().nullish(),
  safety_identifier: z.string().nullish(),
  prompt_cache_key: z.string().nullish(),
};

const UNSUPPORTED = "is not supported; leave it out";

/** Unsupported options: only their neutral value is accepted. */
const refused = {
  n: z.literal(1, "must be 1: send a request for each answer").nullish(),
  logit_bias: z
    .record(z.string(), z.number())
    .refine((bias) => Object.keys(bias).length === 0, UNSUPPORTED)
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
    .describe(
      "Same seed, same request, same answer, as far as the server's batching allows. Models of `runtime: llmapi` ignore it.",
    ),
  frequency_penalty: z.number().min(-2).max(2).nullish(),
  presence_penalty: z.number().min(-2).max(2).nullish(),
  stop: z
    .union(
      [z.string().min(1), z.array(z.string().min(1)).max(4)],
      "must be a text, or a list of up to 4 texts, none of them empty",
    )
    .nullish()
    .describe("Texts before which the answer ends."),
};

const streaming = {
  stream: z.boolean().nullish(),
  stream_options: z
    .strictObject({ include_usage: z.boolean().nullish(), include_obfuscation: z.boolean().nullish() })
    .nullish(),
};

const textPart = z.strictObject({ type: z.literal("text"), text: z.string() });
const imagePart = z.strictObject({
  type: z.literal("image_url"),
  image_url: z.strictObject({
    url: z
      .string()
      .min(1)
      .describe(
        "The image itself as a data URL: data:image/jpeg;base64,… (or png, webp); or an http(s) address, fetched only from hosts of gateway.imageHosts.",
      ),
    detail: z.enum(["auto", "low", "high"]).nullish().describe("Accepted and ignored."),
  }),
});
const videoPart = z.strictObject({
  type: z.literal("video_url"),
  video_url: z.strictObject({
    url: z
      .string()
      .min(1)
      .describe(
        "Frames of a video in their order, as JPEG files of one size: data:video/jpeg;base64,FRAME,FRAME,… Videos themselves are not decoded.",
      ),
  }),
});
const contentPart = z.discriminatedUnion("type", [textPart, imagePart, videoPart], {
  error: "must be a part of type text, image_url or video_url",
});
const message = z.strictObject({
  role: z.enum(
    ["system", "developer", "user", "assistant"],
    "must be system, developer, user or assistant; tools are not supported",
  ),
  content: z.union([z.string(), z.array(contentPart).min(1)], "must be a text or a list of parts"),
  name: z.string().max(64).optional(),
  refusal: z.string().nullish(),
});

/** A nonempty text. */
const text = z.string("must be a text; token ids are not supported").min(1, "must not be empty");

function oneOrMore(most: number) {
  const error = `must be a text, or a list of 1 to ${most} texts; it must not be empty`;
  return z.union([text, z.array(text).min(1).max(most)], error);
}

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
  logprobs: z.literal(false, UNSUPPORTED).nullish(),
  response_format: z
    .strictObject({
      type: z.literal("text", "must be text: structured output is not supported"),
    })
    .nullish(),
  tools: z.array(z.unknown()).max(0, UNSUPPORTED).nullish(),
  tool_choice: z.literal("none", "must be none: tools are not supported").nullish(),
  modalities: z.array(z.literal("text", "must be text")).nullish(),
});

/** Body of POST /v1/completions. */
export const completionRequest = z.strictObject({
  model: modelId,
  prompt: oneOrMore(MOST_PROMPTS),
  max_tokens: tokenLimit.describe("Default 16, as in OpenAI's API."),
  ...sampling,
  ...streaming,
  ...refused,
  ...ignored,
  best_of: z.literal(1, "must be 1").nullish(),
  echo: z.literal(false, "must be false: put the prompt before the answer yourself").nullish(),
  logprobs: z.literal(0, UNSUPPORTED).nullish(),
  suffix: z.literal("", UNSUPPORTED).nullish(),
});

/** Body of POST /v1/embeddings. */
export const embeddingRequest = z.strictObject({
  model: modelId,
  input: oneOrMore(MOST_INPUTS),
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

/** Answers of a route that fails, for the API's description. */
export const failures = { "4xx": errorResponse, "5xx": errorResponse };

/** Tokens of a request. `estimated` is set, to true, only when the model did not count them itself. */
export const usage = z.object({
  prompt_tokens: z.int(),
  completion_tokens: z.int().optional(),
  total_tokens: z.int(),
  estimated: z.literal(true).optional(),
});

function answerResponse<const Type extends string, Choice extends z.ZodRawShape>(type: Type, choice: Choice) {
  const finish_reason = z.enum(["stop", "length"]);
  return z.object({
    id: z.string(),
    object: z.literal(type),
    created: z.int(),
    model: z.string(),
    choices: z.array(z.object({ index: z.int(), ...choice, logprobs: z.null(), finish_reason })),
    usage,
  });
}

export const chatCompletionResponse = answerResponse("chat.completion", {
  message: z.object({ role: z.literal("assistant"), content: z.string(), refusal: z.null() }),
});

export const completionResponse = answerResponse("text_completion", { text: z.string() });

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
