/**
 * What an engine can be: how a model is split over GPUs, how long its sequences are, how many images it takes.
 *
 * Rules of splitting: NVIDIA/TensorRT-LLM examples/models/core/llama/README.md and tensorrt_llm/mapping.py; of lengths:
 * docs/source/performance/performance-tuning-guide/tuning-max-batch-size-and-max-num-tokens.md of the same repository.
 */
import { releases } from "../catalogue/releases.ts";
import type { Release } from "../catalogue/types.ts";
import { dividesHeads } from "../engine/engine-size.ts";
import { unsupportedReason } from "../engine/recipes.ts";
import { visualNumbers } from "../engine/vision-types.ts";
import { weightsDirectory } from "../engine/weights.ts";
import { maxTokensPerStep } from "../fit/terms.ts";
import { poolOf } from "../pool-space.ts";
import { repositoryProblems } from "../repository/problems.ts";
import type { GpuStackSpec, ModelSpec } from "../spec.ts";
import { type Check, modelCheck, type Remark } from "./finding.ts";
import { typesWithGpus } from "./instance-types.ts";
import { atMost, oneOf } from "./words.ts";

/** Largest `tensorParallel` of the schema. */
const LARGEST_TENSOR_PARALLEL = 16;

/**
 * What TensorRT-LLM looks for in the path of the weights before it registers VILA's classes: `load_hf_llama` in
 * tensorrt_llm/models/llama/convert.py and `from_hugging_face` in config.py beside it, at 0.9 to 0.20. The latter takes
 * upper case as well in later versions, the former never.
 */
const VILA_MARK = "vila";

export const engineChecks = {
  tensorParallelDividesHeads: modelCheck(
    [
      "models.model",
      "models.tensorParallel",
      "models.pipelineParallel",
      "models.pool",
      "pools.name",
      "pools.instanceType",
      "pools.machine",
      "pools.sharing",
      "catalogue",
    ],
    (model, { spec }) => {
      const { engine, path } = model;
      const { architecture } = engine.row;
      if (dividesHeads(engine.tensorParallel, architecture)) return [];
      return [
        {
          path: `${path}.tensorParallel`,
          reason: `Each of ${engine.tensorParallel} GPUs would need a whole part of the ${architecture.heads} attention heads (${architecture.kvHeads} of keys and values) of ${engine.model}.`,
          fix: tensorParallelFix(model, spec),
        },
      ];
    },
  ),

  pipelineParallelWithinLayers: modelCheck(
    ["models.model", "models.pipelineParallel", "catalogue"],
    ({ engine, path }) => {
      const { layers } = engine.row.architecture;
      if (engine.pipelineParallel <= layers) return [];
      return [
        {
          path: `${path}.pipelineParallel`,
          reason: `${engine.model} has ${layers} layers, fewer than the ${engine.pipelineParallel} stages.`,
          fix: `${atMost(layers)}.`,
        },
      ];
    },
  ),

  pipelineParallelIsKnown: modelCheck(
    ["models.model", "models.pipelineParallel", "catalogue"],
    ({ engine, path }) => {
      if (engine.pipelineParallel === 1 || engine.row.pipelineParallel) return [];
      return [
        {
          path: `${path}.pipelineParallel`,
          reason: `No document shows ${engine.model} split into ${engine.pipelineParallel} stages of layers.`,
          fix: "Write pipelineParallel: 1, and split the model with tensorParallel.",
        },
      ];
    },
  ),

  sequenceWithinContext: modelCheck(["models.model", "models.limits", "catalogue"], ({ engine, path }) => {
    const { maxInputTokens, maxOutputTokens } = engine.limits;
    const { trainedContextTokens } = engine.row;
    const sequence = maxInputTokens + maxOutputTokens;
    if (sequence <= trainedContextTokens) return [];
    return [
      {
        path: `${path}.limits.maxInputTokens`,
        reason: `${maxInputTokens} tokens of prompt and ${maxOutputTokens} of answer are ${sequence} together; ${engine.model} was trained for a context of ${trainedContextTokens}, and writes nonsense beyond.`,
        fix: `Lower maxInputTokens or maxOutputTokens by ${sequence - trainedContextTokens} together.`,
      },
    ];
  }),

  promptHoldsImages: modelCheck(["models.model", "models.limits", "catalogue"], ({ engine, path }) => {
    const visual = visualNumbers(engine.row, engine.limits);
    const images = engine.limits.maxImagesPerRequest;
    if (visual === null || images === 0 || engine.row.vision?.attention !== "prompt") return [];
    const { maxInputTokens } = engine.limits;
    if (maxInputTokens > visual.tokensPerRequest) return [];
    return [
      {
        path: `${path}.limits.maxInputTokens`,
        reason: `${images === 1 ? "An image takes" : `${images} images take`} ${visual.tokensPerRequest} tokens of the prompt, and ${maxInputTokens} leave no room for a question.`,
        fix: `Use more than ${visual.tokensPerRequest}, such as ${visual.tokensPerRequest + 256}.`,
      },
    ];
  }),

  imagesWithinModel: modelCheck(["models.model", "models.limits", "catalogue"], ({ engine, path }) => {
    const { maxImagesPerRequest } = engine.limits;
    const most = engine.row.vision?.maxImagesPerRequest ?? 0;
    const at = `${path}.limits.maxImagesPerRequest`;
    if (maxImagesPerRequest > most) {
      const limit = most === 0 ? "reads no images" : `takes at most ${most} in one request`;
      return [
        {
          path: at,
          reason: `${engine.model} ${limit}; ${maxImagesPerRequest} are asked for.`,
          fix: `Use ${most}.`,
        },
      ];
    }
    if (most === 0 || maxImagesPerRequest > 0) return [];
    return [
      {
        path: at,
        reason: `${engine.model} has a visual engine, which can't be built for 0 images.`,
        fix: `Use 1${most > 1 ? ` to ${most}` : ""}.`,
      },
    ];
  }),

  tokensPerStepHoldPrompt: modelCheck(
    ["release", "catalogue", "models.model", "models.limits", "models.triton"],
    (model) => {
      const { limits } = model.engine;
      const perStep = maxTokensPerStep(model.engine);
      // With chunked context a long prompt is read over several steps.
      if (model.serving.chunkedContext || limits.maxInputTokens <= perStep) return [];
      return [
        tokensPerStepRemark(
          model,
          `A prompt of ${limits.maxInputTokens} tokens is read in one step, and a step has ${perStep}.`,
          `Use ${limits.maxInputTokens} or more, or write \`triton: { chunkedContext: true }\`.`,
        ),
      ];
    },
  ),

  tokensPerStepHoldBatch: modelCheck(["release", "catalogue", "models.model", "models.limits"], (model) => {
    const { limits } = model.engine;
    const perStep = maxTokensPerStep(model.engine);
    const sequences = limits.maxBatchSize * limits.maxBeamWidth;
    if (sequences <= perStep) return [];
    return [
      tokensPerStepRemark(
        model,
        `Every one of ${limits.maxBatchSize} requests × ${limits.maxBeamWidth} beams writes a token in each step: ${sequences}, and a step has ${perStep}.`,
        `Use ${sequences} or more.`,
      ),
    ];
  }),

  weightsAreNamedVila: modelCheck(
    ["models.model", "models.weights", "models.runtime", "catalogue"],
    ({ engine, serving, path }) => {
      if (serving.runtime !== "engine" || engine.row.vision?.modelType !== "vila") return [];
      const directory = weightsDirectory(engine.model, engine.weights);
      if (directory.includes(VILA_MARK)) return [];
      const reason = `TensorRT-LLM takes weights for VILA's where their path has \`${VILA_MARK}\`, in lower case, and loads them as another model elsewhere; these lie in ${directory}.`;
      return engine.weights.kind === "folder"
        ? [
            {
              path: `${path}.weights.path`,
              reason,
              fix: `Rename the folder, such as ${directory.replace(/\/+$/, "")}-${VILA_MARK}.`,
            },
          ]
        : [
            {
              path: `${path}.model`,
              reason,
              fix: `Rename the row of catalogue.models, such as ${VILA_MARK}-${engine.model}; its name is a part of the path.`,
            },
          ];
    },
  ),

  recipeOfRelease: modelCheck(
    ["release", "models.model", "models.quantization", "models.runtime", "catalogue"],
    (model) => {
      const { engine, serving, path } = model;
      // A release without engines at all is reported as such.
      const hasEngines = serving.runtime === "engine" && engine.release.runtimes.includes("engine");
      const reason = hasEngines ? unsupportedReason(engine) : null;
      if (reason === null) return [];
      const nearest = nearestRelease(model);
      return [
        {
          path: `${path}.${engine.quantization === "none" ? "model" : "quantization"}`,
          reason: `No recipe is known: ${reason}.`,
          fix:
            nearest === null
              ? "Take another model: no release that was read serves this one as it is written."
              : `Take ${nearest}, the nearest release that can, or another model.`,
        },
      ];
    },
  ),
} satisfies Record<string, Check>;

