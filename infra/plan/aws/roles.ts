/**
 * IAM roles of a stack: who may assume each one, and what it may do. Actions are named one by one, and limited to the stack's own
 * resources where IAM supports it:
 * https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html
 */
import { clusterName, plainName, STACK_TAG } from "./context.ts";
import { BUILD_SERVICE_ACCOUNT } from "./names.ts";
import type { AwsContext, RolePlan, Statement } from "./types.ts";

/** Namespace of controllers and drivers. */
export const SYSTEM_NAMESPACE = "kube-system";

const PODS = "pods.eks.amazonaws.com";

/** https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html */
const ROLE_NAME_LENGTH = 64;

/** ARN of a resource. */
export function arn(
  { partition, region, account }: Pick<AwsContext, "partition" | "region" | "account">,
  service: string,
  resource: string,
): string {
  return `arn:${partition}:${service}:${region}:${account}:${resource}`;
}

export function allow(
  Sid: string,
  Action: readonly string[],
  Resource: readonly string[],
  Condition?: Statement["Condition"],
): Statement {
  return { Sid, Effect: "Allow", Action, Resource, ...(Condition && { Condition }) };
}

/** JSON of a policy document. */
export function policyDocument(statements: readonly object[]): string {
  return JSON.stringify({ Version: "2012-10-17", Statement: statements });
}

interface RoleOptions {
  /** Names of AWS's own policies. */
  readonly managed?: readonly string[];
  readonly statements?: readonly Statement[];
  /**
   * ARN for which alone the service may assume the role. AWS recommends it against the confused deputy; for EC2 its documents name no
   * condition.
   */
  readonly source?: string;
  readonly serviceAccount?: NonNullable<RolePlan["serviceAccount"]>;
}

/**
 * A role that a service of AWS assumes, for pods where `serviceAccount` is given: EKS passes the pods' cluster, namespace and
 * ServiceAccount as tags of the session. https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html
 */
export function rolePlan(
  context: AwsContext,
  subject: string,
  service: string,
  { managed = [], statements = [], source, serviceAccount }: RoleOptions,
): RolePlan {
  const podTags = serviceAccount && {
    StringEquals: {
      "aws:RequestTag/eks-cluster-name": clusterName(context),
      "aws:RequestTag/kubernetes-namespace": serviceAccount.namespace,
      "aws:RequestTag/kubernetes-service-account": serviceAccount.serviceAccount,
    },
  };
  const ofSource = source && {
    StringEquals: { "aws:SourceAccount": context.account },
    ArnLike: { "aws:SourceArn": source },
  };
  const trust = {
    Effect: "Allow",
    Principal: { Service: service },
    Action: ["sts:AssumeRole", ...(podTags ? ["sts:TagSession"] : [])],
    Condition: podTags || ofSource || undefined,
  };
  return {
    subject,
    args: {
      name: plainName(`${context.name}-${subject}`, ROLE_NAME_LENGTH),
      assumeRolePolicy: policyDocument([trust]),
      // Policies that somebody attached by hand do not keep the role from being deleted.
      forceDetachPolicies: true,
    },
    managedPolicies: managed.map((policy) => `arn:${context.partition}:iam::aws:policy/${policy}`),
    statements,
    serviceAccount: serviceAccount ?? null,
  };
}

/** A role of controllers and drivers. */
function systemRole(context: AwsContext, subject: string, serviceAccount: string, rights: RoleOptions) {
  return rolePlan(context, subject, PODS, {
    ...rights,
    serviceAccount: { namespace: SYSTEM_NAMESPACE, serviceAccount },
  });
}

/**
 * https://docs.aws.amazon.com/eks/latest/userguide/cluster-iam-role.html
 * https://docs.aws.amazon.com/eks/latest/userguide/cross-service-confused-deputy-prevention.html
 */
export function clusterRole(context: AwsContext): RolePlan {
  return rolePlan(context, "cluster", "eks.amazonaws.com", {
    managed: ["AmazonEKSClusterPolicy"],
    source: arn(context, "eks", `cluster/${clusterName(context)}`),
  });
}

/**
 * Rights of machines, to join the cluster and to pull images; a pod would have them if it reached the metadata service.
 * https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html
 */
export function nodeRole(context: AwsContext): RolePlan {
  return rolePlan(context, "node", "ec2.amazonaws.com", {
    managed: ["AmazonEC2ContainerRegistryPullOnly", "AmazonEKSWorkerNodePolicy"],
  });
}

/** https://docs.aws.amazon.com/vpc/latest/userguide/flow-logs-iam-role.html, without the right to create log groups. */
export function flowLogRole(context: AwsContext, logGroup: string): RolePlan {
  const group = arn(context, "logs", `log-group:${logGroup}`);
  return rolePlan(context, "flow-logs", "vpc-flow-logs.amazonaws.com", {
    // Ids of flow logs are not known before they exist.
    source: arn(context, "ec2", "vpc-flow-log/*"),
    statements: [
      allow(
        "WriteFlowLogs",
        ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
        [group, `${group}:*`],
      ),
      // The service looks the log group up first. The action has no resource.
      allow("FindLogGroup", ["logs:DescribeLogGroups"], ["*"]),
    ],
  });
}

