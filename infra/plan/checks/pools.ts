/** Pools and the host against the servers and builds that they have to hold. */
import { counted, pathParts, valueAt } from "../../problems.ts";
import { SYSTEM_POOL } from "../aws/context.ts";
import { onDemandHourlyUsd, REFERENCE_REGION } from "../catalogue/prices.ts";
import { stackCost } from "../cost/cost.ts";
import { worldSize } from "../fit/placement.ts";
import {
  buildDiskGiB,
  buildPoolOf,
  buildsOf,
  emptyMachine,
  encodersRequest,
  holds,
  machineResources,
  machinesWithoutServers,
  packPool,
  podsOf,
  poolOf,
  serverRequest,
  sharesGpuMemory,
  shortages,
  slotsPerMachine,
  storedGiB,
  waitingBuilds,
} from "../pool-space.ts";
import type { PoolSpec } from "../spec.ts";
import { type Check, eachModel, eachPool } from "./check.ts";
import { cheapestTypes, machineWords, placeOf, shortageWords, shortNames, useLarger } from "./machines.ts";
import { atMost, gib } from "./shared-messages.ts";

export const poolChecks = {
  nodesInOrder: eachPool(({ nodes, path }) => {
    if (nodes.min <= nodes.max) return [];
    return {
      path: `${path}.nodes.min`,
      reason: `min is greater than max, which is ${nodes.max}.`,
      fix: `${atMost(nodes.max)}, or raise nodes.max.`,
    };
  }),

  spotIsPriced: eachPool(({ capacity, hourlyUsd, path, name }) => {
    if (capacity !== "spot" || hourlyUsd !== undefined) return [];
    return {
      severity: "warning",
      path: `${path}.hourlyUsd`,
      reason: `Spot prices change by the hour and are in no table: cost sums lack ${name}.`,
      fix: "Write the expected price of a machine in USD an hour.",
    };
  }),

  blockIsPriced: eachPool(({ capacity, hourlyUsd, path, name }) => {
    if (capacity !== "capacityBlock" || hourlyUsd !== undefined) return [];
    return {
      severity: "warning",
      path: `${path}.hourlyUsd`,
      reason: `A Capacity Block is paid for beforehand, at a price that no table has: cost sums lack ${name}.`,
      fix: "Write what a machine of it costs in USD, divided by the hours of the block.",
    };
  }),

  ownedIsPriced: eachPool(({ capacity, hourlyUsd, instanceType, path }, { spec }) => {
    if (capacity !== "owned" || instanceType === null || hourlyUsd !== undefined) return [];
    const usd = onDemandHourlyUsd(REFERENCE_REGION, instanceType);
    return {
      severity: "note",
      path: `${path}.hourlyUsd`,
      reason:
        spec.runsOn === "host"
          ? `The host (${instanceType}) is your own machine, not priced.`
          : `Machines of type ${instanceType} are your own, not priced.`,
      fix: `If it is rented, write its price in USD an hour${usd === null ? "" : ` (${usd} on demand in ${REFERENCE_REGION})`}; else 0.`,
    };
  }),

  // A cap that is set and never judged is worse than none.
  capIsJudged: ({ config: { policies }, spec }) => {
    const { hourlyUsdCap, levels } = policies;
    const level = levels["price-is-below-cap"];
    if (hourlyUsdCap === undefined || level === "off") return [];
    // How much of a line there is depends on engines; whether it has a price does not.
    const { withoutPrice } = stackCost(spec, []);
    if (withoutPrice.length === 0) return [];
    const pools = withoutPrice.filter((name) => name.startsWith("pool ") && name !== `pool ${SYSTEM_POOL}`);
    const keys = [
      ...(pools.length > 0 ? ["hourlyUsd of each pool"] : []),
      ...(pools.length < withoutPrice.length ? ["otherHourlyUsd for all else together"] : []),
    ];
    return {
      severity: level === "advisory" ? "warning" : undefined,
      path: "policies.hourlyUsdCap",
      reason: `The cap of ${hourlyUsdCap.toFixed(2)} USD an hour can't be enforced: there is no price for ${withoutPrice.join(", ")}.`,
      fix: `Write prices in USD an hour: ${keys.join(" and ")}.`,
    };
  },

  sharingNeedsGpu: eachPool(({ sharing, gpu, path, name }) => {
    if (sharing.mode === "none" || gpu !== null) return [];
    return {
      path: `${path}.sharing.mode`,
      reason: `The machines of ${name} have no GPU to share.`,
      fix: "Remove `sharing`.",
    };
  }),

  sharedGpuHasOneRank: eachModel((model, { spec }) => {
    const { sharing, name } = poolOf(model, spec);
    const ranks = worldSize(model);
    if (sharing.mode === "none" || ranks === 1) return [];
    return {
      path: `${model.path}.${model.engine.tensorParallel > 1 ? "tensorParallel" : "pipelineParallel"}`,
      reason: `Each of ${ranks} ranks needs a GPU of its own, and the GPUs of ${name} are shared (${sharing.mode}).`,
      fix: "Use a pool whose GPUs are not shared, or write tensorParallel: 1 and pipelineParallel: 1.",
    };
  }),

  machineHoldsServer: eachModel((model, { spec }) => {
    // Another GPU is another machine, and its memory another one too.
    if (!model.engine.target.gpu.supported) return [];
    const pool = poolOf(model, spec);
    const [needs, has] = [serverRequest(model), emptyMachine(spec, pool)];
    const isShortOfCpus = needs.cpuMillis > has.cpuMillis;
    if (!isShortOfCpus && needs.memoryMiB <= has.memoryMiB) return [];
    const { machine, units } = machineWords(spec, pool);
    const short = isShortOfCpus
      ? `${needs.cpuMillis / 1000} CPUs, and ${machine} leaves ${has.cpuMillis / 1000}`
      : `${gib(needs.memoryMiB)} of memory, and ${machine} leaves ${gib(has.memoryMiB)}`;
    const larger = cheapestTypes(spec.region, (type) => {
      const { cpuMillis, memoryMiB } = machineResources({ machine: type });
      const isSameGpu = type.gpu === pool.machine.gpu && type.gpus >= worldSize(model);
      return isSameGpu && cpuMillis >= needs.cpuMillis && memoryMiB >= needs.memoryMiB;
    });
    return {
      ...placeOf(model, pool, "pool", spec),
      reason: `A server of ${model.serving.name} takes ${short} to ${units}.`,
      fix: useLarger(larger, isShortOfCpus ? "CPUs" : "memory", pool),
    };
  }),

  storeHoldsModels: ({ spec }) => {
    const { sizeGiB } = spec.store;
    const needed = Math.ceil(sum(spec.models.map(storedGiB)));
    if (sizeGiB === null || needed <= sizeGiB) return [];
    return {
      path: "engineStore.sizeGiB",
      reason: `Weights and engines of the stack's models take ${needed} GiB.`,
      fix: `Use ${needed} or more; twice as much also holds the previous engines during a change.`,
    };
  },

  serversFindMachines: eachPool((pool, { spec }) => {
    const space = packPool(spec, pool);
    const empty = emptyMachine(spec, pool);
    // A server that no machine could hold is a problem of its model.
    const unplaced = space.unplaced.filter((pod) => pod.kind !== "model" || holds(empty, pod));
    const [first] = unplaced;
    if (first === undefined) return [];
    const names = [...new Set(unplaced.map(({ name }) => name))];
    const pods = podsOf(spec, pool);
    const machines = counted(pool.nodes.max, "machine");
    const gpus = counted(sum(pods.map(({ slots }) => slots)), "GPU");
    const room =
      pool.gpu === null
        ? `${machines} for ${counted(pods.length, "server")}`
        : `${machines} with ${counted(slotsPerMachine(pool), "GPU")}${pool.nodes.max > 1 ? " each" : ""}, and its servers need ${gpus}`;
    return {
      path: `${pool.path}.nodes.max`,
      reason: `Pool ${pool.name} has at most ${room}. There is no room for ${names.join(", ")}; ${first.name} needs ${shortageWords(shortages(space.machines, first))}.`,
      fix: "Raise it, lower replicas, or use larger machines.",
    };
  }),

  hostHoldsServers: eachPool((pool, { spec }) => {
    if (spec.runsOn !== "host") return [];
    const has = machineResources(pool);
    const needed = sum(podsOf(spec, pool).map(({ memoryMiB }) => memoryMiB));
    if (needed <= has.memoryMiB) return [];
    const { encoders } = spec;
    const isPeak =
      encoders !== null &&
      encodersRequest(encoders, "build").memoryMiB > encodersRequest(encoders, "serve").memoryMiB;
    return {
      path: machineWords(spec, pool).path,
      reason: `All servers together take ${gib(needed)} of memory${isPeak ? " while the encoders are built" : ""}, and the host has ${gib(has.memoryMiB)}.`,
      fix: `Use a larger host, ${isPeak ? "smaller encoders, " : ""}or fewer servers.`,
    };
  }),
} satisfies Record<string, Check>;

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

