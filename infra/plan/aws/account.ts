/** Everything that a stack makes in an account. Same plan, same bytes. */
import type { BudgetArgs } from "@pulumi/aws/budgets/budget.js";
import type { LogGroupArgs } from "@pulumi/aws/cloudwatch/logGroup.js";
import type { SubnetArgs } from "@pulumi/aws/ec2/subnet.js";
import type { VpcArgs } from "@pulumi/aws/ec2/vpc.js";
import type { AccessPointArgs } from "@pulumi/aws/efs/accessPoint.js";
import type { FileSystemArgs } from "@pulumi/aws/efs/fileSystem.js";
import type { AwsConfig } from "../../config/aws-stacks.ts";
import { IMAGE_USER_ID } from "../containers/container.ts";
import type { GpuCost } from "../cost/types.ts";
import type { DockerStack } from "../docker/docker-stack.ts";
import type { AwsPlan, Ec2Plan, EksPlan } from "../gpu-stack.ts";
import { backupPlan } from "./backups.ts";
import {
  type AwsContext,
  awsContext,
  containerLogGroup,
  fixedValues,
  plainName,
  STACK_TAG,
} from "./context.ts";
import { edgePlan } from "./edge.ts";
import { eksClusterPlan } from "./eks-cluster.ts";
import { instancePlan } from "./machine/instance.ts";
import { interfaceEndpoints, natZones, zoneCidrs } from "./network.ts";
import { rolePlan } from "./roles.ts";

export type EksStack = ReturnType<typeof eksStack>;
export type Ec2Stack = ReturnType<typeof ec2Stack>;
export type AccountParts = ReturnType<typeof accountParts>;
export type NetworkPlan = ReturnType<typeof networkPlan>;
export type FileSystemPlan = ReturnType<typeof fileSystemPlan>;

/** If the stack file has no `cluster.logRetentionDays`. */
const LOG_RETENTION_DAYS = 30;

/** https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_budgets_Budget.html */
const LONGEST_BUDGET_NAME = 100;

/**
 * Room for unpriced costs: traffic, logs, requests, images, and engines that are built again. If something has no price the plan's
 * month is a lower bound and a fifth is too little: the stack file then names the amount, or prices (check `budgetHasAmount`).
 */
const UNPRICED_SHARE = 1.2;

export function eksStack(plan: EksPlan, stack: string) {
  const context = awsContext(plan.config, stack);
  return { ...accountParts(plan, context), cluster: eksClusterPlan(plan, context) };
}

/** @param host - Containers of the instance. */
export function ec2Stack(plan: Ec2Plan, stack: string, host: DockerStack) {
  const context = awsContext(plan.config, stack);
  return { ...accountParts(plan, context), instance: instancePlan(plan, host, context) };
}

function accountParts(plan: AwsPlan, context: AwsContext) {
  const { config } = plan;
  return {
    context,
    network: networkPlan(config, context),
    fileSystem: fileSystemPlan(config),
    edge: edgePlan(plan, context),
    budget: budgetArgs(config, plan.cost, context),
    containerLogs: containerLogGroup(config, context) satisfies LogGroupArgs | null,
    backups: backupPlan(plan, context),
  };
}

/** A new network over two or three zones, or an existing one. */
export function networkPlan(config: AwsConfig, context: AwsContext) {
  const { network } = config;
  if (network.existing !== undefined) return { kind: "existing", ...network.existing } as const;
  const subnets = network.zones.map((zone) => ({ zone, ...zoneCidrs(network.cidr, zone) }));
  const subnet = (zone: string, cidrBlock: string, role: string) => ({
    zone,
    args: {
      cidrBlock,
      availabilityZone: `${context.region}${zone}`,
      // A NAT gateway has an address of its own, and load balancers get theirs from AWS.
      mapPublicIpOnLaunch: false,
      // EKS' load balancer controller finds subnets by these: https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
      tags: config.compute === "eks" ? { [`kubernetes.io/role/${role}`]: "1" } : {},
    } satisfies Partial<SubnetArgs>,
  });
  return {
    kind: "create" as const,
    // Both together resolve names of interface endpoints, mount targets and machines within the VPC.
    vpc: {
      cidrBlock: network.cidr,
      enableDnsSupport: true,
      enableDnsHostnames: true,
    } satisfies VpcArgs,
    privateSubnets: subnets.map(({ zone, privateCidr }) => subnet(zone, privateCidr, "internal-elb")),
    publicSubnets: subnets.map(({ zone, publicCidr }) => subnet(zone, publicCidr, "elb")),
    /** Zones with a NAT gateway; the others use the first one. */
    natZones: natZones(config),
    interfaceEndpoints: interfaceEndpoints(config),
    flowLogs: network.flowLogs ? flowLogs(config, context) : null,
  };
}

