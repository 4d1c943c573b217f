/** Which processes land on which GPU: the worst that a scheduler can do, so that a stack that fits here always fits. */
import type { Gpu } from "../catalogue/types.ts";
import type { EncodersSpec, GpuStackSpec, ModelSpec, PoolSpec } from "../spec.ts";
import { showGiB } from "../units.ts";
import { usableGiB } from "./gpu-memory.ts";

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
  /** Tenants that meet when the scheduler mixes all pods of the pool; 0 where the placement is certain. */
  readonly mixes: number;
}

/** Need of a tenant on a GPU of that capacity, in GiB. */
type TenantSize = (tenant: GpuTenant, capacityGiB: number) => number;

/** GPUs that one server of a model takes. */
export function worldSize(model: ModelSpec): number {
  return model.engine.tensorParallel * model.engine.pipelineParallel;
}

/**
 * Placements of every pool with GPUs, in the order of the pools. Placements that differ only by the number of the GPU appear once;
 * the encoders (where they use a GPU) and every rank of a model appear in at least one, unless no machine has enough GPUs for it.
 *
 * @param sizeGiB decides which pods are the worst company on a shared GPU.
 */
export function placements(stack: GpuStackSpec, sizeGiB: TenantSize): readonly Placement[] {
  return stack.pools.flatMap((pool): readonly Placement[] => {
    const { gpu } = pool;
    if (gpu === null) return [];
    const place = (tenants: readonly GpuTenant[], suffix = "", mixes = 0): Placement => {
      const { label, capacityGiB } = podCapacity(pool, gpu);
      return { pool, gpu, label: `${label}${suffix}`, capacityGiB, tenants, mixes };
    };
    if (stack.runsOn === "host") {
      return hostTenants(stack, pool).map(([index, tenants]) => place(tenants, `, number ${index}`));
    }
    const kinds = tenantKinds(stack, pool);
    if (pool.sharing.mode !== "timeSlicing") return kinds.map((tenant) => place([tenant]));
    const { replicas } = pool.sharing;
    const { capacityGiB } = podCapacity(pool, gpu);
    const groups = mixedTenants(kinds, replicas, (tenant) => sizeGiB(tenant, capacityGiB));
    return groups.map((tenants) => place(tenants, `, shared by ${replicas} in time`, groups[0]?.length));
  });
}

/** Memory that one pod has to itself, by way of sharing. */
function podCapacity(pool: PoolSpec, gpu: Gpu): Pick<Placement, "label" | "capacityGiB"> {
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
      const { profile } = pool.sharing;
      const memoryGiB = gpu.migProfiles[profile] ?? 0;
      return {
        label: `${gpu.name} ${profile} ${showGiB(memoryGiB)}`,
        capacityGiB: usableGiB(gpu, memoryGiB),
      };
    }
  }
}

/** Models that a pool serves. All ranks of a server run on one machine, so a model for which none has the GPUs is left out. */
function placeableModels(stack: GpuStackSpec, pool: PoolSpec): readonly ModelSpec[] {
  return stack.models.filter((model) => model.pool === pool.name && worldSize(model) <= pool.machine.gpus);
}

/** The stack's encoders, if they use a GPU of this pool. */
function gpuEncoders({ encoders }: GpuStackSpec, pool: PoolSpec): EncodersSpec | null {
  return encoders?.device === "gpu" && encoders.pool === pool.name ? encoders : null;
}

function rank(model: ModelSpec, leader: boolean): GpuTenant {
  return { kind: "rank", name: model.serving.name, model, leader };
}

function encoderTenant(encoders: EncodersSpec): GpuTenant {
  return { kind: "encoders", name: "encoders", encoders };
}

/** Kinds of pods of a pool: what one GPU can hold alone. Replicas are alike. */
function tenantKinds(stack: GpuStackSpec, pool: PoolSpec): readonly GpuTenant[] {
  const ranks = placeableModels(stack, pool).flatMap((model) =>
    worldSize(model) > 1 ? [rank(model, true), rank(model, false)] : [rank(model, true)],
  );
  const encoders = gpuEncoders(stack, pool);
  return encoders === null ? ranks : [...ranks, encoderTenant(encoders)];
}

