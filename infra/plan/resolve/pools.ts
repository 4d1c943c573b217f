/** Machines: pools of a cluster, or the host of a Docker stack; and the choice of a pool for a model or the encoders. */
import type { GpuStackConfig } from "../../config/config.ts";
import { gpus } from "../catalogue/gpus.ts";
import { machineTypes } from "../catalogue/machines.ts";
import type { Gpu, MachineType } from "../catalogue/types.ts";
import { poolHourlyUsd } from "../cost/pool-price.ts";
import type { DeclaredPool, GpuPlatform } from "../gpu-platform.ts";
import { packPool } from "../pool-space.ts";
import type { EncodersSpec, GpuSharing, GpuStackSpec, PoolSpec } from "../spec.ts";
import { encoderRows } from "./encoder-rows.ts";
import { type Report, rowOf, unknownInstanceType, unknownName } from "./names.ts";

/** Pools whose machines are known; the others are reported and left out. */
export function resolvePools(
  declared: readonly DeclaredPool[],
  isRented: boolean,
  report: Report,
): readonly PoolSpec[] {
  return declared.flatMap((pool): readonly PoolSpec[] => {
    const { name, path, nodes, capacity, hourlyUsd, diskGiB, prePullsImages } = pool;
    const { zones, capacityReservationId, instanceType = null, otherInstanceTypes = [] } = pool;
    for (const [index, type] of otherInstanceTypes.entries())
      if (rowOf(machineTypes, type) === undefined)
        report(unknownInstanceType(`${path}.otherInstanceTypes[${index}]`, type, isRented));
    const machine = resolveMachine(pool, isRented, report);
    if (machine === null) return [];
    const gpu = rowOf<Gpu>(gpus, machine.gpu) ?? null;
    const sharing = resolveSharing(pool.sharing, gpu, path, report);
    const own = { nodes, capacity, hourlyUsd, diskGiB, prePullsImages, zones, capacityReservationId, path };
    const known = otherInstanceTypes.filter((type) => rowOf(machineTypes, type) !== undefined);
    const others = known.length === 0 ? {} : { otherInstanceTypes: known };
    return [{ name, instanceType, ...others, machine, gpu, sharing, ...own }];
  });
}

/** An instance type by its row, anything else by its parts. */
function resolveMachine(
  { instanceType, machine, path }: DeclaredPool,
  isRented: boolean,
  report: Report,
): MachineType | null {
  if (instanceType === undefined && (machine === undefined || isRented)) {
    report({
      path: `${path}.instanceType`,
      reason: isRented
        ? "AWS has to be told which instance type to start."
        : "It is not said what machine this is, so nothing can be checked against it.",
      fix: isRented
        ? "Name one, such as g5.4xlarge."
        : "Name an EC2 instance type of the same size, such as g5.4xlarge, or write the parts under `machine`.",
    });
    return null;
  }
  const row = instanceType === undefined ? undefined : rowOf<MachineType>(machineTypes, instanceType);
  if (row !== undefined && machine !== undefined) {
    report({
      path: `${path}.machine`,
      reason: `The parts of ${instanceType} are in the catalogue, and ${path}.instanceType names it.`,
      fix: "Remove one of the two.",
    });
  }
  if (row !== undefined) return row;
  if (machine === undefined) {
    report(unknownInstanceType(`${path}.instanceType`, instanceType ?? "", isRented));
    return null;
  }
  const { gpu, gpus: count, ...parts } = machine;
  if (gpu === undefined || count === 0) return { ...parts, gpu: "", gpus: 0 };
  if (rowOf<Gpu>(gpus, gpu) !== undefined) return { ...parts, gpu, gpus: count };
  const names = Object.keys(gpus);
  const unknown = unknownName(`${path}.machine.gpu`, gpu, "a GPU of the catalogue", names);
  // The nearest name is often that of another card, RTX 3090 for an RTX 3060: all are named beside it.
  const all = `Choose from ${names.join(", ")}.`;
  report({ ...unknown, fix: unknown.fix.startsWith(all) ? all : `${unknown.fix} ${all}` });
  return null;
}

/** Partitions have the names that NVIDIA gave them; others are reported, and the GPU is taken as a whole. */
function resolveSharing(sharing: GpuSharing, gpu: Gpu | null, path: string, report: Report): GpuSharing {
  if (sharing.mode !== "mig" || gpu === null) return sharing;
  if (rowOf(gpu.migProfiles, sharing.profile) !== undefined) return sharing;
  const profiles = Object.keys(gpu.migProfiles);
  report({
    ...unknownName(`${path}.sharing.profile`, sharing.profile, `a MIG profile of ${gpu.name}`, profiles),
    ...(profiles.length === 0 && {
      reason: `${gpu.name} can't be partitioned.`,
      fix: "Use mode timeSlicing or mps, or machines with A100, H100 or H200.",
    }),
  });
  return { mode: "none" };
}

export interface PoolChoice {
  readonly config: GpuStackConfig;
  readonly platform: Pick<GpuPlatform, "hasPools" | "runsOn">;
  /** All pools of the stack file. */
  readonly declared: readonly DeclaredPool[];
  /** Those that could be resolved. */
  readonly pools: readonly PoolSpec[];
  readonly report: Report;
}

/**
 * The pool of that name; null when no pool has it (reported), or when the pool itself could not be resolved (reported there).
 */