function flowLogs(config: AwsConfig, context: AwsContext) {
  const logGroup = {
    name: `${context.name}/flow-logs`,
    retentionInDays: config.compute === "eks" ? config.cluster.logRetentionDays : LOG_RETENTION_DAYS,
    kmsKeyId: context.kmsKeyArn,
  } satisfies LogGroupArgs;
  return { logGroup, role: rolePlan(context, "flow-logs", { logGroup: logGroup.name }) };
}

/** The file system of the engine store: a new one or an existing one. */
export function fileSystemPlan({ engineStore, kmsKeyArn }: AwsConfig) {
  const { existing = null, throughput, provisionedMiBPerSecond, backups } = engineStore;
  const isProvisioned = throughput === "provisioned" && provisionedMiBPerSecond !== undefined;
  return {
    /** The file system, and the security group of its mount targets. */
    existing,
    fixedValues: fixedValues("The engine store", { kmsKeyArn }),
    fileSystem: {
      encrypted: true,
      kmsKeyId: kmsKeyArn,
      performanceMode: "generalPurpose",
      throughputMode: isProvisioned ? "provisioned" : "elastic",
      ...(isProvisioned ? { provisionedThroughputInMibps: provisionedMiBPerSecond } : {}),
      // An engine without readers costs little; its first reader moves it back to the fast class.
      lifecyclePolicies: [
        { transitionToIa: "AFTER_30_DAYS" },
        { transitionToPrimaryStorageClass: "AFTER_1_ACCESS" },
      ],
    } satisfies FileSystemArgs,
    backupPolicy: { status: backups === true ? "ENABLED" : "DISABLED" },
    accessPoint: {
      // User of builders and servers.
      posixUser: { uid: IMAGE_USER_ID, gid: IMAGE_USER_ID },
      rootDirectory: {
        // Stacks that share a file system share its engines: names contain the key of their content, and a build locks its own.
        path: "/engine-room",
        creationInfo: { ownerUid: IMAGE_USER_ID, ownerGid: IMAGE_USER_ID, permissions: "0750" },
      },
    } satisfies Partial<AccessPointArgs>,
  };
}

/** @param cost - Its `monthlyUsd` is the default of the budget. @returns null without e-mail addresses. */
export function budgetArgs(
  { guard: { emails, monthlyUsd, scope } }: AwsConfig,
  cost: GpuCost,
  context: AwsContext,
) {
  if (emails.length === 0) return null;
  const planned = monthlyUsd ?? cost.monthlyUsd;
  if (planned === null) throw new Error("A budget of a stack without any price has no amount.");
  return {
    name: plainName(context.name, LONGEST_BUDGET_NAME),
    budgetType: "COST",
    timeUnit: "MONTHLY",
    limitAmount: String(monthlyUsd ?? Math.max(1, Math.ceil(planned * UNPRICED_SHARE))),
    limitUnit: "USD",
    // A member of an organisation has no say in which tags its costs have, and sees its own account all the same.
    // https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/custom-tags.html
    costFilters: [
      scope === "account"
        ? { name: "LinkedAccount", values: [context.account] }
        : { name: "TagKeyValue", values: [`user:${STACK_TAG}$${context.stack}`] },
    ],
    notifications: [
      { notificationType: "ACTUAL", threshold: 80 },
      { notificationType: "FORECASTED", threshold: 100 },
    ].map((alarm) => ({
      ...alarm,
      comparisonOperator: "GREATER_THAN",
      thresholdType: "PERCENTAGE",
      subscriberEmailAddresses: [...emails],
    })),
  } satisfies BudgetArgs;
}
