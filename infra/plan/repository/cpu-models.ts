/**
 * The configurations of the models that a CPU Triton serves, and of the encoders' models that clients ask on every
 * platform. Tensor names, shapes and parameters are those that containers/cpu-models/models reads.
 */
import type { DataType, InputConfig, ModelConfig, TensorConfig } from "./model-config.ts";

export type EncoderSettings = EncoderLimits & (OwnSession | Towers);

/** The models compute by themselves. */
interface OwnSession {
  /** Threads of one run, for each encoder. */
  readonly threads: number;
  readonly towers?: undefined;
}

/** The models read texts and images, and ask another model of the repository for the vectors. */
interface Towers {
  readonly towers: { readonly text: string; readonly vision: string };
}

interface EncoderLimits {
  /** Most texts that Triton joins into one run; images: see {@link MAX_IMAGE_BATCH}. */
  readonly maxBatchSize: number;
  /** How long a request may wait for others to join; 0 joins those that came during the last run. */
  readonly maxQueueDelayMicroseconds: number;
  /** Whether requests are joined at all; without it each runs alone. */
  readonly dynamicBatching: boolean;
  /** Processes for each encoder, each with the whole model in memory. @default 1 */
  readonly instances?: number;
  /** Most texts × longest of them, in tokens, that are computed at once. @default {@link CPU_PADDED_TOKENS} */
  readonly maxPaddedTokens?: number;
  /** `maxTokens`: longer texts are cut. `dimension`: numbers in an embedding. */
  readonly text: { readonly dimension: number; readonly maxTokens: number };
  readonly vision: { readonly dimension: number };
}

export interface LanguageModelSettings {
  /** Requests that are generated for at the same time, in shared batches. */
  readonly parallelRequests: number;
  /** Requests that may wait beside them; one more is refused. @default 64 */
  readonly maxQueuedRequests?: number;
  /** Prompt and answer of one request together, in tokens; memory is set aside for all of them. */
  readonly contextTokens: number;
  /** Most tokens that a request may ask for. */
  readonly maxTokens: number;
  /** Threads that compute; 0 is one for each core but one, which is left to the servers around. */
  readonly threads: number;
}

/** Decoded images are large: a batch holds its requests' bytes and their tensors. */
const MAX_IMAGE_BATCH = 16;
const DEFAULT_MAX_QUEUED_REQUESTS = 64;
const MAX_TEXT_BYTES = 65_536;
/**
 * On two cores larger runs are no faster for texts of one length, and padding makes them slower for mixed ones: 31 short
 * texts and one of 256 tokens take 51 ms in runs of 512 tokens and 600 ms in one.
 */
const CPU_PADDED_TOKENS = 512;
const MAX_IMAGE_BYTES = 10 * 1024 * 1024;
const MAX_IMAGE_PIXELS = 40_000_000;

/** `text` to `text_embedding` and `token_count`. */
export function textEncoderConfig(settings: EncoderSettings): ModelConfig {
  return {
    name: "text_encoder",
    backend: "python",
    maxBatchSize: settings.maxBatchSize,
    inputs: [one("text", "TYPE_STRING", "optional"), companion("TYPE_STRING")],
    outputs: [textEmbedding(settings), one("token_count", "TYPE_INT32")],
    ...scheduling(settings),
    parameters: {
      ...computing(settings, "text"),
      max_padded_tokens: String(settings.maxPaddedTokens ?? CPU_PADDED_TOKENS),
      max_text_bytes: String(MAX_TEXT_BYTES),
      max_tokens: String(settings.text.maxTokens),
    },
  };
}

/** `image` (the bytes of an image file) to `image_embedding`. */
export function visionEncoderConfig(settings: EncoderSettings): ModelConfig {
  return {
    name: "vision_encoder",
    backend: "python",
    maxBatchSize: imageBatch(settings),
    inputs: [one("image", "TYPE_STRING", "optional"), companion("TYPE_INT32")],
    outputs: [imageEmbedding(settings)],
    ...scheduling(settings),
    parameters: {
      ...computing(settings, "vision"),
      max_image_bytes: String(MAX_IMAGE_BYTES),
      max_image_pixels: String(MAX_IMAGE_PIXELS),
    },
  };
}

/**
 * `image` and/or `text` to the embedding of each that is given; both encoders must be in the same repository.
 *
 * One step after the other, on purpose: where a step of Triton 2.51 fails while another is in flight, the
 * request is never released, and the server hangs or crashes sooner or later. The text goes first, being the
 * cheaper; its `token_count`, which is always there, is what the second step waits for.
 */
