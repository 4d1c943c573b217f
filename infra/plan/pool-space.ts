/**
 * CPU, memory, GPUs and disk that pods and builds request, what a machine has, and the room that the machines of a pool leave.
 * Requests of servers and encoders are this project's own choice, small enough that a server of one GPU runs on the smallest
 * machine that has one; those of builds are estimated by engine/engine-size.ts.
 */
import { textRow, visionRow } from "./catalogue/encoders.ts";
import type { Flavour, Release } from "./catalogue/types.ts";
import type { CpuModelPlan } from "./cpu-stack.ts";
import type { ImageName } from "./docker/images.ts";
import { checkpointGiB, engineBytesGiB, hostMemoryGiB } from "./engine/engine-size.ts";
import { gpuPart, hostGpuIndices, worldSize } from "./fit/placement.ts";
import type { EncodersSpec, GpuStackSpec, ModelSpec, PoolSpec } from "./spec.ts";
import { GIB_PER_GB, MIB_PER_GIB } from "./units.ts";

/** Resources that a pod takes of a machine, or that a machine has for pods. */
export interface Room {
  readonly cpuMillis: number;
  readonly memoryMiB: number;
  /** GPUs, or shares or partitions of them. */
  readonly slots: number;
}

/** Triton's frontend, preprocessing and postprocessing. */
const SERVER_CPU_MILLIS = 2000;
/** One process that drives its GPU. */
const RANK_CPU_MILLIS = 500;
/** tritonserver with one instance of each Python model, and `/dev/shm` in memory; the engine itself goes to the GPU. */
const SERVER_MEMORY_MIB = 6 * MIB_PER_GIB;
const RANK_MEMORY_MIB = 2 * MIB_PER_GIB;
/**
 * Every instance of a Python model is a process. Memory that it shares with none, rounded up: 222 MiB after `import torch`,
 * which tensorrt_llm_bls needs, and 342 MiB after transformers and a tokenizer of Llama's kind, which preprocessing and
 * postprocessing load. Measured as Private_Dirty in /proc/PID/smaps_rollup with Python 3.11, torch 2.7.1 and transformers
 * 4.51.3; the code of their libraries is in memory once.
 */
const BLS_STUB_MIB = 256;
const TOKENIZER_STUB_MIB = 384;
/** Repositories whose instances the stack file sets; the others have one of each. */
const WITH_INSTANCE_COUNTS: ReadonlySet<Flavour> = new Set(["inflight_batcher_llm", "multimodal"]);

/** One server of a model. */
export function serverRequest(model: ModelSpec): Room {
  const { flavour, instanceCount, blsInstanceCount } = model.serving;
  const ranks = worldSize(model);
  // More than one instance of each; they run only on rank 0.
  const stubsMiB = WITH_INSTANCE_COUNTS.has(flavour)
    ? 2 * (instanceCount - 1) * TOKENIZER_STUB_MIB + (blsInstanceCount - 1) * BLS_STUB_MIB
    : 0;
  return {
    cpuMillis: SERVER_CPU_MILLIS + RANK_CPU_MILLIS * ranks,
    memoryMiB: SERVER_MEMORY_MIB + RANK_MEMORY_MIB * ranks + stubsMiB,
    slots: ranks,
  };
}

/** tritonserver with one Python model and small weights, `/dev/shm` in memory included. */
const CPU_SERVER_MEMORY_MIB = 1.5 * MIB_PER_GIB;

/** One server of a model on a CPU: the threads that it was given, else one core, and more if the machine has more. */
export function cpuServerRequest({
  threads,
  parallelRequests,
  contextTokens,
  catalogue,
}: CpuModelPlan): Room {
  const cacheMiB = (parallelRequests * contextTokens * catalogue.kvBytesPerToken) / 2 ** 20;
  return {
    cpuMillis: 1000 * Math.max(1, threads),
    memoryMiB: CPU_SERVER_MEMORY_MIB + Math.ceil(cacheMiB),
    slots: 0,
  };
}

/** tritonserver with three Python models, or the builder's packages, and the default encoders: their largest graph has 0.33 GiB. */
const LEAST_ENCODERS_MEMORY_MIB = 3 * MIB_PER_GIB;
const ENCODERS_BASE_MIB = MIB_PER_GIB;
/**
 * Memory per size of a graph in 32 bits, rounded up; measured as RssAnon with onnxruntime 1.23.2 on BERT with random weights. An
 * export to 16 bits, one graph at a time, takes 1.9, 6.3 and 9.9 GiB for graphs of 0.41, 1.24 and 1.97 GiB; the calibration of the
 * first takes 2.2. trtexec, which comes later, was not measured: it holds the weights at least twice
 * (https://docs.nvidia.com/deeplearning/tensorrt/latest/architecture/how-trt-works.html).
 */
