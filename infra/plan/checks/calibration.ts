/** Quantizations that quantize.py calibrates: their samples, their groups of weights, and the GPUs that calibrate. */
import { calibrationOf } from "../catalogue/types.ts";
import { loadedWeightsGiB } from "../engine/engine-size.ts";
import { buildRecipe } from "../engine/recipes.ts";
import { usableGiB, worldSize } from "../fit/placement.ts";
import { type Check, eachModel } from "./check.ts";
import { atMost } from "./shared-messages.ts";

/** GPUs up to which examples/quantization/README.md of NVIDIA/TensorRT-LLM shows AWQ: their parts hold whole groups of 64 weights. */
const MOST_AWQ_GPUS = 4;

/**
 * In get_calib_dataloader of tensorrt_llm/quantization/quantize_by_modelopt.py, which looks for them before it looks for a folder:
 * the first two in lower case, the last as it is.
 */
const NAMES_OF_DATA_SETS = /[sS][cC][iI][eE][nN][cC][eE]_?[qQ][aA]|cnn_dailymail/;

export const calibrationChecks = {
  samplesAreUsed: eachModel(({ engine, serving, path: model }) => {
    const { calibration, quantization, row, release } = engine;
    if (calibration === undefined || serving.runtime !== "engine") return [];
    const path = `${model}.engine.calibration`;
    const { dataset, folder, samples } = calibration;
    const needed = calibrationOf(quantization);
    if (needed === null) {
      return {
        path,
        reason: `Quantization ${quantization} needs no samples.`,
        fix: "Remove it, or write quantization: fp8, int8_sq or int4_awq.",
      };
    }
    const [named] = NAMES_OF_DATA_SETS.exec(folder?.path ?? "") ?? [];
    return [
      dataset !== undefined &&
        folder !== undefined && {
          path: `${path}.dataset`,
          reason: "The samples are those of a data set of the hub or of a folder, and both are given.",
          fix: "Remove one of them.",
        },
      (dataset ?? folder) !== undefined &&
        row.vision?.attention === "cross" && {
          path: `${path}.${dataset === undefined ? "folder" : "dataset"}`,
          reason: `${engine.model} is calibrated with questions about pictures, those of scienceqa; from other datasets quantize.py reads only texts.`,
          fix: "Remove it.",
        },
      folder !== undefined &&
        buildRecipe(release)?.calibratesFromFolder === false && {
          path: `${path}.folder`,
          reason: `quantize.py of TensorRT-LLM ${release.tensorRtLlm} takes samples only from the hub; 0.11 is the first that reads a folder.`,
          fix: "Write a dataset, or use release 24.07 or a later one.",
        },
      named !== undefined && {
        path: `${path}.folder.path`,
        reason: `quantize.py reads a path with ${named} as the data set of that name, and not as a folder of texts.`,
        fix: "Give the folder another name.",
      },
      samples !== undefined &&
        samples > needed.mostSamples && {
          path: `${path}.samples`,
          reason: `quantize.py calibrates ${quantization} with ${needed.mostSamples} texts, however many are asked for.`,
          fix: `${atMost(needed.mostSamples)}.`,
        },
    ];
  }),

  awqGroupsDivide: eachModel(({ engine: { quantization, tensorParallel }, path }) => {
    if (quantization !== "int4_awq" || tensorParallel <= MOST_AWQ_GPUS) return [];
    return {
      path: `${path}.tensorParallel`,
      reason: `AWQ has one scale for 64 weights at least, and ${tensorParallel} GPUs would split them; NVIDIA's examples go up to ${MOST_AWQ_GPUS}.`,
      fix: `${atMost(MOST_AWQ_GPUS)}, or write quantization: int4 or fp8.`,
    };
  }),

  gpusHoldCalibration: eachModel((model) => {
    const { engine, serving, path } = model;
    const { target, quantization, row, extraFlags } = engine;
    if (serving.runtime !== "engine" || calibrationOf(quantization) === null) return [];
    if (extraFlags?.converter?.device === "cpu") return [];
    const ranks = worldSize(model);
    const { gpu, migProfile } = target;
    const haveGiB =
      ranks * usableGiB(gpu, migProfile === undefined ? undefined : gpu.migProfiles[migProfile]);
    const needGiB = loadedWeightsGiB(row);
    if (needGiB <= haveGiB) return [];
    return {
      severity: "warning",
      path: `${path}.quantization`,
      reason: `quantize.py loads ${engine.model} as it is stored, ${needGiB.toFixed(1)} GiB, and ${ranks} × ${gpu.name} of the build hold ${haveGiB.toFixed(1)}: the rest is in host memory, which makes calibration slow.`,
      fix: "Use a larger GPU, or int8 or int4, which need no calibration.",
    };
  }),
} satisfies Record<string, Check>;
