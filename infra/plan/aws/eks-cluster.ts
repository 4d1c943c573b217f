/** A cluster on EKS: control plane, machines, and roles of the stack's own pods. */
import type { LogGroupArgs } from "@pulumi/aws/cloudwatch/logGroup.js";
import type { LaunchTemplateArgs } from "@pulumi/aws/ec2/launchTemplate.js";
import type { ClusterArgs } from "@pulumi/aws/eks/cluster.js";
import type { NodeGroupArgs } from "@pulumi/aws/eks/nodeGroup.js";
import type { KeyArgs } from "@pulumi/aws/kms/key.js";
import type { EksConfig } from "../../config/aws-stacks.ts";
import { installedCharts } from "../catalogue/aws.ts";
import { gpuPart } from "../fit/placement.ts";
import type { EksPlan } from "../gpu-stack.ts";
import { GPU_RESOURCE, gpuResource } from "../kubernetes/capacity.ts";
import { addOnPlans, chartPlans } from "./cluster-software.ts";
import {
  type AwsContext,
  BUILD_SERVICE_ACCOUNT,
  clusterWideNames,
  fixedValues,
  GPU_LABEL,
  gpuLabel,
  ownTags,
  plainName,
  poolSelector,
  SYSTEM_POOL,
} from "./context.ts";
import { documentText } from "./data-files.ts";
import {
  localDiskGiB,
  localDiskUse,
  METADATA_OPTIONS,
  type Pool,
  ROOT_DEVICE,
  ROOT_DISK,
  reservedCapacity,
  rootDisk,
  startedTypes,
  systemPool,
} from "./machines.ts";
import { machineZones } from "./network.ts";
import { rolePlan } from "./roles.ts";

type Labels = Readonly<Record<string, string>>;

export type NodePoolPlan = ReturnType<typeof nodePool>;
export type ClusterPlan = ReturnType<typeof eksClusterPlan>;

/** Days in which a key that was deleted by mistake can be restored; the most that KMS has. */
const KEY_DELETION_DAYS = 30;

export function eksClusterPlan(plan: EksPlan, context: AwsContext) {
  const { config } = plan;
  const { access } = config;
  const { existing } = config.cluster;
  const { cluster: name } = context;
  return {
    /** Name of an existing cluster, which is only read; null if the stack creates the cluster. */
    existing: existing?.name ?? null,
    cluster: {
      name,
      version: config.cluster.version,
      accessConfig: {
        authenticationMode: "API",
        bootstrapClusterCreatorAdminPermissions: access.creatorIsAdmin,
      },
      // They are add-ons, with versions of their own.
      bootstrapSelfManagedAddons: false,
      deletionProtection: context.isRetained,
      enabledClusterLogTypes: distinct(config.cluster.controlPlaneLogs),
      // After its support AWS updates the cluster instead of billing it at a higher price.
      upgradePolicy: { supportType: "STANDARD" },
    } satisfies Partial<ClusterArgs>,
    vpcConfig: apiAccess(access),
    /** Networks that reach the API at its private addresses, in addition to machines and pods of the cluster. */
    privateCidrs: distinct(access.privateCidrs),
    // EKS would create it itself, without a retention, and `down` would leave it.
    logGroup: {
      name: `/aws/eks/${name}/cluster`,
      retentionInDays: config.cluster.logRetentionDays,
      kmsKeyId: context.kmsKeyArn,
    } satisfies LogGroupArgs,
    // It encrypts Secrets in etcd. KMS' default policy leaves access to IAM.
    key: {
      description: `Secrets of the cluster ${name}`,
      enableKeyRotation: true,
      deletionWindowInDays: KEY_DELETION_DAYS,
    } satisfies KeyArgs,
    // Another path replaces the cluster's role, and EKS cannot change the role of a cluster.
    fixedValues: fixedValues("The cluster", { kmsKeyArn: context.kmsKeyArn, "iam.path": context.iam.path }),
    /** Principals with access, and their policies of EKS: a principal has one entry. */
    entries: [
      ...distinct(access.admins).map((arn) => ({
        kind: "admin",
        arn,
        policy: "AmazonEKSClusterAdminPolicy",
      })),
      // AmazonEKSAdminViewPolicy reads Secrets too, and so the keys and passwords of a stack.
      // https://docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html
      ...distinct(access.viewers).map((arn) => ({ kind: "viewer", arn, policy: "AmazonEKSViewPolicy" })),
    ],
    role: rolePlan(context, "cluster"),
    nodeRole: rolePlan(context, "node", {
      networkPolicy: existing === undefined ? undefined : "AmazonEKS_CNI_Policy",
    }),
    addOns: addOnPlans(config, context),
    charts: chartPlans(plan, context),
    pools: nodePoolPlans(plan),
    /** Names of objects without a namespace. */
    wideNames: clusterWideNames(config),
    podRoles: buildRoles(plan, context),
  };
}

/** Access to the API in EKS's terms; machines and pods always reach its private addresses. */
export function apiAccess({ endpoint, apiCidrs }: Pick<EksConfig["access"], "endpoint" | "apiCidrs">) {
  const isPublic = endpoint === "public";
  return {
    endpointPrivateAccess: true,
    endpointPublicAccess: isPublic,
    publicAccessCidrs: isPublic ? distinct(apiCidrs) : undefined,
  };
}

