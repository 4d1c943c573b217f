/** Builds of engines against the machines that run them: GPUs, host memory, disks. */
import { worldSize } from "../fit/placement.ts";
import { buildDiskGiB, machineResources } from "../pod-requests.ts";
import {
  buildPoolOf,
  buildsOf,
  emptyMachine,
  holds,
  packPool,
  poolOf,
  shortages,
  waitingBuilds,
} from "../pool-space.ts";
import type { GpuStackSpec, PoolSpec } from "../spec.ts";
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
import { count, gib, machineWords, placeOf, shortageWords, shortNames } from "./words.ts";

const BUILD_KEYS: readonly Key[] = [
  ...MACHINE_KEYS,
  "compute",
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
    // Another GPU is another machine, and its memory another one too.
    if (!model.engine.target.gpu.supported) return [];
    const pool = buildPoolOf(model, spec);
    const build = buildsOf(spec, pool).find((one) => one.model === model);
    if (build === undefined) return [];
    const empty = emptyMachine(spec, pool);
    const short = shortages([empty], build).filter(
      // Ranks have their own check, and Docker counts no CPUs.
      ({ resource }) => resource === "memory" || (resource === "cpu" && spec.runsOn !== "host"),
    );
    if (short.length === 0) return [];
    const { row } = model.engine;
    const { machine, units } = machineWords(spec, pool);
    const isMemory = short.some(({ resource }) => resource === "memory");
    const key = isSet(config, `${model.path}.buildPool`) ? "buildPool" : "pool";
    return [
      {
        ...placeOf(model, pool, key, spec),
        reason:
          isMemory && model.serving.runtime === "engine"
            ? `Converting ${model.engine.model} holds its ${row.source.storedDtype} weights and the checkpoint in host memory, about ${gib(build.memoryMiB)} (an estimate); ${machine} leaves ${gib(empty.memoryMiB)} to ${units}.`
            : `Filling the engine store for ${model.serving.name} takes ${shortageWords(short)} of ${machine}.`,
        fix: useLarger(
          cheapestTypes(
            spec.region,
            (type) =>
              type.gpu === pool.machine.gpu &&
              type.gpus >= worldSize(model) &&
              holds({ ...machineResources({ machine: type }), slots: type.gpus }, build),
          ),
          shortNames(short),
          pool,
          spec.runsOn === "host" || key === "buildPool"
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
    [...SERVER_KEYS, ...BUILD_KEYS, "models.dtype", "models.weights", "models.gpuIndices", "engines"],
    (pool, { spec }) => {
      if (packPool(spec, pool).homeless.length > 0) return [];
      const empty = emptyMachine(spec, pool);
      // A machine that is too small even when it is empty is a problem of its own.
      const first = waitingBuilds(spec, pool).find((build) => holds(empty, build));
      return first === undefined ? [] : [noRoomToBuild(spec, pool, first)];
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

function noRoomToBuild(
  spec: GpuStackSpec,
  pool: PoolSpec,
  { name, model, short }: ReturnType<typeof waitingBuilds>[number],
): Remark {
  const what = model === null ? "the encoders are" : `${name} is`;
  const words = machineWords(spec, pool);
  const isHost = spec.runsOn === "host";
  const ways = [
    isHost
      ? `Use a host with more ${shortNames(short)}`
      : `Use ${pool.nodes.max + 1}, machines with more ${short.length === 0 ? "GPUs" : shortNames(short)}`,
    ...(isHost || model === null ? [] : [`name a pool with ${gpuOf(pool)} for builds in buildPool`]),
    `or write \`engines: { whenFull: stopServer }\`, which stops ${model === null ? "a server while they are built" : "the model's server while its engine is built"}`,
  ];
  return {
    path: isHost ? "engines.whenFull" : `${pool.path}.nodes.max`,
    reason:
      short.length === 0
        ? `Time slicing does not divide a GPU's memory, so that ${what} built on a machine on which nobody serves; when all servers run, ${pool.name} has none.`
        : `When all servers run, ${isHost ? "the host has no" : `no machine of ${words.pool} has`} room to build ${name}, which takes ${shortageWords(short)}.`,
    fix: `${ways.join(", ")}.`,
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
