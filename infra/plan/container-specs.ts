/**
 * What the programs inside the containers are told: the JSON files below /etc/engine-room, on a Docker host and in a
 * cluster alike, as container-spec-schemas.ts has their shapes. Each has a version of its own, which changes when its shape
 * does; the same plan gives the same bytes, so that a container is made anew only when something changed for it. No file has
 * a credential.
 */
import { canonicalJson } from "./canonical-json.ts";
import type { Release } from "./catalogue/types.ts";
import type {
  EncoderBuildSpec,
  EncoderServerSpec,
  EngineBuildSpec,
  ModelServerSpec,
} from "./container-spec-schemas.ts";
import type { RepositoryPlan as CpuRepositoryPlan } from "./cpu-repositories.ts";
import type { EncoderPlan } from "./encoders/types.ts";
import { goldenQuestion } from "./engine/build-steps.ts";
import { fetchCommands, weightsDirectory } from "./engine/weights.ts";
import type { ModelPlan } from "./gpu-stack.ts";
import { MODEL_REPOSITORY } from "./repository/launch.ts";
import { renderModelConfig } from "./repository/model-config.ts";
import type { TargetGpu } from "./spec.ts";

/** Paths of the files in a container. */
export const SPEC_FILES = {
  engine: "/etc/engine-room/engine.json",
  server: "/etc/engine-room/server.json",
  encoders: "/etc/engine-room/encoders.json",
  repository: "/etc/engine-room/repository.json",
  gateway: "/etc/engine-room/gateway.json",
} as const;

/** repository.json, for a Triton on a CPU: `python -m engine_room_models.container`. */
interface CpuRepositorySpec extends CpuRepositoryPlan {
  readonly version: 1;
}

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
export function encoderBuildSpec(plan: EncoderPlan, release: Release, target: TargetGpu | null): string {
  return canonicalJson({
    version: 1,
    release: releaseSpec(release),
    gpu: target === null ? null : gpuSpec(target),
    plan: {
      device: plan.device,
      precision: plan.precision,
      key: plan.key,
      keyFields: plan.keyFields,
      directory: plan.directory,
      models: plan.models.map(({ name, encoder, export: { words: _, ...exported }, steps }) => ({
        name,
        encoder,
        export: exported,
        steps: steps.map(({ name, argv }) => ({ name, argv })),
      })),
    },
  } satisfies EncoderBuildSpec);
}

/** server.json of the encoders. @param target - null: on a CPU. */
export function encoderServerSpec(plan: EncoderPlan, release: Release, target: TargetGpu | null): string {
  return canonicalJson({
    version: 1,
    model: "encoders",
    release: releaseSpec(release),
    gpu: target === null ? null : gpuSpec(target),
    engineDirectory: plan.directory,
    repository: {
      flavour: "encoders",
      path: MODEL_REPOSITORY,
      models: plan.tritonModels.map(({ config, files, sources }) => ({
        name: config.name,
        config: renderModelConfig(config),
        files,
        sources,
      })),
    },
  } satisfies EncoderServerSpec);
}

/** repository.json of a Triton on a CPU. */
export function cpuRepositorySpec(plan: CpuRepositoryPlan): string {
  return canonicalJson({ version: 1, ...plan } satisfies CpuRepositorySpec);
}

function releaseSpec({ tag, tensorRtLlm, tensorRt }: Release): EngineBuildSpec["release"] {
  return { tag, tensorRtLlm, tensorRt };
}

function gpuSpec({ gpu, migProfile }: TargetGpu): EngineBuildSpec["gpu"] {
  return { name: gpu.name, computeCapability: gpu.computeCapability, migProfile: migProfile ?? null };
}
