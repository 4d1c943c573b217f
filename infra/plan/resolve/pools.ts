/** Machines: pools of a cluster, or the one host of a Docker stack; and the choice of one for a model or the encoders. */
import type { GpuStackConfig } from "../../config/config.ts";
import type { MachineConfig } from "../../config/models.ts";
import { gpus } from "../catalogue/gpus.ts";
import { machineTypes } from "../catalogue/machines.ts";
import type { Gpu, MachineType } from "../catalogue/types.ts";
import { poolHourlyUsd } from "../cost/pool-price.ts";
import type { DeclaredPool, GpuPlatform } from "../gpu-platform.ts";
import { packPool } from "../pool-space.ts";
import type { EncodersSpec, GpuSharing, GpuStackSpec, PoolSpec } from "../spec.ts";
import { type Report, rowOf, unknownInstanceType, unknownName } from "./names.ts";

/** Pools whose machines are known; the others are reported and left out. */
export function resolvePools(
  declared: readonly DeclaredPool[],
  isRented: boolean,
  report: Report,
): readonly PoolSpec[] {
  return declared.flatMap((pool): readonly PoolSpec[] => {
    const { name, path, nodes, capacity, hourlyUsd, diskGiB, prePullsImages } = pool;
    const { zones, capacityReservationId } = pool;
    const machine = resolveMachine(pool, path, isRented, report);
    if (machine === null) return [];
    const own = {
      name,
      nodes,
      capacity,
      hourlyUsd,
      diskGiB,
      prePullsImages,
      zones,
      capacityReservationId,
      path,
    };
    return [{ ...own, ...machine, sharing: resolveSharing(pool.sharing, machine.gpu, path, report) }];
  });
}

type ResolvedMachine = Pick<PoolSpec, "instanceType" | "machine" | "gpu">;

/** An instance type by its row, anything else by its parts. */
function resolveMachine(
  { instanceType, machine }: Pick<DeclaredPool, "instanceType" | "machine">,
  path: string,
  isRented: boolean,
  report: Report,
): ResolvedMachine | null {
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
  if (row !== undefined) {
    if (machine !== undefined) {
      report({
        path: `${path}.machine`,
        reason: `The parts of ${instanceType} are in the catalogue, and ${path}.instanceType names it.`,
        fix: "Remove one of the two.",
      });
    }
    return { instanceType: instanceType ?? null, machine: row, gpu: rowOf<Gpu>(gpus, row.gpu) ?? null };
  }
  if (machine === undefined) {
    report(unknownInstanceType(`${path}.instanceType`, instanceType ?? "", isRented));
    return null;
  }
  return machineOfParts(machine, instanceType ?? null, path, report);
}