const BUILT_GRAPH_FACTOR = 5.25;
/**
 * As above. ONNX Runtime takes 0.6, 1.9 and 2.2 GiB for the same graphs. TensorRT's plans are copied to the GPU, by assumption from
 * host memory, in 32 bits at most.
 */
const SERVED_GRAPHS_FACTOR = { cpu: 1.55, gpu: 1 } as const;

/** Encoders of the CPU tier are the default ones. */
export const CPU_ENCODERS_REQUEST: Room = {
  cpuMillis: 1000,
  memoryMiB: LEAST_ENCODERS_MEMORY_MIB,
  slots: 0,
};

/** One replica of the encoders, or their build. */
export function encodersRequest(encoders: EncodersSpec, use: "build" | "serve"): Room {
  const clip = visionRow(encoders);
  const graphsMiB = [clip.vision, clip.text, textRow(encoders).text].map(
    ({ parameters }) => (4 * parameters) / 2 ** 20,
  );
  const neededMiB =
    use === "build"
      ? BUILT_GRAPH_FACTOR * Math.max(...graphsMiB)
      : SERVED_GRAPHS_FACTOR[encoders.device] * graphsMiB.reduce((sum, one) => sum + one);
  return {
    ...CPU_ENCODERS_REQUEST,
    memoryMiB: Math.max(LEAST_ENCODERS_MEMORY_MIB, Math.ceil(ENCODERS_BASE_MIB + neededMiB)),
    slots: encoders.device === "gpu" ? 1 : 0,
  };
}

/** One replica of the gateway: it holds requests, and decodes their images. */
export const GATEWAY_REQUEST: Room = { cpuMillis: 250, memoryMiB: MIB_PER_GIB, slots: 0 };

/** A database of the stack; MongoDB's cache is 1 GiB. */
export const DATABASE_REQUEST: Room = { cpuMillis: 250, memoryMiB: 2 * MIB_PER_GIB, slots: 0 };

/** A process that sleeps, so that its image stays on the machine. */
export const PRE_PULL_REQUEST: Room = { cpuMillis: 10, memoryMiB: 32, slots: 0 };

/** A hub's client writes to the disk as it reads, in parts of some MiB. */
const DOWNLOAD_MEMORY_MIB = 2 * MIB_PER_GIB;

/** Estimate for the build of a model's engine, or for the download of weights that are served without an engine. */
export function buildRequest(model: ModelSpec): Room {
  const hasEngine = model.serving.runtime === "engine";
  return {
    cpuMillis: SERVER_CPU_MILLIS,
    memoryMiB: hasEngine ? Math.ceil(hostMemoryGiB(model.engine) * MIB_PER_GIB) : DOWNLOAD_MEMORY_MIB,
    // A download needs no GPU.
    slots: hasEngine ? worldSize(model) : 0,
  };
}

/** Terms of the disk that a build takes in GiB: image, weights as downloaded, checkpoint, engine. */
export function buildDiskGiB({ engine }: ModelSpec, release: Release): Readonly<Record<string, number>> {
  return {
    image: (release.imageGB ?? 0) * GIB_PER_GB,
    weights: engine.row.source.downloadGB * GIB_PER_GB,
    checkpoint: checkpointGiB(engine),
    engine: engineBytesGiB(engine).totalGiB,
  };
}

/** Size of a model in the engine store in GiB: weights, and the engine if there is one. */
export function storedGiB({ engine, serving }: ModelSpec): number {
  const engineGiB = serving.runtime === "engine" ? engineBytesGiB(engine).totalGiB : 0;
  return engine.row.source.downloadGB * GIB_PER_GB + engineGiB;
}

/** Large images that the machines of a pool have before a pod needs them, if the stack file asks for it. */
export function prePulledImages(
  { models, encoders }: GpuStackSpec,
  { name, prePullsImages }: PoolSpec,
): readonly ImageName[] {
  if (prePullsImages !== true) return [];
  const serves = models.some(({ pool, buildPool }) => pool === name || buildPool === name);
  return [
    ...(serves ? (["trtllm"] as const) : []),
    ...(encoders?.pool === name ? (["encoders"] as const) : []),
  ];
}

/** The pool that serves a model. */
export function poolOf(model: ModelSpec, { pools }: GpuStackSpec): PoolSpec {
  return poolNamed(pools, model.pool);
}

/** The pool that builds a model's engine. */
export function buildPoolOf(model: ModelSpec, { pools }: GpuStackSpec): PoolSpec {
  return poolNamed(pools, model.buildPool);
}

