/**
 * Placeholders of the config.pbtxt templates that tensorrtllm_backend fills with tools/fill_template.py, for each branch and tag
 * whose templates were read: which keys a template must be given, and which it may be given.
 *
 * The first set is written out; each following one says what it changes in another, as the repository's history did. Source: the
 * folder all_models of each ref of https://github.com/triton-inference-server/tensorrtllm_backend, where a row names no other.
 */

/** Placeholders of one template; the order has no meaning. */
export interface TemplateKeys {
  /** Outside quotes: Triton can't parse the file while one is left (`Expected integer or identifier, got: $`). */
  readonly mandatory: readonly string[];
  /** Inside quotes: left alone, Triton reads the text `${key}` and takes its default. */
  readonly optional: readonly string[];
}

export interface TemplateSet {
  /**
   * Whether fill_template.py lets a backslash keep a comma or colon inside a value; without it such values can't be given.
   */
  readonly escapesCommas: boolean;
  /** By folder under all_models: `inflight_batcher_llm/tensorrt_llm`. */
  readonly models: Readonly<Record<string, TemplateKeys>>;
}

/** What one set changes in another. */
interface Change {
  /** An earlier ref. */
  readonly from: string;
  readonly escapesCommas?: boolean;
  /** Keys that a template gains; a template that is not in the other set is new. */
  readonly gains?: Readonly<Record<string, Partial<TemplateKeys>>>;
  readonly loses?: Readonly<Record<string, readonly string[]>>;
}

const first: TemplateSet = {
  escapesCommas: false,
  models: {
    "inflight_batcher_llm/ensemble": { mandatory: ["triton_max_batch_size"], optional: [] },
    "inflight_batcher_llm/preprocessing": {
      mandatory: ["triton_max_batch_size", "preprocessing_instance_count"],
      optional: ["tokenizer_dir", "tokenizer_type"],
    },
    "inflight_batcher_llm/postprocessing": {
      mandatory: ["triton_max_batch_size", "postprocessing_instance_count"],
      optional: ["tokenizer_dir", "tokenizer_type"],
    },
    "inflight_batcher_llm/tensorrt_llm": {
      mandatory: ["triton_max_batch_size", "decoupled_mode", "max_queue_delay_microseconds"],
      optional: [
        "max_beam_width",
        "batching_strategy",
        "engine_dir",
        "max_tokens_in_paged_kv_cache",
        "max_attention_window_size",
        "batch_scheduler_policy",
        "kv_cache_free_gpu_mem_fraction",
        "enable_trt_overlap",
        "exclude_input_in_output",
        "enable_kv_cache_reuse",
        "normalize_log_probs",
        "enable_chunked_context",
        "gpu_device_ids",
      ],
    },
    "inflight_batcher_llm/tensorrt_llm_bls": {
      mandatory: ["triton_max_batch_size", "decoupled_mode", "bls_instance_count"],
      optional: ["accumulate_tokens"],
    },
    "gpt/preprocessing": { mandatory: [], optional: ["tokenizer_dir", "tokenizer_type"] },
    "gpt/postprocessing": { mandatory: [], optional: ["tokenizer_dir", "tokenizer_type"] },
    "gpt/tensorrt_llm": { mandatory: [], optional: ["engine_dir"] },
  },
};

/** Queue keys that the main line gave to the Python models before the 0.19 release did. */
const queueKeys = { mandatory: ["max_queue_delay_microseconds", "max_queue_size"] };

