/** Nodes, GPUs and priorities of pods, and the quota of all of them. */
import type { types } from "@pulumi/kubernetes";
import type { ClusterGpuPlan } from "../gpu-stack.ts";
import type { Plain } from "../plain-data.ts";
import { sortedByKey } from "../plain-data.ts";
import { frontPool } from "../pool-space.ts";
import type { GpuSharing, PoolSpec } from "../spec.ts";
import type { ClusterPlan } from "../stack-plan.ts";
import { type ApiObject, type Labels, objectLabels } from "./objects.ts";

/** Nodes of a pool, or of the stack. */
export interface Placement {
  /** Pool of the stack file; null: none, so that any node is allowed. */
  readonly pool: string | null;
  /** Sorted by key. */
  readonly nodeSelector: Labels;
  readonly tolerations: Plain<types.input.core.v1.Toleration>[];
}

/** GPUs are limits too; CPU is not, so that idle cores are used. */
export interface PodResources {
  readonly cpuMillis: number;
  readonly memoryMiB: number;
  /** Disk of the node; null: next to none. */
  readonly ephemeralGiB: number | null;
  /** Extended resource of the device plugin: `nvidia.com/gpu`, `nvidia.com/mig-3g.20gb`. */
  readonly gpus: { readonly resource: string; readonly count: number } | null;
}

/** Whole GPUs. */
export const GPU_RESOURCE = "nvidia.com/gpu";

/** Shares if the device plugin's configuration says `renameByDefault`. */
const SHARED_GPU_RESOURCE = `${GPU_RESOURCE}.shared`;

/**
 * Resource of a pool's GPUs. Partitions have resources of their own (strategy `mixed`; `+` of a profile's name is written as
 * a point), shares in time and of MPS the GPU's own name unless the configuration says `renameByDefault`.
 * https://github.com/NVIDIA/k8s-device-plugin/blob/main/README.md
 *
 * @param own - `gpuResource` of the pool in the stack file.
 */
export function gpuResource(sharing: GpuSharing, own: string | null): string {
  if (own !== null) return own;
  return sharing.mode === "mig" ? `nvidia.com/mig-${sharing.profile.replaceAll("+", ".")}` : GPU_RESOURCE;
}

/**
 * Configuration file of NVIDIA's device plugin for nodes with such GPUs
 * (https://github.com/NVIDIA/k8s-device-plugin/blob/main/README.md#shared-access-to-gpus). The field `rename` of a resource is
 * left out: up to 0.20 the plugin ignores it, with a warning (api/config/v1/replicas.go).
 *
 * @returns null if the plugin can't use the name `own`.
 */
export function devicePluginConfig(sharing: GpuSharing, own: string | null): object | null {
  const resource = gpuResource(sharing, own);
  const isOwn = resource === GPU_RESOURCE;
  if (sharing.mode === "none") return isOwn ? { version: "v1" } : null;
  if (sharing.mode === "mig") {
    const isMixed = resource === gpuResource(sharing, null);
    if (!isMixed && !isOwn) return null;
    return { version: "v1", flags: { migStrategy: isMixed ? "mixed" : "single" } };
  }
  const isRenamed = resource === SHARED_GPU_RESOURCE;
  if (!isOwn && !isRenamed) return null;
  const shares = {
    ...(isRenamed ? { renameByDefault: true } : {}),
    // Two shares are no larger part of a GPU: NVIDIA recommends to refuse them, and with MPS it is the default.
    ...(sharing.mode === "mps" ? {} : { failRequestsGreaterThanOne: true }),
    resources: [{ name: GPU_RESOURCE, replicas: sharing.replicas }],
  };
  return { version: "v1", sharing: { [sharing.mode]: shares } };
}

/** By name of the pool with GPUs; a node's label `nvidia.com/device-plugin.config` chooses one. */
export function devicePluginConfigs(
  pools: readonly PoolSpec[],
  resourceOf: (pool: string) => string | null,
): Readonly<Record<string, object | null>> {
  return Object.fromEntries(
    pools
      .filter(({ gpu }) => gpu !== null)
      .map(({ name, sharing }) => [name, devicePluginConfig(sharing, resourceOf(name))]),
  );
}

/** Taint of nodes with GPUs in managed clusters. */
const GPU_TOLERATION = { key: GPU_RESOURCE, operator: "Exists" } as const;

