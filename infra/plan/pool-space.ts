/** Which pods a pool can hold at its most machines, and what they leave free. Builds have pool-builds.ts. */
import { slotsPerGpu } from "./fit/gpu-memory.ts";
import { hostGpuIndices, worldSize } from "./fit/placement.ts";
import {
  DATABASE_REQUEST,
  ENCODERS_REQUEST,
  GATEWAY_REQUEST,
  type HostResources,
  machineResources,
  PRE_PULL_REQUEST,
  prePulledImages,
  serverRequest,
} from "./pod-requests.ts";
import type { EncodersSpec, GpuStackSpec, ModelSpec, PoolSpec } from "./spec.ts";

/** What a pod takes of a machine, or what a machine has for pods. */
export interface Room extends HostResources {
  /** GPUs, or shares or partitions of them. */
  readonly slots: number;
}

/** One of what a pool keeps running. */
interface Pod extends Room {
  readonly kind: "model" | "encoders" | "front";
  /** Name of its Deployment or StatefulSet. */
  readonly name: string;
}

/** What a machine has too little of for a pod. */
export interface Shortage {
  readonly resource: "gpu" | "cpu" | "memory";
  /** GPU slots, thousandths of a CPU, or MiB. */
  readonly needed: number;
  readonly free: number;
}

interface PoolSpace {
  /** Pods that found no machine. */
  readonly homeless: readonly Pod[];
  /** What each machine has left; of those on which nobody is, one. */
  readonly machines: readonly Room[];
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
  if (pool === undefined) throw new Error(`The stack has no pool ${name}, to which a model was resolved.`);
  return pool;
}

/**
 * The pool of what needs no GPU and serves everybody: the first without GPUs. undefined: it takes any machine of the cluster
 * that has room.
 */
export function frontPool<Pool extends Pick<PoolSpec, "gpu">>(pools: readonly Pool[]): Pool | undefined {
  return pools.find(({ gpu }) => gpu === null);
}

/** Slots of one machine. */
export function slotsPerMachine({ gpu, machine, sharing }: PoolSpec): number {
  return gpu === null ? 0 : machine.gpus * slotsPerGpu(gpu, sharing);
}

/** What an empty machine of a pool has for servers and builds; images that are pulled before take a little. */
export function emptyMachine(spec: GpuStackSpec, pool: PoolSpec): Room {
  return prePulledImages(spec, pool).reduce<Room>((room) => minus(room, { ...PRE_PULL_REQUEST, slots: 0 }), {
    ...machineResources(pool),
    slots: slotsPerMachine(pool),
  });
}

/**
 * Puts all pods of a pool on its machines, first fit, largest first, as a scheduler could. On a Docker host containers take
 * the GPUs that they are given, and may share them; nobody counts CPUs and memory.
 */
export function packPool(spec: GpuStackSpec, pool: PoolSpec): PoolSpace {
  if (spec.runsOn === "host") return dockerSpace(spec, pool);
  const empty = emptyMachine(spec, pool);
  const machines: Room[] = [];
  const homeless: Pod[] = [];
  for (const pod of podsOf(spec, pool)) {
    const found = machines.findIndex((room) => holds(room, pod));
    if (found >= 0) machines[found] = minus(machines[found] as Room, pod);
    else if (machines.length < pool.nodes.max && holds(empty, pod)) machines.push(minus(empty, pod));
    else homeless.push(pod);
  }
  return { homeless, machines: machines.length < pool.nodes.max ? [...machines, empty] : machines };
}

function dockerSpace(spec: GpuStackSpec, pool: PoolSpec): PoolSpace {
  const taken = new Set(hostGpuIndices(spec, pool).flatMap(({ indices }) => indices));
  const uncounted = { cpuMillis: Number.POSITIVE_INFINITY, memoryMiB: Number.POSITIVE_INFINITY };
  return { homeless: [], machines: [{ ...uncounted, slots: pool.machine.gpus - taken.size }] };
}

/** One server of a model. */
export function serverRoom(model: ModelSpec): Room {
  return { ...serverRequest(model), slots: worldSize(model) };
}

