/** Machines against what they have to hold: pods, builds, disks, shared GPUs. */
import { showValue } from "../../problems.ts";
import { worldSize } from "../fit/placement.ts";
import type { GpuStackSpec, ModelSpec, PoolSpec } from "../spec.ts";
import {
  type Check,
  type CheckedStack,
  type Key,
  modelCheck,
  poolCheck,
  type Remark,
  stackCheck,
  valueAt,
} from "./finding.ts";
import { cheapestTypes } from "./instance-types.ts";
import { buildDiskGiB, buildRequest, machineResources, serverRequest, storedGiB } from "./pod-requests.ts";
import { buildPoolOf, packPool, podsOf, poolOf, slotsPerMachine } from "./pool-space.ts";

const MACHINE_KEYS = ["pools.name", "pools.instanceType", "pools.machine"] as const;
const SERVER_KEYS: readonly Key[] = [
  ...MACHINE_KEYS,
  "pools.nodes",
  "pools.sharing",
  "models.pool",
  "models.replicas",
  "models.tensorParallel",
  "models.pipelineParallel",
  "encoders",
];
const BUILD_KEYS: readonly Key[] = [
  ...MACHINE_KEYS,
  "catalogue",
  "models.model",
  "models.pool",
  "models.buildPool",
  "models.quantization",
  "models.runtime",
];

