/**
 * Every placeholder of every template of triton_backend/all_models, and how its value comes about: derived from the
 * engine, the serving options and the model, or left to Triton's default for a stated reason. Which of them a release
 * has, catalogue/templates.ts knows; a value is handed over only where the template asks for it, because
 * fill_template.py of newer releases aborts on a key that it can't find.
 *
 * Meanings and defaults: https://github.com/triton-inference-server/tensorrtllm_backend/blob/main/docs/model_config.md;
 * booleans are read as exactly `True` or `False` there.
 */
import type { EnginePlan } from "../engine/types.ts";
import { tokenizerDirectory } from "../engine/weights.ts";
import { CROSS_KV_CACHE_FRACTION } from "../fit/kv-cache.ts";
import type { ModelSpec } from "../spec.ts";

/** What a value can depend on. */
export interface ParameterFacts {
  readonly model: ModelSpec;
  readonly engine: EnginePlan;
  /** Part of the memory that is free after loading, above 0 and at most 1. */
  readonly kvCacheFreeGpuMemoryFraction: number;
  /** Whether the repository answers a request with any number of responses. */
  readonly decoupled: boolean;
  /** Whether the repository takes images; a vision-language model can also be served for text alone. */
  readonly takesImages: boolean;
}

/** A value for the placeholder, or the reason why Triton's default is right. */
export type Decision = { readonly value: string } | { readonly keep: string };
type Rule = (facts: ParameterFacts) => Decision;
/** Rules by placeholder. */
export type Rules = Readonly<Record<string, Rule>>;

/**
 * Time that preprocessing and the encoders wait for more images, so that the visual engine runs on batches; the value
 * of https://github.com/triton-inference-server/tensorrtllm_backend/blob/r25.02/docs/multimodal.md.
 */
const IMAGE_QUEUE_DELAY_MICROSECONDS = 20_000;

/** Triton's largest batch: what the stack wants, and never more than the engine was built for. */
export function tritonMaxBatchSize({ engine, serving }: ModelSpec): number {
  return Math.min(serving.maxBatchSize, engine.limits.maxBatchSize);
}

/** A rule that always gives a value. */
export function gives(derive: (facts: ParameterFacts) => string): Rule {
  return (facts) => ({ value: derive(facts) });
}

/** A rule that leaves the placeholder alone. */
export function keeps(reason: string): Rule {
  const decision = { keep: reason };
  return () => decision;
}

/** A rule that gives a value where there is one. */
function givesIfSet(derive: (facts: ParameterFacts) => number | undefined, reason: string): Rule {
  return (facts) => {
    const value = derive(facts);
    return value === undefined ? { keep: reason } : { value: String(value) };
  };
}

function givesForImages(derive: (facts: ParameterFacts) => string): Rule {
  return (facts) => (facts.takesImages ? { value: derive(facts) } : { keep: "text alone" });
}

const boolean = (value: boolean): string => (value ? "True" : "False");

const weightsFolder = gives(({ engine }) => engine.places.weights);
export const tokenizerFolder = gives(({ engine, model }) =>
  tokenizerDirectory(model.engine.row, engine.places.weights),
);
const llmEngineFolder = gives(({ engine }) => engine.places.llm);
const visualEngineFolder = ({ engine }: ParameterFacts): string => engine.places.vision;
const maxBatchSize = gives(({ model }) => String(tritonMaxBatchSize(model)));
const maxQueueSize = gives(({ model }) => String(model.serving.maxQueueSize));
const decoupledMode = gives(({ decoupled }) => boolean(decoupled));
const instanceCount = gives(({ model }) => String(model.serving.instanceCount));
/** Logits leave the engine in this format whatever the model computes in. */
const logitsDataType = gives(() => "TYPE_FP32");

/** Values other than `auto` name tokenizer classes, and no value at all stops 0.8's preprocessing. */
const tokenizerType = gives(() => "auto");

/**
 * Format of what cross attention reads. The builder makes MLLaMA's visual engine in bfloat16 and all others in
 * float16; models without cross attention have the tensor but never send it.
 */
const encoderFeaturesDataType = gives(({ model }) =>
  model.engine.row.vision?.modelType === "mllama" ? "TYPE_BF16" : "TYPE_FP16",
);

