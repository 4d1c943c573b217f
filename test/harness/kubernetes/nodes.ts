/** Machines of a plan's pools as a cluster shows them; KWOK answers for their kubelets. */
import { machineResources, slotsPerMachine } from "../../../infra/plan/pool-space.ts";
import type { PoolSpec } from "../../../infra/plan/spec.ts";
import { eventually } from "../stack.ts";
import type { ApiServer } from "./api-server.ts";
import { conditionOf, type KubernetesObject } from "./objects.ts";

const READY_TIMEOUT_SECONDS = 60;
/** The kubelet's own default. */
const PODS_PER_NODE = 110;

interface Taint {
  readonly key: string;
  readonly value?: string;
  readonly effect: "NoSchedule" | "PreferNoSchedule" | "NoExecute";
}

interface NodeOptions {
  /** Number of nodes. @default the pool's maximum */
  readonly count?: number;
  /** Labels in addition to those of every node. */
  readonly labels?: Readonly<Record<string, string>>;
  /** @default `nvidia.com/gpu` on nodes with GPUs, as managed clusters have it */
  readonly taints?: readonly Taint[];
  /**
   * The device plugin's resource of the GPUs. @default its own default; partitions have names of their own (strategy
   * `mixed`)
   */
  readonly gpuResource?: string;
}

/**
 * Nodes `<pool>-0`, … that leave to pods what the plan counts on: CPU, memory, disk, and GPUs as NVIDIA's device plugin
 * advertises them.
 */
export function poolNodes(pool: PoolSpec, options: NodeOptions = {}): KubernetesObject[] {
  const { count = pool.nodes.max, labels = {}, taints = pool.gpu === null ? [] : [GPU_TAINT] } = options;
  const { gpuResource = defaultGpuResource(pool) } = options;
  const { cpuMillis, memoryMiB } = machineResources(pool);
  const resources = {
    cpu: `${cpuMillis}m`,
    memory: `${memoryMiB}Mi`,
    pods: `${PODS_PER_NODE}`,
    "ephemeral-storage": `${pool.diskGiB}Gi`,
    ...(pool.gpu === null ? {} : { [gpuResource]: `${slotsPerMachine(pool)}` }),
  };
  return Array.from({ length: count }, (_, index) => {
    const name = `${pool.name}-${index}`;
    return {
      apiVersion: "v1",
      kind: "Node",
      metadata: {
        name,
        labels: {
          "kubernetes.io/hostname": name,
          "kubernetes.io/os": "linux",
          "kubernetes.io/arch": "amd64",
          ...(pool.instanceType === null ? {} : { "node.kubernetes.io/instance-type": pool.instanceType }),
          ...labels,
        },
      },
      spec: { taints },
      status: { capacity: resources, allocatable: resources },
    };
  });
}

const GPU_TAINT: Taint = { key: "nvidia.com/gpu", value: "present", effect: "NoSchedule" };

function defaultGpuResource({ sharing }: PoolSpec): string {
  // Names can't contain `+`.
  return sharing.mode === "mig" ? `nvidia.com/mig-${sharing.profile.replaceAll("+", ".")}` : "nvidia.com/gpu";
}

/** Makes nodes and returns when pods may be put on them. */
export async function addNodes(api: ApiServer, nodes: readonly KubernetesObject[]): Promise<void> {
  for (const node of nodes) await api.create(node);
  for (const node of nodes)
    await eventually(async () => {
      const now = await api.get(node);
      return now !== undefined && takesPods(now) ? true : undefined;
    }, READY_TIMEOUT_SECONDS);
}

export async function removeNodes(api: ApiServer, nodes: readonly KubernetesObject[]): Promise<void> {
  for (const node of nodes) await api.remove(node);
}

function takesPods(node: KubernetesObject): boolean {
  const { taints = [] } = node.spec as { readonly taints?: readonly Taint[] };
  // The controllers remove theirs a moment after the node is ready.
  const isNew = taints.some(({ key }) => key.startsWith("node.kubernetes.io/"));
  return !isNew && conditionOf(node, "Ready")?.status === "True";
}
