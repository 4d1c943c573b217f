/** Builds of engines against the machines that run them: GPUs, host memory, disks. */
import { worldSize } from "../fit/placement.ts";
import { buildDiskGiB, buildRequest, machineResources } from "../pod-requests.ts";
import { buildPoolOf, packPool, poolOf, slotsPerMachine, waitingBuilds } from "../pool-space.ts";
import type { GpuStackSpec, ModelSpec, PoolSpec } from "../spec.ts";
import {
  type Check,
  type CheckedStack,
  type Key,
  modelCheck,
  poolCheck,
  type Remark,
  valueAt,
} from "./finding.ts";
import { cheapestTypes, useLarger } from "./instance-types.ts";
import { MACHINE_KEYS, SERVER_KEYS } from "./keys.ts";
import { count, gib, machineWords, placeOf } from "./words.ts";

const BUILD_KEYS: readonly Key[] = [
  ...MACHINE_KEYS,
  "catalogue",
  "models.model",
  "models.pool",
  "models.buildPool",
  "models.quantization",
  "models.runtime",
];

export const buildChecks = {
  buildPoolHasSameGpu: modelCheck(["models.runtime", ...BUILD_KEYS, "pools.sharing"], (model, { spec }) => {
    const [serves, builds] = [poolOf(model, spec), buildPoolOf(model, spec)];
    if (model.serving.runtime !== "engine" || serves.name === builds.name) return [];
    const [wanted, found] = [gpuOf(serves), gpuOf(builds)];
    if (wanted === found) return [];
    return [
      {
        path: `${model.path}.buildPool`,
        reason: `An engine runs on the kind of GPU that built it, and no other: ${serves.name} serves with ${wanted}, ${builds.name} builds with ${found}.`,
        fix: `Use a pool with ${wanted}, or leave buildPool out.`,
      },
    ];
  }),

  machineHoldsBuild: modelCheck(BUILD_KEYS, (model, { config, spec }) => {
    const pool = buildPoolOf(model, spec);
    const [needs, has] = [buildRequest(model), machineResources(pool)];
    if (model.serving.runtime !== "engine" || needs.memoryMiB <= has.memoryMiB) return [];
    const { row } = model.engine;
    const { machine, units } = machineWords(spec, pool);
    const key = isSet(config, `${model.path}.buildPool`) ? "buildPool" : "pool";
    return [
      {
        ...placeOf(model, pool, key, spec),
        reason: `Converting ${model.engine.model} holds its ${row.source.storedDtype} weights and the checkpoint in host memory, about ${gib(needs.memoryMiB)} (an estimate); ${machine} leaves ${gib(has.memoryMiB)} to ${units}.`,
        fix: useLarger(
          cheapestTypes(
            spec.region,
            (type) =>
              type.gpu === pool.machine.gpu &&
              type.gpus >= worldSize(model) &&
              machineResources({ machine: type }).memoryMiB >= needs.memoryMiB,
          ),
          "memory",
          pool,
          spec.platform === "docker" || key === "buildPool"
            ? "Use"
            : "Serve from it and name a larger pool with the same GPU in buildPool, or use",
        ),
      },
    ];
  }),

  diskHoldsBuild: modelCheck([...BUILD_KEYS, "pools.diskGiB", "release"], (model, { spec }) => {
    const pool = buildPoolOf(model, spec);
    if (model.serving.runtime !== "engine") return [];
    const parts = buildDiskGiB(model, spec.release);
    const needed = Math.ceil(Object.values(parts).reduce((sum, part) => sum + part, 0));
    if (needed <= pool.diskGiB) return [];
    const terms = Object.entries(parts).map(([what, size]) => `${what} ${size.toFixed(1)}`);
    return [
      {
        path: `${pool.path}.diskGiB`,
        reason: `Building ${model.serving.name} takes ${needed} GiB: ${terms.join(", ")}.`,
        fix: `Use ${needed} or more.`,
      },
    ];
  }),

  gpuIsFreeToBuild: poolCheck(
    [...SERVER_KEYS, "models.buildPool", "models.runtime", "models.gpuIndices", "engines"],
    (pool, { spec }) => {
      const space = packPool(spec, pool);
      const [first] = waitingBuilds(spec, pool, space);
      if (first === undefined || space.homeless.length > 0) return [];
      // A machine that is too small even when it is empty is said for each model.
      if (worldSize(first) > slotsPerMachine(pool)) return [];
      return [noFreeGpu(spec, pool, first, space.mostFreeSlots)];
    },
  ),

  machineHasGpusToBuild: modelCheck(
    ["models.tensorParallel", "models.pipelineParallel", ...BUILD_KEYS],
    (model, { spec }) => {
      const [serves, builds] = [poolOf(model, spec), buildPoolOf(model, spec)];
      const ranks = worldSize(model);
      if (serves.name === builds.name || ranks <= builds.machine.gpus || model.serving.runtime !== "engine")
        return [];
      return [
        {
          path: `${model.path}.buildPool`,
          reason: `A finished engine is tried with all its ${ranks} ranks, and a machine of ${builds.name} has ${count(builds.machine.gpus, "GPU")}.`,
          fix: `Use a pool whose machines have ${ranks} GPUs, or leave buildPool out.`,
        },
      ];
    },
  ),
} satisfies Record<string, Check>;

function noFreeGpu(spec: GpuStackSpec, pool: PoolSpec, model: ModelSpec, free: number): Remark {
  const ranks = worldSize(model);
  const stop =
    "or write `engines: { whenFull: stopServer }`, which stops the model's server while its engine is built";
  const isHost = spec.platform === "docker";
  return {
    path: isHost ? "engines.whenFull" : `${pool.path}.nodes.max`,
    reason:
      pool.sharing.mode === "timeSlicing"
        ? `Time slicing does not divide a GPU's memory, so that ${model.serving.name} is built on a machine on which nobody serves; when all servers run, ${pool.name} has none.`
        : `When all servers run, ${free === 0 ? "no GPU" : `only ${count(free, "GPU")} of a machine`} of ${machineWords(spec, pool).pool} is free, and building ${model.serving.name} takes ${ranks}.`,
    fix: isHost
      ? `Use a host with more GPUs, ${stop}.`
      : `Use ${pool.nodes.max + 1}, name a pool with ${gpuOf(pool)} for builds in buildPool, ${stop}.`,
  };
}

function isSet(config: CheckedStack["config"], path: string): boolean {
  return valueAt(config, path) !== undefined;
}

/** As an engine sees it. */
function gpuOf({ gpu, sharing }: PoolSpec): string {
  if (gpu === null) return "no GPU";
  return sharing.mode === "mig" ? `${gpu.name} MIG ${sharing.profile}` : gpu.name;
}
