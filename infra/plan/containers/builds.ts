/** Tasks that fill the engine store: one for each engine, for weights that are served without one, and for the encoders. */

import { encoderBuildSpec, engineBuildSpec, SPEC_FILES } from "../container-specs.ts";
import { buildEstimate } from "../cost/times.ts";
import { encoderTarget } from "../encoders/encoder-plan.ts";
import { worldSize } from "../fit/placement.ts";
import type { GpuPlan, ModelPlan } from "../gpu-stack.ts";
import { jsonDigest, shortKey } from "../plain-data.ts";
import { poolNamed } from "../pool-space.ts";
import { MPI_ENVIRONMENT } from "../repository/launch.ts";
import type { PoolSpec } from "../spec.ts";
import {
  type BuildContainer,
  type Container,
  type ContainerOptions,
  type ContainerSettings,
  container,
} from "./container.ts";
import { SHARED_MEMORY_BYTES, STORE, weightsMounts } from "./servers.ts";

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

/** Builds of a stack: one for each engine, in the order of the models, then the encoders. */
export function buildContainers(plan: GpuPlan, settings: ContainerSettings): readonly BuildContainer[] {
  const keys = plan.models.map(storeKey);
  const modelsOf = (key: string) => plan.models.filter((_model, index) => keys[index] === key);
  return [
    ...[...new Set(keys)].flatMap((key) =>
      key === null ? [] : [engineBuild(plan, key, modelsOf(key) as [ModelPlan], settings)],
    ),
    ...encoderBuild(plan, settings),
  ];
}

/** @param models - All models that need the engine. */
function engineBuild(
  plan: GpuPlan,
  key: string,
  models: readonly [ModelPlan, ...ModelPlan[]],
  settings: ContainerSettings,
): BuildContainer {
  const [model] = models;
  const { spec, engine } = model;
  return {
    ...build(settings, {
      role: "engineBuild",
      model: model.name,
      key,
      name: `${spec.engine.model}-${shortKey(key)}`,
      image: "trtllm",
      arguments: ["engine_builder", "build", SPEC_FILES.engine],
      files: { [SPEC_FILES.engine]: engineBuildSpec(model) },
      environment: MPI_ENVIRONMENT,
      mounts: weightsMounts(spec),
      // A mere download needs no GPU.
      gpus: engine === null ? 0 : worldSize(spec),
    }),
    models: models.map(({ name }) => name),
    timeoutSeconds: buildTimeoutSeconds(model, poolNamed(plan.spec.pools, spec.buildPool)),
  };
}

function encoderBuild(plan: GpuPlan, settings: ContainerSettings): readonly BuildContainer[] {
  const { encoders, release } = plan;
  if (encoders === null) return [];
  const target = encoderTarget(plan.spec);
  const container = build(settings, {
    role: "encoderBuild",
    key: encoders.key,
    name: `encoders-${encoders.shortKey}`,
    image: "encoders",
    arguments: ["encoder_builder", "build", SPEC_FILES.encoders],
    files: { [SPEC_FILES.encoders]: encoderBuildSpec(encoders, release, target) },
    gpus: target === null ? 0 : 1,
  });
  return [{ ...container, models: [], timeoutSeconds: ENCODER_TIMEOUT_SECONDS }];
}

/**
 * The hub's client reads the token's file; no process has the token in its environment or its arguments. Open MPI makes its
 * session folder in TMPDIR.
 */
function build(
  { hubTokenFile, home }: ContainerSettings,
  { environment, mounts = [], ...options }: Omit<ContainerOptions, "stopSeconds">,
): Container {
  return container({
    ...options,
    environment: {
      ...environment,
      TMPDIR: SCRATCH,
      ...(hubTokenFile === null ? {} : { HF_TOKEN_PATH: hubTokenFile }),
      ...(home === null ? {} : { HOME: home }),
    },
    secretFiles: hubTokenFile === null ? {} : { [hubTokenFile]: "hubToken" },
    mounts: [
      { purpose: "store", path: STORE, readOnly: false },
      { purpose: "scratch", path: SCRATCH, readOnly: false },
      ...mounts,
    ],
    sharedMemoryBytes: SHARED_MEMORY_BYTES,
    stopSeconds: STOP_SECONDS,
  });
}

/** Content address of a model's files in the store; null without engine for weights in a folder. */
function storeKey({ spec, engine }: ModelPlan): string | null {
  if (engine !== null) return engine.key;
  const { model, weights, row } = spec.engine;
  if (weights.kind === "folder") return null;
  const { include, exclude } = row.source;
  return jsonDigest({ model, weights, include, exclude });
}

/** Time limit of a build. @param pool - Pool of the machine that builds. */
function buildTimeoutSeconds({ spec, engine }: ModelPlan, pool: PoolSpec): number {
  const { seconds, parts } = buildEstimate(spec.engine, pool);
  const estimated = engine === null ? (parts.download ?? 0) : seconds;
  return TIMEOUT_BASE_SECONDS + TIMEOUT_ESTIMATES * estimated;
}
