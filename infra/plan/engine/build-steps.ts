/** Commands of a build after the download of its weights: packages, converter, trtllm-build, visual engine, golden question. */
import { calibrationOf, type GoldenQuestion, type VisionTower } from "../catalogue/types.ts";
import { visionTypeOf, visionTypes } from "../catalogue/vision-types.ts";
import type { EnginePlan } from "../container-spec-schemas.ts";
import type { EngineSpec } from "../spec.ts";
import { type BuildRecipe, buildRecipe, converterFlags } from "./recipes.ts";
import { imageFiles } from "./release.ts";

/** trtllm-build's own `--max_num_tokens` since 0.11; before, it is a batch of the longest prompts. */
export const DEFAULT_MAX_NUM_TOKENS = 8192;

type Step = EnginePlan["steps"][number];

/** A command, and the environment that it needs, if any. */
export type StepDraft = Pick<Step, "name" | "summary" | "argv"> & Partial<Pick<Step, "environment">>;

/** Facts from which the commands of a build are made. */
export interface BuildContext {
  readonly spec: EngineSpec;
  readonly recipe: BuildRecipe;
  readonly visual: EnginePlan["visual"];
  /** Paths, or names in angle brackets: a key has names, as paths depend on image, store and key. */
  readonly places: EnginePlan["places"];
}

/** A command in parts: text is split at spaces; a list has words as they are, such as a prompt; false is left out. */
export function commandLine(...parts: readonly (string | readonly string[] | false)[]): readonly string[] {
  return parts.flatMap((part) => (typeof part === "string" ? part.split(" ") : part || []));
}

/** Python packages and source code of a model that the image lacks; most models need none. */
export function requirementSteps(context: BuildContext): readonly StepDraft[] {
  const { vision } = context.spec.row;
  return vision === undefined ? [] : [...packages(vision, context), ...sourceCode(vision, context)];
}

function packages(
  { requirements: file }: VisionTower,
  { spec: { release, layout }, recipe }: BuildContext,
): readonly StepDraft[] {
  const pinned = file === undefined ? [] : recipe.requirements[file];
  if (pinned?.length === 0) return [];
  const argv = commandLine(
    "pip install",
    pinned === undefined
      ? ["-r", `${imageFiles(release, layout).allModels}/multimodal/${file}`]
      : ["--no-deps", ...pinned],
  );
  return [{ name: "requirements", summary: "Python packages of the model", argv }];
}

/** `init`, `fetch` and `checkout` may be run again on a checkout, unlike `clone`; so may the edits. */
function sourceCode(
  { codeRepository, modelType }: VisionTower,
  { places: { code } }: BuildContext,
): readonly StepDraft[] {
  if (codeRepository === undefined) return [];
  const { url, commit } = codeRepository;
  const step = (summary: string, argv: readonly string[]): StepDraft => ({
    name: "requirements",
    summary,
    argv,
  });
  // Without a commit the files may differ next time, and checkout would stop at edited files.
  const force = commit === null ? " --force" : "";
  return [
    step("folder for the model's source code", commandLine(`git init ${code}`)),
    step("the model's source code", commandLine(`git -C ${code} fetch --depth 1`, [url, commit ?? "HEAD"])),
    step("its files", commandLine(`git -C ${code} checkout --detach${force} FETCH_HEAD`)),
    ...(visionTypes[modelType].sourceEdits ?? []).map(({ file, sed }) =>
      step(
        "a line of it that the image's packages don't go with",
        commandLine("sed -i", [sed], `${code}/${file}`),
      ),
    ),
  ];
}

/** GPUs from which on examples/quantization/README.md of NVIDIA/TensorRT-LLM halves the groups of weights that share a scale. */
const AWQ_SMALL_GROUPS_FROM = 4;

