/** Jobs that fill the engine store, the store itself, and DaemonSets that pull images in advance. */

import { buildContainers } from "../containers/builds.ts";
import { type BuildContainer, container } from "../containers/container.ts";
import type { ImageName } from "../docker/images.ts";
import { checkpointGiB, engineBytesGiB } from "../engine/engine-size.ts";
import type { ClusterGpuPlan, ModelPlan } from "../gpu-stack.ts";
import {
  buildRequest,
  encodersRequest,
  PRE_PULL_REQUEST,
  poolNamed,
  prePulledImages,
} from "../pool-space.ts";
import type { PoolSpec } from "../spec.ts";
import { type ApiObject, keptAnnotations, objectLabels, objectName } from "./objects.ts";
import { containerSettings, type PodContext, type PodPlan, pod } from "./pods.ts";

/** For the Job's own end, after its deadline. */
const SPARE_SECONDS = 120;

/** A new node, and its copy of the image. */
const NODE_SECONDS = 1200;

/** Beyond the estimates: logs and unpacked packages of the tools. */
const SCRATCH_SPARE_GIB = 5;
const SCRATCH_SPARE_FACTOR = 1.2;
/** Three small models as they were downloaded and exported, and their plans. */
const ENCODERS_SCRATCH_GIB = 10;

export type GpuContext = PodContext<ClusterGpuPlan>;

/** A Job that fills the engine store. */
export type BuildPlan = ReturnType<typeof job>;

/** Jobs of a stack; the scheduler runs as many at a time as there is room for. */
export function builds(context: GpuContext): readonly BuildPlan[] {
  const { plan } = context;
  const all = buildContainers(plan, containerSettings(plan)).map((build) => ({
    build,
    pod: buildPod(context, build),
  }));
  // A server that the build preempts still answers its requests.
  const drainSeconds = plan.spec.whenFull === "stopServer" ? plan.gateway.limits.requestSeconds : 0;
  return all.map(({ build, pod }) => {
    // Builds of a pool may have to wait for each other's GPU, and a Job's clock runs meanwhile.
    const inTurn = all.filter((other) => other.pod.pool === pod.pool);
    const buildSeconds = inTurn.reduce((sum, { build: { timeoutSeconds } }) => sum + timeoutSeconds, 0);
    return job(build, pod, Math.ceil(NODE_SECONDS + buildSeconds + drainSeconds));
  });
}

function job(build: BuildContainer, pod: PodPlan, deadlineSeconds: number) {
  /** `<model>-<key12>`: another key is another Job. */
  const name = objectName(build.name);
  const job: ApiObject<"Job"> = {
    kind: "Job",
    metadata: {
      name,
      labels: pod.labels,
      // A failed Job is replaced by the next `up`.
      annotations: { "pulumi.com/replaceUnready": "true" },
    },
    spec: {
      // The builder itself retries downloads. Exit codes in podFailurePolicy would leave `up` waiting: of failed Jobs,
      // Pulumi's provider knows this reason and the deadline only.
      backoffLimit: 0,
      activeDeadlineSeconds: deadlineSeconds,
      podFailurePolicy: {
        // Drained, or preempted: no failure of the build.
        rules: [{ action: "Ignore", onPodConditions: [{ type: "DisruptionTarget", status: "True" }] }],
      },
      template: pod.template,
    },
  };
  return {
    name,
    key: build.key ?? "",
    /** Models of the stack that need it; none for the encoders. */
    models: build.models,
    pod,
    job,
    /** How long `up` waits for it. */
    awaitSeconds: deadlineSeconds + SPARE_SECONDS,
  };
}

function buildPod(context: GpuContext, build: BuildContainer): PodPlan {
  const { models, spec } = context.plan;
  const model = models.find(({ name }) => name === build.model);
  const pool = poolNamed(spec.pools, model?.spec.buildPool ?? spec.encoders?.pool ?? "");
  if (model !== undefined)
    return pod(context, build, {
      pool,
      request: buildRequest(model.spec),
      diskGiB: scratchGiB(model),
      ...(model.spec.engine.weights.kind === "s3" ? { account: context.plan.cluster.bucketAccount } : {}),
    });
  if (spec.encoders === null)
    throw new Error(`${build.name} builds neither a model nor encoders of the plan.`);
  const request = encodersRequest(spec.encoders, "build");
  return pod(context, build, { pool, request, diskGiB: ENCODERS_SCRATCH_GIB });
}

/** Scratch space of a build; a mere download needs no room for a checkpoint. */
function scratchGiB({ spec, engine }: ModelPlan): number {
  const built = engine === null ? 0 : checkpointGiB(spec.engine) + engineBytesGiB(spec.engine).totalGiB;
  return Math.ceil(SCRATCH_SPARE_GIB + SCRATCH_SPARE_FACTOR * built);
}

interface EngineStore {
  readonly claim: string;
  /** null for an existing claim. */
  readonly object: ApiObject<"PersistentVolumeClaim"> | null;
}

/** The claim of weights and engines. */
export function engineStore({ stack, plan }: GpuContext): EngineStore {
  const { claim, creation } = plan.cluster.store;
  if (creation === null) return { claim, object: null };
  const { storageClass, volume, accessMode, sizeGiB } = creation;
  return {
    claim,
    object: {
      kind: "PersistentVolumeClaim",
      metadata: {
        name: claim,
        labels: objectLabels(stack),
        // With a class that waits for its first pod, the provider takes only a pending claim for ready, and a claim that `down`
        // has left is bound. Builds that mount the claim report its faults.
        annotations: { ...keptAnnotations(stack), "pulumi.com/skipAwait": "true" },
      },
      spec: {
        accessModes: [accessMode],
        storageClassName: storageClass ?? undefined,
        volumeName: volume ?? undefined,
        resources: { requests: { storage: `${sizeGiB}Gi` } },
      },
    },
  };
}

/** For each image of each pool that asks for it: while a pod of an image runs, the kubelet does not delete the image. */
export function prePulls(context: GpuContext) {
  const { spec } = context.plan;
  return spec.pools.flatMap((pool) =>
    prePulledImages(spec, pool).map((image) => ({
      ...prePull(context, pool, image),
      /** Largest number of nodes. */
      nodes: pool.nodes.max,
    })),
  );
}

function prePull(context: GpuContext, pool: PoolSpec, image: ImageName) {
  const name = `pre-pull-${pool.name}-${image}`;
  const sleeping = container({ role: "engineBuild", name, image, stopSeconds: 1 });
  const planned = pod(
    context,
    { ...sleeping, role: "prePull" },
    {
      command: ["sleep", "infinity"],
      request: PRE_PULL_REQUEST,
      pool,
      ownLabels: { "engine-room/image": image, "engine-room/pool": pool.name },
    },
  );
  const daemonSet: ApiObject<"DaemonSet"> = {
    kind: "DaemonSet",
    metadata: {
      name,
      labels: planned.labels,
      // Nothing waits for it: a node without the image pulls it for the first pod that needs it.
      annotations: { "pulumi.com/skipAwait": "true" },
    },
    spec: {
      selector: { matchLabels: planned.selector },
      // All nodes at a time.
      updateStrategy: { type: "RollingUpdate", rollingUpdate: { maxUnavailable: "100%" } },
      template: planned.template,
    },
  };
  return { name, pod: planned, daemonSet };
}
