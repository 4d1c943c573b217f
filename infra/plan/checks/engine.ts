/**
 * Engines: a model's split over GPUs, lengths of its sequences, its number of images, its release's recipe, and number formats of
 * its GPU.
 *
 * Rules of splitting: NVIDIA/TensorRT-LLM examples/models/core/llama/README.md and tensorrt_llm/mapping.py; of lengths:
 * docs/source/performance/performance-tuning-guide/tuning-max-batch-size-and-max-num-tokens.md of the same repository; number
 * formats: https://nvidia.github.io/TensorRT-LLM/reference/support-matrix.html.
 */
import { counted } from "../../problems.ts";
import { releases } from "../catalogue/releases.ts";
import { computesQuantization, type Release } from "../catalogue/types.ts";
import { visionTypeOf } from "../catalogue/vision-types.ts";
import { dividesHeads, visualNumbers } from "../engine/engine-size.ts";
import { splitsIntoStages, unsupportedReason } from "../engine/recipes.ts";
import { weightsDirectory } from "../engine/weights.ts";
import { worldSize } from "../fit/placement.ts";
import { maxTokensPerStep } from "../fit/terms.ts";
import { poolOf } from "../pool-space.ts";
import { repositoryProblems } from "../repository/problems.ts";
import type { GpuStackSpec, ModelSpec } from "../spec.ts";
import { type Check, eachModel } from "./check.ts";
import { machineWords, placeOf, rentableGpus, typesWithGpus } from "./machines.ts";
import { atMost, oneOf } from "./shared-messages.ts";

/** Largest `tensorParallel` of the schema. */
const LARGEST_TENSOR_PARALLEL = 16;