/**
 * Hugging Face weights to a TensorRT-LLM checkpoint. Parallelism is decided here and nowhere else: trtllm-build reads it
 * from the checkpoint. fp8, SmoothQuant and AWQ are calibrated by the quantizer, with as many samples as NVIDIA's examples, and for
 * Llama 3.2 Vision with the data set of its guide, as the default is text only; weight-only formats are the converter's.
 */
export function convertStep({ spec, recipe, places }: BuildContext): StepDraft {
  const { row, dtype, quantization, tensorParallel, pipelineParallel } = spec;
  const calibration = calibrationOf(quantization);
  const isCalibrated = calibration !== null;
  const { dataset, folder, samples = calibration?.samples } = spec.calibration ?? {};
  const usesScienceQa = row.vision?.attention === "cross" && "scienceqa";
  const samplesFrom = (folder && places.calibration) ?? dataset ?? usesScienceQa;
  const { converterModelType: type } = row;
  const flags = converterFlags(row.recipe, isCalibrated);
  return {
    name: "convert",
    summary: isCalibrated ? `calibrated ${quantization} checkpoint` : "checkpoint of TensorRT-LLM",
    argv: commandLine(
      `python3 ${places.scripts}/${isCalibrated ? recipe.quantizer : recipe.converter(row.recipe)}`,
      !isCalibrated && type !== undefined && [row.recipe === "gpt" ? "--gpt_variant" : "--model_type", type],
      `${flags.weights} ${places.weights} ${flags.output} ${places.checkpoint} --dtype ${dtype}`,
      isCalibrated && `--qformat ${quantization} --calib_size ${samples}`,
      isCalibrated && samplesFrom && `--calib_dataset ${samplesFrom}`,
      quantization === "int4_awq" && tensorParallel >= AWQ_SMALL_GROUPS_FROM && "--awq_block_size 64",
      !isCalibrated && quantization !== "none" && `${flags.weightOnly} ${quantization}`,
      tensorParallel > 1 && `${flags.tensorParallel} ${tensorParallel}`,
      pipelineParallel > 1 && `--pp_size ${pipelineParallel}`,
    ),
    ...pythonPath(spec, places),
  };
}

/**
 * The engine of the language model. Batch and lengths are always explicit: their defaults change between releases, and
 * 2048 requests at once (0.14 on) take gigabytes of buffers. `--kv_cache_type` is left out: 0.20 parses its value differently from
 * its documents.
 */
export function llmStep({ spec, recipe, visual, places }: BuildContext): StepDraft {
  const { dtype, limits, row, quantization } = spec;
  const { maxBatchSize, maxBeamWidth, maxInputTokens, maxOutputTokens, maxNumTokens } = limits;
  const sequence = recipe.sequenceFlag === "--max_seq_len" ? maxInputTokens : 0;
  // From NVIDIA/TensorRT-LLM's multimodal guide; examples/llama/README.md at v0.10.0 builds fp8 with float16.
  const isMixed = quantization === "fp8" || row.vision?.attention === "cross";
  const usesFusedMlp = quantization === "none" && visionTypeOf(row)?.usesFusedMlp === true;
  return {
    name: "llm",
    summary: "engine of the language model",
    argv: commandLine(
      `trtllm-build --checkpoint_dir ${places.checkpoint} --output_dir ${places.llm}`,
      recipe.flagsForPlugins &&
        row.vision === undefined &&
        `--remove_input_padding enable --gpt_attention_plugin ${dtype} --context_fmha enable --paged_kv_cache enable`,
      `--gemm_plugin ${recipe.hasAutoGemm && isMixed ? "auto" : dtype}`,
      usesFusedMlp && recipe.fusedMlpFlags,
      spec.pagedContext && recipe.pagedContextFlags,
      maxBeamWidth > 1 && `--max_beam_width ${maxBeamWidth}`,
      `--max_batch_size ${maxBatchSize} --max_input_len ${maxInputTokens}`,
      `${recipe.sequenceFlag} ${sequence + maxOutputTokens}`,
      maxNumTokens !== undefined && `--max_num_tokens ${maxNumTokens}`,
      visual !== null &&
        visual.maxMultimodalTokens > 0 &&
        `--max_multimodal_len ${visual.maxMultimodalTokens}`,
      visual !== null &&
        visual.maxEncoderInputTokens > 0 &&
        `--max_encoder_input_len ${visual.maxEncoderInputTokens}`,
    ),
  };
}

