/**
 * Instructions for the programs inside the containers: JSON files below /etc/engine-room, the same on a Docker host and in a
 * cluster, with the shapes of container-spec-schemas.ts. Each has its own version, which changes with its shape; the same plan
 * gives the same bytes, so that a container is replaced only for a change that it needs. The files have no credentials.
 */

import type { ImageProcessor, Release } from "./catalogue/types.ts";
import type {
  CpuServerSpec,
  EncoderBuildSpec,
  EncoderServerSpec,
  EngineBuildSpec,
  ModelServerSpec,
} from "./container-spec-schemas.ts";
import type { EncoderPlan } from "./encoders/encoder-plan.ts";
import { goldenQuestion } from "./engine/build-steps.ts";
import { fetchCommands, weightsDirectory } from "./engine/weights.ts";
import type { ModelPlan } from "./gpu-stack.ts";
import { canonicalJson } from "./plain-data.ts";
import type { CpuModel } from "./repository/cpu-models.ts";
import { MODEL_REPOSITORY, singleLaunch, withExitTimeout } from "./repository/launch.ts";
import type { TargetGpu } from "./spec.ts";

/** Paths of the files in a container. */
export const SPEC_FILES = {
  engine: "/etc/engine-room/engine.json",
  server: "/etc/engine-room/server.json",
  encoders: "/etc/engine-room/encoders.json",
  gateway: "/etc/engine-room/gateway.json",
} as const;

/** engine.json: how the engine of a model is built, or, without engine, how its weights are fetched. */
export function engineBuildSpec({ spec, engine }: Pick<ModelPlan, "spec" | "engine">): string {
  const { model, row, release, target, weights } = spec.engine;
  const { include, exclude = [], downloadGB } = row.source;
  return canonicalJson({
    version: 1,
    model,
    release: releaseSpec(release),
    gpu: gpuSpec(target),
    plan: engine,
    weights: {
      source: weights,
      directory: weightsDirectory(model, weights),
      include,
      exclude,
      downloadGB,
      commands: fetchCommands(spec.engine),
    },
    golden: goldenQuestion(spec.engine),
    // The tutorials' repository reads the weights' own file.
    ...(spec.serving.flavour === "multimodal" && row.vision?.imageProcessor
      ? { imageProcessor: processorConfig(row.vision.imageProcessor) }
      : {}),
  } satisfies EngineBuildSpec);
}

/** By the keys of a `preprocessor_config.json`, and its path as `file`. */
export function processorConfig({ class: type, edge, mean, std, file }: ImageProcessor) {
  const square = { height: edge, width: edge };
  const size =
    type === "CLIPImageProcessor" ? { size: { shortest_edge: edge }, crop_size: square } : { size: square };
  return { file, image_processor_type: type, ...size, image_mean: mean, image_std: std };
}

/** server.json of a language model on GPUs: what Triton loads, on what, and how it is started. */
export function serverSpec(
  { name, spec, engine, repository: { clones: _, launch, ...repository } }: ModelPlan,
  exitTimeoutSeconds?: number,
): string {
  return canonicalJson({
    version: 2,
    model: name,
    release: releaseSpec(spec.engine.release),
    gpu: gpuSpec(spec.engine.target),
    engineDirectory: engine?.directory ?? null,
    weightsDirectory: weightsDirectory(spec.engine.model, spec.engine.weights),
    repository,
    launch: withExitTimeout(launch, exitTimeoutSeconds),
  } satisfies ModelServerSpec);
}

/** encoders.json: how the encoders' graphs and plans are built. @param target - null on a CPU. */
export function encoderBuildSpec(
  { device, precision, key, keyFields, directory, models }: EncoderPlan,
  release: Release,
  target: TargetGpu | null,
): string {
  return canonicalJson({
    version: 1,
    release: releaseSpec(release),
    gpu: target && gpuSpec(target),
    plan: { device, precision, key, keyFields, directory, models },
  } satisfies EncoderBuildSpec);
}

/** server.json of the encoders beside language models. @param target - null on a CPU. */
export function encoderServerSpec(
  { directory, tritonModels }: EncoderPlan,
  release: Release,
  target: TargetGpu | null,
  exitTimeoutSeconds?: number,
): string {
  const launch = singleLaunch({ own: target === null ? ["--allow-gpu-metrics=false"] : [] });
  return canonicalJson({
    version: 2,
    model: "encoders",
    release: releaseSpec(release),
    gpu: target && gpuSpec(target),
    engineDirectory: directory,
    repository: { flavour: "encoders", path: MODEL_REPOSITORY, models: tritonModels },
    launch: withExitTimeout(launch, exitTimeoutSeconds),
  } satisfies EncoderServerSpec);
}

/**
 * server.json of the CPU tier, whose tritonserver is that of the nvidia-pytriton wheel.
 *
 * @param models - null: `repository` has them.
 * @param address - The only address that the server listens on; absent: all of them.
 */
export function cpuServerSpec(
  name: string,
  models: readonly CpuModel[] | null,
  exitTimeoutSeconds: number,
  {
    repository = MODEL_REPOSITORY,
    address,
  }: { readonly repository?: string; readonly address?: string } = {},
): string {
  const protocols = address === undefined ? [] : ["http", "grpc", "metrics"];
  const own = [
    ...protocols.map((protocol) => `--${protocol}-address=${address}`),
    "--allow-gpu-metrics=false",
    // Triton allows a Python model 30 s to load; on a busy machine of two cores several load at once.
    "--backend-config=python,stub-timeout-seconds=120",
    "--log-format=ISO8601",
  ];
  return canonicalJson({
    version: 2,
    model: name,
    release: null,
    gpu: null,
    engineDirectory: null,
    repository: { flavour: "cpu", path: repository, models },
    launch: withExitTimeout(singleLaunch({ program: "tritonserver", repository, own }), exitTimeoutSeconds),
  } satisfies CpuServerSpec);
}

function releaseSpec({ tag, tensorRtLlm, tensorRt }: Release): EngineBuildSpec["release"] {
  return { tag, tensorRtLlm, tensorRt };
}

function gpuSpec({ gpu: { name, computeCapability }, migProfile }: TargetGpu): EngineBuildSpec["gpu"] {
  return { name, computeCapability, migProfile: migProfile ?? null };
}
