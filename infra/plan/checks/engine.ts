/**
 * Engines: how a model is split over GPUs, how long its sequences are, how many images it takes, which release has a recipe.
 *
 * Rules of splitting: NVIDIA/TensorRT-LLM examples/models/core/llama/README.md and tensorrt_llm/mapping.py; of lengths:
 * docs/source/performance/performance-tuning-guide/tuning-max-batch-size-and-max-num-tokens.md of the same repository.
 */
import { releases } from "../catalogue/releases.ts";
import type { Release } from "../catalogue/types.ts";
import { unsupportedReason } from "../engine/support.ts";
import { dividesHeads } from "../engine/tensor-parallel.ts";
import { visualNumbers } from "../engine/visual-numbers.ts";
import { weightsDirectory } from "../engine/weights.ts";
import { maxTokensPerStep } from "../fit/terms.ts";
import { poolOf } from "../pool-space.ts";
import { repositoryProblems } from "../repository/problems.ts";
import type { GpuStackSpec, ModelSpec } from "../spec.ts";
import { type Check, eachModel } from "./check.ts";
import { typesWithGpus } from "./machines.ts";
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
  tensorParallelDividesHeads: eachModel((model, { spec }) => {
    const { engine, path } = model;
    const { architecture } = engine.row;
    if (dividesHeads(engine.tensorParallel, architecture)) return [];
    return {
      path: `${path}.tensorParallel`,
      reason: `Each of ${engine.tensorParallel} GPUs would need a whole part of the ${architecture.heads} attention heads (${architecture.kvHeads} of keys and values) of ${engine.model}.`,
      fix: tensorParallelFix(model, spec),
    };
  }),

  pipelineParallelWithinLayers: eachModel(({ engine: { row, model, pipelineParallel }, path }) => {
    const { layers } = row.architecture;
    if (pipelineParallel <= layers) return [];
    return {
      path: `${path}.pipelineParallel`,
      reason: `${model} has ${layers} layers, fewer than the ${pipelineParallel} stages.`,
      fix: `${atMost(layers)}.`,
    };
  }),

  pipelineParallelIsKnown: eachModel(({ engine: { row, model, pipelineParallel }, path }) => {
    if (pipelineParallel === 1 || row.pipelineParallel) return [];
    return {
      path: `${path}.pipelineParallel`,
      reason: `No document shows ${model} split into ${pipelineParallel} stages of layers.`,
      fix: "Write pipelineParallel: 1, and split the model with tensorParallel.",
    };
  }),

  sequenceWithinContext: eachModel(({ engine: { row, model, limits }, path }) => {
    const { maxInputTokens, maxOutputTokens } = limits;
    const sequence = maxInputTokens + maxOutputTokens;
    const excess = sequence - row.trainedContextTokens;
    if (excess <= 0) return [];
    return {
      path: `${path}.limits.maxInputTokens`,
      reason: `${maxInputTokens} tokens of prompt and ${maxOutputTokens} of answer are ${sequence} together; ${model} was trained for a context of ${row.trainedContextTokens}, and writes nonsense beyond.`,
      fix: `Lower maxInputTokens or maxOutputTokens by ${excess} together.`,
    };
  }),

  promptHoldsImages: eachModel(({ engine: { row, limits }, path }) => {
    const { maxInputTokens, maxImagesPerRequest: images } = limits;
    const tokens = visualNumbers(row, limits)?.tokensPerRequest;
    if (tokens === undefined || images === 0 || row.vision?.attention !== "prompt") return [];
    if (maxInputTokens > tokens) return [];
    return {
      path: `${path}.limits.maxInputTokens`,
      reason: `${images === 1 ? "An image takes" : `${images} images take`} ${tokens} tokens of the prompt, and ${maxInputTokens} leave no room for a question.`,
      fix: `Use more than ${tokens}, such as ${tokens + 256}.`,
    };
  }),

  imagesWithinModel: eachModel(({ engine: { row, model, limits }, path: modelPath }) => {
    const path = `${modelPath}.limits.maxImagesPerRequest`;
    const images = limits.maxImagesPerRequest;
    const most = row.vision?.maxImagesPerRequest ?? 0;
    if (images > most) {
      const limit = most === 0 ? "reads no images" : `takes at most ${most} in one request`;
      return { path, reason: `${model} ${limit}; ${images} are asked for.`, fix: `Use ${most}.` };
    }
    if (most === 0 || images > 0) return [];
    return {
      path,
      reason: `${model} has a visual engine, which can't be built for 0 images.`,
      fix: `Use 1${most > 1 ? ` to ${most}` : ""}.`,
    };
  }),

  tokensPerStepHoldPrompt: eachModel(({ engine, serving, path }) => {
    const { maxInputTokens } = engine.limits;
    const perStep = maxTokensPerStep(engine);
    // With chunked context a long prompt is read over several steps.
    if (serving.chunkedContext || maxInputTokens <= perStep) return [];
    return {
      path: `${path}.limits.maxNumTokens`,
      reason: `A prompt of ${maxInputTokens} tokens is read in one step, and a step has ${perStep}.`,
      fix: `Use ${maxInputTokens} or more, or write \`triton: { chunkedContext: true }\`.`,
    };
  }),

  tokensPerStepHoldBatch: eachModel(({ engine, path }) => {
    const { maxBatchSize, maxBeamWidth } = engine.limits;
    const perStep = maxTokensPerStep(engine);
    const sequences = maxBatchSize * maxBeamWidth;
    if (sequences <= perStep) return [];
    return {
      path: `${path}.limits.maxNumTokens`,
      reason: `Every one of ${maxBatchSize} requests × ${maxBeamWidth} beams writes a token in each step: ${sequences}, and a step has ${perStep}.`,
      fix: `Use ${sequences} or more.`,
    };
  }),

  weightsAreNamedVila: eachModel(({ engine: { row, model, weights }, serving, path }) => {
    if (serving.runtime !== "engine" || row.vision?.modelType !== "vila") return [];
    const directory = weightsDirectory(model, weights);
    if (directory.includes(VILA_MARK)) return [];
    const isFolder = weights.kind === "folder";
    return {
      path: `${path}.${isFolder ? "weights.path" : "model"}`,
      reason: `TensorRT-LLM takes weights for VILA's where their path has \`${VILA_MARK}\`, in lower case, and loads them as another model elsewhere; these lie in ${directory}.`,
      fix: isFolder
        ? `Rename the folder, such as ${directory.replace(/\/+$/, "")}-${VILA_MARK}.`
        : `Rename the row of catalogue.models, such as ${VILA_MARK}-${model}; its name is a part of the path.`,
    };
  }),

  recipeOfRelease: eachModel((model) => {
    const { engine, serving, path } = model;
    // A release without engines has a check of its own.
    const hasEngines = serving.runtime === "engine" && engine.release.runtimes.includes("engine");
    const reason = hasEngines ? unsupportedReason(engine) : null;
    if (reason === null) return [];
    const nearest = nearestRelease(model);
    return {
      path: `${path}.${engine.quantization === "none" ? "model" : "quantization"}`,
      reason: `No recipe is known: ${reason}.`,
      fix:
        nearest === null
          ? "Take another model: no release that was read serves this one as it is written."
          : `Take ${nearest}, the nearest release that can, or another model.`,
    };
  }),
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
