/** What pods of a stack take of a cluster: nodes, GPUs, priority, and all of them together. */

import { sortedByKey } from "../containers/container.ts";
import type { ClusterGpuPlan } from "../gpu-stack.ts";
import { frontPool } from "../pool-space.ts";
import type { PoolSpec } from "../spec.ts";
import type { ClusterPlan } from "../stack-plan.ts";
import { gpuResource } from "./gpu-resources.ts";
import type { PodRole } from "./labels.ts";
import { objectLabels } from "./labels.ts";
import type {
  BuildPlan,
  DatabasePlan,
  Placement,
  PodResources,
  PrePullPlan,
  PriorityClass,
  ResourceQuota,
  ServerPlan,
} from "./types.ts";

type Tolerations = Placement["tolerations"];

/** Managed clusters keep other pods away from nodes with GPUs by this taint. */
const GPU_TOLERATION = { key: "nvidia.com/gpu", operator: "Exists" } as const;

/** @param count - GPUs, partitions or shares of GPUs. */
export function gpusOf(plan: ClusterGpuPlan, pool: PoolSpec, count: number): PodResources["gpus"] {
  if (count === 0) return null;
  return { resource: gpuResource(pool.sharing, plan.cluster.pools[pool.name]?.gpuResource ?? null), count };
}

/** Nodes of a pool. */
export function poolPlacement(plan: ClusterGpuPlan, pool: PoolSpec): Placement {
  const access = plan.cluster.pools[pool.name];
  return {
    pool: pool.name,
    nodeSelector: sortedByKey(access?.nodeSelector ?? {}),
    tolerations: distinct([...(pool.gpu === null ? [] : [GPU_TOLERATION]), ...(access?.tolerations ?? [])]),
  };
}

/**
 * Nodes of gateway and databases: the first pool without GPUs, else any node, those of the pools included. Without a GPU
 * tier, the stack's nodes.
 */
export function frontPlacement(plan: ClusterPlan): Placement {
  if (plan.tier === "cpu") {
    const { nodeSelector, tolerations } = plan.cluster.machines;
    return { pool: null, nodeSelector: sortedByKey(nodeSelector), tolerations: [...tolerations] };
  }
  const { pools } = plan.spec;
  const withoutGpu = frontPool(pools);
  if (withoutGpu !== undefined) return poolPlacement(plan, withoutGpu);
  const tolerations = distinct(pools.flatMap((pool) => poolPlacement(plan, pool).tolerations));
  return { pool: null, nodeSelector: {}, tolerations };
}

function distinct(tolerations: Tolerations): Tolerations {
  return [...new Map(tolerations.map((toleration) => [JSON.stringify(toleration), toleration])).values()];
}

/**
 * Roles from which a build on a GPU of the pool keeps away. Time slicing does not divide the memory of a GPU, and TensorRT
 * measures kernels on a GPU that it has to itself.
 */
export function buildKeepsApartFrom(plan: ClusterGpuPlan, pool: PoolSpec): readonly PodRole[] {
  if (pool.sharing.mode !== "timeSlicing") return [];
  const encoders: readonly PodRole[] =
    plan.spec.encoders?.device === "gpu" ? ["encoders", "encoderBuild"] : [];
  return ["triton", "engineBuild", ...encoders];
}

/** `front`: the gateway and the databases. */
export type Urgency = "front" | "serving" | "building";

/** Name of a class; undefined where the stack creates none. */
export function priorityClass({ cluster }: ClusterPlan, urgency: Urgency): string | undefined {
  return cluster.createsPriorities ? `${cluster.namespace.name}-${urgency}` : undefined;
}

/** Values are below those of the system (2,000,000,000), and above pods without a class (0). */
export function priorities(stack: string, plan: ClusterPlan): readonly PriorityClass[] {
  if (!plan.cluster.createsPriorities) return [];
  // `engines.whenFull: stopServer`: the scheduler takes a server's GPU for the build, and returns it afterwards.
  const stopsServers = plan.tier === "gpu" && plan.spec.whenFull === "stopServer";
  const create = (
    urgency: Urgency,
    value: number,
    preempts: boolean,
    description: string,
  ): PriorityClass => ({
    metadata: { name: `${plan.cluster.namespace.name}-${urgency}`, labels: objectLabels(stack) },
    value,
    preemptionPolicy: preempts ? "PreemptLowerPriority" : "Never",
    description,
  });
  return [
    create("front", 3000, true, "The gateway and its databases."),
    create("serving", 1000, true, "Triton Inference Servers."),
    ...(plan.tier === "cpu"
      ? []
      : [
          stopsServers
            ? create("building", 2000, true, "Builds of engines: a server goes while they need its GPU.")
            : create("building", 500, false, "Builds of engines: they wait for a GPU that is free."),
        ]),
  ];
}

/** Pods of the scripts: bench, smoke, and a pod that a user tries. */
const TOOLS = { pods: 4, cpuMillis: 4000, memoryMiB: 8192 } as const;

interface QuotaPods {
  readonly servers: readonly ServerPlan[];
  readonly databases: readonly DatabasePlan[];
  readonly prePulls: readonly PrePullPlan[];
  readonly builds: readonly BuildPlan[];
  readonly hasStore: boolean;
}

/** All pods at a time, those of servers twice, since old ones may still end while all new ones run. */
export function quota(
  stack: string,
  { servers, databases, prePulls, builds, hasStore }: QuotaPods,
): ResourceQuota {
  const pods = [
    ...servers.map(({ pod, maxReplicas }) => ({ pod, count: 2 * maxReplicas })),
    ...prePulls.map(({ pod, nodes }) => ({ pod, count: nodes })),
    ...[...databases, ...builds].map(({ pod }) => ({ pod, count: 1 })),
  ];
  const sum = (of: (resources: PodResources) => number) =>
    pods.reduce((total, { pod, count }) => total + count * of(pod.resources), 0);
  const gpuResources = new Set(pods.flatMap(({ pod }) => pod.resources.gpus?.resource ?? []));
  const gpus = [...gpuResources].map((resource) => [
    `requests.${resource}`,
    String(sum(({ gpus }) => (gpus?.resource === resource ? gpus.count : 0))),
  ]);
  // Claims of databases outlive them: those of `mock` are still there when `container` creates its own.
  const claims = 2 * databases.length + (hasStore ? 1 : 0);
  return {
    metadata: { name: "stack", labels: objectLabels(stack) },
    spec: {
      hard: sortedByKey({
        persistentvolumeclaims: String(claims),
        pods: String(sum(() => 1) + TOOLS.pods),
        "requests.cpu": `${sum(({ cpuMillis }) => cpuMillis) + TOOLS.cpuMillis}m`,
        "requests.memory": `${sum(({ memoryMiB }) => memoryMiB) + TOOLS.memoryMiB}Mi`,
        ...Object.fromEntries(gpus),
      }),
    },
  };
}