/** @param count - GPUs, partitions or shares of GPUs. */
export function gpusOf(plan: ClusterGpuPlan, pool: PoolSpec, count: number): PodResources["gpus"] {
  if (count === 0) return null;
  return { resource: gpuResource(pool.sharing, plan.cluster.pools[pool.name]?.gpuResource ?? null), count };
}

/** @param pool - null for any node that accepts pods of the stack. */
export function placementOf(plan: ClusterPlan, pool: PoolSpec | null): Placement {
  if (plan.tier === "cpu") {
    const { nodeSelector, tolerations } = plan.cluster.machines;
    return { pool: null, nodeSelector: sortedByKey(nodeSelector), tolerations };
  }
  const pools = pool === null ? plan.spec.pools : [pool];
  const tolerations = pools.flatMap(({ name, gpu }) => [
    ...(gpu === null ? [] : [GPU_TOLERATION]),
    ...(plan.cluster.pools[name]?.tolerations ?? []),
  ]);
  return {
    pool: pool?.name ?? null,
    nodeSelector: pool === null ? {} : sortedByKey(plan.cluster.pools[pool.name]?.nodeSelector ?? {}),
    tolerations: [
      ...new Map(tolerations.map((toleration) => [JSON.stringify(toleration), toleration])).values(),
    ],
  };
}

/** The pool of gateway and databases: the first without GPUs; null for any node, those of the pools included. */
export function frontPoolOf(plan: ClusterPlan): PoolSpec | null {
  return plan.tier === "cpu" ? null : (frontPool(plan.spec.pools) ?? null);
}

/** `front`: the gateway and the databases. */
export type Urgency = "front" | "serving" | "building";

/** Name of a class; undefined if the stack creates none. */
export function priorityClass({ cluster }: ClusterPlan, urgency: Urgency): string | undefined {
  return cluster.createsPriorities ? `${cluster.namespace.name}-${urgency}` : undefined;
}

/** Values are below those of the system (2,000,000,000) and above those of pods without a class (0). */
export function priorities(stack: string, plan: ClusterPlan): readonly ApiObject<"PriorityClass">[] {
  const create = (urgency: Urgency, value: number, preempts: boolean, description: string) => {
    const name = priorityClass(plan, urgency);
    if (name === undefined) return [];
    const metadata = { name, labels: objectLabels(stack) };
    const preemptionPolicy = preempts ? "PreemptLowerPriority" : "Never";
    return [{ kind: "PriorityClass" as const, metadata, value, preemptionPolicy, description }];
  };
  const classes = [
    ...create("front", 3000, true, "The gateway and its databases."),
    ...create("serving", 1000, true, "Triton Inference Servers."),
  ];
  if (plan.tier === "cpu") return classes;
  return [
    ...classes,
    // `engines.whenFull: stopServer`: the scheduler takes a server's GPU for the build, and returns it afterwards.
    ...(plan.spec.whenFull === "stopServer"
      ? create("building", 2000, true, "Builds of engines: a server goes while they need its GPU.")
      : create("building", 500, false, "Builds of engines: they wait for a GPU that is free.")),
  ];
}

/** Pods of the scripts: bench, smoke, and a pod that a user tries. */
const TOOLS = { pods: 4, cpuMillis: 4000, memoryMiB: 8192 } as const;

/** @param pods - Pods that may run at a time, by template. */
export function quota(
  stack: string,
  pods: readonly { readonly resources: PodResources; readonly count: number }[],
  claims: number,
): ApiObject<"ResourceQuota"> {
  const sum = (of: (resources: PodResources) => number) =>
    pods.reduce((total, { resources, count }) => total + count * of(resources), 0);
  const gpus = new Set(pods.flatMap(({ resources }) => resources.gpus?.resource ?? []));
  return {
    kind: "ResourceQuota",
    metadata: { name: "stack", labels: objectLabels(stack) },
    spec: {
      hard: sortedByKey({
        persistentvolumeclaims: String(claims),
        pods: String(sum(() => 1) + TOOLS.pods),
        "requests.cpu": `${sum(({ cpuMillis }) => cpuMillis) + TOOLS.cpuMillis}m`,
        "requests.memory": `${sum(({ memoryMiB }) => memoryMiB) + TOOLS.memoryMiB}Mi`,
        ...Object.fromEntries(
          [...gpus].map((resource) => [
            `requests.${resource}`,
            String(sum((pod) => (pod.gpus?.resource === resource ? pod.gpus.count : 0))),
          ]),
        ),
      }),
    },
  };
}
