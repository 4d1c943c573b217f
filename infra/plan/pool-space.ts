/** The pods and builds that a pool can hold with all its machines, and the room that they leave. */
import { gpuPart, hostGpuIndices, worldSize } from "./fit/placement.ts";
import {
  buildRequest,
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

/** Resources that a pod takes of a machine, or that a machine has for pods. */
interface Room extends HostResources {
  /** GPUs, or shares or partitions of them. */
  readonly slots: number;
}

/** A replica that a pool keeps running. */
interface Pod extends Room {
  readonly kind: "model" | "encoders" | "front";
  /** Name of its Deployment or StatefulSet. */
  readonly name: string;
}

/** A resource of which a machine has too little for a pod. */
export interface Shortage {
  readonly resource: "gpu" | "cpu" | "memory";
  /** GPU slots, thousandths of a CPU, or MiB. */
  readonly needed: number;
  readonly free: number;
}

interface PoolSpace {
  /** Pods for which no machine has room. */
  readonly homeless: readonly Pod[];
  /** Free room of each machine; of machines without pods, one. */
  readonly machines: readonly Room[];
}

/** A job that fills the engine store: an engine, weights that are served without one, or the encoders. */
interface PoolBuild extends Room {
  /** Of the model in the stack; `encoders`. */
  readonly name: string;
  /** null: of the encoders. */
  readonly model: ModelSpec | null;
}

/** The pool that serves a model; a resolved model has one. */
export function poolOf(model: ModelSpec, { pools }: GpuStackSpec): PoolSpec {
  return poolNamed(pools, model.pool);
}

/** The pool that builds a model's engine. */
export function buildPoolOf(model: ModelSpec, { pools }: GpuStackSpec): PoolSpec {
  return poolNamed(pools, model.buildPool);
}

/** @throws Error where a resolved stack lacks a pool that it names. */
export function poolNamed(pools: readonly PoolSpec[], name: string): PoolSpec {
  const pool = pools.find((candidate) => candidate.name === name);
  if (pool === undefined) throw new Error(`The stack has no pool ${name}, which it names.`);
  return pool;
}

/** The pool of the gateway and the databases: the first without GPUs. undefined: they take any machine that has room. */
export function frontPool<Pool extends Pick<PoolSpec, "gpu">>(pools: readonly Pool[]): Pool | undefined {
  return pools.find(({ gpu }) => gpu === null);
}

/** Slots of one machine. */
export function slotsPerMachine({ gpu, machine, sharing }: PoolSpec): number {
  return gpu === null ? 0 : machine.gpus * gpuPart(gpu, sharing).slots;
}

/** Room of an empty machine for servers and builds; images that are pulled before take a little. */
export function emptyMachine(spec: GpuStackSpec, pool: PoolSpec): Room {
  return prePulledImages(spec, pool).reduce<Room>((room) => minus(room, { ...PRE_PULL_REQUEST, slots: 0 }), {
    ...machineResources(pool),
    slots: slotsPerMachine(pool),
  });
}

/** Room of one server of a model. */
export function serverRoom(model: ModelSpec): Room {
  return { ...serverRequest(model), slots: worldSize(model) };
}

/** Room of one replica of the encoders, or of their build. */
export function encodersRoom({ device }: Pick<EncodersSpec, "device">): Room {
  return { ...ENCODERS_REQUEST, slots: device === "gpu" ? 1 : 0 };
}

/** Pods that a pool keeps running, the most GPUs first, then the most memory. */
export function podsOf(
  { encoders, models, front, runsOn, pools }: GpuStackSpec,
  pool: PoolSpec,
): readonly Pod[] {
  const repeated = (pod: Pod, times: number) => Array<Pod>(times).fill(pod);
  // On a Docker host, gateway and databases take what servers leave.
  const isFront = runsOn !== "host" && frontPool(pools)?.name === pool.name;
  return [
    ...models
      .filter((model) => model.pool === pool.name)
      .flatMap((model) =>
        repeated({ kind: "model", name: model.serving.name, ...serverRoom(model) }, model.serving.replicas),
      ),
    ...(encoders?.pool === pool.name
      ? repeated({ kind: "encoders", name: "encoders", ...encodersRoom(encoders) }, encoders.replicas)
      : []),
    ...(isFront
      ? repeated({ kind: "front", name: "gateway", ...GATEWAY_REQUEST, slots: 0 }, front.gateways)
      : []),
    ...(isFront ? front.databases : []).map(
      (name): Pod => ({ kind: "front", name, ...DATABASE_REQUEST, slots: 0 }),
    ),
  ].sort((a, b) => b.slots - a.slots || b.memoryMiB - a.memoryMiB);
}

/**
 * Puts all pods of a pool on its machines, first fit, largest first, as a scheduler could. On a Docker host containers take
 * the GPUs that they are given, and may share them; CPUs and memory are not counted.
 */
export function packPool(spec: GpuStackSpec, pool: PoolSpec): PoolSpace {
  if (spec.runsOn === "host") {
    const taken = new Set(hostGpuIndices(spec, pool).flatMap(({ indices }) => indices));
    const slots = pool.machine.gpus - taken.size;
    return { homeless: [], machines: [{ slots, cpuMillis: Infinity, memoryMiB: Infinity }] };
  }
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

/** All shortages of a machine for a pod, as the scheduler counts them. */
function shortagesOf(machine: Room, pod: Room): readonly Shortage[] {
  const counted: readonly Shortage[] = [
    { resource: "gpu", needed: pod.slots, free: machine.slots },
    { resource: "cpu", needed: pod.cpuMillis, free: machine.cpuMillis },
    { resource: "memory", needed: pod.memoryMiB, free: machine.memoryMiB },
  ];
  return counted.filter(({ needed, free }) => needed > free);
}

/** Shortages of the machine that comes closest to room for one pod more; none where a machine has room. */
export function shortages(machines: readonly Room[], pod: Room): readonly Shortage[] {
  const missing = (short: readonly Shortage[]) =>
    short.reduce((sum, { needed, free }) => sum + (needed - free) / needed, 0);
  const [closest] = machines
    .map((machine) => shortagesOf(machine, pod))
    .toSorted((a, b) => a.length - b.length || missing(a) - missing(b));
  return closest ?? shortagesOf({ slots: 0, cpuMillis: 0, memoryMiB: 0 }, pod);
}

/** Shortages for one server more beside all pods of the pool; none where there is room. */
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

/** Whether a pod's GPU has memory that is not divided between its pods. */
export function sharesGpuMemory({ sharing }: PoolSpec, { slots }: Room): boolean {
  return sharing.mode === "timeSlicing" && slots > 0;
}

/** Builds of a pool. Weights in a folder that are served without an engine need none. */
export function buildsOf({ runsOn, models, encoders }: GpuStackSpec, pool: PoolSpec): readonly PoolBuild[] {
  const ofModels = models
    .filter(({ buildPool, engine, serving }) => {
      const fillsStore = serving.runtime === "engine" || engine.weights.kind !== "folder";
      return buildPool === pool.name && fillsStore;
    })
    .map((model) => ({
      name: model.serving.name,
      model,
      ...buildRequest(model),
      // A download needs no GPU.
      slots: model.serving.runtime === "engine" ? worldSize(model) : 0,
    }));
  // On a Docker host encoders are built on the GPUs that they serve from.
  if (runsOn === "host" || encoders === null || encoders.pool !== pool.name) return ofModels;
  return [...ofModels, { name: "encoders", model: null, ...encodersRoom(encoders) }];
}

/**
 * Builds for which there is no room while all servers run, with the shortages of the closest machine; no shortages where only a
 * machine without servers would do. None where a build stops a server. Time slicing does not divide a GPU's memory, so that
 * builds on such GPUs need machines on whose GPUs no server runs.
 */
export function waitingBuilds(
  spec: GpuStackSpec,
  pool: PoolSpec,
): readonly (PoolBuild & { readonly short: readonly Shortage[] })[] {
  if (spec.whenFull === "stopServer") return [];
  const { machines } = packPool(spec, pool);
  const idle = machines.filter(({ slots }) => slots === slotsPerMachine(pool));
  return buildsOf(spec, pool).flatMap((build) => {
    const isAlone = sharesGpuMemory(pool, build);
    if (isAlone && idle.length === 0) return [{ ...build, short: [] }];
    const short = shortages(isAlone ? idle : machines, build);
    return short.length === 0 ? [] : [{ ...build, short }];
  });
}

/** Number of pods without a machine, and of builds without one while all servers run. */
export function podsWithoutRoom(spec: GpuStackSpec, pool: PoolSpec): number {
  return packPool(spec, pool).homeless.length + waitingBuilds(spec, pool).length;
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
