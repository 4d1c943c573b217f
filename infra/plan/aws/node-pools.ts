/** Machines of a cluster: a managed node group for each pool of the stack file, and a small one for controllers. */
import type { LaunchTemplateArgs } from "@pulumi/aws/ec2/launchTemplate.js";
import type { NodeGroupArgs } from "@pulumi/aws/eks/nodeGroup.js";
import type { EksConfig } from "../../config/aws-stacks.ts";
import { GP3_INCLUDED_MIBPS } from "../catalogue/prices.ts";
import { slotsPerGpu } from "../fit/gpu-memory.ts";
import { GPU_RESOURCE, gpuResource } from "../kubernetes/capacity.ts";
import type { Cluster } from "../kubernetes/cluster.ts";
import type { GpuStackSpec, PoolSpec } from "../spec.ts";
import { GB_PER_GIB } from "../units.ts";
import { POOL_LABEL, SYSTEM_POOL } from "./names.ts";
import { machineZones } from "./network.ts";

/** Parts of a plan that machines and charts depend on. */
export interface ClusterParts {
  readonly config: EksConfig;
  readonly spec: GpuStackSpec;
  readonly cluster: Cluster;
}

type Labels = Readonly<Record<string, string>>;

/** What a node group needs to know of a pool. */
type Pool = Pick<PoolSpec, "name" | "gpu" | "sharing" | "nodes" | "capacity" | "diskGiB"> & {
  readonly machine: Pick<PoolSpec["machine"], "gpus" | "localDiskGB">;
};

export type NodePoolPlan = ReturnType<typeof nodePool>;

/** Least size of a root disk: the system and its logs. */
const SYSTEM_DISK_GIB = 50;

/**
 * Machines for what runs while all other pools are at zero: DNS, drivers, the autoscaler, Prometheus. Two, so that one may end; the
 * pools of the stack file can't do it, because they sleep.
 */
export const systemPool = {
  name: SYSTEM_POOL,
  instanceType: "m7i.large",
  machine: { gpus: 0, localDiskGB: 0 },
  gpu: null,
  sharing: { mode: "none" },
  nodes: { min: 2, max: 4 },
  capacity: "onDemand",
  diskGiB: SYSTEM_DISK_GIB,
} satisfies Pool & { instanceType: string };

/** gp3 as it is without a surcharge. https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html */
const GP3_IOPS = 3000;
/** Assumed to be enough for a root disk with images of tens of GB, whose layers are unpacked one by one. */
const IMAGES_THROUGHPUT_MIBPS = 250;

/** Root device of Amazon Linux 2023. */
const ROOT_DEVICE = "/dev/xvda";

const GPU_TAINT = { key: GPU_RESOURCE, value: "present" };

/** Longest prefix of a node group's name: Amazon's provider appends 26 digits, and the name has at most 63 characters. */
const PREFIX_LENGTH = 37;

/** The pool for controllers first, then those of the stack file in its order. */
export function nodePoolPlans({ config, spec, cluster }: ClusterParts): readonly NodePoolPlan[] {
  const zones = machineZones(config.network);
  const { version } = config.cluster;
  // Prometheus has a disk, which is in one zone: each zone keeps a machine, in whatever order the stack file names zones.
  const systemZones = zones.toSorted().slice(0, systemPool.nodes.min);
  return [
    nodePool(systemPool, systemPool.instanceType, { version, zones: systemZones }),
    ...spec.pools.map((pool) => {
      const own = config.pools.find(({ name }) => name === pool.name);
      if (own === undefined || pool.instanceType === null)
        throw new Error(`A planned pool on EKS has an instance type, and ${pool.name} has none.`);
      const place = {
        version,
        zones: own.zones ?? zones,
        resource: gpuResource(pool.sharing, cluster.pools[pool.name]?.gpuResource ?? null),
        capacityReservationId: own.capacityReservationId,
      };
      return nodePool(pool, pool.instanceType, place);
    }),
  ];
}

interface Place {
  /** Version of Kubernetes. */
  readonly version: string;
  /** By letter. */
  readonly zones: readonly string[];
  /** Resource of Kubernetes by which the pool's GPUs are requested. */
  readonly resource?: string;
  readonly capacityReservationId?: string | undefined;
}

