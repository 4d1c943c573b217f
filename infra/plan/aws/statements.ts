/**
 * What workloads may do in the account: each action by name, on the stack's own things wherever IAM knows such. Pure.
 * https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html
 * says which actions have resources at all.
 */
import { STACK_TAG } from "./context.ts";
import { clusterName } from "./roles.ts";
import type { AwsContext, Statement } from "./types.ts";

/** https://github.com/kubernetes/autoscaler/blob/cluster-autoscaler-1.35.0/cluster-autoscaler/cloudprovider/aws/README.md */
export function autoscalerStatements(context: AwsContext): readonly Statement[] {
  const { partition, region, account } = context;
  const name = clusterName(context);
  return [
    {
      sid: "FindGroups",
      effect: "Allow",
      actions: [
        "autoscaling:DescribeAutoScalingGroups",
        "autoscaling:DescribeAutoScalingInstances",
        "autoscaling:DescribeLaunchConfigurations",
        "autoscaling:DescribeScalingActivities",
        "ec2:DescribeImages",
        "ec2:DescribeInstanceTypes",
        "ec2:DescribeLaunchTemplateVersions",
        "ec2:GetInstanceTypesFromInstanceRequirements",
      ],
      resources: ["*"],
      why: "It finds the groups of the cluster by their tags, and what a machine of an empty one would have. None of these actions has a resource.",
    },
    {
      sid: "ReadPools",
      effect: "Allow",
      actions: ["eks:DescribeNodegroup"],
      resources: [`arn:${partition}:eks:${region}:${account}:nodegroup/${name}/*/*`],
      why: "Labels and taints of an empty pool are those of its node group.",
    },
    {
      sid: "ScalePools",
      effect: "Allow",
      actions: ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"],
      resources: [
        `arn:${partition}:autoscaling:${region}:${account}:autoScalingGroup:*:autoScalingGroupName/*`,
      ],
      conditions: { StringEquals: { [`aws:ResourceTag/k8s.io/cluster-autoscaler/${name}`]: "owned" } },
      // https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html
      why: "It starts and ends machines. EKS tags the groups of a cluster with its name, and no others are touched.",
    },
  ];
}

/**
 * Of a controller that puts pods into target groups of others, and makes no load balancer: a part of its full policy that its
 * documents name, "You only want the LBC to add and remove IPs to already existing target groups".
 * https://github.com/kubernetes-sigs/aws-load-balancer-controller/blob/v3.5.0/docs/deploy/installation.md
 */
export function loadBalancerControllerStatements(context: AwsContext): readonly Statement[] {
  const { partition, region, account } = context;
  return [
    {
      sid: "FindTargets",
      effect: "Allow",
      actions: [
        "ec2:DescribeInstances",
        "ec2:DescribeSecurityGroups",
        "ec2:DescribeVpcs",
        "elasticloadbalancing:DescribeTargetGroups",
        "elasticloadbalancing:DescribeTargetHealth",
      ],
      resources: ["*"],
      why: "It compares the targets that there are with the pods. None of these actions has a resource.",
    },
    {
      sid: "KeepTargets",
      effect: "Allow",
      actions: [
        "elasticloadbalancing:DeregisterTargets",
        "elasticloadbalancing:ModifyTargetGroup",
        "elasticloadbalancing:ModifyTargetGroupAttributes",
        "elasticloadbalancing:RegisterTargets",
      ],
      resources: [`arn:${partition}:elasticloadbalancing:${region}:${account}:targetgroup/*/*`],
      conditions: ofStack(context),
      why: "Pods of the gateway come and go in the target group of the stack's load balancer.",
    },
  ];
}

/**
 * Of the part of the EFS driver that runs on each machine. Volumes are made by the stack, so the driver makes none: AWS's own
 * policy of it, which makes and deletes access points, is not needed.
 * https://github.com/kubernetes-sigs/aws-efs-csi-driver/blob/master/docs/faq.md
 *
 * @param fileSystemId - Of a file system that is there already; null: the stack's own.
 */
export function fileSystemStatements(context: AwsContext, fileSystemId: string | null): readonly Statement[] {
  const { partition, region, account } = context;
  return [
    {
      sid: "FindStore",
      effect: "Allow",
      actions: ["elasticfilesystem:DescribeMountTargets"],
      resources: [
        `arn:${partition}:elasticfilesystem:${region}:${account}:file-system/${fileSystemId ?? "*"}`,
      ],
      ...(fileSystemId === null ? { conditions: ofStack(context) } : {}),
      why: "Where the file system's name is not resolved, its mount target's address is asked for.",
    },
    {
      sid: "FindZone",
      effect: "Allow",
      actions: ["ec2:DescribeAvailabilityZones"],
      resources: ["*"],
      why: "The mount target of the machine's own zone is used. The action has no resource.",
    },
  ];
}

/** @param secretArn - Secret of Secrets Manager whose value is the hub's token. */
export function hubTokenStatements(secretArn: string): readonly Statement[] {
  return [
    {
      sid: "ReadToken",
      effect: "Allow",
      actions: ["secretsmanager:DescribeSecret", "secretsmanager:GetSecretValue"],
      resources: [secretArn],
      why: "Builds download gated weights with it.",
    },
  ];
}

/** Things that bear the stack's tag. */
function ofStack({ stack }: AwsContext): NonNullable<Statement["conditions"]> {
  return { StringEquals: { [`aws:ResourceTag/${STACK_TAG}`]: stack } };
}
