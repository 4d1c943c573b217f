/** The steps that decide an engine's bytes: converter, trtllm-build, visual engine builder. */
import type { EngineSpec } from "../spec.ts";
import type { FlagWord, RecipeTable } from "./recipes/types.ts";
import { converterTypeFlag } from "./recipes/types.ts";
import type { StepDraft } from "./step-draft.ts";
import type { VisualNumbers, Word } from "./types.ts";
import { compareVersions, valueAt } from "./version.ts";

/** trtllm-build's own `--max_num_tokens` since 0.11; before, it is a batch of the longest prompts. */
export const DEFAULT_MAX_NUM_TOKENS = 8192;

/** Samples of NVIDIA's own fp8 examples. */
const CALIBRATION_SAMPLES = "512";

/** What NVIDIA/TensorRT-LLM's guide calibrates Llama 3.2 Vision with; the quantizer's default is text only. */
const CROSS_ATTENTION_CALIBRATION = "scienceqa";

/**
 * Hugging Face weights to a TensorRT-LLM checkpoint. Parallelism is decided here and nowhere else: trtllm-build reads it
 * from the checkpoint. fp8 goes through the quantizer, which calibrates; weight-only formats are the converter's.
 */
export function convertStep(spec: EngineSpec, table: RecipeTable): StepDraft {
  const { row, dtype, quantization } = spec;
  const folders: readonly Word[] = [
    "--model_dir",
    { place: "weights" },
    "--output_dir",
    { place: "checkpoint" },
    "--dtype",
    dtype,
  ];
  const parallelism = [
    ...(spec.tensorParallel > 1 ? ["--tp_size", String(spec.tensorParallel)] : []),
    ...(spec.pipelineParallel > 1 ? ["--pp_size", String(spec.pipelineParallel)] : []),
  ];
  const words: readonly Word[] =
    quantization === "fp8"
      ? [
          "python3",
          script(table.quantizer),
          ...folders,
          "--qformat",
          "fp8",
          "--calib_size",
          CALIBRATION_SAMPLES,
          ...(row.vision?.attention === "cross" ? ["--calib_dataset", CROSS_ATTENTION_CALIBRATION] : []),
          ...parallelism,
        ]
      : [
          "python3",
          script(table.converters[row.recipe]),
          ...(row.converterModelType === undefined ? [] : [converterTypeFlag(row), row.converterModelType]),
          ...folders,
          ...(quantization === "none" ? [] : ["--use_weight_only", "--weight_only_precision", quantization]),
          ...parallelism,
        ];
  return {
    name: "convert",
    summary: quantization === "fp8" ? "calibrated fp8 checkpoint" : "checkpoint of TensorRT-LLM",
    words,
    ...sourceCodePath(spec),
  };
}

/**
 * The engine of the language model. Batch and lengths are always explicit: their defaults change between releases, and
 * 2048 requests at once (0.14 on) take gigabytes of buffers. `--kv_cache_type` and its older names stay out where paged is
 * the default: 0.20 parses the word differently from its documents.
 */
export function llmStep(spec: EngineSpec, table: RecipeTable, visual: VisualNumbers | null): StepDraft {
  const { limits, row } = spec;
  const sequence =
    sequenceFlag(spec, table) === "--max_seq_len"
      ? limits.maxInputTokens + limits.maxOutputTokens
      : limits.maxOutputTokens;
  return {
    name: "llm",
    summary: "engine of the language model",
    words: [
      "trtllm-build",
      "--checkpoint_dir",
      { place: "checkpoint" },
      "--output_dir",
      { place: "llm" },
      ...(row.vision === undefined ? table.textBuildFlags.map((word) => flagWord(word, spec)) : []),
      "--gemm_plugin",
      gemmPlugin(spec, table),
      ...fusedMlp(spec, table),
      ...(spec.pagedContext ? table.pagedContextFlags : []),
      ...(limits.maxBeamWidth > 1 ? ["--max_beam_width", String(limits.maxBeamWidth)] : []),
      "--max_batch_size",
      String(limits.maxBatchSize),
      "--max_input_len",
      String(limits.maxInputTokens),
      sequenceFlag(spec, table),
      String(sequence),
      ...(limits.maxNumTokens === undefined ? [] : ["--max_num_tokens", String(limits.maxNumTokens)]),
      ...(visual !== null && visual.maxMultimodalTokens > 0
        ? ["--max_multimodal_len", String(visual.maxMultimodalTokens)]
        : []),
      ...(visual !== null && visual.maxEncoderInputTokens > 0
        ? ["--max_encoder_input_len", String(visual.maxEncoderInputTokens)]
        : []),
    ],
  };
}

/** The visual engine; the folder is its own, because both builders write a config.json. None for a text model. */
export function visionSteps(
  spec: EngineSpec,
  table: RecipeTable,
  visual: VisualNumbers | null,
): readonly StepDraft[] {
  const vision = spec.row.vision;
  if (vision === undefined || visual === null) return [];
  return [
    {
      name: "vision",
      summary: "visual engine",
      words: [
        "python3",
        script(table.visual?.builder ?? null),
        "--model_path",
        { place: "weights" },
        "--model_type",
        vision.modelType,
        ...(vision.codeRepository === undefined ? [] : ["--vila_path", { place: "code" } as const]),
        "--output_dir",
        { place: "vision" },
        "--max_batch_size",
        String(visual.visionMaxBatchSize),
      ],
      ...sourceCodePath(spec),
    },
  ];
}

/**
 * Builder and run.py import the model's own classes. They look for them beside the weights (`<hf_model_dir>/../VILA` in
 * TensorRT-LLM's multimodal_model_runner.py); the store keeps code elsewhere, and for all revisions of the weights once.
 */
export function sourceCodePath(spec: Pick<EngineSpec, "row">): Pick<StepDraft, "environment"> {
  return spec.row.vision?.codeRepository === undefined
    ? {}
    : { environment: { PYTHONPATH: { place: "code" } } };
}

/** A script below the examples. A missing one is refused before, see `unsupportedReason`. */
export function script(path: string | null): Word {
  if (path === null) throw new Error("This release has no script for the step; ask unsupportedReason first.");
  return { place: "scripts", rest: `/${path}` };
}

function sequenceFlag(spec: EngineSpec, table: RecipeTable): string {
  return valueAt(table.sequenceFlag, spec.release.tensorRtLlm) ?? "--max_seq_len";
}

function gemmPlugin(spec: EngineSpec, { gemmPluginAutoSince }: RecipeTable): string {
  const hasAuto =
    gemmPluginAutoSince !== null && compareVersions(spec.release.tensorRtLlm, gemmPluginAutoSince) >= 0;
  const isMixed = spec.quantization === "fp8" || spec.row.vision?.attention === "cross";
  return hasAuto && isMixed ? "auto" : spec.dtype;
}

function fusedMlp(spec: EngineSpec, { visual }: RecipeTable): readonly string[] {
  const type = spec.row.vision?.modelType;
  if (visual === null || type === undefined || spec.quantization !== "none") return [];
  return visual.fusedMlpModels.includes(type)
    ? (valueAt(visual.fusedMlp, spec.release.tensorRtLlm) ?? [])
    : [];
}

function flagWord(word: FlagWord, spec: EngineSpec): string {
  return typeof word === "string" ? word : spec[word.value];
}