function nodePool(
  pool: Pool,
  instanceType: string,
  { version, zones, resource = GPU_RESOURCE, capacityReservationId }: Place,
) {
  const { name, gpu, nodes } = pool;
  const labels = poolLabels(pool, resource);
  // Often AWS has no further machine with GPUs or in a reservation, and an update that starts new machines first pays for several.
  const isMinimal = gpu !== null || capacityReservationId !== undefined;
  return {
    name,
    zones,
    /** Tags of the Auto Scaling group that describe a machine of an empty pool to the autoscaler; that of controllers is never empty. */
    scalingTags: name === SYSTEM_POOL ? {} : scalingTags(pool, labels, resource),
    launchTemplate: {
      updateDefaultVersion: true,
      // One hop, so that pods do not get the machine's role: their ServiceAccounts have roles of their own. The EBS driver asks
      // Kubernetes instead, and the EFS driver is in the machine's own network.
      metadataOptions: { httpEndpoint: "enabled", httpTokens: "required", httpPutResponseHopLimit: 1 },
      blockDeviceMappings: [
        {
          deviceName: ROOT_DEVICE,
          ebs: { ...rootDisk(pool), volumeType: "gp3", encrypted: "true", deleteOnTermination: "true" },
        },
      ],
      ...(capacityReservationId === undefined
        ? {}
        : { capacityReservationSpecification: { capacityReservationTarget: { capacityReservationId } } }),
      userData: Buffer.from(nodeUserData(userDataOf(pool))).toString("base64"),
    } satisfies LaunchTemplateArgs,
    nodeGroup: {
      nodeGroupNamePrefix: `${name.slice(0, PREFIX_LENGTH - 1)}-`,
      version,
      instanceTypes: [instanceType],
      amiType: gpu === null ? "AL2023_x86_64_STANDARD" : "AL2023_x86_64_NVIDIA",
      capacityType: pool.capacity === "spot" ? "SPOT" : "ON_DEMAND",
      // A new group begins with these; `npm run up` changes the size of an existing one.
      scalingConfig: { minSize: nodes.min, maxSize: nodes.max, desiredSize: nodes.min },
      // MINIMAL: an update ends a machine before it starts the next one. DEFAULT: it starts new machines in every zone first.
      updateConfig: { maxUnavailable: 1, updateStrategy: isMinimal ? "MINIMAL" : "DEFAULT" },
      // Where two servers of a model share the only machine, their disruption budget keeps the second until the first runs
      // elsewhere. Without force EKS gives the update up after 15 minutes, with half of the model away:
      // https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html
      ...(isMinimal ? { forceUpdateVersion: true } : {}),
      labels,
      taints: gpu === null ? [] : [{ ...GPU_TAINT, effect: "NO_SCHEDULE" }],
      // A preview shows a change of the size by this tag alone.
      tags: { "engine-room:machines": `${nodes.min} to ${nodes.max}` },
    } satisfies Partial<NodeGroupArgs>,
  };
}

/**
 * Machines that EKS may add while it updates a pool: an update by `DEFAULT` raises the group by up to twice its zones.
 * https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html
 */
export function surgeMachines({ nodeGroup, zones }: NodePoolPlan): number {
  return nodeGroup.updateConfig.updateStrategy === "MINIMAL" ? 0 : 2 * zones.length;
}

/** Root disk of a pool's machines, in GiB, operations a second and MiB/s. */
export function rootDisk(pool: Pool) {
  const hasImages = localDiskUse(pool) !== "all";
  return {
    volumeSize: hasImages ? Math.max(pool.diskGiB, SYSTEM_DISK_GIB) : SYSTEM_DISK_GIB,
    iops: GP3_IOPS,
    throughput: hasImages && pool.gpu !== null ? IMAGES_THROUGHPUT_MIBPS : GP3_INCLUDED_MIBPS,
  };
}

/** Images are on local disks where these have the room that the stack file asks for. */
export function localDiskUse({ machine, diskGiB }: Pool): NodeUserData["localDisks"] {
  if (machine.localDiskGB === 0) return "none";
  return localDiskGiB(machine.localDiskGB) >= diskGiB ? "all" : "scratch";
}

function localDiskGiB(localDiskGB: number): number {
  return Math.floor(localDiskGB / GB_PER_GIB);
}

function userDataOf(pool: Pool): NodeUserData {
  const { gpu, sharing } = pool;
  const localDisks = localDiskUse(pool);
  return {
    localDisks,
    // Onto a disk of less than 600 MiB/s it is slower than without; EBS of few machines with GPUs is that fast.
    pullsInParallel: gpu !== null && localDisks === "all",
    mig:
      gpu === null || sharing.mode !== "mig"
        ? null
        : { profile: sharing.profile, perGpu: slotsPerGpu(gpu, sharing) },
  };
}

function poolLabels({ name, gpu, sharing }: Pool, resource: string): Labels {
  if (gpu === null) return { [POOL_LABEL]: name };
  return {
    [POOL_LABEL]: name,
    // The autoscaler waits until a machine with this label offers whole GPUs before it starts another one; with partitions it would
    // wait forever.
    ...(resource === GPU_RESOURCE
      ? { "k8s.amazonaws.com/accelerator": `nvidia-${gpu.name.toLowerCase().replaceAll(" ", "-")}` }
      : {}),
    // By these the device plugin finds machines, and chooses one of its configurations.
    "nvidia.com/device-plugin.config": name,
    "nvidia.com/gpu.present": "true",
    ...(sharing.mode === "mps" ? { "nvidia.com/mps.capable": "true" } : {}),
  };
}

