/** A user's own flags for the programs that build an engine, and the flags that keys of the stack file decide. */
import type { BuildProgram } from "../catalogue/build-flags.ts";
import { calibrationOf } from "../catalogue/types.ts";
import type { EngineSpec, ExtraFlags } from "../spec.ts";

/** Sections of `engine.extraFlags`. */
export const FLAG_SECTIONS = ["converter", "builder", "vision"] as const;
export type FlagSection = (typeof FLAG_SECTIONS)[number];

/** Program of a section, by its name in the catalogue and by its title. The quantizer converts calibrated models. */
export function flagProgram(
  section: FlagSection,
  { row, quantization }: Pick<EngineSpec, "row" | "quantization">,
): { readonly program: BuildProgram; readonly title: string } {
  if (section === "builder") return { program: "trtllm-build", title: "trtllm-build" };
  if (section === "vision") return { program: "vision", title: "the builder of visual engines" };
  return calibrationOf(quantization) !== null
    ? { program: "quantize", title: "quantize.py" }
    : { program: row.recipe, title: `convert_checkpoint.py (${row.recipe})` };
}

/**
 * A command with flags of the user's own: in place of the same flag, or at the end by name, so that the order of a stack file
 * changes no key.
 */
export function withExtraFlags(argv: readonly string[], flags: ExtraFlags = {}): readonly string[] {
  const words = [...argv];
  for (const [name, value] of Object.entries(flags).sort(([a], [b]) => (a < b ? -1 : 1))) {
    const flag = `--${name}`;
    const start = words.findIndex((word) => word === flag || word.startsWith(`${flag}=`));
    const at = start === -1 ? words.length : start;
    const next = words.findIndex((word, index) => index > at && word.startsWith("--"));
    words.splice(
      at,
      (next === -1 ? words.length : next) - at,
      flag,
      ...(value === true ? [] : [value].flat().map(String)),
    );
  }
  return words;
}

const IMAGES = ["limits.maxImagesPerRequest", "limits.maxBatchSize"];
const SEQUENCE = ["limits.maxInputTokens", "limits.maxOutputTokens"];
const GPUS = ["tensorParallel", "pipelineParallel"];

/** Keys of a model that decide a flag; none: the plan names the folders. A sentence: why no engine of the plan has the flag. */
type Deciders = readonly string[] | string;

/**
 * Sentences: tensorrt_llm/commands/build.py, tensorrt_llm/builder.py, examples/llama/convert_checkpoint.py and
 * examples/sample_weight_stripping of TensorRT-LLM at 0.16.0.dev2024121000.
 */
const DECIDED_BY: Readonly<Record<FlagSection, Readonly<Record<string, Deciders>>>> = {
  converter: {
    model_dir: ["weights"],
    "model-dir": ["weights"],
    "ckpt-type": ["weights"],
    meta_ckpt_dir: ["weights"],
    nemo_ckpt_path: ["weights"],
    output_dir: [],
    "output-model-dir": [],
    model_type: ["model"],
    gpt_variant: ["model"],
    dtype: ["dtype"],
    use_weight_only: ["quantization"],
    weight_only_precision: ["quantization"],
    "use-weight-only-with-precision": ["quantization"],
    qformat: ["quantization"],
    tp_size: ["tensorParallel"],
    "world-size": ["tensorParallel"],
    pp_size: ["pipelineParallel"],
    cp_size: GPUS,
    save_config_only: "The checkpoint would have no weights.",
  },
  builder: {
    checkpoint_dir: [],
    output_dir: [],
    // A file of settings replaces all that the plan passes.
    build_config: ["limits"],
    model_config: "trtllm-build ignores it beside the checkpoint, which the plan passes.",
    dry_run: "A dry run ends without an engine.",
    strip_plan: "The engine would have no weights, which only trtllm-refit adds.",
    weight_only_precision: ["quantization"],
    tp_size: ["tensorParallel"],
    pp_size: ["pipelineParallel"],
    auto_parallel: GPUS,
    max_batch_size: ["limits.maxBatchSize"],
    max_beam_width: ["limits.maxBeamWidth"],
    max_input_len: ["limits.maxInputTokens"],
    max_output_len: ["limits.maxOutputTokens"],
    max_seq_len: SEQUENCE,
    max_decoder_seq_len: SEQUENCE,
    max_num_tokens: ["limits.maxNumTokens"],
    max_multimodal_len: IMAGES,
    max_prompt_embedding_table_size: IMAGES,
    max_encoder_input_len: IMAGES,
  },
  vision: {
    model_path: ["weights"],
    model_type: ["model"],
    vila_path: ["model"],
    output_dir: [],
    max_batch_size: IMAGES,
  },
};

/** Deciders of a flag; undefined: the user may set it. */
export function deciders(
  section: FlagSection,
  name: string,
  { pagedContext, calibration }: Pick<EngineSpec, "pagedContext" | "calibration">,
): Deciders | undefined {
  const table = DECIDED_BY[section];
  if (Object.hasOwn(table, name)) return table[name];
  const isCalibration = section === "converter" && (name === "calib_dataset" || name === "calib_size");
  if (isCalibration && calibration !== undefined) return ["engine.calibration"];
  // The cache is neither reused nor filled in chunks without it.
  const isPaged = section === "builder" && name === "use_paged_context_fmha" && pagedContext;
  return isPaged ? ["triton.kvCacheReuse", "triton.chunkedContext"] : undefined;
}

/** Flags that change no engine's memory: files, logs, workers and calibration. */
const WITHOUT_MEMORY = new Set([
  "batch_size",
  "calib_dataset",
  "calib_max_seq_length",
  "calib_size",
  "dataset-cache-dir",
  "dataset_cache_dir",
  "device_map",
  "input_timing_cache",
  "load_by_shard",
  "load_model_on_cpu",
  "log_level",
  "monitor_memory",
  "output_timing_cache",
  "profiling_verbosity",
  "seed",
  "timing_cache",
  "tokenizer_max_seq_length",
  "workers",
]);

/** Flags that may change the memory of an engine or of its server, as they are typed. */
export function memoryFlags({ extraFlags = {} }: Pick<EngineSpec, "extraFlags">): readonly string[] {
  return FLAG_SECTIONS.flatMap((section) => Object.keys(extraFlags[section] ?? {}))
    .filter((name) => !WITHOUT_MEMORY.has(name))
    .map((name) => `--${name}`);
}
