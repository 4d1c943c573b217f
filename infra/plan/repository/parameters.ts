/**
 * Every placeholder of every template of triton_backend/all_models: its value, or the reason why Triton's default is right.
 * catalogue/templates.ts has the placeholders of a release; fill_template.py of newer releases aborts on any other key.
 *
 * Meanings and defaults: https://github.com/triton-inference-server/tensorrtllm_backend/blob/main/docs/model_config.md.
 */
import type { TemplateKeys, TemplateSet } from "../catalogue/templates.ts";
import { takesImages } from "../catalogue/types.ts";
import { visionTypeOf } from "../catalogue/vision-types.ts";
import type { EnginePlan } from "../container-spec-schemas.ts";
import { tokenizerDirectory } from "../engine/weights.ts";
import { crossKvCacheFraction } from "../fit/terms.ts";
import type { ModelSpec, ServingSpec } from "../spec.ts";

/** Facts that values depend on. */
export interface ParameterFacts {
  readonly model: ModelSpec;
  readonly engine: EnginePlan;
  readonly templates: TemplateSet;
  /** Part of the memory that is free after loading, above 0 and at most 1. */
  readonly kvCacheFreeGpuMemoryFraction: number;
}

/** Whether a repository answers a request with any number of responses. */
export function isDecoupled({ flavour, streaming }: ServingSpec): boolean {
  return streaming || flavour === "llava" || flavour === "tritonCli";
}

/** Why Triton's default is right. */
interface Keep {
  readonly keep: string;
}

/** A value for the placeholder or the reason for none; booleans are written as exactly `True` or `False`. */
type Rule = Keep | ((facts: ParameterFacts) => string | number | boolean | Keep);

/** Rules by placeholder. */
export type Rules = Readonly<Record<string, Rule>>;

/** https://github.com/triton-inference-server/tensorrtllm_backend/blob/r25.02/docs/multimodal.md */
const IMAGE_QUEUE_DELAY_MICROSECONDS = 20_000;

/** Placeholders that keep Triton's default, all for the same reason. */
function keeps(reason: string, ...placeholders: readonly string[]): Rules {
  return Object.fromEntries(placeholders.map((name) => [name, { keep: reason }]));
}

/** A vision-language model can also be served for text only. */
function forImages(derive: Exclude<Rule, Keep>): Rule {
  return (facts) => (takesImages(facts.model.serving.flavour) ? derive(facts) : { keep: "text only" });
}

export const tokenizerFolder: Rule = ({ engine, model }) =>
  tokenizerDirectory(model.engine.row, engine.places.weights);

const visualEngineFolder = forImages(({ engine }) => engine.places.vision);

const queueDelay: Rule = ({ model }) => model.serving.maxQueueDelayMicroseconds;

/** Cache, scheduling and decoding; the placeholders of tensorrt_llm/config.pbtxt in the tutorials' LLaVA repository, all optional. */
export const executionRules: Rules = {
  engine_dir: ({ engine }) => engine.places.llm,
  max_tokens_in_paged_kv_cache: ({ model }) =>
    model.serving.maxTokensInPagedKvCache ?? { keep: "only the memory fraction sizes the cache" },
  max_attention_window_size: ({ model }) =>
    model.serving.maxAttentionWindowTokens ?? { keep: "attention reaches over the whole sequence" },
  kv_cache_free_gpu_mem_fraction: ({ kvCacheFreeGpuMemoryFraction }) => kvCacheFreeGpuMemoryFraction,
  exclude_input_in_output: ({ model }) => model.serving.excludeInputInOutput,
  // Written out because the default changed from false to true in 0.19, and true needs prompt_table_extra_id.
  enable_kv_cache_reuse: ({ model }) => model.serving.kvCacheReuse,
  enable_chunked_context: ({ model }) => model.serving.chunkedContext,
  ...keeps("attention reaches over the whole sequence", "sink_token_length"),
  ...keeps("guaranteed_no_evict: a request that began is never paused", "batch_scheduler_policy"),
  ...keeps("the cache stays on the GPU", "kv_cache_host_memory_bytes", "kv_cache_onboard_blocks"),
  ...keeps("the server sees only its own GPUs", "gpu_device_ids"),
  ...keeps("chosen by beam width", "decoding_mode"),
  ...keeps("no speculative decoding", "medusa_choices"),
  ...keeps("all weights stay on the GPU", "gpu_weights_percent"),
  ...keeps(
    "no LoRA adapters are served",
    "lora_cache_optimal_adapter_size",
    "lora_cache_max_adapter_size",
    "lora_cache_gpu_memory_fraction",
    "lora_cache_host_memory_bytes",
  ),
  ...keeps(
    "Triton's default serves this well",
    "cancellation_check_period_ms",
    "stats_check_period_ms",
    "iter_stats_max_iterations",
    "request_stats_max_iterations",
    "normalize_log_probs",
  ),
};

