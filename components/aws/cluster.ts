/** A cluster on EKS, its machines and its add-ons. Cost: 0.10 USD an hour; a KMS key, 1 USD a month; add-ons nothing but their machines. */
import { Tag } from "@pulumi/aws/autoscaling/tag.js";
import { LogGroup } from "@pulumi/aws/cloudwatch/logGroup.js";
import { LaunchTemplate } from "@pulumi/aws/ec2/launchTemplate.js";
import { AccessEntry } from "@pulumi/aws/eks/accessEntry.js";
import { AccessPolicyAssociation } from "@pulumi/aws/eks/accessPolicyAssociation.js";
import { Addon } from "@pulumi/aws/eks/addon.js";
import { Cluster as EksCluster } from "@pulumi/aws/eks/cluster.js";
import { NodeGroup } from "@pulumi/aws/eks/nodeGroup.js";
import { Key } from "@pulumi/aws/kms/key.js";
import { SecurityGroupIngressRule } from "@pulumi/aws/vpc/securityGroupIngressRule.js";
import * as pulumi from "@pulumi/pulumi";
import type { AddOnPlan } from "../../infra/plan/aws/cluster-software.ts";
import { type AwsContext, namedTags, plainName, shortDigest } from "../../infra/plan/aws/context.ts";
import { documentText } from "../../infra/plan/aws/data-files.ts";
import type { ClusterPlan, NodePoolPlan } from "../../infra/plan/aws/eks-cluster.ts";
import { FixedValues, NodeGroupSize } from "../local/resources.ts";
import { tcp, type ZoneSubnet } from "./network.ts";
import { WorkloadRole } from "./workload-role.ts";

interface ClusterArgs {
  readonly context: AwsContext;
  readonly plan: Pick<
    ClusterPlan,
    "cluster" | "vpcConfig" | "privateCidrs" | "logGroup" | "key" | "fixedValues" | "entries" | "role"
  >;
  /** Private subnets, in two zones at least. */
  readonly subnets: readonly ZoneSubnet[];
}

/** Outputs that a stack uses of a new or an existing cluster. */
export interface ClusterParts {
  readonly clusterName: pulumi.Output<string>;
  /** Group of the control plane's network interfaces and all machines of node groups. */
  readonly securityGroupId: pulumi.Output<string>;
  /** Without a credential: its user gets one from AWS. */
  readonly kubeconfig: pulumi.Output<string>;
}

function clusterParts(cluster: EksCluster, { region }: AwsContext): ClusterParts {
  const { name: clusterName, endpoint, certificateAuthority, vpcConfig } = cluster;
  return {
    clusterName,
    securityGroupId: vpcConfig.clusterSecurityGroupId,
    kubeconfig: pulumi
      .all([clusterName, endpoint, certificateAuthority.data])
      .apply(([name, endpoint, certificateAuthority]) =>
        documentText("kubeconfig", { name, region, endpoint, certificateAuthority }),
      ),
  };
}

/** An existing cluster: only read, and kept by `down`. Cost: none. */
export class ExistingCluster extends pulumi.ComponentResource implements ClusterParts {
  readonly clusterName: pulumi.Output<string>;
  readonly securityGroupId: pulumi.Output<string>;
  readonly kubeconfig: pulumi.Output<string>;
  /** Version of Kubernetes. */
  readonly version: pulumi.Output<string>;

  constructor(
    name: string,
    { context, clusterName }: { readonly context: AwsContext; readonly clusterName: pulumi.Input<string> },
    opts?: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:aws:ExistingCluster", name, {}, opts);

    const cluster = EksCluster.get(`${name}-cluster`, clusterName, undefined, { parent: this });
    const parts = clusterParts(cluster, context);
    // The provider's own answer has the name too; the graph of a preview without credentials has no answer.
    this.clusterName = pulumi.output(clusterName);
    this.securityGroupId = parts.securityGroupId;
    this.kubeconfig = parts.kubeconfig;
    this.version = cluster.version;
    this.registerOutputs({ clusterName });
  }
}

