/** Which servers a pool can hold at its most machines, and what they leave free. */
import { slotsPerGpu } from "./fit/gpu-memory.ts";
import { hostGpuIndices, worldSize } from "./fit/placement.ts";
import {
  buildRequest,
  ENCODERS_REQUEST,
  type HostResources,
  machineResources,
  serverRequest,
} from "./pod-requests.ts";
import type { GpuStackSpec, ModelSpec, PoolSpec } from "./spec.ts";

/** A server, or one replica of the encoders. */
interface Pod extends HostResources {
  /** The model; null for the encoders. */
  readonly model: ModelSpec | null;
  /** GPUs, or shares or partitions of them. */
  readonly slots: number;
}

type Space = HostResources & { readonly slots: number };

interface PoolSpace {
  /** Pods that found no machine. */
  readonly homeless: readonly Pod[];
  /** Most GPU slots that are free on one machine. */
  readonly mostFreeSlots: number;
  /** Whether there is a machine on whose GPUs nobody is. */
  readonly hasIdleMachine: boolean;
}

/** The pool that serves a model; a resolved model has one. */
export function poolOf(model: ModelSpec, { pools }: GpuStackSpec): PoolSpec {
  return poolNamed(model.pool, pools);
}

/** The pool that builds a model's engine. */
export function buildPoolOf(model: ModelSpec, { pools }: GpuStackSpec): PoolSpec {
  return poolNamed(model.buildPool, pools);
}

function poolNamed(name: string, pools: readonly PoolSpec[]): PoolSpec {
  const pool = pools.find((one) => one.name === name);
  if (pool === undefined)
    throw new Error(`A model was resolved to the pool ${name}, which the stack does not have`);
  return pool;
}

/** Slots of one machine. */
export function slotsPerMachine({ gpu, machine, sharing }: PoolSpec): number {
  return gpu === null ? 0 : machine.gpus * slotsPerGpu(gpu, sharing);
}

/**
 * Puts all pods of a pool on its machines, first fit, largest first, as a scheduler could. On a Docker host containers take
 * the GPUs that they are given, and may share them.
 */
export function packPool(spec: GpuStackSpec, pool: PoolSpec): PoolSpace {
  if (spec.platform === "docker") return dockerSpace(spec, pool);
  const whole: Space = { ...machineResources(pool), slots: slotsPerMachine(pool) };
  const machines: Space[] = [];
  const homeless: Pod[] = [];
  for (const pod of podsOf(spec, pool)) {
    const found = machines.findIndex((space) => holds(space, pod));
    if (found >= 0) machines[found] = minus(machines[found] as Space, pod);
    else if (machines.length < pool.nodes.max && holds(whole, pod)) machines.push(minus(whole, pod));
    else homeless.push(pod);
  }
  const untouched = machines.length < pool.nodes.max ? whole.slots : 0;
  const mostFreeSlots = Math.max(untouched, ...machines.map(({ slots }) => slots));
  return { homeless, mostFreeSlots, hasIdleMachine: mostFreeSlots === whole.slots };
}

/**
 * Whether a pool has GPUs for one more server beside all that it serves. A slot of a GPU that is shared in time is none:
 * its memory is not divided, and old and new server would not fit into it together.
 */
export function canSurge(spec: GpuStackSpec, pool: PoolSpec, slots: number): boolean {
  return pool.sharing.mode !== "timeSlicing" && packPool(spec, pool).mostFreeSlots >= slots;
}

function dockerSpace(spec: GpuStackSpec, pool: PoolSpec): PoolSpace {
  const taken = new Set(hostGpuIndices(spec, pool).flatMap(({ indices }) => indices));
  return {
    homeless: [],
    mostFreeSlots: pool.machine.gpus - taken.size,
    hasIdleMachine: taken.size === 0,
  };
}

/** Pods of a pool, the most GPUs first. */
export function podsOf(spec: GpuStackSpec, pool: PoolSpec): readonly Pod[] {
  const { encoders } = spec;
  const servers = spec.models
    .filter((model) => model.pool === pool.name)
    .flatMap((model) =>
      repeated({ model, slots: worldSize(model), ...serverRequest(model) }, model.serving.replicas),
    );
  const others: readonly Pod[] =
    encoders === null || encoders.pool !== pool.name
      ? []
      : repeated(
          { model: null, slots: encoders.device === "gpu" ? 1 : 0, ...ENCODERS_REQUEST },
          encoders.replicas,
        );
  return [...servers, ...others].sort((a, b) => b.slots - a.slots);
}

function repeated(pod: Pod, times: number): readonly Pod[] {
  return Array.from({ length: times }, () => pod);
}

function holds(space: Space, pod: Space): boolean {
  return space.slots >= pod.slots && space.cpuMillis >= pod.cpuMillis && space.memoryMiB >= pod.memoryMiB;
}

function minus(space: Space, pod: Space): Space {
  return {
    slots: space.slots - pod.slots,
    cpuMillis: space.cpuMillis - pod.cpuMillis,
    memoryMiB: space.memoryMiB - pod.memoryMiB,
  };
}

/**
 * Whether a machine of a pool is large enough for each server and each build of the pool by itself, and a Docker host for
 * all servers together: GPUs, CPUs and memory. The disk is the pool's own setting, whatever the machine.
 */
export function machineHolds(spec: GpuStackSpec, pool: PoolSpec): boolean {
  const has = machineResources(pool);
  const whole: Space = { ...has, slots: slotsPerMachine(pool) };
  const pods = podsOf(spec, pool);
  const builds = buildsOf(spec, pool);
  const sumMiB = pods.reduce((sum, { memoryMiB }) => sum + memoryMiB, 0);
  return (
    pods.every((pod) => holds(whole, pod)) &&
    builds.every((model) => holds(whole, { ...buildRequest(model), slots: worldSize(model) })) &&
    (spec.platform !== "docker" || sumMiB <= has.memoryMiB)
  );
}

/** What finds no place on the machines of a pool: pods, and builds that wait for a GPU while all servers run. */
export function crowding(
  spec: GpuStackSpec,
  pool: PoolSpec,
): { readonly homelessPods: number; readonly waitingBuilds: number } {
  const space = packPool(spec, pool);
  return { homelessPods: space.homeless.length, waitingBuilds: waitingBuilds(spec, pool, space).length };
}

/**
 * Models whose engines find no GPU to be built on while all servers run; none where a build stops the model's server. Time
 * slicing does not divide a GPU's memory, so that a build keeps to machines on which nobody serves.
 */
export function waitingBuilds(
  spec: GpuStackSpec,
  pool: PoolSpec,
  { mostFreeSlots, hasIdleMachine }: Pick<PoolSpace, "mostFreeSlots" | "hasIdleMachine">,
): readonly ModelSpec[] {
  if (spec.whenFull === "stopServer") return [];
  if (pool.sharing.mode === "timeSlicing" && !hasIdleMachine) return buildsOf(spec, pool);
  return buildsOf(spec, pool).filter((model) => worldSize(model) > mostFreeSlots);
}

/** Models whose engines a pool builds. */
function buildsOf({ models }: GpuStackSpec, pool: PoolSpec): readonly ModelSpec[] {
  return models.filter(({ buildPool, serving }) => buildPool === pool.name && serving.runtime === "engine");
}