function machineOfParts(
  { gpu: gpuName, gpus: gpuCount, ...parts }: MachineConfig,
  instanceType: string | null,
  path: string,
  report: Report,
): ResolvedMachine | null {
  const withoutGpu = { ...parts, gpu: "", gpus: 0 };
  if (gpuName === undefined || gpuCount === 0) return { instanceType, machine: withoutGpu, gpu: null };
  const gpu = rowOf<Gpu>(gpus, gpuName);
  if (gpu === undefined) {
    const names = Object.keys(gpus);
    const unknown = unknownName(`${path}.machine.gpu`, gpuName, "a GPU of the catalogue", names);
    // The nearest name is often that of another card, RTX 3090 for an RTX 3060: all are named beside it.
    const all = `There are ${names.join(", ")}.`;
    report({ ...unknown, fix: unknown.fix.startsWith(all) ? all : `${unknown.fix} ${all}` });
    return null;
  }
  return { instanceType, machine: { ...withoutGpu, gpu: gpuName, gpus: gpuCount }, gpu };
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
 * The pool of that name; null where there is none (reported), or where the pool itself could not be resolved (reported
 * there).
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

/** Why something needs a pool with GPUs, and what else could be done. */
interface GpuNeed {
  /** `TensorRT-LLM runs on nothing else` */
  readonly reason: string;
  /** `, or write …`; empty where there is no other way. */
  readonly otherwise: string;
}

/**
 * The only pool with GPUs; null where there are none or several (reported, unless a pool is missing that could not be
 * resolved). Of pools with one name, which a check reports, it is the first.
 */
export function onlyGpuPool(
  { platform, declared, pools, report }: PoolChoice,
  path: string,
  { reason, otherwise }: GpuNeed,
): PoolSpec | null {
  const candidates = pools.filter(({ gpu }) => gpu !== null);
  const [only] = candidates;
  const names = [...new Set(candidates.map(({ name }) => name))];
  if (only !== undefined && names.length === 1) return only;
  if (pools.length < declared.length) return null;
  if (only !== undefined) {
    report({
      path,
      reason: `The stack has ${names.length} pools with GPUs, and does not say which is meant.`,
      fix: `Name one of ${names.join(", ")}.`,
    });
    return null;
  }
  const [host] = declared;
  report(
    platform.hasPools || host === undefined
      ? {
          path,
          reason: `The stack has no pool with GPUs, and ${reason}.`,
          fix: `Add one, such as machines of type g5.4xlarge${otherwise}.`,
        }
      : {
          path: `${host.path}.${host.instanceType === undefined ? "machine" : "instanceType"}`,
          reason: `The host has no GPU, and ${reason}.`,
          fix: `Use a host with one, such as g5.4xlarge${otherwise}.`,
        },
  );
  return null;
}

const ENCODERS_POOL = "encoders.pool";
const CPU_INSTEAD = ", or write `device: cpu` under encoders";

/** Encoders that have no pool yet. */
type Unplaced = Omit<EncodersSpec, "pool">;

/**
 * null: the stack has none, or their pool is not known (reported).
 *
 * @param stack - All the rest of the specification, without encoders.
 */
export function resolveEncoders(choice: PoolChoice, stack: GpuStackSpec): EncodersSpec | null {
  const { encoders } = choice.config;
  if (encoders === false) return null;
  const unplaced: Unplaced = {
    vision: encoders.vision,
    text: encoders.text,
    device: encoders.device,
    precision: encoders.precision ?? (encoders.device === "gpu" ? "fp16" : "fp32"),
    maxBatchSize: encoders.maxBatchSize,
    maxQueueDelayMicroseconds: encoders.maxQueueDelayMicroseconds,
    gpuIndices: encoders.gpuIndices,
    replicas: encoders.replicas,
  };
  const pool =
    encoders.pool === undefined
      ? defaultPool(unplaced, choice, stack)
      : encodersPool(unplaced, encoders.pool, choice);
  return pool === null ? null : { ...unplaced, pool: pool.name };
}

function encodersPool({ device }: Unplaced, pool: string, choice: PoolChoice): PoolSpec | null {
  const named = namedPool(choice, pool, ENCODERS_POOL);
  if (named === null || named.gpu !== null || device === "cpu") return named;
  choice.report({
    path: ENCODERS_POOL,
    reason: `The encoders are to run on a GPU, and the machines of ${pool} have none.`,
    fix: `Name a pool with GPUs${CPU_INSTEAD}.`,
  });
  return null;
}

/**
 * On a CPU the encoders take no place from models where there is a pool without GPU. Of several pools it is the cheapest that
 * has room for them beside the models' servers, or the cheapest where none has; of equal ones the first of the stack file.
 */
function defaultPool(encoders: Unplaced, choice: PoolChoice, stack: GpuStackSpec): PoolSpec | null {
  if (encoders.device === "gpu") {
    return onlyGpuPool(choice, ENCODERS_POOL, {
      reason: "the encoders are to run on one",
      otherwise: CPU_INSTEAD,
    });
  }
  const withoutGpus = stack.pools.filter(({ gpu }) => gpu === null);
  const candidates = withoutGpus.length > 0 ? withoutGpus : stack.pools;
  // A pool that could not be resolved, which is reported, may have been the better one.
  if (candidates.length > 1 && stack.pools.length < choice.declared.length) return null;
  const price = (pool: PoolSpec) => poolHourlyUsd(stack, pool) ?? Number.POSITIVE_INFINITY;
  const byPrice = candidates.toSorted((a, b) => (price(a) < price(b) ? -1 : price(a) > price(b) ? 1 : 0));
  return byPrice.find((pool) => hasRoom(encoders, pool, stack)) ?? byPrice[0] ?? null;
}

function hasRoom(encoders: Unplaced, pool: PoolSpec, stack: GpuStackSpec): boolean {
  const { homeless } = packPool({ ...stack, encoders: { ...encoders, pool: pool.name } }, pool);
  return homeless.every(({ kind }) => kind !== "encoders");
}
