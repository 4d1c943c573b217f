/**
 * What a GPU computes, and how many of them one server needs. Formats:
 * https://nvidia.github.io/TensorRT-LLM/reference/support-matrix.html.
 */
import { worldSize } from "../fit/placement.ts";
import { poolOf } from "../pool-space.ts";
import { type Check, eachModel } from "./check.ts";
import { machineWords, placeOf, rentableGpus, typesWithGpus } from "./machines.ts";
import { atMost, oneOf } from "./words.ts";

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
    if (quantization === "none" || gpu.formats.includes(quantization)) return [];
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
      reason: `No recipe is known that quantizes ${model} to ${quantization}.`,
      fix: `Use ${oneOf(row.quantizations)}.`,
    };
  }),

  dtypeOfModel: eachModel(({ engine, path }) => {
    const { vision, dtype } = engine.row;
    // The visual engine builder has one format written in for each kind of model.
    if (vision === undefined || engine.dtype === dtype) return [];
    return {
      path: `${path}.dtype`,
      reason: `The visual engine of ${engine.model} hands on its features in ${dtype}, whatever the language model computes in.`,
      fix: `Write dtype: ${dtype}, or leave it out.`,
    };
  }),

  worldWithinNode: eachModel((model, { spec }) => {
    const { tensorParallel, pipelineParallel, target } = model.engine;
    const ranks = worldSize(model);
    const pool = poolOf(model, spec);
    // What shares a GPU has a check of its own.
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
      reason: `${gpuIndices.length} are given; tensorParallel ${engine.tensorParallel} × pipelineParallel ${engine.pipelineParallel}${servers} take ${needed}.`,
      fix: `Give ${needed}, or leave them out.`,
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
      return { path, reason: `GPU ${index} is given twice.`, fix: "Give each GPU once." };
    });
  }),
} satisfies Record<string, Check>;
