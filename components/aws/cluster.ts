/** A cluster on EKS and its add-ons. Cost: 0.10 USD an hour; a KMS key, 1 USD a month; add-ons nothing but their machines. */
import { LogGroup } from "@pulumi/aws/cloudwatch/logGroup.js";
import { AccessEntry } from "@pulumi/aws/eks/accessEntry.js";
import { AccessPolicyAssociation } from "@pulumi/aws/eks/accessPolicyAssociation.js";
import { Addon } from "@pulumi/aws/eks/addon.js";
import { Cluster as EksCluster } from "@pulumi/aws/eks/cluster.js";
import { Key } from "@pulumi/aws/kms/key.js";
import * as pulumi from "@pulumi/pulumi";
import { namedTags, shortDigest } from "../../infra/plan/aws/context.ts";
import { type AddOnPlan, type ClusterPlan, eksKubeconfig } from "../../infra/plan/aws/eks-cluster.ts";
import type { AwsContext } from "../../infra/plan/aws/types.ts";
import type { ZoneSubnet } from "./network.ts";
import { WorkloadRole } from "./workload-role.ts";

interface ClusterArgs {
  readonly context: AwsContext;
  readonly plan: Pick<ClusterPlan, "cluster" | "vpcConfig" | "logGroup" | "key" | "admins" | "role">;
  /** Private ones, in two zones at least. */
  readonly subnets: readonly ZoneSubnet[];
}

export class Cluster extends pulumi.ComponentResource {
  readonly cluster: EksCluster;
  readonly clusterName: pulumi.Output<string>;
  /** Of the control plane's network interfaces and of all machines of node groups. */
  readonly securityGroupId: pulumi.Output<string>;
  /** Without a credential: its user gets one from AWS. */
  readonly kubeconfig: pulumi.Output<string>;

  constructor(name: string, { context, plan, subnets }: ClusterArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:aws:Cluster", name, {}, opts);

    const own = { parent: this };
    const kept = { ...own, protect: context.isRetained };
    const role = new WorkloadRole(`${name}-role`, { context, plan: plan.role }, own);
    const key = new Key(`${name}-secrets-key`, { ...plan.key, tags: namedTags(context, "secrets") }, kept);
    const logArgs = { ...plan.logGroup, tags: namedTags(context, "cluster-logs") };
    const logs = new LogGroup(`${name}-logs`, logArgs, own);
    this.cluster = new EksCluster(
      `${name}-cluster`,
      {
        ...plan.cluster,
        roleArn: role.arn,
        encryptionConfig: { provider: { keyArn: key.arn }, resources: ["secrets"] },
        vpcConfig: { ...plan.vpcConfig, subnetIds: subnets.map(({ id }) => id) },
        tags: namedTags(context, "cluster"),
      },
      { ...kept, dependsOn: [role, logs] },
    );
    for (const principalArn of plan.admins) this.#addAdmin(name, context, principalArn);
    this.clusterName = this.cluster.name;
    this.securityGroupId = this.cluster.vpcConfig.clusterSecurityGroupId;
    const { endpoint, certificateAuthority } = this.cluster;
    this.kubeconfig = pulumi
      .all([this.clusterName, endpoint, certificateAuthority.data])
      .apply(([name, endpoint, certificateAuthority]) =>
        eksKubeconfig({ name, region: context.region, endpoint, certificateAuthority }),
      );
    this.registerOutputs({ clusterName: this.clusterName });
  }

  /** https://docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html */
  #addAdmin(name: string, context: AwsContext, principalArn: string): void {
    const admin = `${name}-admin-${shortDigest(principalArn)}`;
    const clusterName = this.cluster.name;
    const entry = new AccessEntry(
      admin,
      { clusterName, principalArn, type: "STANDARD", tags: namedTags(context, "admin") },
      { parent: this },
    );
    new AccessPolicyAssociation(
      `${admin}-policy`,
      {
        clusterName,
        principalArn: entry.principalArn,
        policyArn: `arn:${context.partition}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy`,
        accessScope: { type: "cluster" },
      },
      { parent: this },
    );
  }
}

interface AddOnsArgs {
  readonly context: AwsContext;
  readonly addOns: readonly AddOnPlan[];
  readonly clusterName: pulumi.Input<string>;
  /** Machines, for add-ons whose pods EKS waits for. */
  readonly after: readonly pulumi.Resource[];
}

/** Add-ons of EKS, each with a role where it calls AWS. */
export class AddOns extends pulumi.ComponentResource {
  constructor(
    name: string,
    { context, addOns, clusterName, after }: AddOnsArgs,
    opts?: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:aws:AddOns", name, {}, opts);

    for (const { args, role: plan } of addOns) {
      const addOn = `${name}-${args.addonName}`;
      const role = plan && new WorkloadRole(`${addOn}-role`, { context, plan }, { parent: this });
      const serviceAccount = plan?.serviceAccount?.serviceAccount;
      new Addon(
        addOn,
        {
          ...args,
          clusterName,
          ...(role && serviceAccount
            ? { podIdentityAssociations: [{ roleArn: role.arn, serviceAccount }] }
            : {}),
          tags: namedTags(context, args.addonName),
        },
        { parent: this, dependsOn: role === null ? [...after] : [...after, role] },
      );
    }
    this.registerOutputs({});
  }
}
