/**
 * Placeholders of the config.pbtxt templates that tensorrtllm_backend fills with tools/fill_template.py, for each
 * branch and tag whose templates were read: which keys a template must be given, which it may be given, and how the
 * release's fill_template.py treats the others.
 *
 * The first set is written out; each following one says what it changes in another, as the repository's history did.
 */

/** Branches and tags of triton-inference-server/tensorrtllm_backend, and TensorRT-LLM versions from 0.20 on. */
export const TEMPLATE_REFS = [
  "v0.8.0",
  "v0.9.0",
  "r24.04",
  "v0.10.0",
  "v0.11.0",
  "v0.12.0",
  "v0.13.0",
  "v0.14.0",
  "v0.15.0",
  "v0.16.0",
  "v0.17.0",
  "r25.02",
  "r25.03",
  "v0.18.2",
  "r25.04",
  "v0.19.0",
  "r25.05",
  "v0.20.0",
  "v1.1.0",
] as const;
export type TemplateRef = (typeof TEMPLATE_REFS)[number];

/** Placeholders of one template; the order has no meaning. */
export interface TemplateKeys {
  /** Outside quotes: Triton can't parse the file while one is left (`Expected integer or identifier, got: $`). */
  readonly mandatory: readonly string[];
  /** Inside quotes: left alone, Triton reads the text `${key}` and takes its default. */
  readonly optional: readonly string[];
}

/** How a release's tools/fill_template.py works. */
export interface FillTemplate {
  /** Whether it aborts on a key that the template lacks (`key 'x' does not exist in the file`); otherwise it is ignored. */
  readonly assertsUnknownKey: boolean;
  /** Keys that it fills with 0 where none is given. */
  readonly defaults: readonly string[];
  /** Whether a backslash keeps a comma or colon inside a value; without it such values can't be given. */
  readonly escapesCommas: boolean;
}

export interface TemplateSet {
  readonly fillTemplate: FillTemplate;
  /** By folder under all_models: `inflight_batcher_llm/tensorrt_llm`. */
  readonly models: Readonly<Record<string, TemplateKeys>>;
  readonly source: string;
  /** How far the set is known where it was not read at the release itself. */
  readonly note?: string | undefined;
}

/** What one set changes in another. */
interface Change {
  readonly from: TemplateRef;
  readonly fillTemplate?: Partial<FillTemplate>;
  /** Keys that a template gains; a template that is not in the other set is new. */
  readonly gains?: Readonly<Record<string, Partial<TemplateKeys>>>;
  readonly loses?: Readonly<Record<string, readonly string[]>>;
  readonly source?: string;
  readonly note?: string;
}

const BACKEND = "https://github.com/triton-inference-server/tensorrtllm_backend/tree";

const first: TemplateSet = {
  fillTemplate: { assertsUnknownKey: false, defaults: [], escapesCommas: false },
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
  source: `${BACKEND}/v0.8.0/all_models`,
};

/** Queue keys that the main line gave to the Python models before the 0.19 release did. */
const queueKeys = { mandatory: ["max_queue_delay_microseconds", "max_queue_size"] };

const changes: Readonly<Record<Exclude<TemplateRef, "v0.8.0">, Change>> = {
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
    fillTemplate: { defaults: ["max_queue_size"] },
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
    fillTemplate: { escapesCommas: true },
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
    fillTemplate: { assertsUnknownKey: true, defaults: ["max_queue_size", "max_queue_delay_microseconds"] },
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
  "v0.20.0": {
    from: "r25.05",
    source: "https://github.com/NVIDIA/TensorRT-LLM/tree/v0.20.0/triton_backend/all_models",
    note:
      "Taken from branch r25.05 of the backend, before the templates moved to TensorRT-LLM; preprocessing, tensorrt_llm, " +
      "tensorrt_llm_bls and multimodal_encoders were compared with a copy of 0.20.0 and are the same.",
  },
  "v1.1.0": {
    from: "v0.20.0",
    gains: {
      "inflight_batcher_llm/tensorrt_llm": { mandatory: ["prompt_embedding_table_data_type"] },
      "inflight_batcher_llm/tensorrt_llm_bls": { mandatory: ["prompt_embedding_table_data_type"] },
      "multimodal/multimodal_encoders": { mandatory: ["prompt_embedding_table_data_type"] },
    },
    source: "https://github.com/NVIDIA/TensorRT-LLM/tree/v1.1.0/triton_backend/all_models",
    note:
      "Read at 1.1.0rc6; docs/multimodal.md of the backend at r26.02 gives the same keys to preprocessing. That 25.12 asks for " +
      "prompt_embedding_table_data_type is reported in " +
      "https://github.com/triton-inference-server/server/issues/8592.",
  },
};

/** Every set by its ref. */
export const templateSets: Readonly<Record<TemplateRef, TemplateSet>> = allSets();

/** The set of a release's `templates`; undefined where the catalogue has none. */
export function templateSet(ref: string | null): TemplateSet | undefined {
  return isTemplateRef(ref) ? templateSets[ref] : undefined;
}

function isTemplateRef(ref: string | null): ref is TemplateRef {
  return ref !== null && Object.hasOwn(templateSets, ref);
}

function allSets(): Record<TemplateRef, TemplateSet> {
  const sets: Partial<Record<TemplateRef, TemplateSet>> = { "v0.8.0": first };
  for (const ref of TEMPLATE_REFS) {
    if (ref !== "v0.8.0") sets[ref] = changed(ref, changes[ref], sets);
  }
  return sets as Record<TemplateRef, TemplateSet>;
}

function changed(
  ref: TemplateRef,
  change: Change,
  earlier: Readonly<Partial<Record<TemplateRef, TemplateSet>>>,
): TemplateSet {
  const base = earlier[change.from];
  if (base === undefined)
    throw new Error(`The templates of ${ref} change those of ${change.from}, a later ref.`);
  const models: Record<string, TemplateKeys> = { ...base.models };
  for (const [template, gone] of Object.entries(change.loses ?? {})) {
    const keep = (key: string) => !gone.includes(key);
    const { mandatory, optional } = keysOf(models, template);
    models[template] = { mandatory: mandatory.filter(keep), optional: optional.filter(keep) };
  }
  for (const [template, gained] of Object.entries(change.gains ?? {})) {
    const { mandatory, optional } = keysOf(models, template);
    models[template] = {
      mandatory: [...mandatory, ...(gained.mandatory ?? [])],
      optional: [...optional, ...(gained.optional ?? [])],
    };
  }
  return {
    fillTemplate: { ...base.fillTemplate, ...change.fillTemplate },
    models,
    source: change.source ?? `${BACKEND}/${ref}/all_models`,
    ...(change.note === undefined ? {} : { note: change.note }),
  };
}

function keysOf(models: Readonly<Record<string, TemplateKeys>>, template: string): TemplateKeys {
  return models[template] ?? { mandatory: [], optional: [] };
}