/** One replica of the encoders, or their build. */
export function encodersRoom({ device }: Pick<EncodersSpec, "device">): Room {
  return { ...ENCODERS_REQUEST, slots: device === "gpu" ? 1 : 0 };
}

/** Pods that a pool keeps running, the most GPUs first, then the most memory. */
export function podsOf(spec: GpuStackSpec, pool: PoolSpec): readonly Pod[] {
  const { encoders, models } = spec;
  const servers = models
    .filter((model) => model.pool === pool.name)
    .flatMap((model) =>
      repeated({ kind: "model", name: model.serving.name, ...serverRoom(model) }, model.serving.replicas),
    );
  const others =
    encoders === null || encoders.pool !== pool.name
      ? []
      : repeated({ kind: "encoders", name: "encoders", ...encodersRoom(encoders) }, encoders.replicas);
  return [...servers, ...others, ...frontPods(spec, pool)].sort(
    (a, b) => b.slots - a.slots || b.memoryMiB - a.memoryMiB,
  );
}

/** Gateway and databases. On a Docker host they take what servers leave. */
function frontPods({ runsOn, pools, front }: GpuStackSpec, pool: PoolSpec): readonly Pod[] {
  if (runsOn === "host" || frontPool(pools)?.name !== pool.name) return [];
  return [
    ...repeated({ kind: "front", name: "gateway", ...GATEWAY_REQUEST, slots: 0 }, front.gateways),
    ...front.databases.map((name): Pod => ({ kind: "front", name, ...DATABASE_REQUEST, slots: 0 })),
  ];
}

function repeated(pod: Pod, times: number): readonly Pod[] {
  return Array.from({ length: times }, () => pod);
}

/** Whether a machine has room for a pod. */
export function holds(machine: Room, pod: Room): boolean {
  return shortagesOf(machine, pod).length === 0;
}

function minus(machine: Room, pod: Room): Room {
  return {
    slots: machine.slots - pod.slots,
    cpuMillis: machine.cpuMillis - pod.cpuMillis,
    memoryMiB: machine.memoryMiB - pod.memoryMiB,
  };
}

/** What a machine has too little of, as the scheduler counts it: a pod that lacks two things is told of both. */
function shortagesOf(machine: Room, pod: Room): readonly Shortage[] {
  const counted: readonly Shortage[] = [
    { resource: "gpu", needed: pod.slots, free: machine.slots },
    { resource: "cpu", needed: pod.cpuMillis, free: machine.cpuMillis },
    { resource: "memory", needed: pod.memoryMiB, free: machine.memoryMiB },
  ];
  return counted.filter(({ needed, free }) => needed > free);
}

/** What the machine that comes closest has too little of for one pod more; none where a machine has room. */
export function shortages(machines: readonly Room[], pod: Room): readonly Shortage[] {
  const missing = (short: readonly Shortage[]) =>
    short.reduce((sum, { needed, free }) => sum + (needed - free) / needed, 0);
  const [closest] = machines
    .map((machine) => shortagesOf(machine, pod))
    .toSorted((a, b) => a.length - b.length || missing(a) - missing(b));
  return closest ?? shortagesOf({ slots: 0, cpuMillis: 0, memoryMiB: 0 }, pod);
}

/** What a pool has too little of for one server more beside all that runs there; none where there is room. */
export function surgeShortages(spec: GpuStackSpec, pool: PoolSpec, pod: Room): readonly Shortage[] {
  return shortages(packPool(spec, pool).machines, pod);
}

/**
 * Whether a new server can start before an old one ends. A slot of a GPU that is shared in time is no room: its memory is not
 * divided, and old and new server would not fit into it together.
 */
export function canSurge(spec: GpuStackSpec, pool: PoolSpec, pod: Room): boolean {
  return !sharesGpuMemory(pool, pod) && surgeShortages(spec, pool, pod).length === 0;
}

/** Whether nothing divides the memory of the GPU that a pod is given. */
export function sharesGpuMemory({ sharing }: PoolSpec, { slots }: Room): boolean {
  return sharing.mode === "timeSlicing" && slots > 0;
}