/** By ref; a set follows the one that it changes. */
const changes = {
  "v0.9.0": {
    from: "v0.8.0",
    gains: {
      "inflight_batcher_llm/preprocessing": { optional: ["add_special_tokens"] },
      "inflight_batcher_llm/tensorrt_llm": {
        optional: [
          "lora_cache_optimal_adapter_size",
          "lora_cache_max_adapter_size",
          "lora_cache_gpu_memory_fraction",
          "lora_cache_host_memory_bytes",
          "decoding_mode",
          "medusa_choices",
        ],
      },
      "inflight_batcher_llm/tensorrt_llm_bls": {
        optional: ["tensorrt_llm_model_name", "tensorrt_llm_draft_model_name"],
      },
    },
    loses: {
      "inflight_batcher_llm/preprocessing": ["tokenizer_type"],
      "inflight_batcher_llm/postprocessing": ["tokenizer_type"],
      "gpt/preprocessing": ["tokenizer_type"],
      "gpt/postprocessing": ["tokenizer_type"],
    },
  },
  "r24.04": { from: "v0.9.0" },
  "v0.10.0": {
    from: "v0.9.0",
    gains: {
      "inflight_batcher_llm/tensorrt_llm": {
        optional: [
          "triton_backend",
          "sink_token_length",
          "kv_cache_host_memory_bytes",
          "kv_cache_onboard_blocks",
          "cancellation_check_period_ms",
          "stats_check_period_ms",
          "iter_stats_max_iterations",
          "request_stats_max_iterations",
          "gpu_weights_percent",
        ],
      },
    },
    loses: { "inflight_batcher_llm/tensorrt_llm": ["enable_trt_overlap"] },
  },
  "v0.11.0": {
    from: "v0.10.0",
    gains: {
      "inflight_batcher_llm/postprocessing": { optional: ["skip_special_tokens"] },
      "inflight_batcher_llm/tensorrt_llm": { optional: ["encoder_engine_dir"] },
    },
  },
  "v0.12.0": {
    from: "v0.11.0",
    gains: {
      "inflight_batcher_llm/preprocessing": { optional: ["visual_model_path", "engine_dir"] },
      "inflight_batcher_llm/tensorrt_llm": {
        mandatory: ["max_queue_size"],
        optional: ["enable_context_fmha_fp32_acc", "multi_block_mode"],
      },
    },
  },
  "v0.13.0": {
    from: "v0.12.0",
    gains: {
      "inflight_batcher_llm/tensorrt_llm": { optional: ["participant_ids"] },
      "inflight_batcher_llm/tensorrt_llm_bls": { optional: ["multimodal_encoders_name"] },
      "multimodal/ensemble": { mandatory: ["triton_max_batch_size"] },
      "multimodal/multimodal_encoders": {
        mandatory: ["triton_max_batch_size"],
        optional: ["visual_model_path"],
      },
    },
  },
  "v0.14.0": {
    from: "v0.13.0",
    gains: { "inflight_batcher_llm/tensorrt_llm": { optional: ["cross_kv_cache_fraction"] } },
  },
  "v0.15.0": {
    from: "v0.14.0",
    gains: {
      "inflight_batcher_llm/preprocessing": { optional: ["max_num_images"] },
      "inflight_batcher_llm/tensorrt_llm": {
        mandatory: ["encoder_input_features_data_type"],
        optional: ["cuda_graph_mode", "cuda_graph_cache_size", "speculative_decoding_fast_logits"],
      },
      "multimodal/multimodal_encoders": { mandatory: ["encoder_input_features_data_type"] },
    },
  },
  "v0.16.0": {
    from: "v0.15.0",
    escapesCommas: true,
    gains: {
      "inflight_batcher_llm/tensorrt_llm": { optional: ["eagle_choices"] },
      "multimodal/multimodal_encoders": { optional: ["hf_model_path"] },
    },
  },
  "v0.17.0": {
    from: "v0.16.0",
    gains: {
      "inflight_batcher_llm/ensemble": { mandatory: ["logits_datatype"] },
      "inflight_batcher_llm/tensorrt_llm": { mandatory: ["logits_datatype"] },
      "inflight_batcher_llm/tensorrt_llm_bls": { mandatory: ["logits_datatype"] },
    },
  },
  // The branches r25.02 and r25.04 were cut from the main line, which was ahead of the release tags of their months.
  "r25.02": {
    from: "v0.17.0",
    gains: {
      "inflight_batcher_llm/preprocessing": queueKeys,
      "inflight_batcher_llm/tensorrt_llm": { optional: ["tokenizer_dir", "guided_decoding_backend"] },
      "multimodal/ensemble": { mandatory: ["logits_datatype"] },
      "multimodal/multimodal_encoders": queueKeys,
    },
  },
  "r25.03": { from: "v0.17.0" },
  "v0.18.2": { from: "r25.03" },
  "r25.04": {
    from: "r25.02",
    gains: {
      "inflight_batcher_llm/preprocessing": { optional: ["multimodal_model_path"] },
      "inflight_batcher_llm/tensorrt_llm": {
        optional: [
          "lora_prefetch_dir",
          "lookahead_window_size",
          "lookahead_ngram_size",
          "lookahead_verification_set_size",
          "xgrammar_tokenizer_info_path",
        ],
      },
      "multimodal/multimodal_encoders": { optional: ["multimodal_model_path"] },
    },
    loses: {
      "inflight_batcher_llm/preprocessing": ["visual_model_path"],
      "multimodal/multimodal_encoders": ["visual_model_path"],
    },
  },
  "v0.19.0": {
    from: "r25.04",
    gains: { "inflight_batcher_llm/tensorrt_llm": { optional: ["num_nodes"] } },
  },
  "r25.05": { from: "v0.19.0" },
  // The templates moved to triton_backend/all_models of https://github.com/NVIDIA/TensorRT-LLM. Taken from r25.05: preprocessing,
  // tensorrt_llm, tensorrt_llm_bls and multimodal_encoders were compared with a copy of 0.20.0 and are the same.
  "v0.20.0": { from: "r25.05" },
  // Read at 1.1.0rc6; docs/multimodal.md of the backend at r26.02 gives the same keys to preprocessing. That 25.12 asks for
  // prompt_embedding_table_data_type is reported in https://github.com/triton-inference-server/server/issues/8592.
  "v1.1.0": {
    from: "v0.20.0",
    gains: {
      "inflight_batcher_llm/tensorrt_llm": { mandatory: ["prompt_embedding_table_data_type"] },
      "inflight_batcher_llm/tensorrt_llm_bls": { mandatory: ["prompt_embedding_table_data_type"] },
      "multimodal/multimodal_encoders": { mandatory: ["prompt_embedding_table_data_type"] },
    },
  },
} satisfies Readonly<Record<string, Change>>;

