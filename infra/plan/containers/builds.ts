/** Tasks that fill the engine store: one for each engine, for weights that are served without one, and for the encoders. */

import { jsonDigest, shortKey } from "../canonical-json.ts";
import { encoderBuildSpec, engineBuildSpec, SPEC_FILES } from "../container-specs.ts";
import { buildEstimate } from "../cost/times.ts";
import { worldSize } from "../fit/placement.ts";
import type { GpuPlan, ModelPlan } from "../gpu-stack.ts";
import { poolNamed } from "../pool-space.ts";
import { MPI_ENVIRONMENT } from "../repository/launch.ts";
import type { PoolSpec } from "../spec.ts";
import { type BuildContainer, type ContainerSettings, container } from "./container.ts";
import { encoderGpu, SHARED_MEMORY_BYTES, STORE, weightsMounts } from "./servers.ts";

/** An engine, or weights that are served without one. */
interface StoreBuild {
  /** Content address, 64 hexadecimal digits. */
  readonly key: string;
  /** The first of the models that need it. */
  readonly model: ModelPlan;
  /** Names of all of them. */
  readonly models: readonly string[];
}

/**
 * A build that takes longer hangs: estimates are right within a factor of two, and a hub may give a quarter of the rate that
 * they assume.
 */
const TIMEOUT_ESTIMATES = 4;
const TIMEOUT_BASE_SECONDS = 1800;

/** Three small models, each downloaded, exported, and built in minutes; no log to estimate from. */
const ENCODER_TIMEOUT_SECONDS = 3600;

/** Checkpoints, downloads and unpacked packages, needed only during a build. */
const SCRATCH = "/scratch";

/** A build ends between two steps, or kills the running one and cleans up. */
const STOP_SECONDS = 30;

/** Builds of a stack: engines in the order of the models, then the encoders. */
export function buildContainers(plan: GpuPlan, settings: ContainerSettings): readonly BuildContainer[] {
  return [
    ...storeBuilds(plan.models).map((build) => engineBuild(plan, build, settings)),
    ...encoderBuild(plan, settings),
  ];
}

function engineBuild(
  plan: GpuPlan,
  { key, model, models }: StoreBuild,
  settings: ContainerSettings,
): BuildContainer {
  const { spec, engine } = model;
  return {
    ...container({
      ...buildOptions(settings, MPI_ENVIRONMENT),
      role: "engineBuild",
      model: model.name,
      key,
      name: `${spec.engine.model}-${shortKey(key)}`,
      image: "trtllm",
      arguments: ["engine_builder", "build", SPEC_FILES.engine],
      files: { [SPEC_FILES.engine]: engineBuildSpec(model) },
      mounts: [...BUILD_MOUNTS, ...weightsMounts(spec)],
      // A download alone needs no GPU.
      gpus: engine === null ? 0 : worldSize(spec),
    }),
    models,
    timeoutSeconds: buildTimeoutSeconds(model, poolNamed(plan.spec.pools, spec.buildPool)),
  };
}

function encoderBuild(plan: GpuPlan, settings: ContainerSettings): readonly BuildContainer[] {
  const { encoders, release } = plan;
  if (encoders === null) return [];
  const target = encoderGpu(plan);
  return [
    {
      ...container({
        ...buildOptions(settings, {}),
        role: "encoderBuild",
        key: encoders.key,
        name: `encoders-${encoders.shortKey}`,
        image: "encoders",
        arguments: ["encoder_builder", "build", SPEC_FILES.encoders],
        files: { [SPEC_FILES.encoders]: encoderBuildSpec(encoders, release, target) },
        mounts: BUILD_MOUNTS,
        gpus: target === null ? 0 : 1,
      }),
      models: [],
      timeoutSeconds: ENCODER_TIMEOUT_SECONDS,
    },
  ];
}

const BUILD_MOUNTS = [
  { purpose: "store", path: STORE, readOnly: false },
  { purpose: "scratch", path: SCRATCH, readOnly: false },
] as const;

/**
 * The hub's client reads the token's file; no process has the token in its environment or its arguments. Open MPI makes its
 * session folder in TMPDIR.
 */
function buildOptions(
  { hubTokenFile, home }: ContainerSettings,
  environment: Readonly<Record<string, string>>,
) {
  return {
    environment: {
      ...environment,
      TMPDIR: SCRATCH,
      ...(hubTokenFile === null ? {} : { HF_TOKEN_PATH: hubTokenFile }),
      ...(home === null ? {} : { HOME: home }),
    },
    secretFiles: hubTokenFile === null ? {} : ({ [hubTokenFile]: "hubToken" } as const),
    sharedMemoryBytes: SHARED_MEMORY_BYTES,
    stopSeconds: STOP_SECONDS,
  };
}

/** Two models with the same engine share one build. */
function storeBuilds(models: readonly ModelPlan[]): readonly StoreBuild[] {
  const modelsByKey = new Map<string, ModelPlan[]>();
  for (const model of models) {
    const key = storeKey(model);
    if (key !== null) modelsByKey.set(key, [...(modelsByKey.get(key) ?? []), model]);
  }
  return [...modelsByKey].map(([key, sharing]) => ({
    key,
    model: sharing[0] as ModelPlan,
    models: sharing.map(({ name }) => name),
  }));
}

/** Content address of what a model needs of the store; null where its weights lie in a folder and it has no engine. */
function storeKey({ spec, engine }: ModelPlan): string | null {
  if (engine !== null) return engine.key;
  const { model, weights, row } = spec.engine;
  if (weights.kind === "folder") return null;
  const { include, exclude } = row.source;
  return jsonDigest({ model, weights, include, exclude });
}

/** How long a build may take. @param pool - Whose machines build. */
function buildTimeoutSeconds({ spec, engine }: ModelPlan, pool: PoolSpec): number {
  const { seconds, parts } = buildEstimate(spec.engine, pool);
  const estimated = engine === null ? (parts.download ?? 0) : seconds;
  return TIMEOUT_BASE_SECONDS + TIMEOUT_ESTIMATES * estimated;
}
