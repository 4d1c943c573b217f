/** Jobs that fill the engine store: one for each engine, for weights that are served without one, and for the encoders. */
import { encoderBuildSpec, engineBuildSpec, SPEC_FILES } from "../container-specs.ts";
import { shortKey } from "../engine/engine-key.ts";
import { checkpointGiB, engineBytesGiB } from "../engine/engine-size.ts";
import { worldSize } from "../fit/placement.ts";
import type { ClusterGpuPlan, ModelPlan } from "../gpu-stack.ts";
import { buildRequest, ENCODERS_REQUEST } from "../pod-requests.ts";
import { MPI_ENVIRONMENT } from "../repository/launch.ts";
import type { PoolSpec } from "../spec.ts";
import {
  BUILD_ENVIRONMENT,
  BUILD_STOP_SECONDS,
  buildTimeoutSeconds,
  ENCODER_TIMEOUT_SECONDS,
  SCRATCH,
  storeBuilds,
} from "../store-builds.ts";
import { MIB_PER_GIB } from "../units.ts";
import { SECRET_FILES } from "./cluster.ts";
import { objectName } from "./labels.ts";
import { buildKeepsApartFrom, gpusOf, poolNamed, poolPlacement } from "./placement.ts";
import { pod, SCRATCH_TMP } from "./pod.ts";
import type { PodPlan, PodVolume } from "./pod-types.ts";
import { priorityClass } from "./priorities.ts";
import type { BuildPlan } from "./types.ts";
import { sharedMemory, storeVolume } from "./volumes.ts";

/** For the Job's own end, after its deadline. */
const SPARE_SECONDS = 120;

/** A new machine, and its copy of the image. */
const MACHINE_SECONDS = 1200;

/** Beyond the estimates: logs of the tools, and what they unpack. */
const SCRATCH_SPARE_GIB = 5;
const SCRATCH_SPARE_FACTOR = 1.2;
/** Three small models as they were downloaded and exported, and their plans. */
const ENCODERS_SCRATCH_GIB = 10;

/** Jobs of a stack; the scheduler runs as many at a time as there is room for. */
export function builds(stack: string, plan: ClusterGpuPlan): readonly BuildPlan[] {
  const all = [...engineBuilds(stack, plan), ...encoderBuild(stack, plan)];
  return all.map((build) => {
    // They may have to wait for each other's GPU, and a Job's clock runs while its pod does.
    const inTurn = all.filter(({ pod }) => pod.placement.pool === build.pod.placement.pool);
    const seconds = inTurn.reduce((sum, { timeoutSeconds }) => sum + timeoutSeconds, 0);
    return job(build, seconds + goingSeconds(plan));
  });
}

/** A Job, and how long its own work may take. */
interface Build extends Pick<BuildPlan, "name" | "kind" | "key" | "pod" | "models"> {
  readonly timeoutSeconds: number;
}

function job({ timeoutSeconds: _, ...build }: Build, buildSeconds: number): BuildPlan {
  const deadlineSeconds = Math.ceil(MACHINE_SECONDS + buildSeconds);
  return {
    ...build,
    deadlineSeconds,
    awaitSeconds: deadlineSeconds + SPARE_SECONDS,
  };
}

/** How long a server whose GPU is taken for the build may answer on. */
function goingSeconds({ gateway, spec }: ClusterGpuPlan): number {
  return spec.whenFull === "stopServer" ? gateway.limits.requestSeconds : 0;
}

function engineBuilds(stack: string, plan: ClusterGpuPlan): readonly Build[] {
  return storeBuilds(plan.models).map(({ model, key, models }): Build => {
    const name = `${objectName(model.spec.engine.model)}-${shortKey(key)}`;
    const pool = poolNamed(plan, model.spec.buildPool);
    const made = enginePod(stack, plan, { name, model, key, pool });
    return {
      ...{ name, kind: "engine", key, pod: made, models },
      timeoutSeconds: buildTimeoutSeconds(model, pool),
    };
  });
}

interface EngineBuild {
  readonly name: string;
  readonly model: ModelPlan;
  readonly key: string;
  readonly pool: PoolSpec;
}

