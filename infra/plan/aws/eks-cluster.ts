/** A cluster on EKS: control plane, machines, add-ons, charts, and roles of the stack's own pods. */
import type { LogGroupArgs } from "@pulumi/aws/cloudwatch/logGroup.js";
import type { AddonArgs } from "@pulumi/aws/eks/addon.js";
import type { ClusterArgs } from "@pulumi/aws/eks/cluster.js";
import type { KeyArgs } from "@pulumi/aws/kms/key.js";
import type { EksConfig } from "../../config/aws-stacks.ts";
import { addOnVersions, kubernetesVersions } from "../catalogue/aws.ts";
import { chartPlans } from "./charts.ts";
import { clusterName } from "./context.ts";
import { SYSTEM_NODES } from "./names.ts";
import { type ClusterParts, nodePoolPlans } from "./node-pools.ts";
import { buildRole, clusterRole, diskRole, fileSystemRole, networkRole, nodeRole } from "./roles.ts";
import type { AwsContext, RolePlan } from "./types.ts";

export type ClusterPlan = ReturnType<typeof eksClusterPlan>;
export type AddOnPlan = ReturnType<typeof addOnPlans>[number];

/** Days in which a key that was deleted by mistake can be restored; the most that KMS has. */
const KEY_DELETION_DAYS = 30;

export function eksClusterPlan(parts: ClusterParts, context: AwsContext) {
  const { config, cluster } = parts;
  const { access, hub } = config;
  const name = clusterName(context);
  return {
    cluster: {
      name,
      version: config.cluster.version,
      accessConfig: { authenticationMode: "API", bootstrapClusterCreatorAdminPermissions: true },
      // They are add-ons, with versions of their own.
      bootstrapSelfManagedAddons: false,
      deletionProtection: context.isRetained,
      enabledClusterLogTypes: ["api", "audit", "authenticator", "controllerManager", "scheduler"],
      // After its support AWS updates the cluster instead of billing it at a higher price.
      upgradePolicy: { supportType: "STANDARD" },
    } satisfies Partial<ClusterArgs>,
    vpcConfig: {
      endpointPrivateAccess: true,
      endpointPublicAccess: true,
      publicAccessCidrs: distinct(access.apiCidrs),
    },
    // EKS would create it itself, without a retention, and `down` would leave it.
    logGroup: {
      name: `/aws/eks/${name}/cluster`,
      retentionInDays: config.cluster.logRetentionDays,
    } satisfies LogGroupArgs,
    // It encrypts Secrets in etcd. KMS' default policy leaves access to IAM.
    key: {
      description: `Secrets of the cluster ${name}`,
      enableKeyRotation: true,
      deletionWindowInDays: KEY_DELETION_DAYS,
    } satisfies KeyArgs,
    /** ARNs of principals, by which access entries are named. */
    admins: distinct(access.admins),
    role: clusterRole(context),
    nodeRole: nodeRole(context),
    addOns: addOnPlans(config, context),
    charts: chartPlans(parts, context),
    pools: nodePoolPlans(parts),
    podRoles:
      hub.tokenSecretArn === undefined
        ? []
        : [buildRole(context, cluster.namespace.name, hub.tokenSecretArn)],
  };
}

function distinct(texts: readonly string[]): string[] {
  return [...new Set(texts)].toSorted();
}

const ON_SYSTEM_NODES = { nodeSelector: SYSTEM_NODES };

interface AddOnOptions {
  readonly configuration?: Readonly<Record<string, unknown>>;
  readonly role?: RolePlan;
  /** Machines need it to join; the other add-ons need machines to run on. */
  readonly isBeforeNodes?: boolean;
}

/**
 * By name. The keys of configurations are those of the drivers' charts, and were seen in configurations of these add-ons that EKS took;
 * those of EFS and of the secrets' provider in their charts alone. Preflight compares them with EKS' own schemas.
 */
function addOnPlans({ cluster, engineStore, hub }: EksConfig, context: AwsContext) {
  const versions = { ...addOnVersions, ...kubernetesVersions[cluster.version].addOns };
  const plan = (
    addonName: keyof typeof versions,
    { configuration, role, isBeforeNodes = false }: AddOnOptions,
  ) => ({
    args: {
      addonName,
      addonVersion: versions[addonName],
      ...(configuration === undefined ? {} : { configurationValues: JSON.stringify(configuration) }),
      // Changes by hand are reverted.
      resolveConflictsOnCreate: "OVERWRITE",
      resolveConflictsOnUpdate: "OVERWRITE",
    } satisfies Partial<AddonArgs>,
    role: role ?? null,
    isBeforeNodes,
  });
  return [
    plan("aws-ebs-csi-driver", {
      configuration: {
        // Tags by which disks of claims are found, and costs grouped.
        // https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/docs/tagging.md
        controller: { ...ON_SYSTEM_NODES, extraVolumeTags: context.lastingTags },
        // Machines with GPUs too. Pods don't reach the metadata service, so the driver asks Kubernetes for its machine, and assumes one
        // network interface and one disk: a machine with more holds fewer claims than the scheduler believes.
        // https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/v1.63.1/docs/install.md#kubernetes-metadata
        node: { tolerateAllTaints: true },
      },
      role: diskRole(context),
    }),
    plan("aws-efs-csi-driver", {
      configuration: { controller: ON_SYSTEM_NODES },
      role: fileSystemRole(context, engineStore.existing?.fileSystemId),
    }),
    // Mounts secrets of Secrets Manager as files, with the role of the pod. Engine builds run on machines with GPUs; the driver that
    // comes with it tolerates all taints by itself.
    ...(hub.tokenSecretArn === undefined
      ? []
      : [
          plan("aws-secrets-store-csi-driver-provider", {
            configuration: { tolerations: [{ operator: "Exists" }] },
          }),
        ]),
    plan("coredns", { configuration: ON_SYSTEM_NODES }),
    plan("eks-pod-identity-agent", { isBeforeNodes: true }),
    plan("kube-proxy", { isBeforeNodes: true }),
    plan("metrics-server", { configuration: ON_SYSTEM_NODES }),
    plan("vpc-cni", {
      // Addresses one by one: machines with GPUs run few pods, and prefixes of 16 addresses would use up a subnet sooner.
      configuration: { enableNetworkPolicy: "true" },
      role: networkRole(context),
      isBeforeNodes: true,
    }),
  ];
}

interface EksClusterAddress {
  readonly name: string;
  readonly region: string;
  readonly endpoint: string;
  /** PEM in base64, as EKS gives it. */
  readonly certificateAuthority: string;
}

/**
 * A kubeconfig, as JSON, which is YAML too. It holds no credential: its user gets one through the AWS CLI.
 * https://docs.aws.amazon.com/eks/latest/userguide/create-kubeconfig.html
 */
export function eksKubeconfig({ name, region, endpoint, certificateAuthority }: EksClusterAddress): string {
  const exec = {
    apiVersion: "client.authentication.k8s.io/v1beta1",
    command: "aws",
    args: ["eks", "get-token", "--cluster-name", name, "--region", region, "--output", "json"],
    interactiveMode: "Never",
  };
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": name,
    clusters: [{ name, cluster: { server: endpoint, "certificate-authority-data": certificateAuthority } }],
    contexts: [{ name, context: { cluster: name, user: name } }],
    users: [{ name, user: { exec } }],
  });
}