export class Cluster extends pulumi.ComponentResource implements ClusterParts {
  readonly cluster: EksCluster;
  readonly clusterName: pulumi.Output<string>;
  readonly securityGroupId: pulumi.Output<string>;
  readonly kubeconfig: pulumi.Output<string>;

  constructor(name: string, { context, plan, subnets }: ClusterArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:aws:Cluster", name, {}, opts);

    const own = { parent: this };
    const kept = { ...own, protect: context.isRetained };
    const role = new WorkloadRole(`${name}-role`, { context, plan: plan.role }, own);
    const keyArn =
      context.kmsKeyArn ??
      new Key(`${name}-secrets-key`, { ...plan.key, tags: namedTags(context, "secrets") }, kept).arn;
    const key = new FixedValues(`${name}-key`, plan.fixedValues, own);
    const logArgs = { ...plan.logGroup, tags: namedTags(context, "cluster-logs") };
    const logs = new LogGroup(`${name}-logs`, logArgs, own);
    this.cluster = new EksCluster(
      `${name}-cluster`,
      {
        ...plan.cluster,
        roleArn: role.arn,
        encryptionConfig: { provider: { keyArn }, resources: ["secrets"] },
        vpcConfig: { ...plan.vpcConfig, subnetIds: subnets.map(({ id }) => id) },
        tags: namedTags(context, "cluster"),
      },
      {
        ...kept,
        dependsOn: [role, logs, key],
        // EKS reads it only when it creates a cluster, and Amazon's provider would replace the cluster for it.
        ignoreChanges: ["accessConfig.bootstrapClusterCreatorAdminPermissions"],
      },
    );
    const clusterName = this.cluster.name;
    for (const { kind, arn: principalArn, policy } of plan.entries) {
      const principal = `${name}-${kind}-${shortDigest(principalArn)}`;
      const tags = namedTags(context, kind);
      const entry = new AccessEntry(principal, { clusterName, principalArn, type: "STANDARD", tags }, own);
      new AccessPolicyAssociation(
        `${principal}-policy`,
        {
          clusterName,
          principalArn: entry.principalArn,
          policyArn: `arn:${context.partition}:eks::aws:cluster-access-policy/${policy}`,
          accessScope: { type: "cluster" },
        },
        own,
      );
    }
    const parts = clusterParts(this.cluster, context);
    this.clusterName = clusterName;
    this.securityGroupId = parts.securityGroupId;
    for (const cidrIpv4 of plan.privateCidrs)
      new SecurityGroupIngressRule(
        `${name}-api-from-${cidrIpv4.replaceAll(/[./]/g, "-")}`,
        {
          ...tcp(443),
          securityGroupId: this.securityGroupId,
          description: `The cluster's API from ${cidrIpv4}`,
          cidrIpv4,
          tags: namedTags(context, "api-clients"),
        },
        own,
      );
    this.kubeconfig = parts.kubeconfig;
    this.registerOutputs({ clusterName });
  }
}

interface GpuNodePoolArgs {
  readonly context: AwsContext;
  readonly plan: NodePoolPlan;
  readonly clusterName: pulumi.Input<string>;
  /** Version of Kubernetes of an existing cluster; absent: that of the plan. */
  readonly version?: pulumi.Input<string> | undefined;
  readonly nodeRoleArn: pulumi.Input<string>;
  /** Subnets of the network; the pool uses those of its zones. */
  readonly subnets: readonly ZoneSubnet[];
  /** Requirements of joining machines: the role's policies, the add-ons of the network. */
  readonly after: readonly pulumi.Resource[];
}

/** https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateLaunchTemplate.html */
const TEMPLATE_NAME_LENGTH = 128;

/**
 * Machines of a pool, with or without GPUs: a managed node group with a launch template. Cost: its machines and their root disks, none
 * at zero machines.
 *
 * The group's name ends at random, so that another instance type creates a new group before the old group is deleted.
 */
