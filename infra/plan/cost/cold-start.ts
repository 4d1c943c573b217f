/** From nothing to the first answer: where the time goes, as estimates. */
import { engineBytesGiB, loadedWeightsGiB } from "../engine/engine-size.ts";
import type { EnginePlan } from "../engine/types.ts";
import type { GpuStackSpec, ModelSpec, PoolSpec } from "../spec.ts";
import type { ColdStart } from "./types.ts";

type Step = ColdStart["steps"][number];

/**
 * A GPU machine from request to ready, device plugin included. Reports lie between 84 s with a small image and everything
 * tuned (https://codingwithtaz.blog/category/architecture/, pod included) and "about 5 minutes"
 * (https://news.ycombinator.com/item?id=44053826); the middle.
 */
export const NODE_SECONDS = 180;

/**
 * Download and unpacking of an image, in MB of its unpacked size a second: "standard Docker image pulls of 15-20 GB can take
 * 4-6 minutes per instance" (AWS Machine Learning Blog, "Reducing container cold start times using SOCI index on DLAMI and
 * DLC"). Unpacking is the bottleneck, not the network, unless that is slower still.
 */
export const UNPACK_MB_PER_SECOND = 60;

/** Where no document names an image's size: the middle of those that are known. */
export const UNKNOWN_IMAGE_GB = 20;

/**
 * Triton's start until its ports are open: 15 s for an engine of 14.96 GiB, from one read to the last line of the log
 * (https://github.com/michaelnny/llama3_inference, README). Triton reads an engine in one thread
 * (https://github.com/triton-inference-server/server/issues/8275).
 */
const LOAD_GIB_PER_SECOND = 1;

/** Python models before the engine: interpreters, tokenizers; an assumption. */
const LOAD_BASE_SECONDS = 5;

/** The PyTorch backend besides: imports, warm-up; an assumption. */
const PYTORCH_SECONDS = 60;

/** MB (10^6 bytes) of a GiB. */
const MB_PER_GIB = 1073.741824;

/**
 * Cold start of one server of a model: a new machine (on AWS only), image, engine from the store, load.
 *
 * @param engine null for the llmapi runtime: the weights themselves are read.
 * @throws Error where the model's pool is not in the stack.
 */
export function coldStart(model: ModelSpec, stack: GpuStackSpec, engine: EnginePlan | null): ColdStart {
  const pool = stack.pools.find(({ name }) => name === model.pool);
  if (pool === undefined) throw new Error(`The stack has no pool ${model.pool} for ${model.serving.name}.`);
  const isRented = stack.platform === "aws" && pool.capacity !== "owned";
  // A new machine has no image, whatever pulls onto those that run.
  const pull = pool.prePullsImages === true && !isRented ? pulledBefore(stack) : imagePull(stack, pool);
  const start = [copyStep(model, stack, engine), loadStep(model, engine)];
  const steps = [...(isRented ? [nodeStep(pool)] : []), pull, ...start];
  return {
    model: model.serving.name,
    steps,
    seconds: sumOf(steps),
    onRunningMachine: isRented
      ? [
          ...(pool.nodes.min > 0 && pool.prePullsImages !== true
            ? [{ hasImage: false, seconds: sumOf([pull, ...start]) }]
            : []),
          ...(pool.nodes.min > 0 || pool.prePullsImages === true
            ? [{ hasImage: true, seconds: sumOf(start) }]
            : []),
        ]
      : [],
  };
}

function sumOf(steps: readonly Step[]): number {
  return steps.reduce((sum, { seconds }) => sum + seconds, 0);
}

function nodeStep(pool: PoolSpec): Step {
  return {
    what: "node",
    seconds: NODE_SECONDS,
    arithmetic: `${pool.instanceType ?? "a machine"} from request to ready`,
  };
}

function imagePull(stack: GpuStackSpec, pool: PoolSpec): Step {
  const { networkMbps } = pool.machine;
  const rate = Math.min(networkMbps > 0 ? networkMbps / 8 : Infinity, UNPACK_MB_PER_SECOND);
  return {
    what: "imagePull",
    seconds: Math.round((imageGB(stack) * 1000) / rate),
    arithmetic: `${imageWords(stack)} at ${Math.round(rate)} MB/s, download and unpacking`,
  };
}

function pulledBefore(stack: GpuStackSpec): Step {
  return {
    what: "imagePull",
    seconds: 0,
    arithmetic: `${imageWords(stack)} of every machine's disk, pulled before`,
  };
}

function imageGB({ release }: GpuStackSpec): number {
  return release.imageGB ?? UNKNOWN_IMAGE_GB;
}

function imageWords(stack: GpuStackSpec): string {
  return `${imageGB(stack)} GB${stack.release.imageGB === null ? " (size unknown, taken as this)" : ""}`;
}

function copyStep(model: ModelSpec, stack: GpuStackSpec, engine: EnginePlan | null): Step {
  const gib = servedGiB(model, engine);
  const { kind, readMBPerSecond } = stack.store;
  return {
    what: "engineCopy",
    seconds: Math.round((gib * MB_PER_GIB) / readMBPerSecond),
    arithmetic: `${engine === null ? "weights" : "engine"} of ${gib.toFixed(2)} GiB from the store (${kind}) at ${readMBPerSecond} MB/s`,
  };
}

/** Ranks read at the same time, from memory after the copy; the first also loads the visual engine. */
function loadStep(model: ModelSpec, engine: EnginePlan | null): Step {
  const size = engineBytesGiB(model.engine, model.serving.runtime);
  const gib = size.llmPerRankGiB + size.visionGiB;
  const base = LOAD_BASE_SECONDS + (engine === null ? PYTORCH_SECONDS : 0);
  return {
    what: "load",
    seconds: Math.round(base + gib / LOAD_GIB_PER_SECOND),
    arithmetic: `${base} s + ${gib.toFixed(2)} GiB a rank at ${LOAD_GIB_PER_SECOND} GiB/s`,
  };
}

/** What the store is read for. */
function servedGiB(model: ModelSpec, engine: EnginePlan | null): number {
  return engine === null ? loadedWeightsGiB(model.engine.row) : engineBytesGiB(model.engine).totalGiB;
}
