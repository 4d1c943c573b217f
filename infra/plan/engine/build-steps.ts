/** The commands of a build after its weights are there: packages, converter, trtllm-build, visual engine, golden question. */
import type { GoldenQuestion, VisionTower } from "../catalogue/types.ts";
import type { EngineSpec } from "../spec.ts";
import { type BuildRecipe, buildRecipe } from "./recipes.ts";
import { imageFiles } from "./release.ts";
import type { StepDraft, VisualNumbers, Word } from "./types.ts";
import { visionTypeOf, visionTypes } from "./vision-types.ts";

/** trtllm-build's own `--max_num_tokens` since 0.11; before, it is a batch of the longest prompts. */
export const DEFAULT_MAX_NUM_TOKENS = 8192;

/** Samples of NVIDIA's own fp8 examples. */
const CALIBRATION_SAMPLES = "512";

/** What NVIDIA/TensorRT-LLM's guide calibrates Llama 3.2 Vision with; the quantizer's default is text only. */
const CROSS_ATTENTION_CALIBRATION = "scienceqa";

/** Python packages and source code of a model that the image lacks; most models need none. */
export function requirementSteps(spec: EngineSpec, recipe: BuildRecipe): readonly StepDraft[] {
  const { vision } = spec.row;
  if (vision === undefined) return [];
  return [...packages(vision.requirements, spec, recipe), ...sourceCode(vision)];
}

function packages(
  file: string | undefined,
  { release, layout }: EngineSpec,
  recipe: BuildRecipe,
): readonly StepDraft[] {
  if (file === undefined) return [];
  const pinned = recipe.requirements[file];
  if (pinned?.length === 0) return [];
  const words =
    pinned === undefined
      ? ["-r", `${imageFiles(release, layout).allModels}/multimodal/${file}`]
      : ["--no-deps", ...pinned];
  return [
    { name: "requirements", summary: "Python packages of the model", words: ["pip", "install", ...words] },
  ];
}

/** `init`, `fetch` and `checkout` may be run again on a checkout, unlike `clone`; so may the edits. */
function sourceCode({ codeRepository, modelType }: VisionTower): readonly StepDraft[] {
  if (codeRepository === undefined) return [];
  const { url, commit } = codeRepository;
  const step = (summary: string, ...words: StepDraft["words"]): StepDraft => ({
    name: "requirements",
    summary,
    words,
  });
  const code = { place: "code" } as const;
  return [
    step("folder for the model's source code", "git", "init", code),
    step("the model's source code", "git", "-C", code, "fetch", "--depth", "1", url, commit ?? "HEAD"),
    // Without a commit the files may be other ones next time, and edited ones would be in the way.
    step(
      "its files",
      ...["git", "-C", code, "checkout", "--detach", ...(commit === null ? ["--force"] : []), "FETCH_HEAD"],
    ),
    ...(visionTypes[modelType].sourceEdits ?? []).map(({ file, sed }) =>
      step("a line of it that the image's packages don't go with", "sed", "-i", sed, {
        ...code,
        rest: `/${file}`,
      }),
    ),
  ];
}

/**
 * Hugging Face weights to a TensorRT-LLM checkpoint. Parallelism is decided here and nowhere else: trtllm-build reads it
 * from the checkpoint. fp8 goes through the quantizer, which calibrates; weight-only formats are the converter's.
 */