export function llavaEnsembleConfig(settings: EncoderSettings): ModelConfig {
  return {
    name: "llava_ensemble",
    platform: "ensemble",
    maxBatchSize: imageBatch(settings),
    inputs: [one("image", "TYPE_STRING", "optional"), one("text", "TYPE_STRING", "optional")],
    outputs: [imageEmbedding(settings), textEmbedding(settings)],
    ensembleSteps: [
      {
        modelName: "text_encoder",
        inputMap: { text: "text", companion: "image" },
        outputMap: { text_embedding: "text_embedding", token_count: "token_count" },
      },
      {
        modelName: "vision_encoder",
        inputMap: { image: "image", companion: "token_count" },
        outputMap: { image_embedding: "image_embedding" },
      },
    ],
  };
}

/**
 * A language model under the request names of TensorRT-LLM 0.20's `ensemble`, and with `random_seed`, the
 * name of `seed` before 0.20.
 */
export function languageModelConfig(settings: LanguageModelSettings): ModelConfig {
  const { parallelRequests, maxQueuedRequests = DEFAULT_MAX_QUEUED_REQUESTS } = settings;
  return {
    name: "ensemble",
    backend: "python",
    // Tensors have TensorRT-LLM's batch dimension, but a request is one prompt; llama.cpp joins requests
    // itself.
    maxBatchSize: 1,
    inputs: [
      one("text_input", "TYPE_STRING"),
      one("max_tokens", "TYPE_INT32"),
      any("bad_words", "TYPE_STRING"),
      any("stop_words", "TYPE_STRING"),
      one("end_id", "TYPE_INT32", "optional"),
      one("pad_id", "TYPE_INT32", "optional"),
      one("top_k", "TYPE_INT32", "optional"),
      one("top_p", "TYPE_FP32", "optional"),
      one("temperature", "TYPE_FP32", "optional"),
      one("repetition_penalty", "TYPE_FP32", "optional"),
      one("presence_penalty", "TYPE_FP32", "optional"),
      one("frequency_penalty", "TYPE_FP32", "optional"),
      one("seed", "TYPE_UINT64", "optional"),
      one("random_seed", "TYPE_UINT64", "optional"),
      one("return_num_input_tokens", "TYPE_BOOL", "optional"),
      one("return_num_output_tokens", "TYPE_BOOL", "optional"),
      one("stream", "TYPE_BOOL", "optional"),
    ],
    outputs: [
      one("text_output", "TYPE_STRING"),
      one("num_input_tokens", "TYPE_INT32"),
      one("num_output_tokens", "TYPE_INT32"),
    ],
    decoupled: true,
    // More instances would each load the model and have slots of their own.
    instanceGroups: [{ kind: "KIND_CPU", count: 1 }],
    parameters: {
      context_tokens: String(settings.contextTokens),
      max_queued_requests: String(maxQueuedRequests),
      max_tokens: String(settings.maxTokens),
      parallel_requests: String(parallelRequests),
      threads: String(settings.threads),
    },
  };
}

/**
 * A tensor of the ensemble which the encoder ignores: the Python backend refuses a request that has no input
 * at all, so a request without an encoder's own input must bring something else. It is answered without that
 * encoder's output.
 */
function companion(dataType: DataType): InputConfig {
  return one("companion", dataType, "optional");
}

function textEmbedding({ text }: EncoderSettings): TensorConfig {
  return { name: "text_embedding", dataType: "TYPE_FP32", dims: [text.dimension] };
}

function imageEmbedding({ vision }: EncoderSettings): TensorConfig {
  return { name: "image_embedding", dataType: "TYPE_FP32", dims: [vision.dimension] };
}

function computing(settings: EncoderSettings, encoder: "text" | "vision"): Record<string, string> {
  return settings.towers === undefined
    ? { intra_op_threads: String(settings.threads) }
    : { tower_model: settings.towers[encoder] };
}

function imageBatch({ maxBatchSize }: EncoderSettings): number {
  return Math.min(maxBatchSize, MAX_IMAGE_BATCH);
}

function scheduling(settings: EncoderSettings): Pick<ModelConfig, "dynamicBatching" | "instanceGroups"> {
  const { dynamicBatching, maxQueueDelayMicroseconds, instances = 1 } = settings;
  return {
    ...(dynamicBatching && { dynamicBatching: { maxQueueDelayMicroseconds } }),
    instanceGroups: [{ kind: "KIND_CPU", count: instances }],
  };
}

/** A tensor of one element for each request of a batch. */
function one(name: string, dataType: DataType, presence?: "optional"): InputConfig {
  return { name, dataType, dims: [1], ...(presence && { optional: true }) };
}

function any(name: string, dataType: DataType): InputConfig {
  return { name, dataType, dims: [-1], optional: true };
}
