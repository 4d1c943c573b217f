/** Which processes land on which GPU: the worst that a scheduler can do, so that a stack that fits here always fits. */
import type { Gpu } from "../catalogue/types.ts";
import type { EncodersSpec, GpuSharing, GpuStackSpec, ModelSpec, PoolSpec } from "../spec.ts";
import { showGiB } from "../units.ts";
import { encodersTenant, type GpuTenant, rankTenant } from "./terms.ts";

/**
 * Share of the memory of a data sheet or the EC2 API that CUDA can allocate; the driver and its page tables have the rest.
 * Reports of `cudaMemGetInfo`: 79.10 of 80 GiB on an H100 (https://nvidia.github.io/TensorRT-LLM/reference/memory.html),
 * 40,338 of 40,960 MiB on an A100 (https://github.com/NVIDIA/TensorRT-LLM/issues/85), 22,588 of the API's 22,888 MiB on an
 * A10 (https://github.com/signalnine/q27/issues/1): 98.5 to 98.9 %.
 */
const USABLE_FRACTION = 0.98;

/**
 * A T4 has its error correction in line: it takes a sixteenth of the 16 GiB that the EC2 API reports. The API's figures of
 * the other GPUs with GDDR6 (22,888 MiB of 24 GB, 45,776 MiB of 48 GB) are net of it. Inferred from these figures.
 */
const IN_LINE_ECC_OF_TURING = 15 / 16;

/** GiB that the processes on a GPU, or on a partition of `partitionGiB`, can allocate together. */
export function usableGiB(gpu: Gpu, partitionGiB: number = gpu.memoryGiB): number {
  const ecc = gpu.architecture === "Turing" ? IN_LINE_ECC_OF_TURING : 1;
  return partitionGiB * ecc * USABLE_FRACTION;
}

/** Compute slices of a GPU that can be partitioned: A100, H100 and H200 have seven. */
const COMPUTE_SLICES = 7;

/** A GPU, partition or share as a pod sees it. */
interface GpuPart {
  /** `A10G 22.35 GiB`, with partition or share. */
  readonly label: string;
  readonly capacityGiB: number;
  /** Pods that one GPU takes: `nvidia.com/gpu` (or MIG resources) that the device plugin advertises for it. */
  readonly slots: number;
}

export function gpuPart(gpu: Gpu, sharing: GpuSharing): GpuPart {
  const whole = `${gpu.name} ${showGiB(gpu.memoryGiB)}`;
  const capacityGiB = usableGiB(gpu);
  switch (sharing.mode) {
    case "none":
      return { label: whole, capacityGiB, slots: 1 };
    case "timeSlicing":
      return {
        label: `${whole}, shared by ${sharing.replicas} in time`,
        capacityGiB,
        slots: sharing.replicas,
      };
    case "mps": {
      // The device plugin limits each client to total ÷ replicas (k8s-device-plugin, README, "With CUDA MPS").
      const { replicas } = sharing;
      return {
        label: `${whole}, 1/${replicas} by MPS`,
        capacityGiB: capacityGiB / replicas,
        slots: replicas,
      };
    }
    case "mig": {
      // A profile that the GPU lacks has no memory and no slots: nothing fits, and a check reports the profile.
      const { profile } = sharing;
      const memoryGiB = gpu.migProfiles[profile] ?? 0;
      const slices = Number.parseInt(profile, 10);
      return {
        label: `${gpu.name} ${profile} ${showGiB(memoryGiB)}`,
        capacityGiB: usableGiB(gpu, memoryGiB),
        slots:
          memoryGiB > 0 && slices > 0
            ? Math.floor(Math.min(COMPUTE_SLICES / slices, gpu.memoryGiB / memoryGiB))
            : 0,
      };
    }
  }
}

/** One GPU, partition or share, with the most that can land on it. */
export interface Placement extends Omit<GpuPart, "slots"> {
  readonly tenants: readonly GpuTenant[];
}

/** GPUs that one server of a model takes. */
export function worldSize(model: ModelSpec): number {
  return model.engine.tensorParallel * model.engine.pipelineParallel;
}

