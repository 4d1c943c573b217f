/** Roles of a cluster: its own, its machines', and one for each workload that calls AWS. Pure. */
import { BUILD_SERVICE_ACCOUNT } from "./names.ts";
import { CLUSTERS, PODS } from "./roles.ts";
import {
  autoscalerStatements,
  fileSystemStatements,
  hubTokenStatements,
  loadBalancerControllerStatements,
} from "./statements.ts";
import type { AwsContext, RolePlan, Statement } from "./types.ts";

/** Where controllers and drivers run. */
export const SYSTEM_NAMESPACE = "kube-system";

/** https://docs.aws.amazon.com/eks/latest/userguide/cluster-iam-role.html */
export function clusterRole(context: AwsContext): RolePlan {
  return {
    subject: "cluster",
    service: CLUSTERS,
    managedPolicies: [awsPolicy(context, "AmazonEKSClusterPolicy")],
    statements: [],
    serviceAccount: null,
  };
}

/**
 * What every pod of a machine could take, were the metadata service open to pods: to join the cluster and to pull images.
 * https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html
 */
export function nodeRole(context: AwsContext): RolePlan {
  return {
    subject: "node",
    service: "ec2.amazonaws.com",
    managedPolicies: [
      awsPolicy(context, "AmazonEC2ContainerRegistryPullOnly"),
      awsPolicy(context, "AmazonEKSWorkerNodePolicy"),
    ],
    statements: [],
    serviceAccount: null,
  };
}

/** Gives pods addresses of the VPC. https://docs.aws.amazon.com/eks/latest/userguide/cni-iam-role.html */
export function networkRole(context: AwsContext): RolePlan {
  return {
    ...podRole("vpc-cni", SYSTEM_NAMESPACE, "aws-node", []),
    managedPolicies: [awsPolicy(context, "AmazonEKS_CNI_Policy")],
  };
}

/**
 * Makes and deletes disks of claims; the policy allows it for those that bear the driver's own tag.
 * https://docs.aws.amazon.com/eks/latest/userguide/ebs-csi.html
 */
export function diskRole(context: AwsContext): RolePlan {
  return {
    ...podRole("ebs-csi", SYSTEM_NAMESPACE, "ebs-csi-controller-sa", []),
    managedPolicies: [awsPolicy(context, "service-role/AmazonEBSCSIDriverPolicy")],
  };
}

/** @param fileSystemId - Of a file system that is there already; null: the stack's own. */
export function fileSystemRole(context: AwsContext, fileSystemId: string | null): RolePlan {
  const statements = fileSystemStatements(context, fileSystemId);
  return podRole("efs-csi", SYSTEM_NAMESPACE, "efs-csi-node-sa", statements);
}

export function autoscalerRole(context: AwsContext): RolePlan {
  const name = "cluster-autoscaler";
  return podRole(name, SYSTEM_NAMESPACE, name, autoscalerStatements(context));
}

export function loadBalancerControllerRole(context: AwsContext): RolePlan {
  const name = "load-balancer-controller";
  return podRole(name, SYSTEM_NAMESPACE, `aws-${name}`, loadBalancerControllerStatements(context));
}

/** Of builds that read the hub's token themselves. @param namespace - Of the stack's workloads. */
export function buildRole(namespace: string, secretArn: string): RolePlan {
  return podRole(BUILD_SERVICE_ACCOUNT, namespace, BUILD_SERVICE_ACCOUNT, hubTokenStatements(secretArn));
}

function podRole(
  subject: string,
  namespace: string,
  serviceAccount: string,
  statements: readonly Statement[],
): RolePlan {
  return {
    subject,
    service: PODS,
    managedPolicies: [],
    statements,
    serviceAccount: { namespace, name: serviceAccount },
  };
}

function awsPolicy({ partition }: AwsContext, name: string): string {
  return `arn:${partition}:iam::aws:policy/${name}`;
}
