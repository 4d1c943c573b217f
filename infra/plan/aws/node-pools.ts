/** Machines of a cluster: one managed node group a pool of the stack file, and a small one for controllers. Pure. */
import type { AwsPoolConfig } from "../../config/aws-stacks.ts";
import { GP3_INCLUDED_MIBPS } from "../catalogue/prices.ts";
import { slotsPerGpu } from "../fit/gpu-memory.ts";
import type { EksPlan } from "../gpu-stack.ts";
import { GPU_RESOURCE, gpuResource } from "../kubernetes/gpu-resource.ts";
import type { PoolSpec } from "../spec.ts";
import { POOL_LABEL, SYSTEM_NODES, SYSTEM_POOL } from "./names.ts";
import { machineZones } from "./network.ts";
import { type NodeUserData, nodeUserData } from "./node-user-data.ts";
import type { NodePoolPlan, Tags } from "./types.ts";

/**
 * Holds what must run while all other pools are at zero: DNS, drivers, the autoscaler, Prometheus. Two machines, so that one
 * may go; no pool of the stack file could stand in, because those sleep.
 */
export const SYSTEM_MACHINES = { instanceType: "m7i.large", count: 2, most: 4 } as const;

/** Of a machine whose images are on local disks, and of those for controllers: the system, and its logs. */
export const SYSTEM_DISK_GIB = 50;

/** gp3 as it is without a surcharge. https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html */
const GP3_IOPS = 3000;
/** Of a root disk with images of tens of GB: layers that are unpacked one by one are assumed to need no more. */
const IMAGES_THROUGHPUT_MIBPS = 250;

const GB_PER_GIB = 2 ** 30 / 1e9;

const GPU_TAINT = { key: GPU_RESOURCE, value: "present", effect: "NO_SCHEDULE" } as const;

/** Effects as Kubernetes writes them, where EKS writes NO_SCHEDULE. */
const EFFECTS = {
  NO_SCHEDULE: "NoSchedule",
  PREFER_NO_SCHEDULE: "PreferNoSchedule",
  NO_EXECUTE: "NoExecute",
} as const;

const TEMPLATE = "k8s.io/cluster-autoscaler/node-template";

/** The pool for controllers first, then those of the stack file in its order. */
export function nodePoolPlans({ config, spec, cluster }: EksPlan): readonly NodePoolPlan[] {
  const zones = machineZones(config.network);
  return [
    systemPool(zones),
    ...spec.pools.flatMap((pool) => {
      const own = config.pools.find(({ name }) => name === pool.name);
      if (own === undefined || pool.instanceType === null) return [];
      const resource = gpuResource(pool.sharing, cluster.pools[pool.name]?.gpuResource ?? null);
      return [stackPool(pool, own, { zones, resource, instanceType: pool.instanceType })];
    }),
  ];
}

function systemPool(zones: readonly string[]): NodePoolPlan {
  return {
    name: SYSTEM_POOL,
    instanceTypes: [SYSTEM_MACHINES.instanceType],
    amiType: "AL2023_x86_64_STANDARD",
    capacityType: "ON_DEMAND",
    min: SYSTEM_MACHINES.count,
    max: SYSTEM_MACHINES.most,
    desired: SYSTEM_MACHINES.count,
    sizeTags: sizeTags(SYSTEM_MACHINES.count, SYSTEM_MACHINES.most),
    // Prometheus has a disk, which is in one zone: a machine stays in each, in whatever order the zones are named.
    zones: zones.toSorted().slice(0, SYSTEM_MACHINES.count),
    labels: SYSTEM_NODES,
    taints: [],
    rootDisk: {
      sizeGiB: SYSTEM_DISK_GIB,
      iops: GP3_IOPS,
      throughputMiBps: GP3_INCLUDED_MIBPS,
    },
    userData: nodeUserData({ localDisks: "none", pullsInParallel: false, mig: null }),
    capacityReservationId: null,
    updateStrategy: "DEFAULT",
    // It is never empty.
    scalingTags: {},
  };
}

interface PoolPlace {
  /** Of the network. */
  readonly zones: readonly string[];
  /** Resource by which the pool's GPUs are given out. */
  readonly resource: string;
  readonly instanceType: string;
}

function stackPool(
  pool: PoolSpec,
  own: AwsPoolConfig,
  { zones, resource, instanceType }: PoolPlace,
): NodePoolPlan {
  const { nodes, gpu } = pool;
  const labels = poolLabels(pool, resource);
  const taints = gpu === null ? [] : [GPU_TAINT];
  const localDisks = localDiskUse(pool);
  return {
    name: pool.name,
    instanceTypes: [instanceType],
    amiType: gpu === null ? "AL2023_x86_64_STANDARD" : "AL2023_x86_64_NVIDIA",
    capacityType: pool.capacity === "spot" ? "SPOT" : "ON_DEMAND",
    min: nodes.min,
    max: nodes.max,
    desired: nodes.min,
    sizeTags: sizeTags(nodes.min, nodes.max),
    zones: own.zones ?? zones,
    labels,
    taints,
    rootDisk: rootDisk(pool),
    userData: nodeUserData({
      localDisks,
      // Onto a disk of less than 600 MiB/s it is slower than without, and few machines with GPUs reach that on EBS.
      pullsInParallel: gpu !== null && localDisks === "all",
      mig: partitions(pool),
    }),
    capacityReservationId: own.capacityReservationId ?? null,
    updateStrategy: updateStrategy(pool, own),
    scalingTags: scalingTags({ labels, taints, resources: templateResources(pool, resource) }),
  };
}