/** Whether pods meet on a GPU whose memory is not divided, as the scheduler likes. */
export function isMixed({ runsOn }: GpuStackSpec, { sharing }: PoolSpec): boolean {
  return runsOn === "cluster" && sharing.mode === "timeSlicing";
}

/**
 * Placements on the GPUs of a pool. Placements that differ only by the number of the GPU appear once; the encoders (if they
 * use a GPU) and every rank of a model appear in at least one, unless no machine has enough GPUs for it. If pods are mixed,
 * the worst mix comes first.
 *
 * @param sizeGiB Need of a tenant if others share its GPU, by which the worst mix is found.
 */
export function placements(
  stack: GpuStackSpec,
  pool: PoolSpec,
  sizeGiB: (tenant: GpuTenant, capacityGiB: number) => number,
): readonly Placement[] {
  if (pool.gpu === null) return [];
  const { slots, ...part } = gpuPart(pool.gpu, pool.sharing);
  if (stack.runsOn === "host") {
    return hostTenants(stack, pool).map(([index, tenants]) => ({
      ...part,
      label: `${part.label} (GPU ${index})`,
      tenants,
    }));
  }
  // Tenants that a GPU can hold by themselves. Replicas are alike.
  const encoders = gpuEncoders(stack, pool);
  const kinds = [
    ...placeableModels(stack, pool).flatMap((model) =>
      (worldSize(model) > 1 ? [true, false] : [true]).map((leader) => rankTenant(model, leader)),
    ),
    ...(encoders === null ? [] : [encodersTenant(encoders)]),
  ];
  const groups = isMixed(stack, pool)
    ? mixedTenants(kinds, slots, encoders?.replicas ?? 0, (tenant) => sizeGiB(tenant, part.capacityGiB))
    : kinds.map((tenant) => [tenant]);
  return groups.map((tenants) => ({ ...part, tenants }));
}

/** Models that a pool serves. All ranks of a server run on one machine, so a model for which none has the GPUs is left out. */
function placeableModels(stack: GpuStackSpec, pool: PoolSpec): readonly ModelSpec[] {
  return stack.models.filter((model) => model.pool === pool.name && worldSize(model) <= pool.machine.gpus);
}

/** The stack's encoders, if they use a GPU of this pool. */
function gpuEncoders({ encoders }: GpuStackSpec, pool: PoolSpec): EncodersSpec | null {
  return encoders?.device === "gpu" && encoders.pool === pool.name ? encoders : null;
}

/**
 * Time slicing: any `slots` pods meet on a GPU. The largest together are one group; each other kind of pod with the largest
 * pods beside it is another.
 */
function mixedTenants(
  kinds: readonly GpuTenant[],
  slots: number,
  encoderReplicas: number,
  sizeGiB: (tenant: GpuTenant) => number,
): readonly (readonly GpuTenant[])[] {
  const sorted = kinds
    .map((tenant) => ({ tenant, size: sizeGiB(tenant) }))
    .sort((a, b) => b.size - a.size)
    .map(({ tenant }) => tenant);
  const podsOf = ({ model, leader }: GpuTenant): number => {
    const replicas = Math.max(1, model?.serving.replicas ?? encoderReplicas);
    return model === null || leader ? replicas : replicas * (worldSize(model) - 1);
  };
  const worst = sorted
    .flatMap((tenant) => Array<GpuTenant>(Math.min(podsOf(tenant), slots)).fill(tenant))
    .slice(0, slots);
  const others = sorted.filter((tenant) => !worst.includes(tenant));
  return worst.length === 0 ? [] : [worst, ...others.map((tenant) => [tenant, ...worst.slice(0, -1)])];
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
      if (model !== null) tenants.push(rankTenant(model, rankNumber === 0));
      else if (stack.encoders !== null) tenants.push(encodersTenant(stack.encoders));
    }
  }
  return [...byIndex].sort(([a], [b]) => a - b);
}

/** A container of a Docker host that uses GPUs: rank `i` on `indices[i]`. */
interface HostContainer {
  /** null for the encoders. */
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