export const poolChecks = {
  nodesInOrder: poolCheck(["pools.nodes"], ({ nodes, path }) => {
    if (nodes.min <= nodes.max) return [];
    return [
      {
        path: `${path}.nodes.min`,
        reason: `At least ${nodes.min} machines and at most ${nodes.max} contradict each other.`,
        fix: `Use ${nodes.max} or less, or raise nodes.max.`,
      },
    ];
  }),

  spotIsPriced: poolCheck(["pools.capacity", "pools.hourlyUsd"], ({ capacity, hourlyUsd, path, name }) => {
    if (capacity !== "spot" || hourlyUsd !== undefined) return [];
    return [
      {
        severity: "warning",
        path: `${path}.hourlyUsd`,
        reason: `Prices of spot machines change by the hour and are in no table; ${name} is in no sum of the costs.`,
        fix: "Write what you expect to pay for one machine an hour.",
      },
    ];
  }),

  sharingNeedsGpu: poolCheck(["pools.sharing", ...MACHINE_KEYS], ({ sharing, gpu, path, name }) => {
    if (sharing.mode === "none" || gpu !== null) return [];
    return [
      {
        path: `${path}.sharing.mode`,
        reason: `The machines of ${name} have no GPU to share.`,
        fix: "Remove `sharing`.",
      },
    ];
  }),

  sharedGpuHasOneRank: modelCheck(
    ["models.pool", "models.tensorParallel", "models.pipelineParallel", "pools.sharing", "pools.name"],
    (model, { spec }) => {
      const { sharing, name } = poolOf(model, spec);
      const ranks = worldSize(model);
      if (sharing.mode === "none" || ranks === 1) return [];
      return [
        {
          path: `${model.path}.${model.engine.tensorParallel > 1 ? "tensorParallel" : "pipelineParallel"}`,
          reason: `The ${ranks} ranks need a whole GPU each, and the GPUs of ${name} are shared (${sharing.mode}): two ranks could land on one.`,
          fix: "Use a pool whose GPUs are not shared, or write tensorParallel: 1 and pipelineParallel: 1.",
        },
      ];
    },
  ),

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

  machineHoldsServer: modelCheck(
    [...MACHINE_KEYS, "models.pool", "models.tensorParallel", "models.pipelineParallel"],
    (model, { spec }) => {
      const pool = poolOf(model, spec);
      const [needs, has] = [serverRequest(model), machineResources(pool)];
      const isShort = { cpu: needs.cpuMillis > has.cpuMillis, memory: needs.memoryMiB > has.memoryMiB };
      if (!isShort.cpu && !isShort.memory) return [];
      const short = isShort.cpu
        ? `${needs.cpuMillis / 1000} CPUs, and a machine leaves ${has.cpuMillis / 1000} to pods`
        : `${gib(needs.memoryMiB)} of memory, and a machine leaves ${gib(has.memoryMiB)} to pods`;
      return [
        {
          path: `${model.path}.pool`,
          value: showValue(pool.name),
          reason: `A server of ${model.serving.name} takes ${short}.`,
          fix: larger(
            cheapestTypes(
              spec.region,
              (type) =>
                type.gpu === pool.machine.gpu &&
                type.gpus >= worldSize(model) &&
                machineResources({ machine: type }).cpuMillis >= needs.cpuMillis &&
                machineResources({ machine: type }).memoryMiB >= needs.memoryMiB,
            ),
          ),
        },
      ];
    },
  ),

  machineHoldsBuild: modelCheck(BUILD_KEYS, (model, { config, spec }) => {
    const pool = buildPoolOf(model, spec);
    const [needs, has] = [buildRequest(model), machineResources(pool)];
    if (model.serving.runtime !== "engine" || needs.memoryMiB <= has.memoryMiB) return [];
    const { row } = model.engine;
    return [
      {
        path: isSet(config, `${model.path}.buildPool`) ? `${model.path}.buildPool` : `${model.path}.pool`,
        value: showValue(pool.name),
        reason: `Converting ${model.engine.model} holds its ${row.source.storedDtype} weights and the checkpoint in host memory, about ${gib(needs.memoryMiB)} (an estimate); a machine of ${pool.name} leaves ${gib(has.memoryMiB)} to pods.`,
        fix: larger(
          cheapestTypes(
            spec.region,
            (type) =>
              type.gpu === pool.machine.gpu &&
              type.gpus >= worldSize(model) &&
              machineResources({ machine: type }).memoryMiB >= needs.memoryMiB,
          ),
          "Serve from it and name a larger pool with the same GPU in buildPool, or use",
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

  storeHoldsModels: stackCheck(
    ["engineStore", "models.model", "models.quantization", "models.runtime", "catalogue"],
    ({ spec }) => {
      const { sizeGiB } = spec.store;
      const needed = Math.ceil(spec.models.reduce((sum, model) => sum + storedGiB(model), 0));
      if (sizeGiB === null || needed <= sizeGiB) return [];
      return [
        {
          path: "engineStore.sizeGiB",
          reason: `Weights and engines of the stack's models take ${needed} GiB.`,
          fix: `Use ${needed} or more; twice as much leaves room for the engines before a change.`,
        },
      ];
    },
  ),

  serversFindMachines: poolCheck(SERVER_KEYS, (pool, { spec }) => {
    const whole = { ...machineResources(pool), slots: slotsPerMachine(pool) };
    // What no machine could hold is said for each model.
    const homeless = packPool(spec, pool).homeless.filter(
      (pod) =>
        pod.slots <= whole.slots && pod.cpuMillis <= whole.cpuMillis && pod.memoryMiB <= whole.memoryMiB,
    );
    if (homeless.length === 0) return [];
    const names = [...new Set(homeless.map(({ model }) => model?.serving.name ?? "encoders"))];
    const pods = podsOf(spec, pool);
    return [
      {
        path: `${pool.path}.nodes.max`,
        reason: `${count(pods.length, "server")} with ${count(sum(pods.map(({ slots }) => slots)), "GPU")} want to run on ${count(pool.nodes.max, "machine")} of ${slotsPerMachine(pool)}; ${homeless.length} of them (${names.join(", ")}) find no place.`,
        fix: "Raise it, lower replicas, or use larger machines.",
      },
    ];
  }),

  hostHoldsServers: poolCheck(SERVER_KEYS, (pool, { spec }) => {
    if (spec.platform !== "docker") return [];
    const has = machineResources(pool);
    const needed = sum(podsOf(spec, pool).map(({ memoryMiB }) => memoryMiB));
    if (needed <= has.memoryMiB) return [];
    return [
      {
        path: "host",
        value: showValue(pool.instanceType ?? pool.machine),
        reason: `All servers together take ${gib(needed)} of memory, and the host has ${gib(has.memoryMiB)}.`,
        fix: "Use a larger host, or fewer servers.",
      },
    ];
  }),

  gpuIsFreeToBuild: poolCheck(
    [...SERVER_KEYS, "models.buildPool", "models.runtime", "models.gpuIndices", "engines"],
    (pool, { spec }) => {
      const built = spec.models.filter(
        (model) => model.buildPool === pool.name && model.serving.runtime === "engine",
      );
      const { homeless, mostFreeSlots } = packPool(spec, pool);
      const waiting = built.filter((model) => worldSize(model) > mostFreeSlots);
      const [first] = waiting;
      if (first === undefined || homeless.length > 0 || spec.whenFull === "stopServer") return [];
      // A machine that is too small even when it is empty is said for each model.
      if (worldSize(first) > slotsPerMachine(pool)) return [];
      return [noFreeGpu(spec, pool, first, mostFreeSlots)];
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
    reason: `When all servers run, ${free === 0 ? "no GPU" : `only ${count(free, "GPU")} of a machine`} of ${pool.name} is free, and building ${model.serving.name} takes ${ranks}.`,
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

function larger(types: readonly string[], lead = "Use"): string {
  return types.length === 0
    ? "No instance type of the catalogue with this GPU is large enough; use another GPU."
    : `${lead} one of ${types.join(", ")}.`;
}

function gib(mebibytes: number): string {
  return `${(mebibytes / 1024).toFixed(1)} GiB`;
}

function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
