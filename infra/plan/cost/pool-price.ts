/** What one machine of a pool costs, and how many of them a stack plans with. */
import { onDemandHourlyUsd } from "../catalogue/prices.ts";
import { slotsPerGpu } from "../fit/gpu-memory.ts";
import { worldSize } from "../fit/placement.ts";
import type { GpuStackSpec, PoolSpec } from "../spec.ts";

/**
 * US dollars an hour of one machine. The stack's own price comes first; an owned machine without one costs nothing; the
 * table prices on-demand machines only, since spot prices change by the hour. null: no price is known.
 */
export function poolHourlyUsd(stack: Pick<GpuStackSpec, "region">, pool: PoolSpec): number | null {
  if (pool.hourlyUsd !== undefined) return pool.hourlyUsd;
  switch (pool.capacity) {
    case "owned":
      return 0;
    case "spot":
      return null;
    case "onDemand":
      return stack.region === null || pool.instanceType === null
        ? null
        : onDemandHourlyUsd(stack.region, pool.instanceType);
  }
}

/** Whether {@link poolHourlyUsd} takes its answer from the price table. */
export function isPricedByTable(pool: PoolSpec): boolean {
  return pool.hourlyUsd === undefined && pool.capacity === "onDemand";
}

/**
 * Machines of a pool that the stack plans with: what all replicas need at once, between the pool's least and most. A pool
 * that serves nothing, such as one that only builds, stays at its least.
 */
export function plannedNodes(stack: GpuStackSpec, pool: PoolSpec): number {
  return Math.min(pool.nodes.max, Math.max(pool.nodes.min, neededNodes(stack, pool, stack.models)));
}

/**
 * Machines of a pool that run after `npm run sleep`. On AWS it stops the one machine, and leaves pools with GPUs no least number:
 * what stays has encoders. Elsewhere it ends no machine, and who scales the pool may go down to its least. Pools without GPUs have
 * the gateway, the databases and what else stays awake.
 */
export function asleepNodes(stack: GpuStackSpec, pool: PoolSpec): number {
  const planned = plannedNodes(stack, pool);
  const isRented = stack.platform === "aws";
  if (stack.runsOn === "host") return isRented ? 0 : planned;
  if (pool.gpu === null) return planned;
  const kept = neededNodes(stack, pool, []);
  return Math.min(planned, isRented ? kept : Math.max(pool.nodes.min, kept));
}

/** Machines that these models' replicas and the encoders need. Ranks of one server share a machine; large servers are placed first. */
function neededNodes(stack: GpuStackSpec, pool: PoolSpec, models: GpuStackSpec["models"]): number {
  const served = models.filter((model) => model.pool === pool.name);
  const encoders = stack.encoders?.pool === pool.name ? stack.encoders : null;
  const pods = [
    ...served.flatMap((model) => repeated(worldSize(model), model.serving.replicas)),
    ...(encoders?.device === "gpu" ? repeated(1, encoders.replicas) : []),
  ].sort((a, b) => b - a);
  const usesCpu = encoders?.device === "cpu" && encoders.replicas > 0;
  if (pods.length === 0) return usesCpu ? 1 : 0;
  // A Docker host is one machine whose containers may share GPUs as they like.
  if (stack.runsOn === "host" || pool.gpu === null) return 1;
  return nodesForPods(pods, pool.machine.gpus * slotsPerGpu(pool.gpu, pool.sharing));
}

/**
 * First fit, largest first. A pod that no machine holds counts as a machine of its own; the checks refuse it.
 *
 * @param pods slots of each pod, largest first.
 */
function nodesForPods(pods: readonly number[], slotsPerNode: number): number {
  const free: number[] = [];
  for (const pod of pods) {
    const node = free.findIndex((slots) => slots >= pod);
    if (node === -1) free.push(Math.max(0, slotsPerNode - pod));
    else free[node] = (free[node] ?? 0) - pod;
  }
  return free.length;
}

function repeated(value: number, times: number): readonly number[] {
  return Array.from({ length: times }, () => value);
}