/** The tag next to a model's own that has a recipe for it and serves it, the newer one of two; null where none does. */
function nearestRelease(model: ModelSpec): string | null {
  const { engine } = model;
  const tags = Object.keys(releases);
  const own = tags.indexOf(engine.release.tag);
  const able = Object.values<Release>(releases).filter((release) => {
    const there = { ...model, engine: { ...engine, release } };
    return (
      release.verified &&
      release.runtimes.includes("engine") &&
      unsupportedReason(there.engine) === null &&
      repositoryProblems(there).length === 0
    );
  });
  const distance = ({ tag }: Release) => Math.abs(tags.indexOf(tag) - own);
  return able.toReversed().sort((a, b) => distance(a) - distance(b))[0]?.tag ?? null;
}

/** Sizes that the machine's GPUs allow, and the next size up where more was asked for than they do. */
function tensorParallelFix(model: ModelSpec, spec: GpuStackSpec): string {
  const { engine } = model;
  const { machine, sharing } = poolOf(model, spec);
  const gpusPerServer = sharing.mode === "none" ? machine.gpus : 1;
  const most = Math.max(1, Math.floor(gpusPerServer / engine.pipelineParallel));
  const sizes = Array.from({ length: LARGEST_TENSOR_PARALLEL }, (_, index) => index + 1).filter((size) =>
    dividesHeads(size, engine.row.architecture),
  );
  const here = `Use ${oneOf(sizes.filter((size) => size <= most))}`;
  const next = sizes.find((size) => size >= engine.tensorParallel);
  if (next === undefined || next <= most) return `${here}.`;
  const types = typesWithGpus(next * engine.pipelineParallel, engine.target.gpu.name, spec.region);
  return types.length === 0 ? `${here}.` : `${here}; or ${next} on machines such as ${oneOf(types)}.`;
}

function tokensPerStepRemark({ path }: ModelSpec, reason: string, fix: string): Remark {
  return { path: `${path}.limits.maxNumTokens`, reason, fix };
}