/**
 * TensorRT-LLM registers VILA's classes if the path of the weights contains this: `load_hf_llama` in
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
    if (pipelineParallel === 1) return [];
    const isSplit = splitsIntoStages(row.recipe);
    if (row.pipelineParallel && isSplit) return [];
    return {
      path: `${path}.pipelineParallel`,
      reason: isSplit
        ? `${model} is not documented with ${pipelineParallel} pipeline stages.`
        : `The converter of ${row.recipe} splits no model into pipeline stages, and ${pipelineParallel} are asked for.`,
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
      reason: `${maxInputTokens} input and ${maxOutputTokens} output tokens are ${sequence} together, and ${model} was trained for a context of ${row.trainedContextTokens}: output beyond is nonsense.`,
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
      reason: `${images === 1 ? "An image takes" : `${images} images take`} ${tokens} of the ${maxInputTokens} input tokens, which leaves no room for a question.`,
      fix: `Use more than ${tokens}, such as ${tokens + 256}.`,
    };
  }),

  imagesWithinModel: eachModel(({ engine: { row, model, limits }, serving, path: modelPath }) => {
    const path = `${modelPath}.limits.maxImagesPerRequest`;
    const images = limits.maxImagesPerRequest;
    const most = row.vision?.maxImagesPerRequest ?? 0;
    if (images > most) {
      const limit = most === 0 ? "reads no images" : `takes at most ${most} in one request`;
      return {
        path,
        reason: `${model} ${limit}, and maxImagesPerRequest is ${images}.`,
        fix: `Use ${most}.`,
      };
    }
    if (most === 0 || images > 0) return [];
    return {
      path,
      reason:
        serving.runtime === "engine"
          ? `${model} has a visual engine, which can't be built for 0 images.`
          : `${model} reads images, and 0 would refuse all of them.`,
      fix: `Use 1${most > 1 ? ` to ${most}` : ""}.`,
    };
  }),

  imagesWithinPreprocessing: eachModel(({ engine: { row, model, limits }, serving, path }) => {
    const { maxImagesPerRequest: images } = limits;
    const reason = visionTypeOf(row)?.onePicture;
    const most = row.vision?.maxImagesPerRequest ?? 0;
    if (serving.flavour !== "multimodal" || reason === undefined || images <= 1 || images > most) return [];
    return {
      path: `${path}.limits.maxImagesPerRequest`,
      reason: `${model} is of the vision type ${row.vision?.modelType}, for which NVIDIA's preprocessing ${reason}, and maxImagesPerRequest is ${images}.`,
      fix: "Use 1.",
    };
  }),

  tilesWithinRequest: eachModel(({ engine: { row, model, limits }, serving, path }) => {
    const { maxImagesPerRequest: images } = limits;
    const { vision } = row;
    const tokens = visualNumbers(row, limits)?.tokensPerRequest;
    const isTiled = serving.flavour === "multimodal" && visionTypeOf(row)?.severalAreTiles === true;
    if (vision === undefined || tokens === undefined || !isTiled || images <= 1) return [];
    const each = vision.tokensPerImage + 1;
    const most = Math.min(Math.floor(tokens / each), vision.runsPerImage);
    if (images <= most) return [];
    // Without vision.tokensPerRequest a request has tokensPerImage for each image, and no token for its end.
    const inRuns = Math.min(images, vision.runsPerImage);
    const needsTokens = vision.tokensPerRequest === undefined && inRuns > 1;
    return {
      path: `${path}.limits.maxImagesPerRequest`,
      reason: `${model} sees each of several images as ${each} tokens of one run of the visual engine: a request has ${tokens} tokens and ${vision.runsPerImage} runs, and maxImagesPerRequest is ${images}.`,
      fix: needsTokens
        ? `${inRuns < images ? `Use ${inRuns}, and write` : "Write"} \`vision.tokensPerRequest: ${inRuns * each}\` in catalogue.models.${model}, or more for single images, which are cut in tiles.`
        : `Use ${Math.max(most, 1)}.`,
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
      reason: `${counted(maxBatchSize, "request")} × ${counted(maxBeamWidth, "beam")} write ${sequences} tokens in each step, and a step has ${perStep}.`,
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
      reason: `TensorRT-LLM recognizes VILA by \`${VILA_MARK}\`, in lower case, in the path of the weights, and loads another model without it; the path is ${directory}.`,
      fix: isFolder
        ? `Rename the folder, such as ${directory.replace(/\/+$/, "")}-${VILA_MARK}.`
        : `Rename the row of catalogue.models, such as ${VILA_MARK}-${model}; its name is part of the path.`,
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
          ? visionTypeOf(engine.row)?.since === null
            ? "Write runtime: llmapi, on a release from 26.04 on."
            : "Use another model: no verified release serves this one with these settings."
          : `Use ${nearest}, the nearest release with a recipe, or another model.`,
    };
  }),
} satisfies Record<string, Check>;

/** The tag next to a model's own that has a recipe for it and serves it, the newer one of two; null if none does. */
function nearestRelease(model: ModelSpec): string | null {
  const { engine } = model;
  const tags = Object.keys(releases);
  const own = tags.indexOf(engine.release.tag);
  const able = Object.values<Release>(releases).filter((release) => {
    const moved = { ...model, engine: { ...engine, release } };
    return (
      release.verified &&
      release.runtimes.includes("engine") &&
      unsupportedReason(moved.engine) === null &&
      repositoryProblems(moved).length === 0
    );
  });
  const distance = ({ tag }: Release) => Math.abs(tags.indexOf(tag) - own);
  return able.toReversed().sort((a, b) => distance(a) - distance(b))[0]?.tag ?? null;
}

/** Sizes that the machine's GPUs allow, and the next size up if more was asked for than they do. */
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