/** The role of engine builds that read a secret or a bucket of AWS. */
function buildRoles({ config, cluster, spec }: EksPlan, context: AwsContext) {
  const { tokenSecretArn } = config.hub;
  const places = spec.models.flatMap(({ engine: { weights } }) =>
    weights.kind === "s3" ? [bucketPlace(weights.uri)] : [],
  );
  if (tokenSecretArn === undefined && places.length === 0) return [];
  const bucketArn = (bucket: string) => `arn:${context.partition}:s3:::${bucket}`;
  return [
    rolePlan(context, BUILD_SERVICE_ACCOUNT, {
      namespace: cluster.namespace.name,
      tokenArns: tokenSecretArn === undefined ? [] : [tokenSecretArn],
      weightObjects: distinct(places.map(({ bucket, prefix }) => `${bucketArn(bucket)}/${prefix}/*`)),
      weightBuckets: distinct(places.map(({ bucket }) => bucketArn(bucket))),
      weightPrefixes: distinct(places.map(({ prefix }) => `${prefix}/*`)),
    }),
  ];
}

/** @param uri - `s3://BUCKET/PREFIX`, with a slash at its end or none. */
function bucketPlace(uri: string) {
  const [bucket = "", ...prefix] = uri.slice("s3://".length).replace(/\/$/, "").split("/");
  return { bucket, prefix: prefix.join("/") };
}

function distinct(texts: readonly string[]): string[] {
  return [...new Set(texts)].toSorted();
}

const GPU_TAINT = { key: GPU_RESOURCE, value: "present" };

const CAPACITY_TYPES = {
  onDemand: "ON_DEMAND",
  owned: "ON_DEMAND",
  spot: "SPOT",
  capacityBlock: "CAPACITY_BLOCK",
} as const;

/** Longest prefix of a node group's name: Amazon's provider appends 26 digits, and the name has at most 63 characters. */
const PREFIX_LENGTH = 37;

/** The pool for controllers first, then those of the stack file in its order. An existing cluster has machines for controllers. */
export function nodePoolPlans({ config, spec }: Pick<EksPlan, "config" | "spec">): readonly NodePoolPlan[] {
  const zones = machineZones(config.network);
  // Prometheus has a disk, which is in one zone: each zone keeps a machine, in whatever order the stack file names zones.
  const systemZones = zones.toSorted().slice(0, systemPool.nodes.min);
  const system = config.cluster.existing === undefined ? [{ ...systemPool, zones: systemZones }] : [];
  return [...system, ...spec.pools].map((pool) => nodePool(pool, pool.zones ?? zones, config));
}

/** @param zones - By letter. */
function nodePool(pool: Pool, zones: readonly string[], config: EksConfig) {
  const { instanceType, capacityReservationId, sharing } = pool;
  if (instanceType === null) throw new Error(`The pool ${pool.name} on EKS has no instance type.`);
  const resource = gpuResource(sharing, null);
  const { name, gpu, nodes } = pool;
  const { existing, version, machineImageRelease } = config.cluster;
  const types = startedTypes(pool, instanceType);
  const labels = poolLabels(pool, resource, config);
  // Often AWS has no further machine with GPUs or in a reservation, and an update that starts new machines first pays for several.
  const isMinimal = gpu !== null || capacityReservationId !== undefined;
  return {
    name,
    zones,
    /** Least and most machines. */
    size: { min: nodes.min, max: nodes.max },
    /** Tags of the Auto Scaling group that describe a machine of an empty pool to the autoscaler; that of controllers is never empty. */
    scalingTags: name === SYSTEM_POOL ? {} : scalingTags(pool, labels, resource),
    /** Those of the stack file, which EKS does not give to that group. */
    ownTags: ownTags(config),
    launchTemplate: {
      updateDefaultVersion: true,
      metadataOptions: METADATA_OPTIONS,
      blockDeviceMappings: [
        { deviceName: ROOT_DEVICE, ebs: { ...ROOT_DISK, ...rootDisk(pool), kmsKeyId: config.kmsKeyArn } },
      ],
      ...types.template,
      ...reservedCapacity(pool),
      userData: Buffer.from(nodeUserData(pool)).toString("base64"),
    } satisfies LaunchTemplateArgs,
    nodeGroup: {
      // Groups of others are beside them in an existing cluster, whose version its owner chooses.
      ...(existing === undefined
        ? { nodeGroupNamePrefix: `${name.slice(0, PREFIX_LENGTH - 1)}-`, version }
        : { nodeGroupNamePrefix: `${plainName(`${config.namespace}-${name}`, PREFIX_LENGTH - 1)}-` }),
      ...(machineImageRelease === undefined ? {} : { releaseVersion: machineImageRelease }),
      ...types.group,
      amiType: gpu === null ? "AL2023_x86_64_STANDARD" : "AL2023_x86_64_NVIDIA",
      capacityType: CAPACITY_TYPES[pool.capacity],
      // A new group begins with these; `size` changes that of an existing one.
      scalingConfig: { minSize: nodes.min, maxSize: nodes.max, desiredSize: nodes.min },
      // MINIMAL: an update ends a machine before it starts the next one. DEFAULT: it starts new machines in every zone first.
      updateConfig: { maxUnavailable: 1, updateStrategy: isMinimal ? "MINIMAL" : "DEFAULT" },
      // If two servers of a model share the only machine, their disruption budget keeps the second until the first runs
      // elsewhere. Without force EKS cancels the update after 15 minutes, with half of the model unavailable:
      // https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html
      ...(isMinimal ? { forceUpdateVersion: true } : {}),
      labels,
      taints: gpu === null ? [] : [{ ...GPU_TAINT, effect: "NO_SCHEDULE" }],
    } satisfies Partial<NodeGroupArgs>,
  };
}

