/** Price of one machine of a pool, and the number of machines that a stack plans with. */
import { onDemandHourlyUsd } from "../catalogue/prices.ts";
import { gpuPart, worldSize } from "../fit/placement.ts";
import type { GpuStackSpec, PoolSpec } from "../spec.ts";

/**
 * US dollars an hour of a pool's most expensive instance type; null if its price is unknown. The stack's own price comes first; an
 * owned machine without a price costs nothing. The table prices only on-demand machines, since spot prices change by the hour and a
 * Capacity Block is sold for days at a price of its own.
 */
export function poolHourlyUsd({ region }: Pick<GpuStackSpec, "region">, pool: PoolSpec): number | null {
  const { hourlyUsd, capacity } = pool;
  if (hourlyUsd !== undefined) return hourlyUsd;
  if (capacity === "owned") return 0;
  if (capacity !== "onDemand" || region === null) return null;
  const prices = instanceTypes(pool).map((type) => onDemandHourlyUsd(region, type));
  const known = prices.filter((price) => price !== null);
  return known.length === 0 || known.length < prices.length ? null : Math.max(...known);
}

/** All that a pool may start, in the order in which AWS is asked for them; none of a machine that is described by its parts. */
export function instanceTypes({
  instanceType,
  otherInstanceTypes = [],
}: Pick<PoolSpec, "instanceType" | "otherInstanceTypes">): readonly string[] {
  return instanceType === null ? [] : [instanceType, ...otherInstanceTypes];
}

/** Whether {@link poolHourlyUsd} takes the price from the table. */
export function isPricedByTable({ hourlyUsd, capacity }: PoolSpec): boolean {
  return hourlyUsd === undefined && capacity === "onDemand";
}

/** Machines that all replicas need at once, between the pool's minimum and maximum. A pool that only builds stays at its minimum. */
export function plannedNodes(stack: GpuStackSpec, pool: PoolSpec): number {
  return Math.min(pool.nodes.max, Math.max(pool.nodes.min, neededNodes(stack, pool, stack.models)));
}

/**
 * Machines that run after `npx engine-room sleep`. On AWS it ends those of a cluster, and stops the machine of a stack without a
 * cluster. If an existing autoscaler could start them again, it sets the minimum of pools with GPUs to 0 instead, so that only
 * encoders keep machines; pools without GPUs run the gateway, the databases and other services that stay awake. Elsewhere it ends no
 * machines, and an autoscaler may scale down to the minimum.
 */
export function asleepNodes(stack: GpuStackSpec, pool: PoolSpec): number {
  const planned = plannedNodes(stack, pool);
  const { isRented, rented } = stack;
  if (stack.runsOn === "host") return isRented ? 0 : planned;
  if (rented.sleepsWithoutMachines) return 0;
  if (pool.gpu === null) return planned;
  const kept = neededNodes(stack, pool, []);
  return Math.min(planned, isRented ? kept : Math.max(pool.nodes.min, kept));
}

/** Whether `npx engine-room sleep` takes the stack: a Docker host has no API that stops it. */
export function canSleep({ runsOn, isRented }: Pick<GpuStackSpec, "runsOn" | "isRented">): boolean {
  return runsOn !== "host" || isRented;
}

/** Machines for the replicas of some models and of the encoders: first fit, largest first; ranks of one server share a machine. */
function neededNodes(stack: GpuStackSpec, pool: PoolSpec, models: GpuStackSpec["models"]): number {
  const { encoders, runsOn } = stack;
  const encoderReplicas = encoders?.pool === pool.name ? encoders.replicas : 0;
  const slotsByPod = [
    ...models
      .filter((model) => model.pool === pool.name)
      .flatMap((model) => Array<number>(model.serving.replicas).fill(worldSize(model))),
    ...Array<number>(encoders?.device === "gpu" ? encoderReplicas : 0).fill(1),
  ].sort((a, b) => b - a);
  if (slotsByPod.length === 0) return encoders?.device === "cpu" && encoderReplicas > 0 ? 1 : 0;
  // A Docker host is one machine whose containers may share GPUs as they like.
  if (runsOn === "host" || pool.gpu === null) return 1;
  const slotsPerNode = pool.machine.gpus * gpuPart(pool.gpu, pool.sharing).slots;
  const freeSlots: number[] = [];
  for (const slots of slotsByPod) {
    const node = freeSlots.findIndex((free) => free >= slots);
    // A pod that fits on no machine counts as a machine; the checks refuse it.
    if (node === -1) freeSlots.push(Math.max(0, slotsPerNode - slots));
    else freeSlots[node] = (freeSlots[node] ?? 0) - slots;
  }
  return freeSlots.length;
}