/** Rules of placeholders that mean the same in all templates, except those of {@link templateRules}. */
export const rules: Rules = {
  ...executionRules,
  triton_max_batch_size: ({ model }) => model.serving.maxBatchSize,
  tokenizer_dir: tokenizerFolder,
  // Other values name tokenizer classes, and no value at all stops 0.8's preprocessing.
  tokenizer_type: () => "auto",
  // Written out because the default changed from false to true in 0.11.
  add_special_tokens: ({ model }) => model.engine.row.tokenizer.addsBeginToken,
  preprocessing_instance_count: ({ model }) => model.serving.instanceCount,
  postprocessing_instance_count: ({ model }) => model.serving.instanceCount,
  bls_instance_count: ({ model }) => model.serving.blsInstanceCount,
  max_queue_size: ({ model }) => model.serving.maxQueueSize,
  max_queue_delay_microseconds: (facts) =>
    takesImages(facts.model.serving.flavour) ? IMAGE_QUEUE_DELAY_MICROSECONDS : queueDelay(facts),
  visual_model_path: visualEngineFolder,
  multimodal_model_path: visualEngineFolder,
  hf_model_path: ({ engine }) => engine.places.weights,
  // Preprocessing divides the engine's prompt table by this, so it is the number that the engine was built for; beyond 1 it also
  // places images at their marks, all with the same number of tokens.
  max_num_images: forImages(({ model: { engine } }) =>
    visionTypeOf(engine.row)?.severalAreTiles ? 1 : engine.limits.maxImagesPerRequest,
  ),
  decoupled_mode: ({ model }) => isDecoupled(model.serving),
  // Logits leave the engine in this format whatever the model computes in.
  logits_datatype: () => "TYPE_FP32",
  // Features for cross attention; other models have the tensor but never send it.
  encoder_input_features_data_type: ({ model }) => visionTypeOf(model.engine.row)?.features ?? "TYPE_FP16",
  // Format of the prompt table, which the language model adds to its own embeddings.
  prompt_embedding_table_data_type: ({ model }) =>
    takesImages(model.serving.flavour) && model.engine.dtype === "bfloat16" ? "TYPE_BF16" : "TYPE_FP16",
  triton_backend: ({ model }) => model.serving.tritonBackend,
  max_beam_width: ({ model }) => model.engine.limits.maxBeamWidth,
  batching_strategy: ({ model }) => model.serving.batchingStrategy,
  // TensorRT-LLM refuses it for a model without cross attention, and refuses such a model without it.
  cross_kv_cache_fraction: ({ model }) =>
    model.engine.row.vision?.attention === "cross"
      ? crossKvCacheFraction(model.serving)
      : { keep: "no cross attention" },
  accumulate_tokens: ({ model }) => model.serving.accumulateTokens,
  tensorrt_llm_model_name: () => "tensorrt_llm",
  multimodal_encoders_name: forImages(() => "multimodal_encoders"),
  ...keeps("answers come without special tokens by default", "skip_special_tokens"),
  ...keeps("no encoder-decoder model; a visual engine is multimodal_encoders' own", "encoder_engine_dir"),
  ...keeps("deprecated, and gone after 0.9", "enable_trt_overlap"),
  ...keeps("one MPI world in leader mode", "participant_ids"),
  ...keeps("all ranks are on one machine", "num_nodes"),
  ...keeps("no LoRA adapters are served", "lora_prefetch_dir"),
  ...keeps(
    "Triton's default serves this well",
    "enable_context_fmha_fp32_acc",
    "multi_block_mode",
    "cuda_graph_mode",
    "cuda_graph_cache_size",
  ),
  ...keeps(
    "no speculative decoding",
    "tensorrt_llm_draft_model_name",
    "speculative_decoding_fast_logits",
    "eagle_choices",
    "lookahead_window_size",
    "lookahead_ngram_size",
    "lookahead_verification_set_size",
  ),
  ...keeps("no guided decoding", "guided_decoding_backend", "xgrammar_tokenizer_info_path"),
};

