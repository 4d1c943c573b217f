/** Which builds a pool runs, and whether they find room beside all that serves there. */
import { worldSize } from "./fit/placement.ts";
import { buildRequest, machineResources } from "./pod-requests.ts";
import {
  emptyMachine,
  encodersRoom,
  holds,
  packPool,
  podsOf,
  type Room,
  type Shortage,
  sharesGpuMemory,
  shortages,
} from "./pool-space.ts";
import type { GpuStackSpec, ModelSpec, PoolSpec } from "./spec.ts";

/** What fills the engine store with one thing. */
interface PoolBuild extends Room {
  /** Of the model in the stack; `encoders`. */
  readonly name: string;
  /** null: of the encoders. */
  readonly model: ModelSpec | null;
}

interface WaitingBuild extends PoolBuild {
  /** What the machine that comes closest has too little of; nothing where only one without servers would do. */
  readonly short: readonly Shortage[];
}

/** Builds of a pool: engines, weights that are served without one, and the encoders'. */
export function buildsOf({ runsOn, models, encoders }: GpuStackSpec, pool: PoolSpec): readonly PoolBuild[] {
  const ofModels = models
    .filter((model) => model.buildPool === pool.name && fillsStore(model))
    .map((model) => ({ name: model.serving.name, model, ...buildRoom(model) }));
  // On a Docker host they are built on the GPUs that they serve from.
  if (runsOn === "host" || encoders === null || encoders.pool !== pool.name) return ofModels;
  return [...ofModels, { name: "encoders", model: null, ...encodersRoom(encoders) }];
}

/** Weights in a folder that are served without an engine lie where they are. */
function fillsStore({ engine, serving }: ModelSpec): boolean {
  return serving.runtime === "engine" || engine.weights.kind !== "folder";
}

/** What the build of a model takes of a machine; a download needs no GPU. */
function buildRoom(model: ModelSpec): Room {
  return { ...buildRequest(model), slots: model.serving.runtime === "engine" ? worldSize(model) : 0 };
}

/**
 * Builds that find no room while all servers run; none where a build stops a server. Time slicing does not divide a GPU's
 * memory, so that what builds on one keeps to machines on whose GPUs nobody serves.
 */
export function waitingBuilds(spec: GpuStackSpec, pool: PoolSpec): readonly WaitingBuild[] {
  if (spec.whenFull === "stopServer") return [];
  const { machines } = packPool(spec, pool);
  const { slots } = emptyMachine(spec, pool);
  const idle = machines.filter((machine) => machine.slots === slots);
  return buildsOf(spec, pool).flatMap((build): readonly WaitingBuild[] => {
    const isAlone = sharesGpuMemory(pool, build);
    if (isAlone && idle.length === 0) return [{ ...build, short: [] }];
    const short = shortages(isAlone ? idle : machines, build);
    return short.length === 0 ? [] : [{ ...build, short }];
  });
}

/** What finds no place on the machines of a pool: pods, and builds while all servers run. */
export function crowding(
  spec: GpuStackSpec,
  pool: PoolSpec,
): { readonly homelessPods: number; readonly waitingBuilds: number } {
  return {
    homelessPods: packPool(spec, pool).homeless.length,
    waitingBuilds: waitingBuilds(spec, pool).length,
  };
}

/**
 * Whether a machine of a pool is large enough for each server and each build of the pool by itself, and a Docker host for
 * all servers together: GPUs, CPUs and memory. The disk is the pool's own setting, whatever the machine.
 */
export function machineHolds(spec: GpuStackSpec, pool: PoolSpec): boolean {
  const empty = emptyMachine(spec, pool);
  const pods = podsOf(spec, pool);
  const sumMiB = pods.reduce((sum, { memoryMiB }) => sum + memoryMiB, 0);
  return (
    [...pods, ...buildsOf(spec, pool)].every((one) => holds(empty, one)) &&
    (spec.runsOn !== "host" || sumMiB <= machineResources(pool).memoryMiB)
  );
}
