/** Estimates of how long builds, starts and a first `up` take. Every coefficient names its source or is called an assumption. */

import type { EnginePlan } from "../container-spec-schemas.ts";
import { engineBytesGiB, loadedWeightsGiB } from "../engine/engine-size.ts";
import { poolOf } from "../pool-space.ts";
import type { EngineSpec, GpuStackSpec, ModelSpec, PoolSpec } from "../spec.ts";
import type { ColdStart, FirstUp, GpuCost } from "./types.ts";

/** Download rate of one reader from a hub, in MB/s; an assumption. */
const HUB_MB_PER_SECOND = 100;

/**
 * Conversion. Without quantization, Llama-3-8B (15 GiB) took 24 s (https://github.com/michaelnny/llama3_inference). Weight-only
 * int4 of Qwen1.5-MoE (26.7 GiB) took 193 s (github.com/LongWeihan/trtllm-moe-runtime-optimizer, docs/07_int4wo_build.md); AWQ of Llama-3-8B (15 GiB) "about 5 minutes"
 * on a g6.2xlarge (https://www.infracloud.io/blogs/running-llama-3-with-triton-tensorrt-llm/), and fp8 and SmoothQuant run the same
 * tool.
 */
const CONVERT_BASE_SECONDS = 8;
const CONVERT_SECONDS_PER_GIB = { none: 1.1, int8: 7, int4: 7, fp8: 20, int8_sq: 20, int4_awq: 20 } as const;

/**
 * trtllm-build: gpt2-medium (0.66 GiB) 41 s (NVIDIA/TensorRT-LLM examples/models/core/gpt/README.md), Llama-3-8B bf16
 * (14.96 GiB) 129 s on an RTX 3090 (michaelnny/llama3_inference), Llama-3-8B int4 (5 GiB) 55 s on an L4 (infracloud.io),
 * Qwen1.5-MoE int4 (7.6 GiB) 38 s, Command R 35B (65 GiB) 107 s (NVIDIA/TensorRT-LLM examples/models/core/commandr/README.md).
 * An L4 and a 3090 fit the same line, so the GPU does not matter.
 */
const LLM_BASE_SECONDS = 36;
const LLM_SECONDS_PER_GIB = 6.5;

/** ONNX export and TensorRT build of the visual engine; an assumption, since no published log has both. */
const VISION_BASE_SECONDS = 60;
const VISION_SECONDS_PER_GIB = 60;

/** Start of the runner; then the engine is read at the rate of a server's start. */
const CHECK_BASE_SECONDS = 20;

type BuildPart = "download" | "convert" | "llm" | "vision" | "check";

/**
 * Seconds of one engine build on a machine of the pool, weights not yet in the store: right within a factor of two. `vision` is
 * absent for text models.
 */
export function buildEstimate(
  spec: EngineSpec,
  { machine }: PoolSpec,
): { readonly seconds: number; readonly parts: Readonly<Partial<Record<BuildPart, number>>> } {
  const { llmGiB, visionGiB, totalGiB } = engineBytesGiB(spec);
  const ranks = spec.tensorParallel * spec.pipelineParallel;
  const downloadRate = Math.min(networkMBPerSecond(machine.networkMbps), HUB_MB_PER_SECOND);
  const convertSeconds = CONVERT_SECONDS_PER_GIB[spec.quantization] * loadedWeightsGiB(spec.row);
  const parts = {
    download:
      spec.weights.kind === "folder" ? 0 : Math.round((spec.row.source.downloadGB * 1000) / downloadRate),
    convert: Math.round(CONVERT_BASE_SECONDS + convertSeconds),
    llm: Math.round(LLM_BASE_SECONDS * ranks + LLM_SECONDS_PER_GIB * llmGiB),
    ...(spec.row.vision !== undefined && {
      vision: Math.round(VISION_BASE_SECONDS + VISION_SECONDS_PER_GIB * visionGiB),
    }),
    check: Math.round(CHECK_BASE_SECONDS + totalGiB / LOAD_GIB_PER_SECOND),
  };
  return { seconds: sum(Object.values(parts)), parts };
}