export function namedPool(
  { platform, declared, pools, report }: PoolChoice,
  name: string,
  path: string,
): PoolSpec | null {
  const names = declared.map((pool) => pool.name);
  if (!names.includes(name)) {
    report(
      platform.hasPools
        ? unknownName(path, name, "a pool", names)
        : {
            path,
            reason: "A Docker stack has one machine, its host, and no pools to choose from.",
            fix: "Remove the key.",
          },
    );
  }
  return pools.find((pool) => pool.name === name) ?? null;
}

/** Words of something that runs on GPUs only. */
interface GpuNeed {
  /** `TensorRT-LLM runs on nothing else` */
  readonly reason: string;
  /** The reason if the machines of a named pool have no GPU. */
  misplaced(pool: string): string;
  /** `, or write …`; empty if there is no other way. */
  readonly otherwise: string;
}

/**
 * A pool with GPUs: the pool of that name, else the only pool with GPUs. null when the choice is empty or ambiguous (reported,
 * unless a pool could not be resolved). The first of pools with the same name, which a check reports.
 */
export function gpuPool(
  choice: PoolChoice,
  path: string,
  name: string | undefined,
  { reason, misplaced, otherwise }: GpuNeed,
): PoolSpec | null {
  const { platform, declared, pools, report } = choice;
  if (name !== undefined) {
    const named = namedPool(choice, name, path);
    if (named === null || named.gpu !== null) return named;
    report({ path, reason: misplaced(name), fix: `Name a pool with GPUs${otherwise}.` });
    return null;
  }
  const candidates = pools.filter(({ gpu }) => gpu !== null);
  const [only] = candidates;
  const names = [...new Set(candidates.map((pool) => pool.name))];
  if (only !== undefined && names.length === 1) return only;
  if (pools.length < declared.length) return null;
  const [host] = declared;
  if (only !== undefined) {
    report({
      path,
      reason: `The stack has ${names.length} pools with GPUs, and does not say which is meant.`,
      fix: `Name one of ${names.join(", ")}.`,
    });
  } else if (platform.hasPools || host === undefined) {
    report({
      path,
      reason: `The stack has no pool with GPUs, and ${reason}.`,
      fix: `Add one, such as machines of type g5.4xlarge${otherwise}.`,
    });
  } else {
    report({
      path: `${host.path}.${host.instanceType === undefined ? "machine" : "instanceType"}`,
      reason: `The host has no GPU, and ${reason}.`,
      fix: `Use a host with one, such as g5.4xlarge${otherwise}.`,
    });
  }
  return null;
}

const ENCODERS_POOL = "encoders.pool";

const ENCODERS_NEED: GpuNeed = {
  reason: "the encoders need one",
  misplaced: (pool) => `The encoders need a GPU, and the machines of ${pool} have no GPU.`,
  otherwise: ", or write `device: cpu` under encoders",
};

/**
 * null for a stack without encoders, or when their rows or pool are unknown (reported).
 *
 * @param stack - The rest of the specification.
 */
export function resolveEncoders(choice: PoolChoice, stack: GpuStackSpec): EncodersSpec | null {
  const { encoders, catalogue } = choice.config;
  if (encoders === false) return null;
  const { device, maxBatchSize, maxQueueDelayMicroseconds, gpuIndices, replicas } = encoders;
  const precision = encoders.precision ?? (device === "gpu" ? "fp16" : "fp32");
  const batching = { maxBatchSize, maxQueueDelayMicroseconds };
  const rows = encoderRows(encoders, catalogue.encoders ?? {}, choice.report);
  if (rows === null) return null;
  const samples = encoders.calibration;
  const calibration = samples === undefined ? {} : { calibration: samples };
  const unplaced = { ...rows, ...calibration, device, precision, ...batching, gpuIndices, replicas };
  const pool =
    device === "gpu"
      ? gpuPool(choice, ENCODERS_POOL, encoders.pool, ENCODERS_NEED)
      : encoders.pool !== undefined
        ? namedPool(choice, encoders.pool, ENCODERS_POOL)
        : cheapestWithRoom(unplaced, choice, stack);
  return pool === null ? null : { ...unplaced, pool: pool.name };
}

/**
 * Pool of encoders on a CPU, without GPU if possible, to leave room for models: the cheapest with room beside the models'
 * servers, else the cheapest; among equal prices the first of the stack file.
 */
function cheapestWithRoom(
  encoders: Omit<EncodersSpec, "pool">,
  { declared }: PoolChoice,
  stack: GpuStackSpec,
): PoolSpec | null {
  const withoutGpus = stack.pools.filter(({ gpu }) => gpu === null);
  const candidates = withoutGpus.length > 0 ? withoutGpus : stack.pools;
  // A pool that could not be resolved, which is reported, may have been the better one.
  if (candidates.length > 1 && stack.pools.length < declared.length) return null;
  const price = (pool: PoolSpec) => poolHourlyUsd(stack, pool) ?? Number.POSITIVE_INFINITY;
  const byPrice = candidates.toSorted((a, b) => (price(a) < price(b) ? -1 : price(a) > price(b) ? 1 : 0));
  const hasRoom = (pool: PoolSpec) =>
    packPool({ ...stack, encoders: { ...encoders, pool: pool.name } }, pool).unplaced.every(
      ({ kind }) => kind !== "encoders",
    );
  return byPrice.find(hasRoom) ?? byPrice[0] ?? null;
}
