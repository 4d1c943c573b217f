/**
 * What the programs inside the containers are told: the JSON files below /etc/engine-room, on a Docker host and in a
 * cluster alike, as container-spec-schemas.ts has their shapes. Each has a version of its own, which changes when its shape
 * does; the same plan gives the same bytes, so that a container is made anew only when something changed for it. No file has
 * a credential.
 */

import type { Release } from "./catalogue/types.ts";
import type {
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
import type { CpuRepository } from "./repository/cpu-models.ts";
import { MODEL_REPOSITORY } from "./repository/launch.ts";
import type { TargetGpu } from "./spec.ts";

/** Paths of the files in a container. */
export const SPEC_FILES = {
  engine: "/etc/engine-room/engine.json",
  server: "/etc/engine-room/server.json",
  encoders: "/etc/engine-room/encoders.json",
  repository: "/etc/engine-room/repository.json",
  gateway: "/etc/engine-room/gateway.json",
} as const;

/** engine.json: how the engine of a model is made, or that its weights are fetched where it has none. */
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
  } satisfies EngineBuildSpec);
}

/** server.json of a model: what Triton loads, and on what. */
export function serverSpec({
  name,
  spec,
  engine,
  repository: { clones: _, ...repository },
}: ModelPlan): string {
  return canonicalJson({
    version: 1,
    model: name,
    release: releaseSpec(spec.engine.release),
    gpu: gpuSpec(spec.engine.target),
    engineDirectory: engine?.directory ?? null,
    repository,
  } satisfies ModelServerSpec);
}

/** encoders.json: how the encoders' graphs and plans are made. @param target - null: on a CPU. */
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

/** server.json of the encoders. @param target - null: on a CPU. */
export function encoderServerSpec(
  { directory, tritonModels }: EncoderPlan,
  release: Release,
  target: TargetGpu | null,
): string {
  return canonicalJson({
    version: 1,
    model: "encoders",
    release: releaseSpec(release),
    gpu: target && gpuSpec(target),
    engineDirectory: directory,
    repository: { flavour: "encoders", path: MODEL_REPOSITORY, models: tritonModels },
  } satisfies EncoderServerSpec);
}

/** repository.json, for a Triton on a CPU: `python -m engine_room_models.container`. */
export function cpuRepositorySpec(repository: CpuRepository): string {
  return canonicalJson({ version: 1, ...repository });
}

function releaseSpec({ tag, tensorRtLlm, tensorRt }: Release): EngineBuildSpec["release"] {
  return { tag, tensorRtLlm, tensorRt };
}

function gpuSpec({ gpu: { name, computeCapability }, migProfile }: TargetGpu): EngineBuildSpec["gpu"] {
  return { name, computeCapability, migProfile: migProfile ?? null };
}