/** @param networkMbps - 0: unknown. */
function networkMBPerSecond(networkMbps: number): number {
  return networkMbps > 0 ? networkMbps / 8 : Infinity;
}

function sum(seconds: readonly number[]): number {
  return seconds.reduce((total, one) => total + one, 0);
}

/**
 * A GPU machine from request to ready, device plugin included: the middle of reports, from 84 s with a small image and
 * everything tuned (https://codingwithtaz.blog/category/architecture/, pod included) to "about 5 minutes"
 * (https://news.ycombinator.com/item?id=44053826).
 */
const NODE_SECONDS = 180;

/**
 * Download and unpacking of an image, in MB of its unpacked size a second: "standard Docker image pulls of 15-20 GB can take
 * 4-6 minutes per instance" (AWS Machine Learning Blog, "Reducing container cold start times using SOCI index on DLAMI and
 * DLC"). Unpacking is the bottleneck, not the network, unless that is slower still.
 */
export const UNPACK_MB_PER_SECOND = 60;

/** Size of an image that no document names: the middle of those that are known. */
export const UNKNOWN_IMAGE_GB = 20;

/**
 * Triton's start until its ports are open: 15 s for an engine of 14.96 GiB, from one read to the last line of the log
 * (https://github.com/michaelnny/llama3_inference, README). Triton reads an engine in one thread
 * (https://github.com/triton-inference-server/server/issues/8275).
 */
const LOAD_GIB_PER_SECOND = 1;

/** Python models before the engine: interpreters, tokenizers; an assumption. */
const LOAD_BASE_SECONDS = 5;

/** Imports and warm-up of the PyTorch backend; an assumption. */
const PYTORCH_SECONDS = 60;

/** MB (10^6 bytes) of a GiB. */
const MB_PER_GIB = 1073.741824;

/**
 * Cold start of one server of a model: a new machine (if machines are rented), image, engine from the store, load.
 *
 * @param engine null for the llmapi runtime: the weights themselves are read.
 */
export function coldStart(model: ModelSpec, stack: GpuStackSpec, engine: EnginePlan | null): ColdStart {
  const { release, store } = stack;
  const { engine: spec, serving } = model;
  const pool = poolOf(model, stack);
  const isRented = stack.isRented && pool.capacity !== "owned";
  const prePulls = pool.prePullsImages === true;
  // A new machine has no image, whatever is pulled onto machines that run.
  const isPulled = prePulls && !isRented;
  const imageGB = release.imageGB ?? UNKNOWN_IMAGE_GB;
  const imageSize = `${imageGB} GB${release.imageGB === null ? " (size unknown, taken as this)" : ""}`;
  const pullRate = Math.min(networkMBPerSecond(pool.machine.networkMbps), UNPACK_MB_PER_SECOND);
  const copyGiB = engine === null ? loadedWeightsGiB(spec.row) : engineBytesGiB(spec).totalGiB;
  // Ranks read at the same time, from memory after the copy; the first also loads the visual engine.
  const { llmPerRankGiB, visionGiB } = engineBytesGiB(spec, serving.runtime);
  const loadGiB = llmPerRankGiB + visionGiB;
  const loadBaseSeconds = LOAD_BASE_SECONDS + (engine === null ? PYTORCH_SECONDS : 0);
  const machine = {
    what: "node",
    seconds: NODE_SECONDS,
    arithmetic: `${pool.instanceType ?? "a machine"} from request to ready`,
  } as const;
  const steps: ColdStart["steps"] = [
    ...(isRented ? [machine] : []),
    {
      what: "imagePull",
      seconds: isPulled ? 0 : Math.round((imageGB * 1000) / pullRate),
      arithmetic: isPulled
        ? `${imageSize} of every machine's disk, pulled before`
        : `${imageSize} at ${Math.round(pullRate)} MB/s, download and unpacking`,
    },
    {
      what: "engineCopy",
      seconds: Math.round((copyGiB * MB_PER_GIB) / store.readMBPerSecond),
      arithmetic: `${engine === null ? "weights" : "engine"} of ${copyGiB.toFixed(2)} GiB from the store (${store.kind}) at ${store.readMBPerSecond} MB/s`,
    },
    {
      what: "load",
      seconds: Math.round(loadBaseSeconds + loadGiB / LOAD_GIB_PER_SECOND),
      arithmetic: `${loadBaseSeconds} s + ${loadGiB.toFixed(2)} GiB a rank at ${LOAD_GIB_PER_SECOND} GiB/s`,
    },
  ];
  const seconds = sum(steps.map((step) => step.seconds));
  const keepsMachine = isRented && pool.nodes.min > 0;
  return {
    model: serving.name,
    steps,
    seconds,
    onRunningMachine: [
      ...(keepsMachine && !prePulls ? [{ hasImage: false, seconds: seconds - NODE_SECONDS }] : []),
      ...(keepsMachine || (isRented && prePulls)
        ? [{ hasImage: true, seconds: startEstimate({ steps }) }]
        : []),
    ],
  };
}

