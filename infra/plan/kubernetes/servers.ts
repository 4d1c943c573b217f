/** Deployments of Tritons and gateway, each behind a Service, and StatefulSets of databases. */
import type { Container } from "../containers/container.ts";
import { databaseContainers } from "../containers/databases.ts";
import { gatewayContainer } from "../containers/gateway.ts";
import {
  CPU_START_SECONDS,
  cpuServerContainer,
  ENCODERS_START_SECONDS,
  encodersContainer,
  modelContainer,
} from "../containers/servers.ts";
import type { ClusterCpuPlan, CpuModelPlan } from "../cpu-stack.ts";
import { engineBytesGiB } from "../engine/engine-size.ts";
import type { ModelPlan } from "../gpu-stack.ts";
import {
  CPU_ENCODERS_REQUEST,
  canSurge,
  cpuServerRequest,
  DATABASE_REQUEST,
  encodersRequest,
  GATEWAY_REQUEST,
  poolNamed,
  serverRequest,
} from "../pool-space.ts";
import type { BuildPlan, GpuContext } from "./builds.ts";
import { frontPoolOf } from "./capacity.ts";
import { isRetained, type Rollout } from "./cluster.ts";
import type { ApiObject } from "./objects.ts";
import { CACHE_GIB, containerSettings, type PodContext, type PodOptions, type PodPlan, pod } from "./pods.ts";

/** Estimates of pulls and loads are right within a factor of two; the rest is for a node that has to be started. */
const ROLLOUT_ESTIMATES = 2;
const NODE_SECONDS = 600;

/** The encoders' image has no estimate of its own: 16 GB at 60 MB/s. */
const ENCODERS_PULL_SECONDS = 270;

/** The image of the CPU tier: 1.6 GB at 60 MB/s, and slower registries. */
const CPU_PULL_SECONDS = 120;

const GATEWAY_READY_SECONDS = 120;

/** A small image, a claim that has to be created, and the start. */
const DATABASE_AWAIT_SECONDS = 900;

/** Disk for the repository, which links to the store, and for logs. */
const SERVER_EPHEMERAL_GIB = 2;

/** Sizes of engines are estimates. */
const COPY_SPARE_FACTOR = 1.2;

/** The repository of the CPU tier, and logs. */
const CPU_REPOSITORY_GIB = 1;

const STRATEGIES: Readonly<Record<Rollout, { maxSurge: number; maxUnavailable: number }>> = {
  surge: { maxSurge: 1, maxUnavailable: 0 },
  inPlace: { maxSurge: 0, maxUnavailable: 1 },
};

/** The server of a model on GPUs. */
export function modelServer(context: GpuContext, model: ModelPlan, builds: readonly BuildPlan[]): ServerPlan {
  const { plan } = context;
  const { name, spec } = model;
  const pool = poolNamed(plan.spec.pools, spec.pool);
  const container = modelContainer(plan, model, containerSettings(plan));
  const copiesEngine = container.mounts.some(({ purpose }) => purpose === "engineCopy");
  return server(context, container, {
    pool,
    request: serverRequest(spec),
    ephemeralGiB: SERVER_EPHEMERAL_GIB,
    diskGiB: copiesEngine ? Math.ceil(COPY_SPARE_FACTOR * engineBytesGiB(spec.engine).totalGiB) : 0,
    replicas: spec.serving.replicas,
    rollout: plan.cluster.rollouts[name],
    readySeconds: ROLLOUT_ESTIMATES * model.coldStart.seconds,
    after: builds.filter(({ models }) => models.includes(name)).map((build) => build.name),
  });
}

/** null for a stack without encoders. */
export function encodersServer(context: GpuContext, builds: readonly BuildPlan[]): ServerPlan | null {
  const { plan } = context;
  const { encoders } = plan.spec;
  const container = encodersContainer(plan, containerSettings(plan));
  if (container === null || encoders === null) return null;
  const pool = poolNamed(plan.spec.pools, encoders.pool);
  return server(context, container, {
    pool,
    request: encodersRequest(encoders, "serve"),
    ephemeralGiB: SERVER_EPHEMERAL_GIB,
    replicas: encoders.replicas,
    readySeconds: ENCODERS_START_SECONDS + ROLLOUT_ESTIMATES * ENCODERS_PULL_SECONDS,
    after: builds.filter(({ pod }) => pod.role === "encoderBuild").map((build) => build.name),
  });
}

/** A server of the CPU tier, which needs neither store nor builds. @param model - null for the encoders. */
export function cpuServer(context: PodContext<ClusterCpuPlan>, model: CpuModelPlan | null): ServerPlan {
  const { plan } = context;
  return server(context, cpuServerContainer(plan, model, containerSettings(plan)), {
    pool: null,
    request: model === null ? CPU_ENCODERS_REQUEST : cpuServerRequest(model),
    ephemeralGiB: CACHE_GIB + CPU_REPOSITORY_GIB,
    replicas: model === null ? plan.encoderReplicas : (plan.replicas[model.name] ?? 1),
    readySeconds: CPU_START_SECONDS + CPU_PULL_SECONDS,
  });
}

/** The gateway, with its configuration in a ConfigMap and the hashes of its keys in a Secret. */
export function gatewayServer(context: PodContext): ServerPlan {
  const { plan } = context;
  return server(context, gatewayContainer(plan, containerSettings(plan)), {
    pool: frontPoolOf(plan),
    request: GATEWAY_REQUEST,
    servicePorts: { http: plan.gateway.port },
    replicas: plan.gateway.replicas,
    readySeconds: GATEWAY_READY_SECONDS,
  });
}