function enginePod(stack: string, plan: ClusterGpuPlan, { name, model, key, pool }: EngineBuild): PodPlan {
  const { spec, engine } = model;
  // A download alone needs neither GPU nor room for a checkpoint.
  const gpus = engine === null ? null : gpusOf(plan, pool, worldSize(spec));
  const scratchGiB = Math.ceil(
    SCRATCH_SPARE_GIB +
      (engine === null
        ? 0
        : SCRATCH_SPARE_FACTOR * (checkpointGiB(spec.engine) + engineBytesGiB(spec.engine).totalGiB)),
  );
  return pod(stack, name, {
    ...buildOptions(plan, pool, gpus !== null),
    role: "engineBuild",
    model: model.name,
    key,
    image: "trtllm",
    args: ["engine_builder", "build", SPEC_FILES.engine],
    files: { [SPEC_FILES.engine]: engineBuildSpec(model) },
    environment: { ...buildEnvironment(plan), ...MPI_ENVIRONMENT },
    volumes: [...buildVolumes(plan, scratchGiB), ...sharedMemory(pool)],
    resources: { ...buildRequest(spec), limitsMemory: false, ephemeralGiB: scratchGiB, gpus },
  });
}

function encoderBuild(stack: string, plan: ClusterGpuPlan): readonly Build[] {
  const { encoders, release, spec } = plan;
  if (encoders === null || spec.encoders === null) return [];
  const pool = poolNamed(plan, spec.encoders.pool);
  const isOnGpu = encoders.device === "gpu" && pool.gpu !== null;
  const target = isOnGpu && pool.gpu !== null ? targetGpu(pool) : null;
  const name = `encoders-${encoders.shortKey}`;
  const made = pod(stack, name, {
    ...buildOptions(plan, pool, isOnGpu),
    role: "encoderBuild",
    key: encoders.key,
    image: "encoders",
    args: ["encoder_builder", "build", SPEC_FILES.encoders],
    files: { [SPEC_FILES.encoders]: encoderBuildSpec(encoders, release, target) },
    environment: buildEnvironment(plan),
    volumes: buildVolumes(plan, ENCODERS_SCRATCH_GIB),
    resources: {
      ...ENCODERS_REQUEST,
      limitsMemory: false,
      ephemeralGiB: ENCODERS_SCRATCH_GIB,
      gpus: isOnGpu ? gpusOf(plan, pool, 1) : null,
    },
  });
  return [
    {
      ...{ name, kind: "encoders", key: encoders.key, pod: made, models: [] },
      timeoutSeconds: ENCODER_TIMEOUT_SECONDS,
    },
  ];
}

/** GPU of a pool as an engine sees it. */
export function targetGpu({ gpu, sharing }: PoolSpec) {
  if (gpu === null) return null;
  return sharing.mode === "mig" ? { gpu, migProfile: sharing.profile } : { gpu };
}

function buildOptions(plan: ClusterGpuPlan, pool: PoolSpec, usesGpu: boolean) {
  const { hubToken } = plan.cluster;
  return {
    placement: poolPlacement(plan, pool, { apartFrom: usesGpu ? buildKeepsApartFrom(plan, pool) : [] }),
    priorityClass: priorityClass(plan, "building"),
    graceSeconds: BUILD_STOP_SECONDS,
    secretFiles: hubToken === null ? {} : { [SECRET_FILES.hubToken]: hubToken },
  };
}

/** The hub's client reads the token's file by itself; no process has the token in its environment or its arguments. */
function buildEnvironment({ cluster }: ClusterGpuPlan): Readonly<Record<string, string>> {
  return {
    ...BUILD_ENVIRONMENT,
    ...(cluster.hubToken === null ? {} : { HF_TOKEN_PATH: SECRET_FILES.hubToken }),
    HOME: SCRATCH_TMP.path,
  };
}

function buildVolumes(plan: ClusterGpuPlan, scratchGiB: number): readonly PodVolume[] {
  return [
    storeVolume(plan, false),
    {
      name: "scratch",
      path: SCRATCH,
      readOnly: false,
      source: { kind: "disk", sizeMiB: scratchGiB * MIB_PER_GIB },
    },
    SCRATCH_TMP,
  ];
}