/** Format of the prompt table, which the language model adds to its own embeddings. */
const promptTableDataType = gives(({ model, takesImages }) =>
  takesImages && model.engine.dtype === "bfloat16" ? "TYPE_BF16" : "TYPE_FP16",
);

const NO_LORA = "no LoRA adapters are served";
const NO_SPECULATION = "no speculative decoding";
const NO_GUIDE = "no guided decoding";
const NOT_TUNED = "Triton's default serves this well";

const preprocessing: Rules = {
  triton_max_batch_size: maxBatchSize,
  preprocessing_instance_count: instanceCount,
  tokenizer_dir: tokenizerFolder,
  tokenizer_type: tokenizerType,
  // Written out because the default changed from false to true in 0.11.
  add_special_tokens: gives(({ model }) => boolean(model.engine.row.tokenizer.addsBeginToken)),
  visual_model_path: givesForImages(visualEngineFolder),
  multimodal_model_path: givesForImages(visualEngineFolder),
  // Preprocessing lays out the visual tokens from the numbers in this folder's config.json.
  engine_dir: givesForImages(({ engine }) => engine.places.llm),
  // It divides the engine's prompt table by this, so it is what the engine was built for.
  max_num_images: givesForImages(({ model }) => String(model.engine.limits.maxImagesPerRequest)),
  max_queue_delay_microseconds: gives(({ model, takesImages }) =>
    String(takesImages ? IMAGE_QUEUE_DELAY_MICROSECONDS : model.serving.maxQueueDelayMicroseconds),
  ),
  max_queue_size: maxQueueSize,
};

const postprocessing: Rules = {
  triton_max_batch_size: maxBatchSize,
  postprocessing_instance_count: instanceCount,
  tokenizer_dir: tokenizerFolder,
  tokenizer_type: tokenizerType,
  skip_special_tokens: keeps("answers come without special tokens by default"),
};

/** Cache, scheduling and decoding: the placeholders that the tutorials' LLaVA repository has too. */
const execution: Rules = {
  engine_dir: llmEngineFolder,
  max_tokens_in_paged_kv_cache: givesIfSet(
    ({ model }) => model.serving.maxTokensInPagedKvCache,
    "the memory fraction alone sizes the cache",
  ),
  max_attention_window_size: givesIfSet(
    ({ model }) => model.serving.maxAttentionWindowTokens,
    "attention reaches over the whole sequence",
  ),
  sink_token_length: keeps("attention reaches over the whole sequence"),
  batch_scheduler_policy: keeps("guaranteed_no_evict: a request that began is never paused"),
  kv_cache_free_gpu_mem_fraction: gives((facts) => String(facts.kvCacheFreeGpuMemoryFraction)),
  kv_cache_host_memory_bytes: keeps("the cache stays on the GPU"),
  kv_cache_onboard_blocks: keeps("the cache stays on the GPU"),
  exclude_input_in_output: gives(({ model }) => boolean(model.serving.excludeInputInOutput)),
  cancellation_check_period_ms: keeps(NOT_TUNED),
  stats_check_period_ms: keeps(NOT_TUNED),
  iter_stats_max_iterations: keeps(NOT_TUNED),
  request_stats_max_iterations: keeps(NOT_TUNED),
  // Written out because the default changed from false to true in 0.19, and true needs prompt_table_extra_id.
  enable_kv_cache_reuse: gives(({ model }) => boolean(model.serving.kvCacheReuse)),
  normalize_log_probs: keeps(NOT_TUNED),
  enable_chunked_context: gives(({ model }) => boolean(model.serving.chunkedContext)),
  gpu_device_ids: keeps("the server sees only its own GPUs"),
  lora_cache_optimal_adapter_size: keeps(NO_LORA),
  lora_cache_max_adapter_size: keeps(NO_LORA),
  lora_cache_gpu_memory_fraction: keeps(NO_LORA),
  lora_cache_host_memory_bytes: keeps(NO_LORA),
  decoding_mode: keeps("chosen by beam width"),
  medusa_choices: keeps(NO_SPECULATION),
  gpu_weights_percent: keeps("all weights stay on the GPU"),
};

