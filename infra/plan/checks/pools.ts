/** Pools and the host against the servers that they have to hold. Builds have builds.ts. */
import { onDemandHourlyUsd, REFERENCE_REGION } from "../catalogue/prices.ts";
import { worldSize } from "../fit/placement.ts";
import { machineResources, serverRequest, storedGiB } from "../pod-requests.ts";
import { emptyMachine, holds, packPool, podsOf, poolOf, shortages, slotsPerMachine } from "../pool-space.ts";
import { type Check, eachModel, eachPool } from "./check.ts";
import { cheapestTypes, machineWords, placeOf, shortageWords, useLarger } from "./machines.ts";
import { atMost, count, gib } from "./words.ts";

export const poolChecks = {
  nodesInOrder: eachPool(({ nodes, path }) => {
    if (nodes.min <= nodes.max) return [];
    return {
      path: `${path}.nodes.min`,
      reason: `At least ${nodes.min} machines and at most ${nodes.max} contradict each other.`,
      fix: `${atMost(nodes.max)}, or raise nodes.max.`,
    };
  }),

  spotIsPriced: eachPool(({ capacity, hourlyUsd, path, name }) => {
    if (capacity !== "spot" || hourlyUsd !== undefined) return [];
    return {
      severity: "warning",
      path: `${path}.hourlyUsd`,
      reason: `Prices of spot machines change by the hour and are in no table; ${name} is in no sum of the costs.`,
      fix: "Write what you expect to pay for one machine an hour.",
    };
  }),

  ownedIsPriced: eachPool(({ capacity, hourlyUsd, instanceType, path }, { spec }) => {
    if (capacity !== "owned" || instanceType === null || hourlyUsd !== undefined) return [];
    const usd = onDemandHourlyUsd(REFERENCE_REGION, instanceType);
    return {
      severity: "warning",
      path: `${path}.hourlyUsd`,
      reason:
        spec.runsOn === "host"
          ? `The host (${instanceType}) is taken as owned, so it costs nothing here.`
          : `Machines of type ${instanceType} are taken as owned, so they cost nothing here.`,
      fix: `Write what an hour of one costs where it is rented${usd === null ? "" : ` (${usd} on demand in ${REFERENCE_REGION})`}, or 0 where it is not.`,
    };
  }),

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
      reason: `The ${ranks} ranks need a whole GPU each, and the GPUs of ${name} are shared (${sharing.mode}): two ranks could land on one.`,
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
      fix: `Use ${needed} or more; twice as much leaves room for the engines before a change.`,
    };
  },

  serversFindMachines: eachPool((pool, { spec }) => {
    const space = packPool(spec, pool);
    const empty = emptyMachine(spec, pool);
    // A server that no machine could hold is a problem of its model.
    const homeless = space.homeless.filter((pod) => pod.kind !== "model" || holds(empty, pod));
    const [first] = homeless;
    if (first === undefined) return [];
    const names = [...new Set(homeless.map(({ name }) => name))];
    const pods = podsOf(spec, pool);
    const gpus = pool.gpu === null ? "" : ` with ${count(sum(pods.map(({ slots }) => slots)), "GPU")}`;
    const machines = `${count(pool.nodes.max, "machine")}${pool.gpu === null ? "" : ` of ${slotsPerMachine(pool)}`}`;
    return {
      path: `${pool.path}.nodes.max`,
      reason: `${count(pods.length, "server")}${gpus} want to run on ${machines}; ${homeless.length} of them (${names.join(", ")}) find no place: ${first.name} takes ${shortageWords(shortages(space.machines, first))}.`,
      fix: "Raise it, lower replicas, or use larger machines.",
    };
  }),

  hostHoldsServers: eachPool((pool, { spec }) => {
    if (spec.runsOn !== "host") return [];
    const has = machineResources(pool);
    const needed = sum(podsOf(spec, pool).map(({ memoryMiB }) => memoryMiB));
    if (needed <= has.memoryMiB) return [];
    return {
      path: machineWords(spec, pool).path,
      reason: `All servers together take ${gib(needed)} of memory, and the host has ${gib(has.memoryMiB)}.`,
      fix: "Use a larger host, or fewer servers.",
    };
  }),
} satisfies Record<string, Check>;

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
