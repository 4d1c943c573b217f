/**
 * The Triton models of this project that are written in Python: their modules and configurations, with the tensors and parameters
 * that containers/cpu-models/models reads. A CPU Triton serves them, and clients of the encoders ask them on every platform.
 */
import type { DataType, InputConfig, ModelConfig, TensorConfig } from "./model-config.ts";

/** Folder of the modules, from the project's root; images have its content in /opt/engine-room/models. */
export const PYTHON_MODELS = "containers/cpu-models/models";

const ENCODER_MODULES = ["own_session", "parameters", "request_rows", "tower", "tower_model"];

/** Folder, the module that Triton loads as `model.py`, and those that it imports. */
const MODULES = {
  ensemble: { folder: "ensemble", model: "model", others: ["generation", "llama_server", "word_ban"] },
  text_encoder: {
    folder: "encoders",
    model: "text_encoder",
    others: ["sentence_encoder", ...ENCODER_MODULES],
  },
  vision_encoder: {
    folder: "encoders",
    model: "vision_encoder",
    others: ["image_input", ...ENCODER_MODULES],
  },
} as const;

export type PythonModelName = keyof typeof MODULES;

/** The Python files of a model: path below its folder in a repository to path below {@link PYTHON_MODELS}. */
export function pythonModelFiles(name: PythonModelName): Readonly<Record<string, string>> {
  const { folder, model, others } = MODULES[name];
  return Object.fromEntries([
    ["1/model.py", `${folder}/${model}.py`],
    ...others.map((module) => [`1/${module}.py`, `${folder}/${module}.py`]),
  ]);
}

export type EncoderSettings = {
  /** Most texts that Triton joins into one run; images: see {@link MAX_IMAGE_BATCH}. */
  readonly maxBatchSize: number;
  /** How long a request may wait for others to join; 0 joins those that came during the last run. */
  readonly maxQueueDelayMicroseconds: number;
  /** Whether requests are joined at all; without it each runs alone. */
  readonly dynamicBatching: boolean;
  /** Most texts × longest of them, in tokens, that are computed at once. @default {@link CPU_PADDED_TOKENS} */
  readonly maxPaddedTokens?: number;
  /** `maxTokens`: longer texts are cut. `dimension`: numbers in an embedding. */
  readonly text: { readonly dimension: number; readonly maxTokens: number };
  readonly vision: { readonly dimension: number };
} & (
  | {
      /** The models compute by themselves, with so many threads for each run of each encoder. */
      readonly threads: number;
      readonly towers?: undefined;
    }
  /** The models read texts and images, and ask another model of the repository for the vectors. */
  | { readonly towers: { readonly text: string; readonly vision: string } }
);

export interface LanguageModelSettings {
  /** Requests that are generated for at the same time, in shared batches. */
  readonly parallelRequests: number;
  /** Prompt and answer of one request together, in tokens; memory is set aside for all of them. */
  readonly contextTokens: number;
  /** Most tokens that a request may ask for. */
  readonly maxTokens: number;
  /** Threads that compute; 0: one for each core but one, which is left to the servers around. */
  readonly threads: number;
}

/** Decoded images are large: a batch holds its requests' bytes and their tensors. */
const MAX_IMAGE_BATCH = 16;
/** Requests of a language model that may wait beside those in progress; one more is refused. */
const MAX_QUEUED_REQUESTS = 64;
const MAX_TEXT_BYTES = 65_536;
const MAX_IMAGE_BYTES = 10 * 1024 * 1024;
const MAX_IMAGE_PIXELS = 40_000_000;
/**
 * On two cores larger runs are no faster for texts of one length, and padding makes them slower for mixed ones: 31 short
 * texts and one of 256 tokens take 51 ms in runs of 512 tokens and 600 ms in one.
 */
const CPU_PADDED_TOKENS = 512;

