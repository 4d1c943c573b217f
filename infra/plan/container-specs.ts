/**
 * What the programs inside the containers are told: the JSON files below /etc/engine-room, on a Docker host and in a
 * cluster alike. Each has a version of its own, which changes when its shape does; the same plan gives the same bytes, so
 * that a container is made anew only when something changed for it. No file has a credential.
 */
import { canonicalJson } from "./canonical-json.ts";
import type { GoldenQuestion, Release } from "./catalogue/types.ts";
import type { RepositoryPlan as CpuRepositoryPlan } from "./cpu-repositories.ts";
import type { EncoderPlan } from "./encoders/types.ts";
import { goldenQuestion } from "./engine/golden-question.ts";
import type { EnginePlan } from "./engine/types.ts";
import { fetchCommands, weightsDirectory } from "./engine/weights.ts";
import type { ModelPlan } from "./gpu-stack.ts";
import { renderModelConfig } from "./repository/model-config.ts";
import { MODEL_REPOSITORY } from "./repository/paths.ts";
import type { RepositoryPlan } from "./repository/types.ts";
import type { TargetGpu, WeightsSource } from "./spec.ts";

/** Paths of the files in a container. */
export const SPEC_FILES = {
  engine: "/etc/engine-room/engine.json",
  server: "/etc/engine-room/server.json",
  encoders: "/etc/engine-room/encoders.json",
  repository: "/etc/engine-room/repository.json",
  gateway: "/etc/engine-room/gateway.json",
} as const;

/** What an engine must find: another TensorRT or GPU refuses it. */
interface ReleaseSpec {
  readonly tag: string;
  readonly tensorRtLlm: string;
  /** null where no document names it. */
  readonly tensorRt: string | null;
}

interface GpuSpec {
  /** As `nvidia-smi` has it, without vendor: `A10G`. */
  readonly name: string;
  /** `8.6`. */
  readonly computeCapability: string;
  /** `3g.20gb`; null: the whole GPU. */
  readonly migProfile: string | null;
}

/** engine.json, for `engine_builder build`. */
interface EngineBuildSpec {
  readonly version: 1;
  /** Catalogue name. */
  readonly model: string;
  readonly release: ReleaseSpec;
  readonly gpu: GpuSpec;
  /** null: the model is served without an engine, and the weights are all that it needs. */
  readonly plan: EngineBuildPlan | null;
  readonly weights: {
    readonly source: WeightsSource;
    /** Where they are kept. */
    readonly directory: string;
    /** Patterns of the files to fetch; empty: all. */
    readonly include: readonly string[];
    readonly exclude: readonly string[];
    /** In GB (10^9). */
    readonly downloadGB: number;
    /** What fetches them where they are on no hub; the builder itself fetches from hubs. */
    readonly commands: readonly (readonly string[])[];
  };
  /** What the finished engine is asked. */
  readonly golden: GoldenQuestion;
}

/** An engine's plan without the words that its commands were made from. */
interface EngineBuildPlan extends Omit<EnginePlan, "steps"> {
  readonly steps: readonly Omit<EnginePlan["steps"][number], "words">[];
}

/** server.json of a language model, for `triton_entrypoint serve`. */
interface ServerSpec {
  readonly version: 1;
  /** Name in the stack. */
  readonly model: string;
  readonly release: ReleaseSpec;
  readonly gpu: GpuSpec;
  /** Folder whose manifest must be complete; null where the model has no engine. */
  readonly engineDirectory: string | null;
  /** The program starts `launch` with its environment, which the container need not have. */
  readonly repository: RepositoryPlan;
}

/** server.json of the encoders. */
interface EncoderServerSpec {
  readonly version: 1;
  readonly model: "encoders";
  readonly release: ReleaseSpec;
  /** null: they run on the CPU. */
  readonly gpu: GpuSpec | null;
  readonly engineDirectory: string;
  readonly repository: {
    readonly flavour: "encoders";
    readonly path: string;
    readonly models: readonly {
      readonly name: string;
      /** config.pbtxt. */
      readonly config: string;
      /** Path below the model's folder to path below `engineDirectory`. */
      readonly files: Readonly<Record<string, string>>;
      /** Path below the model's folder to path below the image's folder of Python models. */
      readonly sources: Readonly<Record<string, string>>;
    }[];
  };
}

/** encoders.json, for `encoder_builder build`. */
interface EncoderBuildSpec {
  readonly version: 1;
  readonly release: ReleaseSpec;
  /** null: nothing is built for a GPU. */
  readonly gpu: GpuSpec | null;
  readonly plan: EncoderPlan;
}

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
    plan: engine === null ? null : { ...engine, steps: engine.steps.map(({ words: _, ...step }) => step) },
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
export function serverSpec({ name, spec, engine, repository }: ModelPlan): string {
  return canonicalJson({
    version: 1,
    model: name,
    release: releaseSpec(spec.engine.release),
    gpu: gpuSpec(spec.engine.target),
    engineDirectory: engine?.directory ?? null,
    repository,
  } satisfies ServerSpec);
}

/** encoders.json: how the encoders' graphs and plans are made. @param target - null: on a CPU. */
export function encoderBuildSpec(plan: EncoderPlan, release: Release, target: TargetGpu | null): string {
  return canonicalJson({
    version: 1,
    release: releaseSpec(release),
    gpu: target === null ? null : gpuSpec(target),
    plan,
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

function releaseSpec({ tag, tensorRtLlm, tensorRt }: Release): ReleaseSpec {
  return { tag, tensorRtLlm, tensorRt };
}

function gpuSpec({ gpu, migProfile }: TargetGpu): GpuSpec {
  return { name: gpu.name, computeCapability: gpu.computeCapability, migProfile: migProfile ?? null };
}