/** Gives pods addresses of the VPC. https://docs.aws.amazon.com/eks/latest/userguide/cni-iam-role.html */
export function networkRole(context: AwsContext): RolePlan {
  return systemRole(context, "vpc-cni", "aws-node", {
    managed: ["AmazonEKS_CNI_Policy"],
  });
}

/**
 * Creates and deletes disks of claims; AWS's policy allows it for disks with the driver's own tag.
 * https://docs.aws.amazon.com/eks/latest/userguide/ebs-csi.html
 */
export function diskRole(context: AwsContext): RolePlan {
  return systemRole(context, "ebs-csi", "ebs-csi-controller-sa", {
    managed: ["service-role/AmazonEBSCSIDriverPolicy"],
  });
}

/**
 * The part of the EFS driver on each machine. The stack creates the volumes, so AWS's own policy, which creates and deletes access
 * points, is not needed. https://github.com/kubernetes-sigs/aws-efs-csi-driver/blob/master/docs/faq.md
 *
 * @param fileSystemId - Of an existing file system; absent: the stack's own.
 */
export function fileSystemRole(context: AwsContext, fileSystemId: string | undefined): RolePlan {
  return systemRole(context, "efs-csi", "efs-csi-node-sa", {
    statements: [
      // Where the file system's name is not resolved, the driver asks for its mount target's address.
      allow(
        "FindStore",
        ["elasticfilesystem:DescribeMountTargets"],
        [arn(context, "elasticfilesystem", `file-system/${fileSystemId ?? "*"}`)],
        fileSystemId === undefined ? ofStack(context) : undefined,
      ),
      // It uses the mount target of the machine's own zone. The action has no resource.
      allow("FindZone", ["ec2:DescribeAvailabilityZones"], ["*"]),
    ],
  });
}

/** https://github.com/kubernetes/autoscaler/blob/cluster-autoscaler-1.35.0/cluster-autoscaler/cloudprovider/aws/README.md */
export function autoscalerRole(context: AwsContext): RolePlan {
  const cluster = clusterName(context);
  return systemRole(context, "cluster-autoscaler", "cluster-autoscaler", {
    statements: [
      // Groups of the cluster by their tags, and the properties of a machine of an empty group. None of these has a resource.
      allow(
        "FindGroups",
        [
          "autoscaling:DescribeAutoScalingGroups",
          "autoscaling:DescribeAutoScalingInstances",
          "autoscaling:DescribeLaunchConfigurations",
          "autoscaling:DescribeScalingActivities",
          "ec2:DescribeImages",
          "ec2:DescribeInstanceTypes",
          "ec2:DescribeLaunchTemplateVersions",
          "ec2:GetInstanceTypesFromInstanceRequirements",
        ],
        ["*"],
      ),
      // Labels and taints of an empty pool are those of its node group.
      allow("ReadPools", ["eks:DescribeNodegroup"], [arn(context, "eks", `nodegroup/${cluster}/*/*`)]),
      // EKS tags the groups of a cluster with its name: https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html
      allow(
        "ScalePools",
        ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"],
        [arn(context, "autoscaling", "autoScalingGroup:*:autoScalingGroupName/*")],
        { StringEquals: { [`aws:ResourceTag/k8s.io/cluster-autoscaler/${cluster}`]: "owned" } },
      ),
    ],
  });
}

/**
 * A controller that registers pods in the stack's target group and creates no load balancer: the part of its full policy for "You
 * only want the LBC to add and remove IPs to already existing target groups".
 * https://github.com/kubernetes-sigs/aws-load-balancer-controller/blob/v3.5.0/docs/deploy/installation.md
 */
export function loadBalancerControllerRole(context: AwsContext): RolePlan {
  return systemRole(context, "load-balancer-controller", "aws-load-balancer-controller", {
    statements: [
      // It compares registered targets with the pods. None of these actions has a resource.
      allow(
        "FindTargets",
        [
          "ec2:DescribeInstances",
          "ec2:DescribeSecurityGroups",
          "ec2:DescribeVpcs",
          "elasticloadbalancing:DescribeTargetGroups",
          "elasticloadbalancing:DescribeTargetHealth",
        ],
        ["*"],
      ),
      allow(
        "KeepTargets",
        [
          "elasticloadbalancing:DeregisterTargets",
          "elasticloadbalancing:ModifyTargetGroup",
          "elasticloadbalancing:ModifyTargetGroupAttributes",
          "elasticloadbalancing:RegisterTargets",
        ],
        [arn(context, "elasticloadbalancing", "targetgroup/*/*")],
        ofStack(context),
      ),
    ],
  });
}

/** Engine builds that read the hub's token. @param secretArn - Secret of Secrets Manager with the token. */
export function buildRole(context: AwsContext, namespace: string, secretArn: string): RolePlan {
  const actions = ["secretsmanager:DescribeSecret", "secretsmanager:GetSecretValue"];
  return rolePlan(context, BUILD_SERVICE_ACCOUNT, PODS, {
    statements: [allow("ReadToken", actions, [secretArn])],
    serviceAccount: { namespace, serviceAccount: BUILD_SERVICE_ACCOUNT },
  });
}

/** Resources with the stack's tag. */
function ofStack({ stack }: AwsContext) {
  return { StringEquals: { [`aws:ResourceTag/${STACK_TAG}`]: stack } };
}