export function convertStep(spec: EngineSpec, recipe: BuildRecipe): StepDraft {
  const { row, dtype, quantization, tensorParallel, pipelineParallel } = spec;
  const folders: readonly Word[] = [
    ...["--model_dir", { place: "weights" } as const],
    ...["--output_dir", { place: "checkpoint" } as const],
    ...["--dtype", dtype],
  ];
  const parallelism = [
    ...(tensorParallel > 1 ? ["--tp_size", String(tensorParallel)] : []),
    ...(pipelineParallel > 1 ? ["--pp_size", String(pipelineParallel)] : []),
  ];
  const typeFlag = row.recipe === "gpt" ? "--gpt_variant" : "--model_type";
  const isCross = row.vision?.attention === "cross";
  const words: readonly Word[] =
    quantization === "fp8"
      ? [
          script(recipe.quantizer),
          ...folders,
          ...["--qformat", "fp8", "--calib_size", CALIBRATION_SAMPLES],
          ...(isCross ? ["--calib_dataset", CROSS_ATTENTION_CALIBRATION] : []),
        ]
      : [
          script(recipe.converters[row.recipe]),
          ...(row.converterModelType === undefined ? [] : [typeFlag, row.converterModelType]),
          ...folders,
          ...(quantization === "none" ? [] : ["--use_weight_only", "--weight_only_precision", quantization]),
        ];
  return {
    name: "convert",
    summary: quantization === "fp8" ? "calibrated fp8 checkpoint" : "checkpoint of TensorRT-LLM",
    words: ["python3", ...words, ...parallelism],
    ...pythonPath(spec),
  };
}

/**
 * The engine of the language model. Batch and lengths are always explicit: their defaults change between releases, and
 * 2048 requests at once (0.14 on) take gigabytes of buffers. `--kv_cache_type` and its older names stay out where paged is
 * the default: 0.20 parses the word differently from its documents.
 */
export function llmStep(spec: EngineSpec, recipe: BuildRecipe, visual: VisualNumbers | null): StepDraft {
  const { dtype, limits, row, quantization } = spec;
  const { maxBatchSize, maxBeamWidth, maxInputTokens, maxOutputTokens, maxNumTokens } = limits;
  const flag = (name: string, value: number | undefined) => (value ? [name, String(value)] : []);
  // From NVIDIA/TensorRT-LLM's multimodal guide; examples/llama/README.md at v0.10.0 builds fp8 with float16.
  const isMixed = quantization === "fp8" || row.vision?.attention === "cross";
  const usesFusedMlp = quantization === "none" && visionTypeOf(row)?.usesFusedMlp === true;
  return {
    name: "llm",
    summary: "engine of the language model",
    words: [
      ...["trtllm-build", "--checkpoint_dir", { place: "checkpoint" } as const],
      ...["--output_dir", { place: "llm" } as const],
      ...(recipe.flagsForPlugins && row.vision === undefined
        ? [
            ...["--remove_input_padding", "enable", "--gpt_attention_plugin", dtype],
            ...["--context_fmha", "enable", "--paged_kv_cache", "enable"],
          ]
        : []),
      ...["--gemm_plugin", recipe.hasAutoGemm && isMixed ? "auto" : dtype],
      ...(usesFusedMlp ? recipe.fusedMlpFlags : []),
      ...(spec.pagedContext ? recipe.pagedContextFlags : []),
      ...(maxBeamWidth > 1 ? flag("--max_beam_width", maxBeamWidth) : []),
      ...flag("--max_batch_size", maxBatchSize),
      ...flag("--max_input_len", maxInputTokens),
      recipe.sequenceFlag,
      String(recipe.sequenceFlag === "--max_seq_len" ? maxInputTokens + maxOutputTokens : maxOutputTokens),
      ...flag("--max_num_tokens", maxNumTokens),
      ...flag("--max_multimodal_len", visual?.maxMultimodalTokens),
      ...flag("--max_encoder_input_len", visual?.maxEncoderInputTokens),
    ],
  };
}

/** The visual engine, in a folder of its own because both builders write a config.json. None for a text model. */
export function visionSteps(
  spec: EngineSpec,
  recipe: BuildRecipe,
  visual: VisualNumbers | null,
): readonly StepDraft[] {
  const { vision } = spec.row;
  if (vision === undefined || visual === null) return [];
  return [
    {
      name: "vision",
      summary: "visual engine",
      words: [
        ...["python3", script(recipe.visualBuilder)],
        ...["--model_path", { place: "weights" } as const, "--model_type", vision.modelType],
        ...(vision.codeRepository === undefined ? [] : ["--vila_path", { place: "code" } as const]),
        ...["--output_dir", { place: "vision" } as const],
        ...["--max_batch_size", String(visual.visionMaxBatchSize)],
      ],
      ...pythonPath(spec),
    },
  ];
}

