/** Deployments of Triton: one for each language model, and one for the encoders. */
import { encoderServerSpec, SPEC_FILES, serverSpec } from "../container-specs.ts";
import { ENCODERS_START_SECONDS, startSeconds } from "../cost/times.ts";
import { engineBytesGiB } from "../engine/engine-size.ts";
import { worldSize } from "../fit/placement.ts";
import type { ClusterGpuPlan, ModelPlan } from "../gpu-stack.ts";
import { ENCODERS_REQUEST, serverRequest } from "../pod-requests.ts";
import { canSurge, encodersRoom, serverRoom } from "../pool-space.ts";
import { MPI_ENVIRONMENT } from "../repository/launch.ts";
import { MODEL_REPOSITORY } from "../repository/paths.ts";
import type { PoolSpec } from "../spec.ts";
import { MIB_PER_GIB } from "../units.ts";
import { targetGpu } from "./builds.ts";
import { gpusOf, poolNamed, poolPlacement } from "./placement.ts";
import { PRE_STOP_SECONDS, pod, SCRATCH_TMP, service, TRITON_POD_PORTS, tritonProbes } from "./pod.ts";
import type { PodPlan, PodVolume } from "./pod-types.ts";
import { priorityClass } from "./priorities.ts";
import type { BuildPlan, Rollout, ServerPlan } from "./types.ts";
import { sharedMemory, storeVolume } from "./volumes.ts";

/** Name of the encoders' Triton in the stack's namespace. */
export const ENCODERS = "encoders";

/** What the entry point takes to end its ranks, after the answers. */
const END_SECONDS = 20;

/** An embedding takes milliseconds; a batch of images on a busy CPU some seconds. */
export const ENCODERS_ANSWER_SECONDS = 30;

/** Estimates of pulls and loads are right within a factor of two; the rest is for a machine that has to be started. */
const ROLLOUT_ESTIMATES = 2;
const MACHINE_SECONDS = 600;

/** The encoders' image has no estimate of its own: 16 GB at 60 MB/s. */
const ENCODERS_PULL_SECONDS = 270;

/** Disk for the repository, which links to the store, and for logs. */
const SERVER_EPHEMERAL_GIB = 2;

/** Sizes of engines are estimates. */
const COPY_SPARE_FACTOR = 1.2;

/** The server of a model. */
export function modelServer(
  stack: string,
  plan: ClusterGpuPlan,
  model: ModelPlan,
  builds: readonly BuildPlan[],
): ServerPlan {
  const { name, spec, engine } = model;
  const pool = poolNamed(plan, spec.pool);
  // The gateway ends each request by then, so no answer is cut off that somebody waits for.
  const answerSeconds = plan.gateway.limits.requestSeconds;
  const options = tritonOptions(plan, pool, answerSeconds, startSeconds(model));
  const copy = engineCopy(plan, model);
  const made = pod(stack, name, {
    ...options,
    args: [...options.args, ...copy.args],
    volumes: [...options.volumes, ...copy.volumes],
    role: "triton",
    model: name,
    key: engine?.key ?? null,
    image: "trtllm",
    environment: { HOME: SCRATCH_TMP.path, ...MPI_ENVIRONMENT },
    files: { [SPEC_FILES.server]: serverSpec(model) },
    resources: {
      ...serverRequest(spec),
      limitsMemory: false,
      ephemeralGiB: SERVER_EPHEMERAL_GIB + copy.diskGiB,
      gpus: gpusOf(plan, pool, worldSize(spec)),
    },
    placement: poolPlacement(plan, pool, { spreads: true }),
  });
  return server(name, made, {
    replicas: spec.serving.replicas,
    rollout: modelRollout(plan, model),
    readySeconds: ROLLOUT_ESTIMATES * model.coldStart.seconds,
    after: builds.filter(({ models }) => models.includes(name)).map((build) => build.name),
  });
}

/** Where a server keeps its copy of the engine. */
const ENGINE_COPY = "/engine-copy";