function poolLabels({ name, gpu, sharing }: Pool, resource: string, config: EksConfig): Labels {
  const own = poolSelector(config, name);
  if (gpu === null) return own;
  // The plugin of an existing cluster fails when a label names a configuration that it lacks: unshared GPUs need no label.
  // https://github.com/NVIDIA/k8s-device-plugin/blob/main/cmd/config-manager/main.go
  const isConfigured = sharing.mode !== "none" || installedCharts(config.cluster).includes("device-plugin");
  return {
    ...own,
    [GPU_LABEL]: gpuLabel(gpu.name),
    // The autoscaler waits until a machine with this label offers whole GPUs before it starts another one; with partitions it would
    // wait forever.
    ...(resource === GPU_RESOURCE ? { "k8s.amazonaws.com/accelerator": `nvidia-${gpuLabel(gpu.name)}` } : {}),
    // By these the device plugin finds machines, and chooses one of its configurations.
    ...(config.cluster.existing === undefined || isConfigured
      ? { "nvidia.com/device-plugin.config": name }
      : {}),
    "nvidia.com/gpu.present": "true",
    ...(sharing.mode === "mps" ? { "nvidia.com/mps.capable": "true" } : {}),
  };
}

/** https://github.com/kubernetes/autoscaler/blob/cluster-autoscaler-1.36.1/cluster-autoscaler/cloudprovider/aws/README.md */
function scalingTags(pool: Pool, labels: Labels, resource: string): Labels {
  const { gpu, sharing, machine, diskGiB } = pool;
  const scratchGiB = localDiskUse(pool) === "none" ? diskGiB : localDiskGiB(machine);
  const tags = {
    ...Object.fromEntries(Object.entries(labels).map(([key, value]) => [`label/${key}`, value])),
    "resources/ephemeral-storage": `${scratchGiB}Gi`,
    ...(gpu === null
      ? {}
      : {
          [`resources/${resource}`]: String(machine.gpus * gpuPart(gpu, sharing).slots),
          [`taint/${GPU_TAINT.key}`]: `${GPU_TAINT.value}:NoSchedule`,
        }),
  };
  return Object.fromEntries(
    Object.entries(tags).map(([key, value]) => [`k8s.io/cluster-autoscaler/node-template/${key}`, value]),
  );
}

const BOUNDARY = "engine-room";

/**
 * User data of a machine: a MIME document, not yet in base64. EKS adds a part that says which cluster the machine joins.
 */
function nodeUserData(pool: Pool): string {
  const { gpu, sharing } = pool;
  const localDisks = localDiskUse(pool);
  const localStorage = {
    strategy: "RAID0",
    // Otherwise containerd, the kubelet's pods and their logs are on local disks.
    ...(localDisks === "all" ? {} : { disabledMounts: ["Containerd", "SOCI"] }),
  };
  const values = {
    // Layers are downloaded and unpacked side by side. Onto a disk of less than 600 MiB/s it is slower than without; EBS of few
    // machines with GPUs is that fast.
    featureGates: gpu !== null && localDisks === "all" ? { FastImagePull: true } : undefined,
    instance: localDisks === "none" ? undefined : { localStorage },
  };
  // JSON is YAML too.
  const parts = [["application/node.eks.aws", documentText("nodeConfig", values, 2)]];
  if (gpu !== null && sharing.mode === "mig") {
    const partitions = Array.from({ length: gpuPart(gpu, sharing).slots }, () => sharing.profile);
    // It runs before the kubelet starts, and so before anything has opened a GPU.
    // https://docs.nvidia.com/datacenter/tesla/mig-user-guide/getting-started-with-mig.html
    const script = `#!/bin/bash\nset -euo pipefail\nnvidia-smi -mig 1\nnvidia-smi mig -cgi ${partitions.join(",")} -C`;
    parts.push(['text/x-shellscript; charset="us-ascii"', script]);
  }
  return [
    "MIME-Version: 1.0",
    `Content-Type: multipart/mixed; boundary="${BOUNDARY}"`,
    "",
    ...parts.flatMap(([type, text]) => [`--${BOUNDARY}`, `Content-Type: ${type}`, "", text, ""]),
    `--${BOUNDARY}--`,
    "",
  ].join("\n");
}