/** @throws Error if a resolved stack lacks a pool that it names. */
export function poolNamed(pools: readonly PoolSpec[], name: string): PoolSpec {
  const pool = pools.find((candidate) => candidate.name === name);
  if (pool === undefined) throw new Error(`The stack has no pool ${name}, which it names.`);
  return pool;
}

/** The pool of the gateway and the databases: the first without GPUs. undefined: they take any machine that has room. */
export function frontPool(pools: readonly PoolSpec[]): PoolSpec | undefined {
  return pools.find(({ gpu }) => gpu === null);
}

/** Resources of a machine for pods: those that Karpenter found for an EC2 type, otherwise all of the machine. */
export function machineResources({
  machine,
}: Pick<PoolSpec, "machine">): Pick<Room, "cpuMillis" | "memoryMiB"> {
  return (
    machine.allocatable ?? { cpuMillis: machine.vcpus * 1000, memoryMiB: machine.memoryGiB * MIB_PER_GIB }
  );
}

export function slotsPerMachine({ gpu, machine, sharing }: PoolSpec): number {
  return gpu === null ? 0 : machine.gpus * gpuPart(gpu, sharing).slots;
}

/** Room of an empty machine for servers and builds; images that are pulled before take a little. */
export function emptyMachine(spec: GpuStackSpec, pool: PoolSpec): Room {
  return prePulledImages(spec, pool).reduce<Room>((room) => minus(room, PRE_PULL_REQUEST), {
    ...machineResources(pool),
    slots: slotsPerMachine(pool),
  });
}

/** A replica that a pool keeps running. */
interface Pod extends Room {
  readonly kind: "model" | "encoders" | "front";
  /** Name of its Deployment or StatefulSet. */
  readonly name: string;
}

/** Pods that a pool keeps running, the most GPUs first, then the most memory. */
export function podsOf(
  { encoders, models, front, runsOn, pools }: GpuStackSpec,
  pool: PoolSpec,
): readonly Pod[] {
  const repeated = (kind: Pod["kind"], name: string, request: Room, times: number) =>
    Array<Pod>(times).fill({ kind, name, ...request });
  // On a Docker host, gateway and databases take what servers leave.
  const isFront = runsOn !== "host" && frontPool(pools)?.name === pool.name;
  // There, models may be served while the encoders are built, which takes more memory than their server, and comes before it.
  const use = runsOn === "host" ? "build" : "serve";
  return [
    ...models
      .filter((model) => model.pool === pool.name)
      .flatMap((model) =>
        repeated("model", model.serving.name, serverRequest(model), model.serving.replicas),
      ),
    ...(encoders?.pool === pool.name
      ? repeated("encoders", "encoders", encodersRequest(encoders, use), encoders.replicas)
      : []),
    ...(isFront ? repeated("front", "gateway", GATEWAY_REQUEST, front.gateways) : []),
    ...(isFront ? front.databases : []).flatMap((name) => repeated("front", name, DATABASE_REQUEST, 1)),
  ].sort((a, b) => b.slots - a.slots || b.memoryMiB - a.memoryMiB);
}

interface PoolSpace {
  /** Pods for which no machine has room. */
  readonly unplaced: readonly Pod[];
  /** Free room of each machine; of machines without pods, one. */
  readonly machines: readonly Room[];
}

/**
 * Puts all pods of a pool on its machines, first fit, largest first, as a scheduler could. On a Docker host containers take
 * the GPUs that they are given, and may share them; CPUs and memory are not counted.
 */
export function packPool(spec: GpuStackSpec, pool: PoolSpec): PoolSpace {
  if (spec.runsOn === "host") {
    const taken = new Set(hostGpuIndices(spec, pool).flatMap(({ indices }) => indices));
    const slots = pool.machine.gpus - taken.size;
    return { unplaced: [], machines: [{ slots, cpuMillis: Infinity, memoryMiB: Infinity }] };
  }
  return packed(spec, pool, podsOf(spec, pool));
}

/** Machines of a pool whose servers stopped for a build, which never stops gateway and databases. */
export function machinesWithoutServers(spec: GpuStackSpec, pool: PoolSpec): readonly Room[] {
  const front = podsOf(spec, pool).filter(({ kind }) => kind === "front");
  return packed(spec, pool, front).machines;
}

function packed(spec: GpuStackSpec, pool: PoolSpec, pods: readonly Pod[]): PoolSpace {
  const empty = emptyMachine(spec, pool);
  const machines: Room[] = [];
  const unplaced: Pod[] = [];
  for (const pod of pods) {
    const found = machines.findIndex((room) => holds(room, pod));
    if (found >= 0) machines[found] = minus(machines[found] as Room, pod);
    else if (machines.length < pool.nodes.max && holds(empty, pod)) machines.push(minus(empty, pod));
    else unplaced.push(pod);
  }
  return { unplaced, machines: machines.length < pool.nodes.max ? [...machines, empty] : machines };
}