export const templateRules: Readonly<Record<string, Rules>> = {
  // Preprocessing lays out the visual tokens from the numbers in this folder's config.json.
  "inflight_batcher_llm/preprocessing": { engine_dir: forImages(({ engine }) => engine.places.llm) },
  "inflight_batcher_llm/tensorrt_llm": {
    max_queue_delay_microseconds: queueDelay,
    ...keeps("no guided decoding", "tokenizer_dir"),
  },
};

/**
 * Keys of a model that decide a placeholder; none: the plan names folders and models. Undefined: the user may, by
 * `triton.parameters`.
 */
export function placeholderDeciders(name: string, { flavour }: ServingSpec): readonly string[] | undefined {
  // The delay of the models beside the engine is a constant if images are taken.
  if (name === "max_queue_delay_microseconds" && takesImages(flavour)) return undefined;
  return Object.hasOwn(DECIDED_BY, name) ? DECIDED_BY[name] : undefined;
}

const DECIDED_BY: Readonly<Record<string, readonly string[]>> = {
  triton_backend: ["triton.backend"],
  triton_max_batch_size: ["triton.maxBatchSize"],
  preprocessing_instance_count: ["triton.instanceCount"],
  postprocessing_instance_count: ["triton.instanceCount"],
  bls_instance_count: ["triton.blsInstanceCount"],
  decoupled_mode: ["triton.streaming"],
  accumulate_tokens: ["triton.accumulateTokens"],
  exclude_input_in_output: ["triton.excludeInputInOutput"],
  enable_kv_cache_reuse: ["triton.kvCacheReuse"],
  enable_chunked_context: ["triton.chunkedContext"],
  max_queue_delay_microseconds: ["triton.maxQueueDelayMicroseconds"],
  max_queue_size: ["triton.maxQueueSize"],
  batching_strategy: ["triton.batchingStrategy"],
  kv_cache_free_gpu_mem_fraction: ["triton.kvCacheFreeGpuMemoryFraction"],
  max_tokens_in_paged_kv_cache: ["triton.maxTokensInPagedKvCache"],
  max_attention_window_size: ["triton.maxAttentionWindowTokens"],
  max_beam_width: ["limits.maxBeamWidth"],
  max_num_images: ["limits.maxImagesPerRequest"],
  engine_dir: [],
  tokenizer_dir: [],
  visual_model_path: [],
  multimodal_model_path: [],
  hf_model_path: [],
  tensorrt_llm_model_name: [],
  multimodal_encoders_name: [],
};

/** Values that fill_template.py is handed, and reasons for those that are left to Triton; all placeholders, each sorted. */
interface FilledTemplate {
  readonly substitutions: Readonly<Record<string, string>>;
  readonly defaults: Readonly<Record<string, string>>;
}

/**
 * Decides every placeholder of a template.
 *
 * @param template Path below all_models.
 * @param overrides Rules that come before the template's own.
 * @throws Error if a placeholder has no rule, or a mandatory one no value: the table is incomplete then.
 */
export function fillTemplate(
  template: string,
  { mandatory, optional }: TemplateKeys,
  facts: ParameterFacts,
  overrides: Rules = {},
): FilledTemplate {
  const substitutions: Record<string, string> = {};
  const defaults: Record<string, string> = {};
  for (const key of [...mandatory, ...optional].sort()) {
    const rule = overrides[key] ?? templateRules[template]?.[key] ?? rules[key];
    if (rule === undefined) {
      throw new Error(
        `${template} has the placeholder ${key}, for which repository/parameters.ts has no rule.`,
      );
    }
    // With images the delay of Triton's own models may differ from the engine's, which has a key.
    const own = rule === queueDelay ? undefined : facts.model.serving.parameters?.[key];
    const value = own ?? (typeof rule === "function" ? rule(facts) : rule);
    if (typeof value !== "object") {
      substitutions[key] = typeof value === "boolean" ? (value ? "True" : "False") : String(value);
    } else if (mandatory.includes(key)) {
      throw new Error(`${template} does not load without ${key}, and its rule has no value (${value.keep}).`);
    } else {
      defaults[key] = value.keep;
    }
  }
  return { substitutions, defaults };
}
