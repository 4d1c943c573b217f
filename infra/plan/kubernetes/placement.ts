/** Which machines pods run on, and what they are given of their GPUs. */
import type { ClusterGpuPlan } from "../gpu-stack.ts";
import { frontPool } from "../pool-space.ts";
import type { PoolSpec } from "../spec.ts";
import type { ClusterPlan } from "./cluster-plan.ts";
import { gpuResource } from "./gpu-resource.ts";
import type { PodPlacement, PodResources, PodRole, Toleration } from "./pod-types.ts";

/** Taint that keeps others away from machines with GPUs, on every managed cluster. */
const GPU_TAINT: Toleration = { key: "nvidia.com/gpu", operator: "Exists" };

/** `count` GPUs, partitions or shares of a pool; null for none. */
export function gpusOf(plan: ClusterGpuPlan, pool: PoolSpec, count: number): PodResources["gpus"] {
  if (count === 0) return null;
  return { resource: gpuResource(pool.sharing, plan.cluster.pools[pool.name]?.gpuResource ?? null), count };
}

/** A pool of the stack by its name; a resolved stack has all that are named. */
export function poolNamed({ spec }: ClusterGpuPlan, name: string): PoolSpec {
  const pool = spec.pools.find((one) => one.name === name);
  if (pool === undefined) throw new Error(`The stack has no pool ${name}.`);
  return pool;
}

/** On the machines of a pool. */
export function poolPlacement(
  plan: ClusterGpuPlan,
  pool: PoolSpec,
  { spreads = false, apartFrom = [] }: Partial<Pick<PodPlacement, "spreads" | "apartFrom">> = {},
): PodPlacement {
  const access = plan.cluster.pools[pool.name];
  return {
    pool: pool.name,
    nodeSelector: sorted(access?.nodeSelector ?? {}),
    tolerations: distinct([...(pool.gpu === null ? [] : [GPU_TAINT]), ...(access?.tolerations ?? [])]),
    apartFrom,
    spreads,
  };
}

/**
 * Of what needs no GPU and serves everybody: the first pool without GPUs, else any machine that there is, those of the
 * pools included. Without any GPU, the stack's machines.
 */
export function frontPlacement(plan: ClusterPlan): PodPlacement {
  if (plan.tier === "cpu") {
    const { nodeSelector, tolerations } = plan.cluster.machines;
    return { pool: null, nodeSelector: sorted(nodeSelector), tolerations, apartFrom: [], spreads: true };
  }
  const { pools } = plan.spec;
  const withoutGpu = frontPool(pools);
  if (withoutGpu !== undefined) return poolPlacement(plan, withoutGpu, { spreads: true });
  return {
    pool: null,
    nodeSelector: {},
    tolerations: distinct(pools.flatMap((pool) => poolPlacement(plan, pool).tolerations)),
    apartFrom: [],
    spreads: true,
  };
}

/**
 * Whom a build on a GPU of the pool keeps away from. Time slicing does not divide the memory of a GPU, and TensorRT
 * measures kernels on one that it has to itself.
 */
export function buildKeepsApartFrom(plan: ClusterGpuPlan, pool: PoolSpec): readonly PodRole[] {
  if (pool.sharing.mode !== "timeSlicing") return [];
  const encoders: readonly PodRole[] =
    plan.spec.encoders?.device === "gpu" ? ["encoders", "encoderBuild"] : [];
  return ["triton", "engineBuild", ...encoders];
}

function distinct(tolerations: readonly Toleration[]): readonly Toleration[] {
  const seen = new Set<string>();
  return tolerations.filter((one) => {
    const text = JSON.stringify(one);
    return !seen.has(text) && seen.add(text);
  });
}

function sorted(labels: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1)));
}
