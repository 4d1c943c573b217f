/**
 * The Triton models of this project that are written in Python: their modules and configurations, with the tensors and parameters
 * that containers/cpu-models/models reads. A CPU Triton serves them, and clients of the encoders ask them on every platform.
 */
import type { WeightSource } from "../catalogue/cpu-models.ts";
import type { Prefixes } from "../catalogue/encoders.ts";
import type { CpuEncodersPlan, CpuModelPlan } from "../cpu-stack.ts";
import {
  type DataType,
  type Message,
  mapEntries,
  oneInstance,
  optional,
  parameters,
  renderTextFormat,
  tensor,
} from "./model-config.ts";

/** Folder of the modules, from the project's root; images have its content in /opt/engine-room/models. */
export const PYTHON_MODELS = "containers/cpu-models/models";

const ENCODER_MODULES = ["own_session", "parameters", "request_rows", "tower", "tower_model"];

/** Folder, the module that Triton loads as `model.py`, and those that it imports. */
const MODULES = {
  ensemble: ["ensemble", "model", "generation", "llama_server", "word_ban"],
  text_encoder: ["encoders", "text_encoder", "sentence_encoder", ...ENCODER_MODULES],
  vision_encoder: ["encoders", "vision_encoder", "image_input", ...ENCODER_MODULES],
  preprocessing: ["encoders", "picture_preprocessing", "image_address", "image_input"],
  multimodal_encoders: ["encoders", "several_pictures"],
  llmapi: ["encoders", "llmapi_pictures", "image_address", "image_input"],
} as const;

/** The Python files of a model: path below its folder in a repository to path below {@link PYTHON_MODELS}. */
export function pythonModelFiles(name: keyof typeof MODULES): Readonly<Record<string, string>> {
  const [folder, model, ...others] = MODULES[name];
  return Object.fromEntries([
    ["1/model.py", `${folder}/${model}.py`],
    ...others.map((module) => [`1/${module}.py`, `${folder}/${module}.py`]),
  ]);
}

interface EncoderSettings {
  /** Most texts that Triton joins into one run; images: see {@link imageBatch}. */
  readonly maxBatchSize: number;
  /** How long a request may wait for others to join; 0 joins those that came during the last run. */
  readonly maxQueueDelayMicroseconds: number;
  /** Whether requests are batched. */
  readonly dynamicBatching: boolean;
  /** Texts longer than `maxTokens` are cut. `dimension`: numbers in an embedding. */
  readonly text: {
    readonly dimension: number;
    readonly maxTokens: number;
    readonly prefixes?: Prefixes | undefined;
  };
  readonly vision: { readonly dimension: number };
}

/**
 * How vectors are computed: `intra_op_threads` by the model itself, with so many threads for each run, or `tower_model` by another
 * model of the repository. `max_padded_tokens`: most texts × longest of them, in tokens, that are computed at once.
 */
type Computing = Readonly<
  Partial<Record<"intra_op_threads" | "tower_model" | "max_padded_tokens", string | number>>
>;

/** Requests of a language model that may wait beside those in progress; one more is refused. */
const MAX_QUEUED_REQUESTS = 64;
const MAX_TEXT_BYTES = 65_536;
export const MAX_IMAGE_BYTES = 10 * 1024 * 1024;
export const MAX_IMAGE_PIXELS = 40_000_000;
/**
 * On two cores larger runs do not speed up texts of one length, and padding slows down texts of mixed length: 31 short texts
 * and one of 256 tokens take 51 ms in runs of 512 tokens and 600 ms in a single run.
 */
const CPU_PADDED_TOKENS = 512;

/** Most images that are joined into one run: decoded images are large, and a batch holds its requests' bytes and their tensors. */
export function imageBatch(maxBatchSize: number): number {
  return Math.min(maxBatchSize, 16);
}

/** A longest text of the gateway's clients still fits with its prefix. */
function longestPrefixBytes(prefixes: Prefixes = {}): number {
  return Math.max(0, ...Object.values(prefixes).map((prefix = "") => Buffer.byteLength(prefix)));
}

/** config.pbtxt: `text` to `text_embedding` and `token_count`. @param name - `clip_text` has the same tensors. */
export function textEncoderConfig(
  settings: EncoderSettings,
  computing: Computing,
  name: "text_encoder" | "clip_text" = "text_encoder",
): string {
  return renderTextFormat({
    name,
    backend: "python",
    max_batch_size: settings.maxBatchSize,
    input: [optional("text", "TYPE_STRING"), companion("TYPE_STRING")],
    output: [textEmbedding(settings), tensor("token_count", "TYPE_INT32")],
    ...scheduling(settings),
    parameters: parameters({
      max_padded_tokens: CPU_PADDED_TOKENS,
      max_text_bytes: MAX_TEXT_BYTES + longestPrefixBytes(settings.text.prefixes),
      max_tokens: settings.text.maxTokens,
      ...computing,
    }),
  });
}

/** config.pbtxt: `image` (the bytes of an image file) to `image_embedding`. */
export function visionEncoderConfig(settings: EncoderSettings, computing: Computing): string {
  return renderTextFormat({
    name: "vision_encoder",
    backend: "python",
    max_batch_size: imageBatch(settings.maxBatchSize),
    input: [optional("image", "TYPE_STRING"), companion("TYPE_INT32")],
    output: [imageEmbedding(settings)],
    ...scheduling(settings),
    parameters: parameters({
      max_image_bytes: MAX_IMAGE_BYTES,
      max_image_pixels: MAX_IMAGE_PIXELS,
      ...computing,
    }),
  });
}

