/**
 * Which processes land on which GPU. A scheduler decides that at run time, so a placement is the worst that it can do:
 * a stack that fits its placements fits however pods are scheduled.
 */
import type { Gpu } from "../catalogue/types.ts";
import type { EncodersSpec, GpuStackSpec, ModelSpec, PoolSpec } from "../spec.ts";
import { partitionGiB, usableGiB } from "./gpu-memory.ts";
import { showGiB } from "./numbers.ts";

/** One process group on a GPU: a rank of a language model, or the encoders. */
export type GpuTenant =
  | {
      readonly kind: "rank";
      /** Name of the model in the stack. */
      readonly name: string;
      readonly model: ModelSpec;
      /** Rank 0 runs Triton's frontend and the visual engine; the others only their part of the language model. */
      readonly leader: boolean;
    }
  | { readonly kind: "encoders"; readonly name: "encoders"; readonly encoders: EncodersSpec };

/** One GPU, partition or share, with the most that can land on it. */
export interface Placement {
  readonly pool: PoolSpec;
  readonly gpu: Gpu;
  /** `A10G 22.35 GiB`, with partition, share or number. */
  readonly label: string;
  readonly capacityGiB: number;
  readonly tenants: readonly GpuTenant[];
  /**
   * Tenants that can meet here when the scheduler mixes all pods of the pool; 0 where the placement is certain. Their
   * headroom must then hold for any mix, not just for this one.
   */
  readonly mixes: number;
}

/** GPUs that one server of a model takes. */
export function worldSize(model: ModelSpec): number {
  return model.engine.tensorParallel * model.engine.pipelineParallel;
}

/** Models that a pool serves. All ranks of a server run on one machine, so a model for which none has the GPUs is left out. */
function placeableModels(stack: GpuStackSpec, pool: PoolSpec): readonly ModelSpec[] {
  return stack.models.filter((model) => model.pool === pool.name && worldSize(model) <= pool.machine.gpus);
}

/**
 * Placements of every pool with GPUs, in the order of the pools. A placement that differs from another only by the number
 * of the GPU appears once; the encoders (where they use a GPU) and every rank appear in at least one, unless the machines
 * have fewer GPUs than the model has ranks: no GPU is what such a model lacks memory on.
 *
 * @param sizeGiB what a tenant needs on a GPU of that capacity; decides which pods are the worst company on a shared GPU.
 */
export function placements(
  stack: GpuStackSpec,
  sizeGiB: (tenant: GpuTenant, capacityGiB: number) => number,
): readonly Placement[] {
  return stack.pools.flatMap((pool) => {
    const { gpu } = pool;
    if (gpu === null) return [];
    if (stack.runsOn === "host") return hostPlacements(stack, pool, gpu);
    if (pool.sharing.mode === "timeSlicing") return mixedPlacements(stack, pool, gpu, sizeGiB);
    const capacity = podCapacity(pool, gpu);
    return distinctTenants(stack, pool).map((tenant) => ({
      pool,
      gpu,
      ...capacity,
      tenants: [tenant],
      mixes: 0,
    }));
  });
}

/** Memory that one pod has to itself, by way of sharing. */
function podCapacity(pool: PoolSpec, gpu: Gpu): { readonly label: string; readonly capacityGiB: number } {
  const whole = `${gpu.name} ${showGiB(gpu.memoryGiB)}`;
  switch (pool.sharing.mode) {
    case "none":
    case "timeSlicing":
      return { label: whole, capacityGiB: usableGiB(gpu) };
    case "mps": {
      // The device plugin limits each client to total ÷ replicas (k8s-device-plugin, README, "With CUDA MPS").
      const { replicas } = pool.sharing;
      return { label: `${whole}, 1/${replicas} by MPS`, capacityGiB: usableGiB(gpu) / replicas };
    }
    case "mig": {
      // A profile that the GPU lacks has no memory: nothing fits, and the checks say why.
      const memoryGiB = partitionGiB(gpu, pool.sharing.profile) ?? 0;
      return {
        label: `${gpu.name} ${pool.sharing.profile} ${showGiB(memoryGiB)}`,
        capacityGiB: usableGiB(gpu, memoryGiB),
      };
    }
  }
}

/** Kinds of pods of a pool: what one GPU can hold alone. Replicas are alike. */
function distinctTenants(stack: GpuStackSpec, pool: PoolSpec): readonly GpuTenant[] {
  const tenants: GpuTenant[] = [];
  for (const model of placeableModels(stack, pool)) {
    tenants.push(rank(model, true));
    if (worldSize(model) > 1) tenants.push(rank(model, false));
  }
  const encoders = gpuEncoders(stack, pool.name);
  if (encoders !== null) tenants.push(encoderTenant(encoders));
  return tenants;
}

/**
 * Time slicing: any `replicas` pods meet on a GPU. The largest together are one placement; each other kind of pod with
 * the largest company that it can have is another.
 */