const FIRST = "v0.8.0";

/** Branches and tags of triton-inference-server/tensorrtllm_backend, and TensorRT-LLM versions from 0.20 on. */
export type TemplateRef = typeof FIRST | keyof typeof changes;

/** Every set by its ref. */
export const templateSets = allSets();

/** Oldest first. */
export const TEMPLATE_REFS = Object.keys(templateSets) as readonly TemplateRef[];

/** The set of a release's `templates`; undefined where the catalogue has none. */
export function templateSet(ref: string | null): TemplateSet | undefined {
  return ref !== null && Object.hasOwn(templateSets, ref) ? templateSets[ref as TemplateRef] : undefined;
}

function allSets(): Readonly<Record<TemplateRef, TemplateSet>> {
  const sets: Record<string, TemplateSet> = { [FIRST]: first };
  for (const [ref, change] of Object.entries<Change>(changes)) {
    const base = sets[change.from];
    if (base === undefined)
      throw new Error(`The templates of ${ref} change those of ${change.from}, a later ref.`);
    sets[ref] = changed(base, change);
  }
  return sets as Readonly<Record<TemplateRef, TemplateSet>>;
}

function changed(base: TemplateSet, { escapesCommas, gains = {}, loses = {} }: Change): TemplateSet {
  const models: Record<string, TemplateKeys> = { ...base.models };
  for (const template of new Set([...Object.keys(loses), ...Object.keys(gains)])) {
    const { mandatory, optional } = models[template] ?? { mandatory: [], optional: [] };
    const keep = (key: string) => !loses[template]?.includes(key);
    models[template] = {
      mandatory: [...mandatory.filter(keep), ...(gains[template]?.mandatory ?? [])],
      optional: [...optional.filter(keep), ...(gains[template]?.optional ?? [])],
    };
  }
  return { escapesCommas: escapesCommas ?? base.escapesCommas, models };
}
