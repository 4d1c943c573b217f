/** Control plane of EKS. Cost: 0.10 USD an hour; a KMS key, 1 USD a month. */
import { LogGroup } from "@pulumi/aws/cloudwatch/logGroup.js";
import { AccessEntry } from "@pulumi/aws/eks/accessEntry.js";
import { AccessPolicyAssociation } from "@pulumi/aws/eks/accessPolicyAssociation.js";
import { Cluster as EksCluster } from "@pulumi/aws/eks/cluster.js";
import { Key } from "@pulumi/aws/kms/key.js";
import * as pulumi from "@pulumi/pulumi";
import { eksKubeconfig } from "../../infra/plan/aws/kubeconfig.ts";
import { clusterName } from "../../infra/plan/aws/roles.ts";
import type { AwsContext, ClusterPlan } from "../../infra/plan/aws/types.ts";
import { jsonDigest } from "../../infra/plan/canonical-json.ts";
import { namedTags } from "./tags.ts";
import { WorkloadRole } from "./workload-role.ts";

interface ClusterArgs {
  readonly context: AwsContext;
  readonly plan: ClusterPlan;
  readonly vpcId: pulumi.Input<string>;
  /** Private ones, in two zones at least. */
  readonly subnets: readonly { readonly id: pulumi.Input<string> }[];
}

const LOGS = ["api", "audit", "authenticator", "controllerManager", "scheduler"] as const;

/** Days in which a key that was deleted by mistake comes back; the most that KMS has. */
const KEY_DELETION_DAYS = 30;
const HASH_DIGITS = 8;

export class Cluster extends pulumi.ComponentResource {
  readonly cluster: EksCluster;
  readonly clusterName: pulumi.Output<string>;
  /** Of the control plane's network interfaces and of all machines of node groups. */
  readonly securityGroupId: pulumi.Output<string>;
  /** Without a credential: who uses it asks AWS for one, as himself. */
  readonly kubeconfig: pulumi.Output<string>;

  constructor(name: string, args: ClusterArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:aws:Cluster", name, {}, opts);

    const { context, plan } = args;
    const role = new WorkloadRole(`${name}-role`, { context, plan: plan.role }, { parent: this });
    const key = this.#createKey(name, context);
    const logs = this.#createLogGroup(name, args);
    this.cluster = this.#createCluster(name, args, { role, key, logs });
    for (const admin of plan.admins) this.#addAdmin(name, context, admin);

    this.clusterName = this.cluster.name;
    this.securityGroupId = this.cluster.vpcConfig.clusterSecurityGroupId;
    this.kubeconfig = kubeconfigOf(this.cluster, context.region);
    this.registerOutputs({ clusterName: this.clusterName });
  }

  /** Of Secrets in etcd. Its policy is KMS' default: the account decides by IAM. */
  #createKey(name: string, context: AwsContext): Key {
    return new Key(
      `${name}-secrets-key`,
      {
        description: `Secrets of the cluster ${clusterName(context)}`,
        enableKeyRotation: true,
        deletionWindowInDays: KEY_DELETION_DAYS,
        tags: namedTags(context, "secrets"),
      },
      { parent: this, protect: context.isRetained },
    );
  }

  /** EKS would make it itself, without an end, and `down` would leave it. */
  #createLogGroup(name: string, { context, plan }: ClusterArgs): LogGroup {
    return new LogGroup(
      `${name}-logs`,
      {
        name: `/aws/eks/${clusterName(context)}/cluster`,
        retentionInDays: plan.logRetentionDays,
        tags: namedTags(context, "cluster-logs"),
      },
      { parent: this },
    );
  }

  #createCluster(
    name: string,
    { context, plan, subnets }: ClusterArgs,
    { role, key, logs }: { readonly role: WorkloadRole; readonly key: Key; readonly logs: LogGroup },
  ): EksCluster {
    return new EksCluster(
      `${name}-cluster`,
      {
        name: clusterName(context),
        roleArn: role.arn,
        version: plan.version,
        accessConfig: { authenticationMode: "API", bootstrapClusterCreatorAdminPermissions: true },
        // They come as add-ons, with versions of their own.
        bootstrapSelfManagedAddons: false,
        deletionProtection: context.isRetained,
        enabledClusterLogTypes: [...LOGS],
        encryptionConfig: { provider: { keyArn: key.arn }, resources: ["secrets"] },
        // Past its support AWS updates the cluster, in place of billing it at a higher price.
        upgradePolicy: { supportType: "STANDARD" },
        vpcConfig: {
          subnetIds: subnets.map(({ id }) => id),
          endpointPrivateAccess: true,
          endpointPublicAccess: plan.publicCidrs.length > 0,
          ...(plan.publicCidrs.length > 0 ? { publicAccessCidrs: [...plan.publicCidrs] } : {}),
        },
        tags: namedTags(context, "cluster"),
      },
      { parent: this, protect: context.isRetained, dependsOn: [role, logs] },
    );
  }

  /** https://docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html */
  #addAdmin(name: string, context: AwsContext, principalArn: string): void {
    const admin = `${name}-admin-${jsonDigest(principalArn).slice(0, HASH_DIGITS)}`;
    const entry = new AccessEntry(
      admin,
      {
        clusterName: this.cluster.name,
        principalArn,
        type: "STANDARD",
        tags: namedTags(context, "admin"),
      },
      { parent: this },
    );
    new AccessPolicyAssociation(
      `${admin}-policy`,
      {
        clusterName: this.cluster.name,
        principalArn: entry.principalArn,
        policyArn: `arn:${context.partition}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy`,
        accessScope: { type: "cluster" },
      },
      { parent: this },
    );
  }
}

function kubeconfigOf(
  { name, endpoint, certificateAuthority }: EksCluster,
  region: string,
): pulumi.Output<string> {
  return pulumi
    .all([name, endpoint, certificateAuthority.data])
    .apply(([name, endpoint, certificateAuthority]) =>
      eksKubeconfig({ name, region, endpoint, certificateAuthority }),
    );
}