/** https://github.com/kubernetes/autoscaler/blob/cluster-autoscaler-1.35.0/cluster-autoscaler/cloudprovider/aws/README.md */
function scalingTags(pool: Pool, labels: Labels, resource: string): Labels {
  const { gpu, sharing, machine, diskGiB } = pool;
  const scratchGiB = localDiskUse(pool) === "none" ? diskGiB : localDiskGiB(machine.localDiskGB);
  const tags = {
    ...Object.fromEntries(Object.entries(labels).map(([key, value]) => [`label/${key}`, value])),
    "resources/ephemeral-storage": `${scratchGiB}Gi`,
    ...(gpu === null
      ? {}
      : {
          [`resources/${resource}`]: String(machine.gpus * slotsPerGpu(gpu, sharing)),
          [`taint/${GPU_TAINT.key}`]: `${GPU_TAINT.value}:NoSchedule`,
        }),
  };
  return Object.fromEntries(
    Object.entries(tags)
      .map(([key, value]) => [`k8s.io/cluster-autoscaler/node-template/${key}`, value] as const)
      .toSorted(([one], [other]) => (one < other ? -1 : 1)),
  );
}

interface NodeUserData {
  /** `all`: local disks hold images, scratch and logs. `scratch`: images stay on the root disk. `none`: there are no local disks. */
  readonly localDisks: "all" | "scratch" | "none";
  /** Layers are downloaded and unpacked side by side. */
  readonly pullsInParallel: boolean;
  /** MIG partitions of each GPU; null: none. */
  readonly mig: { readonly profile: string; readonly perGpu: number } | null;
}

const BOUNDARY = "engine-room";

/**
 * Percent of the disk above which images are deleted, and down to which: below the 85 % at which the kubelet evicts pods.
 * https://kubernetes.io/docs/concepts/architecture/garbage-collection/#containers-images
 */
const IMAGE_LIMITS = { imageGCHighThresholdPercent: 80, imageGCLowThresholdPercent: 65 } as const;

/**
 * User data of a machine for nodeadm, which sets up EKS' own images: a MIME document, not yet in base64. EKS adds a part that says
 * which cluster the machine joins.
 * https://github.com/awslabs/amazon-eks-ami/blob/81fec2e895854f599974fe4d3d72f61c0a9aaffa/nodeadm/doc/api.md
 */
export function nodeUserData({ localDisks, pullsInParallel, mig }: NodeUserData): string {
  const localStorage = {
    strategy: "RAID0",
    // Otherwise containerd, the kubelet's pods and their logs are on local disks.
    ...(localDisks === "all" ? {} : { disabledMounts: ["Containerd", "SOCI"] }),
  };
  const config = {
    apiVersion: "node.eks.aws/v1alpha1",
    kind: "NodeConfig",
    spec: {
      ...(pullsInParallel ? { featureGates: { FastImagePull: true } } : {}),
      ...(localDisks === "none" ? {} : { instance: { localStorage } }),
      kubelet: { config: IMAGE_LIMITS },
    },
  };
  const parts = [
    // JSON is YAML too.
    ["application/node.eks.aws", JSON.stringify(config, null, 2)],
    ...(mig === null ? [] : [['text/x-shellscript; charset="us-ascii"', partitionScript(mig)]]),
  ];
  return [
    "MIME-Version: 1.0",
    `Content-Type: multipart/mixed; boundary="${BOUNDARY}"`,
    "",
    ...parts.flatMap(([type, text]) => [`--${BOUNDARY}`, `Content-Type: ${type}`, "", text, ""]),
    `--${BOUNDARY}--`,
    "",
  ].join("\n");
}

/**
 * Runs before the kubelet starts, and so before anything has opened a GPU.
 * https://docs.nvidia.com/datacenter/tesla/mig-user-guide/getting-started-with-mig.html
 */
function partitionScript({ profile, perGpu }: NonNullable<NodeUserData["mig"]>): string {
  const profiles = Array.from({ length: perGpu }, () => profile).join(",");
  return ["#!/bin/bash", "set -euo pipefail", "nvidia-smi -mig 1", `nvidia-smi mig -cgi ${profiles} -C`].join(
    "\n",
  );
}

/**
 * Size of the snapshot in the machine image of a stack on one EC2 instance: EC2 refuses a smaller root disk
 * (InvalidBlockDeviceMapping, "expect size >= 75GB"). Read from public stacks that use this image, the newest of them of its
 * build of 2026-09-25; AWS's pages on it do not say.
 */
const SNAPSHOT_GIB = 75;

/** Root disk of that machine in GiB: `diskGiB`, or as much as the image takes. */
export function machineDiskGiB({ diskGiB }: Pick<PoolSpec, "diskGiB">): number {
  return Math.max(diskGiB, SNAPSHOT_GIB);
}