/** What a server needs to copy its engine from the store; nothing where it reads it there. */
function engineCopy(
  { cluster }: ClusterGpuPlan,
  { name, spec, engine }: ModelPlan,
): { readonly args: readonly string[]; readonly volumes: readonly PodVolume[]; readonly diskGiB: number } {
  if (engine === null || !cluster.copiedEngines.includes(name)) return { args: [], volumes: [], diskGiB: 0 };
  const diskGiB = Math.ceil(COPY_SPARE_FACTOR * engineBytesGiB(spec.engine).totalGiB);
  return {
    args: ["--copy-engine-to", ENGINE_COPY],
    volumes: [
      {
        name: "engine-copy",
        path: ENGINE_COPY,
        readOnly: false,
        source: { kind: "disk", sizeMiB: diskGiB * MIB_PER_GIB },
      },
    ],
    diskGiB,
  };
}

/** null: the stack has none. */
export function encodersServer(
  stack: string,
  plan: ClusterGpuPlan,
  builds: readonly BuildPlan[],
): ServerPlan | null {
  const { encoders, release, spec } = plan;
  if (encoders === null || spec.encoders === null) return null;
  const pool = poolNamed(plan, spec.encoders.pool);
  const isOnGpu = encoders.device === "gpu";
  const made = pod(stack, ENCODERS, {
    ...tritonOptions(plan, pool, ENCODERS_ANSWER_SECONDS, ENCODERS_START_SECONDS),
    role: "encoders",
    key: encoders.key,
    image: "encoders",
    environment: { HOME: SCRATCH_TMP.path },
    files: { [SPEC_FILES.server]: encoderServerSpec(encoders, release, isOnGpu ? targetGpu(pool) : null) },
    resources: {
      ...ENCODERS_REQUEST,
      limitsMemory: false,
      ephemeralGiB: SERVER_EPHEMERAL_GIB,
      gpus: isOnGpu ? gpusOf(plan, pool, 1) : null,
    },
    placement: poolPlacement(plan, pool, { spreads: true }),
  });
  return server(ENCODERS, made, {
    replicas: spec.encoders.replicas,
    rollout: canSurge(plan.spec, pool, encodersRoom(encoders)) ? "surge" : "inPlace",
    readySeconds: ENCODERS_START_SECONDS + ROLLOUT_ESTIMATES * ENCODERS_PULL_SECONDS,
    after: builds.filter(({ kind }) => kind === "encoders").map((build) => build.name),
  });
}

interface ServerOptions {
  readonly replicas: number;
  readonly rollout: Rollout;
  /** From a pod that has a machine until it is ready. */
  readonly readySeconds: number;
  readonly after: readonly string[];
}

/** A Deployment and its Service. */
export function server(
  name: string,
  made: PodPlan,
  { replicas, rollout, readySeconds, after }: ServerOptions,
): ServerPlan {
  // In place, the old pod ends first.
  const progressDeadlineSeconds = Math.ceil(MACHINE_SECONDS + made.graceSeconds + readySeconds);
  return {
    name,
    pod: made,
    replicas,
    maxReplicas: replicas,
    rollout,
    progressDeadlineSeconds,
    awaitSeconds: progressDeadlineSeconds * replicas,
    service: service(name, made),
    maxUnavailable: 1,
    after,
  };
}

/** What the stack file says, else `surge` where the pool has room for one server more. */
function modelRollout(plan: ClusterGpuPlan, { name, spec }: ModelPlan): Rollout {
  return (
    plan.cluster.rollouts[name] ??
    (canSurge(plan.spec, poolNamed(plan, spec.pool), serverRoom(spec)) ? "surge" : "inPlace")
  );
}

function tritonOptions(plan: ClusterGpuPlan, pool: PoolSpec, answerSeconds: number, start: number) {
  return {
    args: ["triton_entrypoint", "serve", SPEC_FILES.server, "--exit-timeout-seconds", String(answerSeconds)],
    volumes: [storeVolume(plan, true), REPOSITORY, SCRATCH_TMP, ...sharedMemory(pool)],
    ports: TRITON_POD_PORTS,
    priorityClass: priorityClass(plan, "serving"),
    probes: tritonProbes(start),
    preStopSeconds: PRE_STOP_SECONDS,
    graceSeconds: PRE_STOP_SECONDS + answerSeconds + END_SECONDS,
  };
}

/** Put together at each start. */
export const REPOSITORY: PodVolume = {
  name: "model-repository",
  path: MODEL_REPOSITORY,
  readOnly: false,
  source: { kind: "disk", sizeMiB: 512 },
};