export function holds(machine: Room, pod: Room): boolean {
  return (
    machine.slots >= pod.slots && machine.cpuMillis >= pod.cpuMillis && machine.memoryMiB >= pod.memoryMiB
  );
}

function minus(machine: Room, pod: Room): Room {
  return {
    slots: machine.slots - pod.slots,
    cpuMillis: machine.cpuMillis - pod.cpuMillis,
    memoryMiB: machine.memoryMiB - pod.memoryMiB,
  };
}

/** A resource of which a machine has too little for a pod. */
export interface Shortage {
  readonly resource: "gpu" | "cpu" | "memory";
  /** GPU slots, thousandths of a CPU, or MiB. */
  readonly needed: number;
  readonly free: number;
}

/** Shortages of the machine that comes closest to room for one pod more; none if a machine has room. */
export function shortages(machines: readonly Room[], pod: Room): readonly Shortage[] {
  const shortagesOf = (machine: Room): readonly Shortage[] =>
    (
      [
        { resource: "gpu", needed: pod.slots, free: machine.slots },
        { resource: "cpu", needed: pod.cpuMillis, free: machine.cpuMillis },
        { resource: "memory", needed: pod.memoryMiB, free: machine.memoryMiB },
      ] as const
    ).filter(({ needed, free }) => needed > free);
  const missing = (short: readonly Shortage[]) =>
    short.reduce((sum, { needed, free }) => sum + (needed - free) / needed, 0);
  const [closest] = machines
    .map(shortagesOf)
    .toSorted((a, b) => a.length - b.length || missing(a) - missing(b));
  return closest ?? shortagesOf({ slots: 0, cpuMillis: 0, memoryMiB: 0 });
}

/** Whether a pod's GPU has memory that is not divided between its pods. */
export function sharesGpuMemory({ sharing }: PoolSpec, { slots }: Room): boolean {
  return sharing.mode === "timeSlicing" && slots > 0;
}

/**
 * Whether a new server can start before an old server ends. A slot of a time-sliced GPU does not count as room: its memory is
 * not divided, and both servers would not fit into it together.
 */
export function canSurge(spec: GpuStackSpec, pool: PoolSpec, pod: Room): boolean {
  return !sharesGpuMemory(pool, pod) && packPool(spec, pool).machines.some((machine) => holds(machine, pod));
}

/** A job that fills the engine store: an engine, weights that are served without one, or the encoders. */
interface PoolBuild extends Room {
  /** Name of the model in the stack, or `encoders`. */
  readonly name: string;
  /** null for the encoders. */
  readonly model: ModelSpec | null;
}

/** Builds of a pool. Weights in a folder that are served without an engine need none. */
export function buildsOf({ runsOn, models, encoders }: GpuStackSpec, pool: PoolSpec): readonly PoolBuild[] {
  const ofModels = models
    .filter(({ buildPool, engine, serving }) => {
      const fillsStore = serving.runtime === "engine" || engine.weights.kind !== "folder";
      return buildPool === pool.name && fillsStore;
    })
    .map((model) => ({ name: model.serving.name, model, ...buildRequest(model) }));
  // On a Docker host encoders are built on the GPUs that they serve from.
  if (runsOn === "host" || encoders === null || encoders.pool !== pool.name) return ofModels;
  return [...ofModels, { name: "encoders", model: null, ...encodersRequest(encoders, "build") }];
}

/**
 * Builds for which there is no room while all servers run, with the machines that could hold them if they had room. None if a
 * build stops a server. Time slicing does not divide a GPU's memory, so that builds on such GPUs need machines on whose GPUs
 * no server runs.
 */
export function waitingBuilds(
  spec: GpuStackSpec,
  pool: PoolSpec,
  { machines: all }: PoolSpace = packPool(spec, pool),
): readonly (PoolBuild & { readonly machines: readonly Room[] })[] {
  if (spec.whenFull === "stopServer") return [];
  const idle = all.filter(({ slots }) => slots === slotsPerMachine(pool));
  return buildsOf(spec, pool).flatMap((build) => {
    const machines = sharesGpuMemory(pool, build) ? idle : all;
    return machines.some((machine) => holds(machine, build)) ? [] : [{ ...build, machines }];
  });
}

/** Number of pods without a machine, and of builds without one while all servers run. */
export function podsWithoutRoom(spec: GpuStackSpec, pool: PoolSpec): number {
  const space = packPool(spec, pool);
  return space.unplaced.length + waitingBuilds(spec, pool, space).length;
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
    [...pods, ...buildsOf(spec, pool)].every((pod) => holds(empty, pod)) &&
    (spec.runsOn !== "host" || sumMiB <= empty.memoryMiB)
  );
}