const tensorRtLlm: Rules = {
  ...execution,
  triton_backend: gives(({ model }) => model.serving.tritonBackend),
  triton_max_batch_size: maxBatchSize,
  decoupled_mode: decoupledMode,
  max_queue_delay_microseconds: gives(({ model }) => String(model.serving.maxQueueDelayMicroseconds)),
  max_queue_size: maxQueueSize,
  max_beam_width: gives(({ model }) => String(model.engine.limits.maxBeamWidth)),
  batching_strategy: gives(({ model }) => model.serving.batchingStrategy),
  encoder_engine_dir: keeps("no encoder-decoder model; a visual engine is multimodal_encoders' own"),
  // TensorRT-LLM refuses it for a model without cross attention, and refuses such a model without it.
  cross_kv_cache_fraction: ({ model }) =>
    model.engine.row.vision?.attention === "cross"
      ? { value: String(CROSS_KV_CACHE_FRACTION) }
      : { keep: "no cross attention" },
  encoder_input_features_data_type: encoderFeaturesDataType,
  logits_datatype: logitsDataType,
  prompt_embedding_table_data_type: promptTableDataType,
  enable_trt_overlap: keeps("deprecated, and gone after 0.9"),
  enable_context_fmha_fp32_acc: keeps(NOT_TUNED),
  multi_block_mode: keeps(NOT_TUNED),
  cuda_graph_mode: keeps(NOT_TUNED),
  cuda_graph_cache_size: keeps(NOT_TUNED),
  participant_ids: keeps("one MPI world in leader mode"),
  num_nodes: keeps("all ranks are on one machine"),
  speculative_decoding_fast_logits: keeps(NO_SPECULATION),
  eagle_choices: keeps(NO_SPECULATION),
  lookahead_window_size: keeps(NO_SPECULATION),
  lookahead_ngram_size: keeps(NO_SPECULATION),
  lookahead_verification_set_size: keeps(NO_SPECULATION),
  tokenizer_dir: keeps(NO_GUIDE),
  guided_decoding_backend: keeps(NO_GUIDE),
  xgrammar_tokenizer_info_path: keeps(NO_GUIDE),
  lora_prefetch_dir: keeps(NO_LORA),
};

const ensemble: Rules = { triton_max_batch_size: maxBatchSize, logits_datatype: logitsDataType };

const gptTokenizer: Rules = { tokenizer_dir: tokenizerFolder, tokenizer_type: tokenizerType };

/** Rules by template below all_models; `llava/tensorrt_llm` is the one of the tutorials. */
export const parameterRules: Readonly<Record<string, Rules>> = {
  "inflight_batcher_llm/ensemble": ensemble,
  "inflight_batcher_llm/preprocessing": preprocessing,
  "inflight_batcher_llm/postprocessing": postprocessing,
  "inflight_batcher_llm/tensorrt_llm": tensorRtLlm,
  "inflight_batcher_llm/tensorrt_llm_bls": {
    triton_max_batch_size: maxBatchSize,
    decoupled_mode: decoupledMode,
    bls_instance_count: gives(({ model }) => String(model.serving.blsInstanceCount)),
    accumulate_tokens: gives(({ model }) => boolean(model.serving.accumulateTokens)),
    tensorrt_llm_model_name: gives(() => "tensorrt_llm"),
    tensorrt_llm_draft_model_name: keeps(NO_SPECULATION),
    multimodal_encoders_name: givesForImages(() => "multimodal_encoders"),
    logits_datatype: logitsDataType,
    prompt_embedding_table_data_type: promptTableDataType,
  },
  "multimodal/ensemble": ensemble,
  "multimodal/multimodal_encoders": {
    triton_max_batch_size: maxBatchSize,
    visual_model_path: gives(visualEngineFolder),
    multimodal_model_path: gives(visualEngineFolder),
    encoder_input_features_data_type: encoderFeaturesDataType,
    hf_model_path: weightsFolder,
    max_queue_delay_microseconds: gives(() => String(IMAGE_QUEUE_DELAY_MICROSECONDS)),
    max_queue_size: maxQueueSize,
    prompt_embedding_table_data_type: promptTableDataType,
  },
  "gpt/preprocessing": gptTokenizer,
  "gpt/postprocessing": gptTokenizer,
  "gpt/tensorrt_llm": { engine_dir: llmEngineFolder },
  "llava/tensorrt_llm": execution,
};