function mixedPlacements(
  stack: GpuStackSpec,
  pool: PoolSpec,
  gpu: Gpu,
  sizeGiB: (tenant: GpuTenant, capacityGiB: number) => number,
): readonly Placement[] {
  const slots = pool.sharing.mode === "timeSlicing" ? pool.sharing.replicas : 1;
  const { label, capacityGiB } = podCapacity(pool, gpu);
  const kinds = distinctTenants(stack, pool)
    .map((tenant) => ({ tenant, size: sizeGiB(tenant, capacityGiB), pods: podsOf(tenant) }))
    .sort((a, b) => b.size - a.size);
  const pods = kinds.flatMap((kind) => Array.from({ length: Math.min(kind.pods, slots) }, () => kind.tenant));
  const worst = pods.slice(0, slots);
  const groups = [
    worst,
    ...kinds
      .filter((kind) => !worst.includes(kind.tenant))
      .map((kind) => [kind.tenant, ...worst.slice(0, -1)]),
  ];
  return groups
    .filter((tenants) => tenants.length > 0)
    .map((tenants) => ({
      pool,
      gpu,
      label: `${label}, shared by ${slots} in time`,
      capacityGiB,
      tenants,
      mixes: worst.length,
    }));
}

/** Pods (slots, for ranks) that a kind of tenant has in the whole pool. */
function podsOf(tenant: GpuTenant): number {
  if (tenant.kind === "encoders") return Math.max(1, tenant.encoders.replicas);
  const replicas = Math.max(1, tenant.model.serving.replicas);
  return tenant.leader ? replicas : replicas * (worldSize(tenant.model) - 1);
}

/** A Docker host has no scheduler: containers take the GPUs that {@link hostGpuIndices} gives them, and may overlap. */
function hostPlacements(stack: GpuStackSpec, pool: PoolSpec, gpu: Gpu): readonly Placement[] {
  const byIndex = new Map<number, GpuTenant[]>();
  for (const container of hostGpuIndices(stack, pool)) {
    container.indices.forEach((index, rankNumber) => {
      const tenant =
        container.model === null
          ? encoderTenant(container.encoders)
          : rank(container.model, rankNumber === 0);
      byIndex.set(index, [...(byIndex.get(index) ?? []), tenant]);
    });
  }
  const { label, capacityGiB } = podCapacity(pool, gpu);
  return [...byIndex]
    .sort(([a], [b]) => a - b)
    .map(([index, tenants]) => ({
      pool,
      gpu,
      label: `${label}, number ${index}`,
      capacityGiB,
      tenants,
      mixes: 0,
    }));
}

/** A container of a Docker host that uses GPUs: rank `i` on `indices[i]`. */
type HostContainer = { readonly replica: number; readonly indices: readonly number[] } & (
  | { readonly model: ModelSpec; readonly encoders: null }
  | { readonly model: null; readonly encoders: EncodersSpec }
);

/**
 * GPU numbers of every container of a host, models in the stack's order, then encoders. `gpuIndices` are handed out in
 * turns of one world size for each replica. Containers without them take the lowest numbers that nobody has, and share
 * from number 0 on when all are taken; the ranks of one container never share. Models with more ranks than the host has GPUs
 * are left out.
 */
export function hostGpuIndices(stack: GpuStackSpec, pool: PoolSpec): readonly HostContainer[] {
  const models = placeableModels(stack, pool);
  const encoders = gpuEncoders(stack, pool.name);
  const taken = new Set([
    ...models.flatMap((model) => model.gpuIndices ?? []),
    ...(encoders?.gpuIndices ?? []),
  ]);
  let overflow = 0;
  const next = (own: readonly number[]): number => {
    for (let index = 0; index < pool.machine.gpus; index += 1) {
      if (!taken.has(index)) {
        taken.add(index);
        return index;
      }
    }
    let index: number;
    do {
      index = overflow % Math.max(1, pool.machine.gpus);
      overflow += 1;
    } while (own.includes(index));
    return index;
  };
  const indicesOf = (explicit: readonly number[] | undefined, size: number, replica: number) => {
    const own: number[] = [];
    for (let rankNumber = 0; rankNumber < size; rankNumber += 1) {
      own.push(explicit?.[(replica * size + rankNumber) % explicit.length] ?? next(own));
    }
    return own;
  };
  return [
    ...models.flatMap((model) =>
      replicasOf(model.serving.replicas).map((replica) => ({
        model,
        encoders: null,
        replica,
        indices: indicesOf(model.gpuIndices, worldSize(model), replica),
      })),
    ),
    ...(encoders === null
      ? []
      : replicasOf(encoders.replicas).map((replica) => ({
          model: null,
          encoders,
          replica,
          indices: indicesOf(encoders.gpuIndices, 1, replica),
        }))),
  ];
}

/** A model that is scaled to nothing must still fit when it comes back. */
function replicasOf(count: number): readonly number[] {
  return Array.from({ length: Math.max(1, count) }, (_, replica) => replica);
}

function rank(model: ModelSpec, leader: boolean): GpuTenant {
  return { kind: "rank", name: model.serving.name, model, leader };
}

function encoderTenant(encoders: EncodersSpec): GpuTenant {
  return { kind: "encoders", name: "encoders", encoders };
}

/** The stack's encoders, if they use a GPU of this pool. */
function gpuEncoders(stack: GpuStackSpec, pool: string): EncodersSpec | null {
  const { encoders } = stack;
  return encoders !== null && encoders.device === "gpu" && encoders.pool === pool ? encoders : null;
}