/** The start of a server on a machine with its image: engine copy and load. */
export function startEstimate({ steps }: Pick<ColdStart, "steps">): number {
  return sum(
    steps.filter(({ what }) => what === "engineCopy" || what === "load").map(({ seconds }) => seconds),
  );
}

/**
 * EKS: "9 minutes or less, on average" (https://aws.amazon.com/about-aws/whats-new/2021/03/amazon-eks-reduces-cluster-creation-time-40-percent/);
 * logs of Terraform have 8 to 11 minutes since.
 */
const CONTROL_PLANE_SECONDS = 600;

/**
 * A VPC with its subnets (25 s) and a NAT gateway: logs of Terraform in public repositories have 85 to 125 s for the gateway. The
 * load balancer (140 to 190 s in such logs) is made at the same time, and nothing waits for it before the models answer.
 */
const NETWORK_SECONDS = 130;

interface StartedModel {
  readonly spec: Pick<ModelSpec, "buildPool">;
  readonly engine: { readonly model: string; readonly shortKey: string } | null;
  readonly coldStart: Pick<ColdStart, "seconds">;
}

/**
 * The first `up` of a stack, its images being in their registry: the network of a new machine, or the control plane and the
 * first machines of a new cluster, whose network is ready before them; builds; and the slowest cold start.
 *
 * @param models - In the order of the stack; an engine that two need is built once, where the first builds it.
 */
export function firstUp(
  { isRented, runsOn, rented }: Pick<GpuStackSpec, "isRented" | "runsOn" | "rented">,
  models: readonly StartedModel[],
  builds: GpuCost["builds"],
): FirstUp {
  const startsMachines = isRented && runsOn === "cluster";
  const makesCluster =
    startsMachines && rented.services.some(({ service }) => service === "EKS control plane");
  const makesNetwork = runsOn === "host" && rented.services.some(({ service }) => service === "NAT gateway");
  const steps: FirstUp["steps"] = [
    ...(makesNetwork ? [{ what: "network", seconds: NETWORK_SECONDS } as const] : []),
    ...(makesCluster ? [{ what: "controlPlane", seconds: CONTROL_PLANE_SECONDS } as const] : []),
    ...(startsMachines ? [{ what: "machines", seconds: NODE_SECONDS } as const] : []),
    ...(builds.length > 0 ? [{ what: "builds", seconds: longestQueue(models, builds) } as const] : []),
    { what: "coldStart", seconds: Math.max(0, ...models.map(({ coldStart: { seconds } }) => seconds)) },
  ];
  return { steps, seconds: sum(steps.map(({ seconds }) => seconds)) };
}

/** Builds of one pool run one after the other, pools at the same time. */
function longestQueue(models: readonly StartedModel[], builds: GpuCost["builds"]): number {
  const secondsByPool = new Map<string, number>();
  for (const build of builds) {
    const first = models.find(
      ({ engine }) => engine !== null && `${engine.model}/${engine.shortKey}` === build.engine,
    );
    const pool = first?.spec.buildPool ?? "";
    secondsByPool.set(pool, (secondsByPool.get(pool) ?? 0) + build.seconds);
  }
  return Math.max(0, ...secondsByPool.values());
}
