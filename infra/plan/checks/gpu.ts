/**
 * What a GPU computes, and how many of them one server needs. Formats:
 * https://nvidia.github.io/TensorRT-LLM/reference/support-matrix.html.
 */
import { worldSize } from "../fit/placement.ts";
import { poolOf } from "../pool-space.ts";
import { type Check, modelCheck, type Remark } from "./finding.ts";
import { rentableGpus, typesWithGpus } from "./instance-types.ts";
import { atMost, capitalized, machineWords, oneOf, placeOf } from "./words.ts";

const MACHINE_KEYS = ["models.pool", "pools.name", "pools.instanceType", "pools.machine"] as const;

export const gpuChecks = {
  gpuIsSupported: modelCheck(MACHINE_KEYS, (model, { spec }) => {
    const { gpu } = model.engine.target;
    if (gpu.supported) return [];
    return [
      {
        ...placeOf(model, poolOf(model, spec), "pool", spec),
        reason: `TensorRT-LLM's support matrix does not list ${gpu.name} (${gpu.architecture}, compute capability ${gpu.computeCapability}).`,
        fix: `Use ${spec.runsOn === "host" ? "a host" : "machines"} with ${oneOf(rentableGpus())}, such as g5.4xlarge.`,
      },
    ];
  }),

  dtypeOfGpu: modelCheck([...MACHINE_KEYS, "models.dtype", "models.model"], ({ engine, path }) => {
    const { gpu } = engine.target;
    if (gpu.formats.includes(engine.dtype)) return [];
    return [
      {
        path: `${path}.dtype`,
        reason: `${gpu.name} has compute capability ${gpu.computeCapability}, and ${engine.dtype} needs ${engine.dtype === "bfloat16" ? "8.0" : "7.0"} or more.`,
        fix:
          engine.dtype === "bfloat16"
            ? `Write dtype: float16, or use ${oneOf(rentableGpus("bfloat16"))}.`
            : "Use another GPU.",
      },
    ];
  }),

  quantizationOfGpu: modelCheck([...MACHINE_KEYS, "models.quantization"], ({ engine, path }) => {
    const { gpu } = engine.target;
    const { quantization } = engine;
    if (quantization === "none" || gpu.formats.includes(quantization)) return [];
    const needs =
      quantization === "fp8" ? "fp8 needs 8.9 (Ada) or 9.0 (Hopper)" : `it does not compute ${quantization}`;
    return [
      {
        path: `${path}.quantization`,
        reason: `${gpu.name} has compute capability ${gpu.computeCapability}; ${needs}.`,
        fix:
          quantization === "fp8"
            ? `Use int8 or int4, or ${oneOf(rentableGpus("fp8"))}.`
            : "Write quantization: none, or use another GPU.",
      },
    ];
  }),

  quantizationOfModel: modelCheck(
    ["models.model", "models.quantization", "catalogue"],
    ({ engine, path }) => {
      if (engine.row.quantizations.includes(engine.quantization)) return [];
      return [
        {
          path: `${path}.quantization`,
          reason: `No recipe is known that quantizes ${engine.model} to ${engine.quantization}.`,
          fix: `Use ${oneOf(engine.row.quantizations)}.`,
        },
      ];
    },
  ),

  dtypeOfModel: modelCheck(["models.model", "models.dtype", "catalogue"], ({ engine, path }) => {
    const { vision, dtype } = engine.row;
    // The visual engine builder has one format written in for each kind of model.
    if (vision === undefined || engine.dtype === dtype) return [];
    return [
      {
        path: `${path}.dtype`,
        reason: `The visual engine of ${engine.model} hands on its features in ${dtype}, whatever the language model computes in.`,
        fix: `Write dtype: ${dtype}, or leave it out.`,
      },
    ];
  }),

  worldWithinNode: modelCheck(
    [...MACHINE_KEYS, "pools.sharing", "models.tensorParallel", "models.pipelineParallel"],
    (model, { spec }) => {
      const { engine, path } = model;
      const ranks = worldSize(model);
      const pool = poolOf(model, spec);
      // What shares a GPU has a rule of its own.
      if (ranks <= pool.machine.gpus || (ranks > 1 && pool.sharing.mode !== "none")) return [];
      const words = machineWords(spec, pool);
      const machine = pool.instanceType ?? capitalized(words.machine);
      const types = typesWithGpus(ranks, engine.target.gpu.name, spec.region);
      const others = types.length > 0 ? types : typesWithGpus(ranks, null, spec.region);
      return [
        {
          path: `${path}.${engine.tensorParallel > 1 ? "tensorParallel" : "pipelineParallel"}`,
          reason: `tensorParallel ${engine.tensorParallel} × pipelineParallel ${engine.pipelineParallel} are ${ranks} GPUs of one machine; ${machine} has ${pool.machine.gpus}.`,
          fix:
            others.length === 0
              ? `${atMost(pool.machine.gpus)}; no instance type of the catalogue has ${ranks} GPUs.`
              : `${atMost(pool.machine.gpus)}, or ${spec.runsOn === "host" ? "a host that has" : "machines that have"} ${ranks}: ${oneOf(others)}.`,
        },
      ];
    },
  ),

  gpuIndicesCount: modelCheck(
    ["models.gpuIndices", "models.tensorParallel", "models.pipelineParallel", "models.replicas"],
    (model) => {
      const { gpuIndices, path, serving } = model;
      const needed = worldSize(model) * serving.replicas;
      if (gpuIndices === undefined || gpuIndices.length === needed) return [];
      const servers = serving.replicas === 1 ? "" : ` × ${serving.replicas} replicas`;
      return [
        {
          path: `${path}.gpuIndices`,
          reason: `${gpuIndices.length} are given; tensorParallel ${model.engine.tensorParallel} × pipelineParallel ${model.engine.pipelineParallel}${servers} take ${needed}.`,
          fix: `Give ${needed}, or leave them out.`,
        },
      ];
    },
  ),

  gpuIndicesOfHost: modelCheck(
    ["models.gpuIndices", "pools.machine", "pools.instanceType"],
    (model, { spec }) => {
      const { gpuIndices = [], path } = model;
      const { gpus } = poolOf(model, spec).machine;
      return gpuIndices.flatMap((index, position): readonly Remark[] => {
        const at = `${path}.gpuIndices[${position}]`;
        if (index >= gpus) {
          return [
            {
              path: at,
              reason: `The host has ${gpus === 1 ? "one GPU, number 0" : `${gpus} GPUs, numbers 0 to ${gpus - 1}`}.`,
              fix: `Use ${gpus === 1 ? "0" : `0 to ${gpus - 1}`}.`,
            },
          ];
        }
        if (gpuIndices.indexOf(index) === position) return [];
        return [{ path: at, reason: `GPU ${index} is given twice.`, fix: "Give each GPU once." }];
      });
    },
  ),
} satisfies Record<string, Check>;