/**
 * config.pbtxt: `image` and/or `text` to the embedding of each that is given; both encoders must be in the same repository.
 *
 * The steps run one after the other: if a step of Triton 2.51 fails while another is in flight, the request is never released,
 * and the server hangs or crashes sooner or later. The second step waits for `token_count` of the cheaper one, which is always there.
 */
export function llavaEnsembleConfig(settings: EncoderSettings): string {
  return renderTextFormat({
    name: "llava_ensemble",
    platform: "ensemble",
    max_batch_size: imageBatch(settings.maxBatchSize),
    input: [optional("image", "TYPE_STRING"), optional("text", "TYPE_STRING")],
    output: [imageEmbedding(settings), textEmbedding(settings)],
    ensemble_scheduling: {
      step: [
        ensembleStep(
          "text_encoder",
          { companion: "image", text: "text" },
          { text_embedding: "text_embedding", token_count: "token_count" },
        ),
        ensembleStep(
          "vision_encoder",
          { companion: "token_count", image: "image" },
          { image_embedding: "image_embedding" },
        ),
      ],
    },
  });
}

/** The latest version of a model; each map goes from the model's own tensor name to the ensemble's. */
function ensembleStep(
  model_name: string,
  inputs: Readonly<Record<string, string>>,
  outputs: Readonly<Record<string, string>>,
): Message {
  return { model_name, model_version: -1, input_map: mapEntries(inputs), output_map: mapEntries(outputs) };
}

/** Inputs of one element that a request to a language model may have, in addition to text and length. */
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

/** config.pbtxt of a language model, with the request names of TensorRT-LLM 0.20's `ensemble`. */
export function languageModelConfig(
  settings: Pick<CpuModelPlan, "parallelRequests" | "contextTokens" | "maxTokens" | "threads">,
): string {
  return renderTextFormat({
    name: "ensemble",
    backend: "python",
    // Tensors have TensorRT-LLM's batch dimension, but a request is one prompt; llama.cpp joins requests itself.
    max_batch_size: 1,
    input: [
      tensor("text_input", "TYPE_STRING"),
      tensor("max_tokens", "TYPE_INT32"),
      optional("bad_words", "TYPE_STRING", [-1]),
      optional("stop_words", "TYPE_STRING", [-1]),
      ...Object.entries(OPTIONAL_INPUTS).map(([name, dataType]) => optional(name, dataType)),
    ],
    output: [
      tensor("text_output", "TYPE_STRING"),
      tensor("num_input_tokens", "TYPE_INT32"),
      tensor("num_output_tokens", "TYPE_INT32"),
    ],
    // More instances would each load the model and have slots of their own.
    instance_group: oneInstance("KIND_CPU"),
    model_transaction_policy: { decoupled: true },
    parameters: parameters({
      context_tokens: settings.contextTokens,
      max_queued_requests: MAX_QUEUED_REQUESTS,
      max_tokens: settings.maxTokens,
      parallel_requests: settings.parallelRequests,
      threads: settings.threads,
    }),
  });
}

/**
 * A tensor of the ensemble which the encoder ignores: the Python backend refuses a request without any input, so one without the
 * encoder's own input brings this. It is answered without that encoder's output.
 */
function companion(dataType: DataType): Message {
  return optional("companion", dataType);
}

function textEmbedding({ text }: EncoderSettings): Message {
  return tensor("text_embedding", "TYPE_FP32", [text.dimension]);
}

function imageEmbedding({ vision }: EncoderSettings): Message {
  return tensor("image_embedding", "TYPE_FP32", [vision.dimension]);
}

/** One process for each encoder, which has the whole model in memory. */
function scheduling({ dynamicBatching, maxQueueDelayMicroseconds }: EncoderSettings): Message {
  return {
    dynamic_batching: dynamicBatching
      ? { max_queue_delay_microseconds: maxQueueDelayMicroseconds }
      : undefined,
    instance_group: oneInstance("KIND_CPU"),
  };
}

/** A model of a CPU Triton, with all that its folder of the repository holds. */
export interface CpuModel {
  readonly name: string;
  /** config.pbtxt. */
  readonly config: string;
  /** Its Python: path below the model's folder to path below {@link PYTHON_MODELS}. */
  readonly sources: Readonly<Record<string, string>>;
  /** Artifact that `python -m engine_room.cpu_models.build` puts into {@link VERSION_FOLDER}, or null. */
  readonly artifact: {
    readonly artifact: "text-encoder" | "vision-encoder" | "file";
    readonly sources: readonly WeightSource[];
  } | null;
}

/** Folder of a model's only version, below the model's; Triton serves no model without it, be it empty. */
export const VERSION_FOLDER = "1";

/** `text_encoder`, `vision_encoder`, and `llava_ensemble` over both. */
export function cpuEncoders(plan: CpuEncodersPlan): readonly CpuModel[] {
  const computing = { intra_op_threads: plan.threads };
  return [
    {
      name: "text_encoder",
      config: textEncoderConfig(plan, computing),
      sources: pythonModelFiles("text_encoder"),
      artifact: { artifact: "text-encoder", sources: plan.text.sources },
    },
    {
      name: "vision_encoder",
      config: visionEncoderConfig(plan, computing),
      sources: pythonModelFiles("vision_encoder"),
      artifact: { artifact: "vision-encoder", sources: plan.vision.sources },
    },
    { name: "llava_ensemble", config: llavaEnsembleConfig(plan), sources: {}, artifact: null },
  ];
}

/** A language model under the name that TensorRT-LLM's repositories give their entry: `ensemble`. */
export function cpuLanguageModel(plan: CpuModelPlan): readonly CpuModel[] {
  return [
    {
      name: "ensemble",
      config: languageModelConfig(plan),
      sources: pythonModelFiles("ensemble"),
      artifact: { artifact: "file", sources: [plan.catalogue.source] },
    },
  ];
}
