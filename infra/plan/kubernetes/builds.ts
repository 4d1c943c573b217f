/** Jobs that fill the engine store, the store itself, and DaemonSets that pull images in advance. */

import { buildContainers } from "../containers/builds.ts";
import { type BuildContainer, container } from "../containers/container.ts";
import type { ImageName } from "../docker/types.ts";
import { checkpointGiB, engineBytesGiB } from "../engine/engine-size.ts";
import type { ClusterGpuPlan, ModelPlan } from "../gpu-stack.ts";
import { buildRequest, ENCODERS_REQUEST, PRE_PULL_REQUEST, prePulledImages } from "../pod-requests.ts";
import { poolNamed } from "../pool-space.ts";
import type { PoolSpec } from "../spec.ts";
import { buildKeepsApartFrom, gpusOf, poolPlacement } from "./capacity.ts";
import { keptAnnotations, objectLabels, objectName } from "./labels.ts";
import { containerSettings, type PodContext, pod } from "./pods.ts";
import type { BuildPlan, KubernetesStack, PodPlan, PrePullPlan } from "./types.ts";

/** For the Job's own end, after its deadline. */
const SPARE_SECONDS = 120;

/** A new node, and its copy of the image. */
const NODE_SECONDS = 1200;

/** Beyond the estimates: logs of the tools, and what they unpack. */
const SCRATCH_SPARE_GIB = 5;
const SCRATCH_SPARE_FACTOR = 1.2;
/** Three small models as they were downloaded and exported, and their plans. */
const ENCODERS_SCRATCH_GIB = 10;

export type GpuContext = PodContext<ClusterGpuPlan>;

/** Jobs of a stack; the scheduler runs as many at a time as there is room for. */
export function builds(context: GpuContext): readonly BuildPlan[] {
  const { plan } = context;
  const all = buildContainers(plan, containerSettings(plan)).map((build) => ({
    build,
    pod: buildPod(context, build),
  }));
  // A server that must end first may still answer its requests.
  const goingSeconds = plan.spec.whenFull === "stopServer" ? plan.gateway.limits.requestSeconds : 0;
  return all.map(({ build, pod }) => {
    // Builds of a pool may have to wait for each other's GPU, and a Job's clock runs meanwhile.
    const inTurn = all.filter((other) => other.pod.pool === pod.pool);
    const buildSeconds = inTurn.reduce((sum, { build: { timeoutSeconds } }) => sum + timeoutSeconds, 0);
    return job(build, pod, Math.ceil(NODE_SECONDS + buildSeconds + goingSeconds));
  });
}

function job(build: BuildContainer, pod: PodPlan, deadlineSeconds: number): BuildPlan {
  const name = objectName(build.name);
  return {
    name,
    key: build.key ?? "",
    models: build.models,
    pod,
    job: {
      metadata: {
        name,
        labels: pod.labels,
        // A failed Job is replaced by the next `up`.
        annotations: { "pulumi.com/replaceUnready": "true" },
      },
      spec: {
        // The builder itself repeats what may succeed, such as downloads. To end the Job by exit code instead would leave
        // `up` waiting: of failed Jobs, Pulumi's provider knows this reason and the deadline only.
        backoffLimit: 0,
        activeDeadlineSeconds: deadlineSeconds,
        podFailurePolicy: {
          // Drained, or preempted: no failure of the build.
          rules: [{ action: "Ignore", onPodConditions: [{ type: "DisruptionTarget", status: "True" }] }],
        },
        template: pod.template,
      },
    },
    awaitSeconds: deadlineSeconds + SPARE_SECONDS,
  };
}

function buildPod(context: GpuContext, build: BuildContainer): PodPlan {
  const { plan } = context;
  const model = plan.models.find(({ name }) => name === build.model);
  const pool = poolNamed(plan.spec.pools, model?.spec.buildPool ?? plan.spec.encoders?.pool ?? "");
  const gpus = gpusOf(plan, pool, build.gpus);
  const diskGiB = model === undefined ? ENCODERS_SCRATCH_GIB : engineScratchGiB(model);
  const request = model === undefined ? ENCODERS_REQUEST : buildRequest(model.spec);
  return pod(context, build, {
    resources: { ...request, ephemeralGiB: diskGiB, gpus },
    placement: poolPlacement(plan, pool),
    apartFrom: gpus === null ? [] : buildKeepsApartFrom(plan, pool),
    diskGiB,
    sharesMemory: model !== undefined && sharesMemory(pool),
  });
}

/** A download alone needs no room for a checkpoint. */
function engineScratchGiB({ spec, engine }: ModelPlan): number {
  const built = engine === null ? 0 : checkpointGiB(spec.engine) + engineBytesGiB(spec.engine).totalGiB;
  return Math.ceil(SCRATCH_SPARE_GIB + SCRATCH_SPARE_FACTOR * built);
}

/**
 * Not where GPUs are shared by MPS: NVIDIA's device plugin mounts the daemon's own `/dev/shm`, which another one would hide
 * (https://github.com/NVIDIA/k8s-device-plugin, internal/plugin/mps.go).
 */
export function sharesMemory({ sharing }: PoolSpec): boolean {
  return sharing.mode !== "mps";
}

/** The claim of weights and engines. */
export function engineStore({ stack, plan }: GpuContext): KubernetesStack["store"] {
  const { claim, creation } = plan.cluster.store;
  if (creation === null) return { claim, object: null };
  const { storageClass, volume, accessMode, sizeGiB } = creation;
  return {
    claim,
    object: {
      metadata: {
        name: claim,
        labels: objectLabels(stack),
        // A class that waits for its first pod leaves it pending, and a claim that was left is bound already: of such a class
        // the provider only takes the first for ready. The builds that mount it tell what is wrong with it.
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
export function prePulls(context: GpuContext): readonly PrePullPlan[] {
  const { spec } = context.plan;
  return spec.pools.flatMap((pool) =>
    prePulledImages(spec, pool).map((image) => prePull(context, pool, image)),
  );
}

function prePull(context: GpuContext, pool: PoolSpec, image: ImageName): PrePullPlan {
  const name = `pre-pull-${pool.name}-${image}`;
  const sleeping = container({ role: "engineBuild", name, image, stopSeconds: 1 });
  const options = {
    command: ["sleep", "infinity"],
    resources: { ...PRE_PULL_REQUEST, ephemeralGiB: null, gpus: null },
    placement: poolPlacement(context.plan, pool),
    ownLabels: { "engine-room/image": image, "engine-room/pool": pool.name },
  };
  const planned = pod(context, { ...sleeping, role: "prePull" }, options);
  return {
    name,
    pod: planned,
    nodes: pool.nodes.max,
    daemonSet: {
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
    },
  };
}
