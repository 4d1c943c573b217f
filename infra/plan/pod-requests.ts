/**
 * CPU, memory and disk that servers, builds and encoders request, and that a machine has. Requests of servers and encoders are
 * this project's own choice, small enough that a server of one GPU runs on the smallest machine that has one; those of builds
 * are estimated by engine/engine-size.ts.
 */
import type { Flavour, Release } from "./catalogue/types.ts";
import type { CpuModelPlan } from "./cpu-stack.ts";
import type { ImageName } from "./docker/types.ts";
import { checkpointGiB, engineBytesGiB, hostMemoryGiB } from "./engine/engine-size.ts";
import { worldSize } from "./fit/placement.ts";
import type { GpuStackSpec, ModelSpec, PoolSpec } from "./spec.ts";
import { GIB_PER_GB, MIB_PER_GIB } from "./units.ts";

export interface HostResources {
  readonly cpuMillis: number;
  readonly memoryMiB: number;
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

/** The encoders of a stack, one replica. */
export const ENCODERS_REQUEST: HostResources = { cpuMillis: 1000, memoryMiB: 3 * MIB_PER_GIB };

/** The gateway, one replica: it holds requests, and decodes their images. */
export const GATEWAY_REQUEST: HostResources = { cpuMillis: 250, memoryMiB: MIB_PER_GIB };

/** A database of the stack; MongoDB's cache is 1 GiB. */
export const DATABASE_REQUEST: HostResources = { cpuMillis: 250, memoryMiB: 2 * MIB_PER_GIB };

/** A process that sleeps, so that its image stays on the machine. */
export const PRE_PULL_REQUEST: HostResources = { cpuMillis: 10, memoryMiB: 32 };

/** Large images that the machines of a pool have before a pod needs them, where the stack file asks for it. */
export function prePulledImages(
  { models, encoders }: Pick<GpuStackSpec, "models" | "encoders">,
  { name, prePullsImages }: Pick<PoolSpec, "name" | "prePullsImages">,
): readonly ImageName[] {
  if (prePullsImages !== true) return [];
  const serves = models.some(({ pool, buildPool }) => pool === name || buildPool === name);
  return [
    ...(serves ? (["trtllm"] as const) : []),
    ...(encoders?.pool === name ? (["encoders"] as const) : []),
  ];
}

/** One server of a model. */
export function serverRequest(model: ModelSpec): HostResources {
  const { flavour, instanceCount, blsInstanceCount } = model.serving;
  const ranks = worldSize(model);
  // Beyond one instance of each; they run on rank 0 alone.
  const stubsMiB = WITH_INSTANCE_COUNTS.has(flavour)
    ? 2 * (instanceCount - 1) * TOKENIZER_STUB_MIB + (blsInstanceCount - 1) * BLS_STUB_MIB
    : 0;
  return {
    cpuMillis: SERVER_CPU_MILLIS + RANK_CPU_MILLIS * ranks,
    memoryMiB: SERVER_MEMORY_MIB + RANK_MEMORY_MIB * ranks + stubsMiB,
  };
}

/** tritonserver with one Python model and small weights, `/dev/shm` in memory included. */
const CPU_SERVER_MEMORY_MIB = 1.5 * MIB_PER_GIB;
const BYTES_PER_MIB = 2 ** 20;

/** One server of a model on a CPU: the threads that it was given, else one core, and more where the machine has more. */
export function cpuServerRequest(model: CpuModelPlan): HostResources {
  const { threads, parallelRequests, contextTokens, catalogue } = model;
  const cacheMiB = (parallelRequests * contextTokens * catalogue.kvBytesPerToken) / BYTES_PER_MIB;
  return {
    cpuMillis: 1000 * Math.max(1, threads),
    memoryMiB: CPU_SERVER_MEMORY_MIB + Math.ceil(cacheMiB),
  };
}

/** A hub's client writes to the disk as it reads, in parts of some MiB. */
const DOWNLOAD_MEMORY_MIB = 2 * MIB_PER_GIB;

/** The build of a model's engine, an estimate; of weights alone where the model runs without an engine. */
export function buildRequest({ engine, serving }: ModelSpec): HostResources {
  return {
    cpuMillis: SERVER_CPU_MILLIS,
    memoryMiB:
      serving.runtime === "engine" ? Math.ceil(hostMemoryGiB(engine) * MIB_PER_GIB) : DOWNLOAD_MEMORY_MIB,
  };
}

/** What a machine leaves to pods: for an EC2 type as Karpenter found it, otherwise all of the machine. */
export function machineResources({ machine }: Pick<PoolSpec, "machine">): HostResources {
  return (
    machine.allocatable ?? { cpuMillis: machine.vcpus * 1000, memoryMiB: machine.memoryGiB * MIB_PER_GIB }
  );
}

/** Terms of the disk that a build takes in GiB: image, weights as downloaded, checkpoint, engine. */
export function buildDiskGiB({ engine }: ModelSpec, release: Release): Readonly<Record<string, number>> {
  return {
    image: (release.imageGB ?? 0) * GIB_PER_GB,
    weights: weightsGiB(engine),
    checkpoint: checkpointGiB(engine),
    engine: engineBytesGiB(engine).totalGiB,
  };
}

/** Size of a model in the engine store in GiB: weights, and the engine where there is one. */
export function storedGiB({ engine, serving }: ModelSpec): number {
  return weightsGiB(engine) + (serving.runtime === "engine" ? engineBytesGiB(engine).totalGiB : 0);
}

function weightsGiB({ row }: ModelSpec["engine"]): number {
  return row.source.downloadGB * GIB_PER_GB;
}