export class GpuNodePool extends pulumi.ComponentResource {
  constructor(
    name: string,
    { context, plan, clusterName, version, nodeRoleArn, subnets, after }: GpuNodePoolArgs,
    opts?: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:aws:GpuNodePool", name, {}, opts);

    const subnetIds = subnets.filter(({ zone }) => plan.zones.includes(zone)).map(({ id }) => id);
    if (subnetIds.length === 0)
      throw new Error(
        `The network has no subnet in a zone of the pool ${plan.name}: ${plan.zones.join(", ")}`,
      );
    const tags = namedTags(context, plan.name);
    // EKS does not give a node group's tags to its machines. A change of these tags replaces all machines.
    const lastingTags = namedTags({ ...context, tags: context.lastingTags }, plan.name);
    const template = new LaunchTemplate(
      `${name}-template`,
      {
        ...plan.launchTemplate,
        name: plainName(`${context.name}-${plan.name}`, TEMPLATE_NAME_LENGTH),
        tagSpecifications: ["instance", "network-interface", "volume"].map((resourceType) => ({
          resourceType,
          tags: lastingTags,
        })),
        tags,
      },
      { parent: this },
    );
    const group = new NodeGroup(
      `${name}-group`,
      {
        ...plan.nodeGroup,
        ...(version === undefined ? {} : { version }),
        clusterName,
        nodeRoleArn,
        subnetIds,
        launchTemplate: { id: template.id, version: pulumi.interpolate`${template.latestVersion}` },
        tags,
      },
      // When one of the three numbers changes, Amazon's provider sends all of them, with the desired number that the autoscaler has
      // changed since: serving machines would end.
      { parent: this, dependsOn: [...after], ignoreChanges: ["scalingConfig"] },
    );
    new NodeGroupSize(`${name}-size`, { nodeGroupArn: group.arn, ...plan.size }, { parent: this });
    // EKS does not give a node group's tags to its Auto Scaling group, of which it creates exactly one.
    const autoscalingGroupName = group.resources.apply((resources) => {
      const created = resources[0]?.autoscalingGroups[0]?.name;
      if (created === undefined) throw new Error(`The node group of ${name} has no Auto Scaling group`);
      return created;
    });
    const tagGroup = (subject: string, key: string, value: string) =>
      new Tag(
        `${name}-${subject}`,
        { autoscalingGroupName, tag: { key, value, propagateAtLaunch: false } },
        { parent: this },
      );
    for (const [key, value] of Object.entries(plan.scalingTags))
      tagGroup(key.slice(key.indexOf("/node-template/") + 1), key, value);
    for (const [key, value] of Object.entries(plan.ownTags)) tagGroup(`tag-${shortDigest(key)}`, key, value);
    this.registerOutputs({});
  }
}

interface AddOnsArgs {
  readonly context: AwsContext;
  readonly addOns: readonly AddOnPlan[];
  readonly clusterName: pulumi.Input<string>;
  /** Machines, for add-ons whose pods EKS waits for. */
  readonly after: readonly pulumi.Resource[];
}

/** Add-ons of EKS, each with a role if it calls AWS. */
export class AddOns extends pulumi.ComponentResource {
  constructor(
    name: string,
    { context, addOns, clusterName, after }: AddOnsArgs,
    opts?: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:aws:AddOns", name, {}, opts);

    for (const { args, role: plan } of addOns) {
      const addOn = `${name}-${args.addonName}`;
      // EKS' own list of an add-on's associations has only some of its ServiceAccounts: of the EFS driver the controller's, not the
      // machines' (https://github.com/kubernetes-sigs/aws-efs-csi-driver/issues/1759). Before the add-on: pods get a role when they start.
      const role =
        plan && new WorkloadRole(`${addOn}-role`, { context, plan, clusterName }, { parent: this });
      new Addon(
        addOn,
        { ...args, clusterName, tags: namedTags(context, args.addonName) },
        { parent: this, dependsOn: role === null ? [...after] : [...after, role] },
      );
    }
    this.registerOutputs({});
  }
}