/**
 * Machines that EKS may add while it updates a pool: an update by `DEFAULT` raises the group by up to twice its zones.
 * https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html
 */
export function surgeMachines({ updateStrategy, zones }: NodePoolPlan): number {
  return updateStrategy === "MINIMAL" ? 0 : 2 * zones.length;
}

/**
 * Of GPUs, and of what is reserved, there is often no further machine; where there is one, an update would pay for several.
 */
function updateStrategy({ gpu }: PoolSpec, { capacityReservationId }: AwsPoolConfig) {
  return gpu !== null || capacityReservationId !== undefined ? "MINIMAL" : "DEFAULT";
}

function sizeTags(min: number, max: number): Tags {
  return { "engine-room:machines": `${min} to ${max}` };
}

/** What each machine's root disk is, which the cost of a pool has too. */
export function rootDisk(pool: PoolSpec): NodePoolPlan["rootDisk"] {
  const hasImages = localDiskUse(pool) !== "all";
  return {
    sizeGiB: hasImages ? Math.max(pool.diskGiB, SYSTEM_DISK_GIB) : SYSTEM_DISK_GIB,
    iops: GP3_IOPS,
    throughputMiBps: hasImages && pool.gpu !== null ? IMAGES_THROUGHPUT_MIBPS : GP3_INCLUDED_MIBPS,
  };
}

/** Images are on local disks where these have the room that the stack file asks for. */
export function localDiskUse({ machine, diskGiB }: PoolSpec): NodeUserData["localDisks"] {
  if (machine.localDiskGB === 0) return "none";
  return localDiskGiB(machine.localDiskGB) >= diskGiB ? "all" : "scratch";
}

function localDiskGiB(localDiskGB: number): number {
  return Math.floor(localDiskGB / GB_PER_GIB);
}

function partitions({ gpu, sharing }: PoolSpec): NodeUserData["mig"] {
  if (gpu === null || sharing.mode !== "mig") return null;
  return { profile: sharing.profile, perGpu: slotsPerGpu(gpu, sharing) };
}

/** @param resource - By which the pool's GPUs are given out. */
function poolLabels({ name, gpu, sharing }: PoolSpec, resource: string): Readonly<Record<string, string>> {
  if (gpu === null) return { [POOL_LABEL]: name };
  return {
    [POOL_LABEL]: name,
    // The autoscaler waits until such a machine has GPUs to give before it starts another one. It looks for whole ones: with
    // partitions it would wait forever.
    ...(resource === GPU_RESOURCE
      ? { "k8s.amazonaws.com/accelerator": `nvidia-${gpu.name.toLowerCase().replaceAll(" ", "-")}` }
      : {}),
    // By these the device plugin finds machines, and chooses one of its configurations.
    "nvidia.com/device-plugin.config": name,
    "nvidia.com/gpu.present": "true",
    ...(sharing.mode === "mps" ? { "nvidia.com/mps.capable": "true" } : {}),
  };
}

/** What the autoscaler can't know of an empty pool, by the names of Kubernetes' resources. */
function templateResources(pool: PoolSpec, resource: string): Readonly<Record<string, string>> {
  const { gpu, sharing, machine, diskGiB } = pool;
  const scratchGiB = localDiskUse(pool) === "none" ? diskGiB : localDiskGiB(machine.localDiskGB);
  return {
    "ephemeral-storage": `${scratchGiB}Gi`,
    ...(gpu === null ? {} : { [resource]: String(machine.gpus * slotsPerGpu(gpu, sharing)) }),
  };
}

interface NodeTemplate extends Pick<NodePoolPlan, "labels" | "taints"> {
  readonly resources: Readonly<Record<string, string>>;
}

/** https://github.com/kubernetes/autoscaler/blob/cluster-autoscaler-1.35.0/cluster-autoscaler/cloudprovider/aws/README.md */
export function scalingTags({ labels, taints, resources }: NodeTemplate): Tags {
  const tags = [
    ...Object.entries(labels).map(([key, value]) => [`${TEMPLATE}/label/${key}`, value] as const),
    ...Object.entries(resources).map(([key, value]) => [`${TEMPLATE}/resources/${key}`, value] as const),
    ...taints.map(
      ({ key, value, effect }) => [`${TEMPLATE}/taint/${key}`, `${value}:${EFFECTS[effect]}`] as const,
    ),
  ];
  return Object.fromEntries(tags.toSorted(([one], [other]) => (one < other ? -1 : 1)));
}