export const gpuChecks = {
  gpuIsSupported: eachModel((model, { spec }) => {
    const { gpu } = model.engine.target;
    if (gpu.supported) return [];
    return {
      ...placeOf(model, poolOf(model, spec), "pool", spec),
      reason: `TensorRT-LLM's support matrix does not list ${gpu.name} (${gpu.architecture}, compute capability ${gpu.computeCapability}).`,
      fix: `Use ${spec.runsOn === "host" ? "a host" : "machines"} with ${oneOf(rentableGpus())}, such as g5.4xlarge.`,
    };
  }),

  dtypeOfGpu: eachModel(({ engine: { target, dtype }, path }) => {
    const { gpu } = target;
    if (gpu.formats.includes(dtype)) return [];
    const isBfloat = dtype === "bfloat16";
    return {
      path: `${path}.dtype`,
      reason: `${gpu.name} has compute capability ${gpu.computeCapability}, and ${dtype} needs ${isBfloat ? "8.0" : "7.0"} or more.`,
      fix: isBfloat ? `Write dtype: float16, or use ${oneOf(rentableGpus("bfloat16"))}.` : "Use another GPU.",
    };
  }),

  quantizationOfGpu: eachModel(({ engine: { target, quantization }, path }) => {
    const { gpu } = target;
    if (computesQuantization(gpu, quantization)) return [];
    const isFp8 = quantization === "fp8";
    return {
      path: `${path}.quantization`,
      reason: `${gpu.name} has compute capability ${gpu.computeCapability}; ${isFp8 ? "fp8 needs 8.9 (Ada) or 9.0 (Hopper)" : `it does not compute ${quantization}`}.`,
      fix: isFp8
        ? `Use int8 or int4, or ${oneOf(rentableGpus("fp8"))}.`
        : "Write quantization: none, or use another GPU.",
    };
  }),

  quantizationOfModel: eachModel(({ engine: { row, model, quantization }, path }) => {
    if (row.quantizations.includes(quantization)) return [];
    return {
      path: `${path}.quantization`,
      reason: `There is no recipe to quantize ${model} to ${quantization}.`,
      fix: `Use ${oneOf(row.quantizations)}.`,
    };
  }),

  dtypeOfModel: eachModel(({ engine, path }) => {
    const { vision, dtype } = engine.row;
    // The visual engine builder has one format written in for each kind of model.
    if (vision === undefined || engine.dtype === dtype) return [];
    return {
      path: `${path}.dtype`,
      reason: `The visual engine of ${engine.model} outputs its features in ${dtype}, whatever the dtype of the language model.`,
      fix: `Write dtype: ${dtype}, or leave it out.`,
    };
  }),

  worldWithinNode: eachModel((model, { spec }) => {
    const { tensorParallel, pipelineParallel, target } = model.engine;
    const ranks = worldSize(model);
    const pool = poolOf(model, spec);
    // A check of its own covers models that share a GPU.
    if (ranks <= pool.machine.gpus || (ranks > 1 && pool.sharing.mode !== "none")) return [];
    const isHost = spec.runsOn === "host";
    const machine =
      pool.instanceType ?? machineWords(spec, pool).machine.replace(/^./, (a) => a.toUpperCase());
    const types = typesWithGpus(ranks, target.gpu.name, spec.region);
    const others = types.length > 0 ? types : typesWithGpus(ranks, null, spec.region);
    return {
      path: `${model.path}.${tensorParallel > 1 ? "tensorParallel" : "pipelineParallel"}`,
      reason: `tensorParallel ${tensorParallel} × pipelineParallel ${pipelineParallel} are ${ranks} GPUs of one machine; ${machine} has ${pool.machine.gpus}.`,
      fix:
        others.length === 0
          ? `${atMost(pool.machine.gpus)}; no instance type of the catalogue has ${ranks} GPUs.`
          : `${atMost(pool.machine.gpus)}, or ${isHost ? "a host that has" : "machines that have"} ${ranks}: ${oneOf(others)}.`,
    };
  }),

  gpuIndicesCount: eachModel((model) => {
    const { gpuIndices, path, serving, engine } = model;
    const needed = worldSize(model) * serving.replicas;
    if (gpuIndices === undefined || gpuIndices.length === needed) return [];
    const servers = serving.replicas === 1 ? "" : ` × ${serving.replicas} replicas`;
    return {
      path: `${path}.gpuIndices`,
      reason: `${counted(gpuIndices.length, "GPU")} listed; tensorParallel ${engine.tensorParallel} × pipelineParallel ${engine.pipelineParallel}${servers} take ${needed}.`,
      fix: `List ${needed}, or remove them.`,
    };
  }),

  gpuIndicesOfHost: eachModel((model, { spec }) => {
    const { gpuIndices = [], path: modelPath } = model;
    const { gpus } = poolOf(model, spec).machine;
    return gpuIndices.map((index, position) => {
      const path = `${modelPath}.gpuIndices[${position}]`;
      if (index >= gpus) {
        return {
          path,
          reason: `The host has ${gpus === 1 ? "one GPU, number 0" : `${gpus} GPUs, numbers 0 to ${gpus - 1}`}.`,
          fix: `Use ${gpus === 1 ? "0" : `0 to ${gpus - 1}`}.`,
        };
      }
      if (gpuIndices.indexOf(index) === position) return [];
      return { path, reason: `GPU ${index} is listed twice.`, fix: "List each GPU once." };
    });
  }),
} satisfies Record<string, Check>;