/**
 * Question and answer of triton-inference-server/tutorials Popular_Models_Guide/Llava1.5/llava_trtllm_guide.md about the
 * merlion, which run.py fetches from the network where it takes no other picture.
 */
const MERLION_QUESTION: GoldenQuestion = {
  prompt: "Which city is this?",
  maxTokens: 30,
  answerContains: ["Singapore"],
};

/** What a new engine is asked: the model's own question, or that of the picture which an old run.py loads. */
export function goldenQuestion({ row, release }: Pick<EngineSpec, "row" | "release">): GoldenQuestion {
  const takesPicture = buildRecipe(release)?.takesPicture ?? true;
  return row.vision === undefined || takesPicture ? row.golden : MERLION_QUESTION;
}

/** Asks the engine the golden question with TensorRT-LLM's own run.py, under mpirun where there are several ranks. */
export function checkStep(spec: EngineSpec, recipe: BuildRecipe): StepDraft {
  const golden = goldenQuestion(spec);
  const ranks = spec.tensorParallel * spec.pipelineParallel;
  const { vision } = spec.row;
  return {
    name: "check",
    summary: `golden prompt; the answer holds ${golden.answerContains.map((word) => `"${word}"`).join(" or ")}`,
    words: [
      ...(ranks > 1 ? ["mpirun", "-n", String(ranks), "--allow-run-as-root"] : []),
      "python3",
      ...(vision === undefined ? textCheck(golden) : visualCheck(golden, recipe, vision)),
    ],
    // Without it MPI fails to start in some containers: docs/multimodal.md of tensorrtllm_backend, MPI_Init_thread.
    environment: { PMIX_MCA_gds: "hash", ...pythonPath(spec).environment },
  };
}

function textCheck({ prompt, maxTokens }: GoldenQuestion): readonly Word[] {
  return [
    ...[script("run.py"), "--engine_dir", { place: "llm" } as const],
    ...["--max_output_len", String(maxTokens), "--tokenizer_dir", { place: "weights" } as const],
    ...["--input_text", prompt],
  ];
}

function visualCheck(
  { image, maxTokens, prompt }: GoldenQuestion,
  recipe: BuildRecipe,
  { modelType }: VisionTower,
): readonly Word[] {
  const engines: readonly Word[] =
    recipe.engineDirectories === "together"
      ? ["--engine_dir", { place: "engine" }]
      : ["--visual_engine_dir", { place: "vision" }, "--llm_engine_dir", { place: "llm" }];
  const question = visionTypes[modelType].checkInput.replace("{question}", () => prompt);
  return [
    ...[script(recipe.visualRunScript), "--max_new_tokens", String(maxTokens)],
    ...["--hf_model_dir", { place: "weights" } as const],
    ...engines,
    ...recipe.visualRunFlags,
    ...(image === undefined ? [] : [{ before: "--image_path=", place: "goldenImage" } as const]),
    ...["--input_text", question],
    ...(image === undefined ? [] : ["--batch_size=1"]),
  ];
}

/**
 * Builder and run.py import the model's own classes. They look for them beside the weights (`<hf_model_dir>/../VILA` in
 * TensorRT-LLM's multimodal_model_runner.py); the store keeps code elsewhere, and for all revisions of the weights once.
 */
function pythonPath({ row }: EngineSpec): Pick<StepDraft, "environment"> {
  return row.vision?.codeRepository === undefined ? {} : { environment: { PYTHONPATH: { place: "code" } } };
}

/** A script below the examples; `unsupportedReason` refuses a missing one before. */
function script(path: string | null): Word {
  if (path === null) throw new Error("This release has no script for the step; ask unsupportedReason first.");
  return { place: "scripts", rest: `/${path}` };
}