/** The visual engine, in a folder of its own because both builders write a config.json. None for a text model. */
export function visionSteps({ spec, recipe, visual, places }: BuildContext): readonly StepDraft[] {
  const { vision } = spec.row;
  if (vision === undefined || visual === null) return [];
  const argv = commandLine(
    `python3 ${places.scripts}/${recipe.visualBuilder} --model_path ${places.weights} --model_type ${vision.modelType}`,
    vision.codeRepository !== undefined && `--vila_path ${places.code}`,
    `--output_dir ${places.vision} --max_batch_size ${visual.visionMaxBatchSize}`,
  );
  return [{ name: "vision", summary: "visual engine", argv, ...pythonPath(spec, places) }];
}

/** Question about run.py's own picture: triton-inference-server/tutorials Popular_Models_Guide/Llava1.5/llava_trtllm_guide.md. */
const MERLION_QUESTION: GoldenQuestion = {
  prompt: "Which city is this?",
  maxTokens: 30,
  answerContains: ["Singapore"],
};

/** Question to a new engine: the model's own, or that of the picture which an old run.py loads. */
export function goldenQuestion({ row, release }: Pick<EngineSpec, "row" | "release">): GoldenQuestion {
  const takesPicture = buildRecipe(release)?.takesPicture ?? true;
  return row.vision === undefined || takesPicture ? row.golden : MERLION_QUESTION;
}

/**
 * Asks the engine the golden question with TensorRT-LLM's own run.py, under mpirun if there are several ranks. Without the
 * variable MPI fails to start in some containers: docs/multimodal.md of tensorrtllm_backend, MPI_Init_thread.
 */
export function checkStep({ spec, recipe, places }: BuildContext): StepDraft {
  const { answerContains, image, maxTokens, prompt } = goldenQuestion(spec);
  const ranks = spec.tensorParallel * spec.pipelineParallel;
  const type = visionTypeOf(spec.row);
  const run =
    type === undefined
      ? commandLine(
          `${places.scripts}/run.py --engine_dir ${places.llm} --max_output_len ${maxTokens} --tokenizer_dir ${places.weights}`,
          ["--input_text", prompt],
        )
      : commandLine(
          `${places.scripts}/${recipe.visualRunScript} --max_new_tokens ${maxTokens} --hf_model_dir ${places.weights}`,
          recipe.findsBothEngines
            ? `--engine_dir ${places.engine}`
            : `--visual_engine_dir ${places.vision} --llm_engine_dir ${places.llm}`,
          recipe.visualRunFlags,
          image !== undefined && `--image_path=${places.goldenImage}`,
          ["--input_text", type.checkInput.replace("{question}", () => prompt)],
          image !== undefined && "--batch_size=1",
        );
  return {
    name: "check",
    summary: `golden prompt; the answer holds ${answerContains.map((word) => `"${word}"`).join(" or ")}`,
    argv: [...commandLine(ranks > 1 && `mpirun -n ${ranks} --allow-run-as-root`, "python3"), ...run],
    environment: { PMIX_MCA_gds: "hash", ...pythonPath(spec, places).environment },
  };
}

/**
 * Builder and run.py import the model's own classes. They look for them beside the weights (`<hf_model_dir>/../VILA` in
 * TensorRT-LLM's multimodal_model_runner.py); the store keeps code elsewhere, and for all revisions of the weights once.
 */
function pythonPath({ row }: EngineSpec, { code }: EnginePlan["places"]): Pick<StepDraft, "environment"> {
  return row.vision?.codeRepository === undefined ? {} : { environment: { PYTHONPATH: code } };
}