export const buildChecks = {
  buildPoolHasSameGpu: eachModel((model, { spec }) => {
    const [serves, builds] = [poolOf(model, spec), buildPoolOf(model, spec)];
    if (model.serving.runtime !== "engine" || serves.name === builds.name) return [];
    const [wanted, found] = [gpuOf(serves), gpuOf(builds)];
    if (wanted === found) return [];
    return {
      path: `${model.path}.buildPool`,
      reason: `An engine runs only on the kind of GPU that built it: ${serves.name} serves with ${wanted}, ${builds.name} builds with ${found}.`,
      fix: `Use a pool with ${wanted}, or leave buildPool out.`,
    };
  }),

  machineHoldsBuild: eachModel((model, { config, spec }) => {
    // Another GPU is another machine, and its memory another one too.
    if (!model.engine.target.gpu.supported) return [];
    const pool = buildPoolOf(model, spec);
    const build = buildsOf(spec, pool).find((other) => other.model === model);
    if (build === undefined) return [];
    const empty = emptyMachine(spec, pool);
    const isHost = spec.runsOn === "host";
    const short = shortages([empty], build).filter(
      // Ranks have a check of their own, and Docker counts no CPUs.
      ({ resource }) => resource === "memory" || (resource === "cpu" && !isHost),
    );
    if (short.length === 0) return [];
    const { row, model: name } = model.engine;
    const { machine, units } = machineWords(spec, pool);
    const isConversion =
      model.serving.runtime === "engine" && short.some(({ resource }) => resource === "memory");
    const isBuildPool = valueAt(config, pathParts(`${model.path}.buildPool`)) !== undefined;
    const larger = cheapestTypes(
      spec.region,
      (type) =>
        type.gpu === pool.machine.gpu &&
        type.gpus >= worldSize(model) &&
        holds({ ...machineResources({ machine: type }), slots: type.gpus }, build),
    );
    const lead =
      isHost || isBuildPool
        ? "Use"
        : "Serve from it and name a larger pool with the same GPU in buildPool, or use";
    return {
      ...placeOf(model, pool, isBuildPool ? "buildPool" : "pool", spec),
      reason: isConversion
        ? `Converting ${name} holds its ${row.source.storedDtype} weights and the checkpoint in host memory, about ${gib(build.memoryMiB)} (an estimate); ${machine} leaves ${gib(empty.memoryMiB)} to ${units}.`
        : `Filling the engine store for ${model.serving.name} takes ${shortageWords(short)} of ${machine}.`,
      fix: useLarger(larger, shortNames(short), pool, lead),
    };
  }),

  machineHoldsOtherBuild: eachPool((pool, { spec }) => {
    const empty = emptyMachine(spec, pool);
    const hasUnplaced = packPool(spec, pool).unplaced.length > 0;
    return buildsOf(spec, pool).flatMap((build) => {
      const { name, model } = build;
      const isBesideFront = holds(empty, build);
      // A model's build has a check of its own, and servers have their machines first.
      if (isBesideFront ? hasUnplaced : model !== null) return [];
      const short = shortages(isBesideFront ? machinesWithoutServers(spec, pool) : [empty], build).filter(
        ({ resource }) => resource !== "gpu",
      );
      if (short.length === 0) return [];
      const names = podsOf(spec, pool).flatMap((pod) => (pod.kind === "front" ? [pod.name] : []));
      const beside = isBesideFront ? ` beside ${[...new Set(names)].join(", ")}, which no build stops` : "";
      const more = isBesideFront ? `${pool.nodes.max + 1}, ` : "";
      return {
        path: isBesideFront ? `${pool.path}.nodes.max` : machineWords(spec, pool).path,
        reason: `Building ${name} takes ${shortageWords(short)} of a machine of ${pool.name}${beside}.`,
        fix: `Use ${more}machines with more ${shortNames(short)}, or name another pool in ${model === null ? "encoders.pool" : `${model.path}.buildPool`}.`,
      };
    });
  }),

  diskHoldsBuild: eachModel((model, { spec }) => {
    const pool = buildPoolOf(model, spec);
    if (model.serving.runtime !== "engine") return [];
    const parts = Object.entries(buildDiskGiB(model, spec.release));
    const needed = Math.ceil(parts.reduce((sum, [, size]) => sum + size, 0));
    if (needed <= pool.diskGiB) return [];
    return {
      path: `${pool.path}.diskGiB`,
      reason: `Building ${model.serving.name} takes ${needed} GiB: ${parts.map(([what, size]) => `${what} ${size.toFixed(1)}`).join(", ")}.`,
      fix: `Use ${needed} or more.`,
    };
  }),

  gpuIsFreeToBuild: eachPool((pool, { spec }) => {
    if (packPool(spec, pool).unplaced.length > 0) return [];
    const largest = machinesWithoutServers(spec, pool);
    // A machine that is too small even without servers has checks of its own.
    const first = waitingBuilds(spec, pool).find((build) => largest.some((machine) => holds(machine, build)));
    if (first === undefined) return [];
    const { name, model, machines } = first;
    const short = machines.length === 0 && sharesGpuMemory(pool, first) ? [] : shortages(machines, first);
    const isHost = spec.runsOn === "host";
    const [what, stopped] =
      model === null
        ? ["the encoders are", "a server while they are built"]
        : [`${name} is`, "the model's server while its engine is built"];
    const ways = [
      isHost
        ? `Use a host with more ${shortNames(short)}`
        : `Use ${pool.nodes.max + 1}, machines with more ${short.length === 0 ? "GPUs" : shortNames(short)}`,
      ...(isHost || model === null ? [] : [`name a pool with ${gpuOf(pool)} for builds in buildPool`]),
      `or write \`engines: { whenFull: stopServer }\`, which stops ${stopped}`,
    ];
    return {
      path: isHost ? "engines.whenFull" : `${pool.path}.nodes.max`,
      reason:
        short.length === 0
          ? `Time slicing does not divide a GPU's memory, so that ${what} built on a machine without servers; when all servers run, ${pool.name} has no such machine.`
          : `When all servers run, ${isHost ? "the host does not have" : `no machine of ${pool.name} has`} room to build ${name}, which takes ${shortageWords(short)}.`,
      fix: `${ways.join(", ")}.`,
    };
  }),

  machineHasGpusToBuild: eachModel((model, { spec }) => {
    const [serves, builds] = [poolOf(model, spec), buildPoolOf(model, spec)];
    const ranks = worldSize(model);
    if (serves.name === builds.name || ranks <= builds.machine.gpus || model.serving.runtime !== "engine")
      return [];
    return {
      path: `${model.path}.buildPool`,
      reason: `A finished engine is tested with all ${ranks} ranks, and a machine of ${builds.name} has ${counted(builds.machine.gpus, "GPU")}.`,
      fix: `Use a pool whose machines have ${ranks} GPUs, or leave buildPool out.`,
    };
  }),
} satisfies Record<string, Check>;

/** As an engine sees it. */
function gpuOf({ gpu, sharing }: PoolSpec): string {
  if (gpu === null) return "no GPU";
  return sharing.mode === "mig" ? `${gpu.name} MIG ${sharing.profile}` : gpu.name;
}