/**
 * Time slicing: any `slots` pods meet on a GPU. The largest together are one group; each other kind of pod with the largest
 * company that it can have is another.
 */
function mixedTenants(
  kinds: readonly GpuTenant[],
  slots: number,
  sizeGiB: (tenant: GpuTenant) => number,
): readonly (readonly GpuTenant[])[] {
  const sorted = kinds
    .map((tenant) => ({ tenant, size: sizeGiB(tenant) }))
    .sort((a, b) => b.size - a.size)
    .map(({ tenant }) => tenant);
  const worst = sorted
    .flatMap((tenant) => Array.from({ length: Math.min(podsOf(tenant), slots) }, () => tenant))
    .slice(0, slots);
  const others = sorted.filter((tenant) => !worst.includes(tenant));
  return worst.length === 0 ? [] : [worst, ...others.map((tenant) => [tenant, ...worst.slice(0, -1)])];
}

/** Pods (slots, for ranks) that a kind of tenant has in the whole pool. */
function podsOf(tenant: GpuTenant): number {
  if (tenant.kind === "encoders") return Math.max(1, tenant.encoders.replicas);
  const replicas = Math.max(1, tenant.model.serving.replicas);
  return tenant.leader ? replicas : replicas * (worldSize(tenant.model) - 1);
}

/** GPU numbers of a Docker host in their order, each with the containers on it: these may overlap. */
function hostTenants(
  stack: GpuStackSpec,
  pool: PoolSpec,
): readonly (readonly [number, readonly GpuTenant[]])[] {
  const byIndex = new Map<number, GpuTenant[]>();
  for (const { model, indices } of hostGpuIndices(stack, pool)) {
    for (const [rankNumber, index] of indices.entries()) {
      const tenants = byIndex.get(index) ?? [];
      byIndex.set(index, tenants);
      if (model !== null) tenants.push(rank(model, rankNumber === 0));
      else if (stack.encoders !== null) tenants.push(encoderTenant(stack.encoders));
    }
  }
  return [...byIndex].sort(([a], [b]) => a - b);
}

/** A container of a Docker host that uses GPUs: rank `i` on `indices[i]`. */
interface HostContainer {
  /** null: the encoders. */
  readonly model: ModelSpec | null;
  readonly indices: readonly number[];
}

/**
 * GPU numbers of every container of a host, models in the stack's order, then encoders. `gpuIndices` are handed out in
 * turns of one world size for each replica. Containers without them take the lowest free numbers, and share from number 0 on
 * when all are taken; the ranks of one container never share. Models with more ranks than the host has GPUs are left out.
 */
export function hostGpuIndices(stack: GpuStackSpec, pool: PoolSpec): readonly HostContainer[] {
  const { gpus } = pool.machine;
  const encoders = gpuEncoders(stack, pool);
  const servers = [
    ...placeableModels(stack, pool).map((model) => ({
      model,
      ranks: worldSize(model),
      replicas: model.serving.replicas,
      explicit: model.gpuIndices,
    })),
    ...(encoders === null
      ? []
      : [{ model: null, ranks: 1, replicas: encoders.replicas, explicit: encoders.gpuIndices }]),
  ];
  const taken = new Set(servers.flatMap(({ explicit }) => explicit ?? []));
  const free = Array.from({ length: gpus }, (_, index) => index).filter((index) => !taken.has(index));
  let overflow = 0;
  const next = (own: readonly number[]): number => {
    let index = free.shift();
    while (index === undefined || own.includes(index)) {
      index = overflow % Math.max(1, gpus);
      overflow += 1;
    }
    return index;
  };
  return servers.flatMap(({ model, ranks, replicas, explicit }) =>
    // A model that is scaled to nothing must still fit when it comes back.
    Array.from({ length: Math.max(1, replicas) }, (_, replica) => {
      const indices: number[] = [];
      for (let index = replica * ranks; index < (replica + 1) * ranks; index += 1) {
        indices.push(explicit?.[index % explicit.length] ?? next(indices));
      }
      return { model, indices };
    }),
  );
}