interface ServerOptions extends PodOptions {
  readonly replicas: number;
  /** Choice of the stack file; undefined: `surge` if the pool has room for a second pod. */
  readonly rollout?: Rollout | undefined;
  /** From a pod that has a node until it is ready. */
  readonly readySeconds: number;
  readonly after?: readonly string[];
  /** By the name of the pod's port; absent: the pod's own. */
  readonly servicePorts?: Container["ports"];
}

/** A Deployment behind a Service of the same name. */
export type ServerPlan = ReturnType<typeof server>;

function server(context: PodContext, container: Container, options: ServerOptions) {
  const { name, ports } = container;
  const { pool, request, replicas, readySeconds, after = [], servicePorts = ports } = options;
  const { plan } = context;
  const planned = pod(context, container, options);
  // If any node may run it, some node has room.
  const hasRoom = plan.tier === "cpu" || pool === null || canSurge(plan.spec, pool, request);
  const rollout = options.rollout ?? (hasRoom ? "surge" : "inPlace");
  // In place, the old pod ends first.
  const endSeconds = planned.template.spec.terminationGracePeriodSeconds ?? 0;
  const progressDeadlineSeconds = Math.ceil(NODE_SECONDS + endSeconds + readySeconds);
  const isScaled = Object.hasOwn(plan.cluster.minReplicas, name);
  const behind = service(name, servicePorts, planned, { type: "ClusterIP" });
  const deployment: ApiObject<"Deployment"> = {
    kind: "Deployment",
    metadata: { name, labels: planned.labels },
    spec: {
      replicas: isScaled ? undefined : replicas,
      selector: { matchLabels: planned.selector },
      strategy: { type: "RollingUpdate", rollingUpdate: STRATEGIES[rollout] },
      progressDeadlineSeconds,
      template: planned.template,
    },
  };
  const budget: ApiObject<"PodDisruptionBudget"> = {
    kind: "PodDisruptionBudget",
    metadata: { name, labels: behind.metadata.labels },
    spec: {
      maxUnavailable: 1,
      // A pod that never becomes ready does not keep its node from being drained.
      unhealthyPodEvictionPolicy: "AlwaysAllow",
      selector: { matchLabels: planned.selector },
    },
  };
  return {
    name,
    pod: planned,
    /** null when only an autoscaler sets the number. */
    replicas: isScaled ? null : replicas,
    /** Largest number of the autoscaler, else `replicas`. */
    maxReplicas: replicas,
    rollout,
    deployment,
    service: behind,
    budget,
    /** How long `up` waits for all pods. */
    awaitSeconds: progressDeadlineSeconds * replicas,
    /** Names of builds that must have succeeded before this changes. */
    after,
  };
}

/** @param ports - By the name of the pod's port. */
function service(
  name: string,
  ports: Container["ports"],
  { labels, selector }: PodPlan,
  address: { readonly type: "ClusterIP" } | { readonly clusterIP: "None" },
): ApiObject<"Service"> {
  const { "engine-room/key": _, ...kept } = labels;
  return {
    kind: "Service",
    metadata: {
      name,
      labels: kept,
      // The workload awaits its pods; the Service's own wait takes ten seconds at least.
      annotations: { "pulumi.com/skipAwait": "true" },
    },
    spec: {
      ...address,
      selector,
      ports: Object.entries(ports).map(([port, number]) => ({
        name: port,
        port: number,
        targetPort: port,
        protocol: "TCP",
      })),
    },
  };
}

/** A StatefulSet of one pod. */
export type DatabasePlan = ReturnType<typeof databases>[number];

/** Each with a claim of its own. None if they run elsewhere, or the stack has no documents. */
export function databases(context: PodContext) {
  const { stack, plan } = context;
  const { databases: planned } = plan.cluster;
  if (planned === null || planned.kind === "external") return [];
  const { kind, storageClass, sizeGiB } = planned;
  // Neither kind can read the other's files.
  const volume = `${kind}-data`;
  return databaseContainers(kind).map((container) => {
    const { name } = container;
    const options = { pool: frontPoolOf(plan), request: DATABASE_REQUEST, dataClaim: volume };
    const made = pod(context, container, options);
    const statefulSet: ApiObject<"StatefulSet"> = {
      kind: "StatefulSet",
      metadata: { name, labels: made.labels },
      spec: {
        serviceName: name,
        replicas: 1,
        selector: { matchLabels: made.selector },
        template: made.template,
        // To retain claims is the API's default. Without a pod the database is asleep, and its claim stays.
        persistentVolumeClaimRetentionPolicy: isRetained(stack, plan.cluster)
          ? undefined
          : { whenDeleted: "Delete", whenScaled: "Retain" },
        volumeClaimTemplates: [
          {
            metadata: { name: volume, labels: made.selector },
            spec: {
              accessModes: ["ReadWriteOnce"],
              storageClassName: storageClass ?? undefined,
              resources: { requests: { storage: `${sizeGiB}Gi` } },
            },
          },
        ],
      },
    };
    return {
      name,
      pod: made,
      service: service(name, container.ports, made, { clusterIP: "None" }),
      statefulSet,
      /** Name of its claim, which the StatefulSet creates. */
      claim: `${volume}-${name}-0`,
      /** null for the cluster's default class. */
      storageClass,
      awaitSeconds: DATABASE_AWAIT_SECONDS,
    };
  });
}