/** `text` to `text_embedding` and `token_count`. */
export function textEncoderConfig(settings: EncoderSettings): ModelConfig {
  return {
    name: "text_encoder",
    backend: "python",
    maxBatchSize: settings.maxBatchSize,
    inputs: [element("text", "TYPE_STRING", "optional"), companion("TYPE_STRING")],
    outputs: [embedding("text", settings), element("token_count", "TYPE_INT32")],
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
    maxBatchSize: Math.min(settings.maxBatchSize, MAX_IMAGE_BATCH),
    inputs: [element("image", "TYPE_STRING", "optional"), companion("TYPE_INT32")],
    outputs: [embedding("vision", settings)],
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
 * The steps run one after the other: where a step of Triton 2.51 fails while another is in flight, the request is never released,
 * and the server hangs or crashes sooner or later. The second step waits for `token_count` of the cheaper one, which is always there.
 */
export function llavaEnsembleConfig(settings: EncoderSettings): ModelConfig {
  return {
    name: "llava_ensemble",
    platform: "ensemble",
    maxBatchSize: Math.min(settings.maxBatchSize, MAX_IMAGE_BATCH),
    inputs: [element("image", "TYPE_STRING", "optional"), element("text", "TYPE_STRING", "optional")],
    outputs: [embedding("vision", settings), embedding("text", settings)],
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

/** Inputs of one element that a request to a language model may have, besides text and length. */
const OPTIONAL_INPUTS: Readonly<Record<string, DataType>> = {
  end_id: "TYPE_INT32",
  pad_id: "TYPE_INT32",
  top_k: "TYPE_INT32",
  top_p: "TYPE_FP32",
  temperature: "TYPE_FP32",
  repetition_penalty: "TYPE_FP32",
  presence_penalty: "TYPE_FP32",
  frequency_penalty: "TYPE_FP32",
  seed: "TYPE_UINT64",
  // The name of `seed` before 0.20.
  random_seed: "TYPE_UINT64",
  return_num_input_tokens: "TYPE_BOOL",
  return_num_output_tokens: "TYPE_BOOL",
  stream: "TYPE_BOOL",
};

/** A language model under the request names of TensorRT-LLM 0.20's `ensemble`. */
export function languageModelConfig(settings: LanguageModelSettings): ModelConfig {
  const words = { dataType: "TYPE_STRING", dims: [-1], optional: true } as const;
  return {
    name: "ensemble",
    backend: "python",
    // Tensors have TensorRT-LLM's batch dimension, but a request is one prompt; llama.cpp joins requests itself.
    maxBatchSize: 1,
    inputs: [
      element("text_input", "TYPE_STRING"),
      element("max_tokens", "TYPE_INT32"),
      { name: "bad_words", ...words },
      { name: "stop_words", ...words },
      ...Object.entries(OPTIONAL_INPUTS).map(([name, dataType]) => element(name, dataType, "optional")),
    ],
    outputs: [
      element("text_output", "TYPE_STRING"),
      element("num_input_tokens", "TYPE_INT32"),
      element("num_output_tokens", "TYPE_INT32"),
    ],
    decoupled: true,
    // More instances would each load the model and have slots of their own.
    instanceGroups: [{ kind: "KIND_CPU", count: 1 }],
    parameters: {
      context_tokens: String(settings.contextTokens),
      max_queued_requests: String(MAX_QUEUED_REQUESTS),
      max_tokens: String(settings.maxTokens),
      parallel_requests: String(settings.parallelRequests),
      threads: String(settings.threads),
    },
  };
}

/** A tensor of one element for each request of a batch. */
function element(name: string, dataType: DataType, presence?: "optional"): InputConfig {
  return { name, dataType, dims: [1], ...(presence && { optional: true }) };
}

/**
 * A tensor of the ensemble which the encoder ignores: the Python backend refuses a request without any input, so one without the
 * encoder's own input brings this. It is answered without that encoder's output.
 */
function companion(dataType: DataType): InputConfig {
  return element("companion", dataType, "optional");
}

function embedding(encoder: "text" | "vision", settings: EncoderSettings): TensorConfig {
  const name = encoder === "text" ? "text_embedding" : "image_embedding";
  return { name, dataType: "TYPE_FP32", dims: [settings[encoder].dimension] };
}

function computing(settings: EncoderSettings, encoder: "text" | "vision"): Record<string, string> {
  return settings.towers === undefined
    ? { intra_op_threads: String(settings.threads) }
    : { tower_model: settings.towers[encoder] };
}

/** One process for each encoder, which has the whole model in memory. */
function scheduling(settings: EncoderSettings): Pick<ModelConfig, "dynamicBatching" | "instanceGroups"> {
  const { dynamicBatching, maxQueueDelayMicroseconds } = settings;
  return {
    ...(dynamicBatching && { dynamicBatching: { maxQueueDelayMicroseconds } }),
    instanceGroups: [{ kind: "KIND_CPU", count: 1 }],
  };
}
