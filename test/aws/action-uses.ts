/**
 * Use of each action that a role allows, checked against the program's documentation. An allowed action without a row has no
 * user; a row without an allowed action would be refused.
 */

interface RoleUses {
  /** Documentation of the program that uses the role. */
  readonly source: string;
  /** By action. */
  readonly uses: Readonly<Record<string, string>>;
}

/** By the role's name without the stack's. */
export const ROLE_USES: Readonly<Record<string, RoleUses>> = {
  "cluster-autoscaler": {
    source:
      "https://github.com/kubernetes/autoscaler/blob/cluster-autoscaler-1.36.1/cluster-autoscaler/cloudprovider/aws/README.md",
    uses: {
      "autoscaling:DescribeAutoScalingGroups": "finds groups by their tags, and reads their sizes",
      "autoscaling:DescribeAutoScalingInstances": "tells of which group a machine is",
      "autoscaling:DescribeLaunchConfigurations":
        "reads the instance type of a group with a launch configuration",
      "autoscaling:DescribeScalingActivities": "sees that a group got no machine, and tries another",
      "ec2:DescribeImages": "reads the architecture of a machine of an empty group",
      "ec2:DescribeInstanceTypes": "reads CPUs, memory and GPUs of a machine of an empty group",
      "ec2:DescribeLaunchTemplateVersions": "reads the instance type of a group with a launch template",
      "ec2:GetInstanceTypesFromInstanceRequirements":
        "reads instance types of a group that only has requirements",
      "eks:DescribeNodegroup": "reads labels and taints of a machine of an empty group",
      "autoscaling:SetDesiredCapacity": "asks for a machine",
      "autoscaling:TerminateInstanceInAutoScalingGroup": "ends a machine that nobody needs",
    },
  },
  "load-balancer-controller": {
    source:
      "https://github.com/kubernetes-sigs/aws-load-balancer-controller/blob/v3.5.0/docs/deploy/installation.md",
    uses: {
      "ec2:DescribeInstances": "finds the machine of a pod",
      "ec2:DescribeSecurityGroups": "finds the group of a pod's address",
      "ec2:DescribeVpcs": "reads the networks of the VPC, outside of which a target names no zone",
      "elasticloadbalancing:DescribeTargetGroups": "reads the kind of targets of the binding's group",
      "elasticloadbalancing:DescribeTargetHealth":
        "compares targets with pods, and sets their readiness gates",
      "elasticloadbalancing:DeregisterTargets": "takes out pods that are gone",
      "elasticloadbalancing:ModifyTargetGroup": "reconciles the group of a binding",
      "elasticloadbalancing:ModifyTargetGroupAttributes": "reconciles attributes of the group of a binding",
      "elasticloadbalancing:RegisterTargets": "puts in pods that are ready",
    },
  },
  "ebs-csi": {
    source: "https://docs.aws.amazon.com/eks/latest/userguide/ebs-csi.html",
    uses: {
      "kms:CreateGrant": "lets EBS decrypt the key of a disk while a machine has it",
      "kms:Decrypt": "EBS opens the key of a disk's data for the driver",
      "kms:DescribeKey": "EBS looks at the key that a new disk is to have",
      "kms:GenerateDataKeyWithoutPlaintext": "EBS makes the key of a new disk's data",
      "kms:ReEncryptFrom": "EBS makes a disk of a snapshot that has the key",
      "kms:ReEncryptTo": "EBS makes a disk of a snapshot that has another key",
    },
  },
  "efs-csi": {
    source: "https://github.com/aws/efs-utils/blob/master/README.md",
    uses: {
      "elasticfilesystem:DescribeMountTargets":
        "finds the mount target's address if its name is not resolved",
      "ec2:DescribeAvailabilityZones": "tells the zone by the id that mount targets have",
    },
  },
  "flow-logs": {
    source: "https://docs.aws.amazon.com/vpc/latest/userguide/flow-logs-iam-role.html",
    uses: {
      "logs:CreateLogStream": "begins a stream for a network interface",
      "logs:DescribeLogGroups": "finds the group",
      "logs:DescribeLogStreams": "finds the stream that is there",
      "logs:PutLogEvents": "writes",
    },
  },
  alertmanager: {
    source: "https://prometheus.io/docs/alerting/latest/configuration/#sns_config",
    uses: { "sns:Publish": "sends an alert to the topic" },
  },
  "fluent-bit": {
    source: "https://docs.fluentbit.io/manual/pipeline/outputs/cloudwatch",
    uses: {
      "logs:CreateLogStream": "begins a stream for a container",
      "logs:PutLogEvents": "writes what the container prints",
    },
  },
  "engine-build": {
    source: "https://docs.aws.amazon.com/secretsmanager/latest/userguide/integrating_csi_driver.html",
    uses: {
      "kms:Decrypt": "Secrets Manager decrypts a token that the stack's own key encrypts",
      "secretsmanager:DescribeSecret": "sees whether the token has changed",
      "secretsmanager:GetSecretValue": "reads the token for gated weights",
      // https://docs.aws.amazon.com/cli/latest/reference/s3/sync.html
      "s3:ListBucket": "the AWS CLI lists the files of a prefix",
      "s3:GetObject": "the AWS CLI fetches them",
    },
  },
  instance: {
    source:
      "https://docs.aws.amazon.com/aws-managed-policy/latest/reference/AmazonSSMManagedInstanceCore.html",
    uses: {
      "kms:Decrypt": "Secrets Manager decrypts secrets that the stack's own key encrypts",
      "ssm:UpdateInstanceInformation": "the agent says that the machine is there",
      "ssm:ListInstanceAssociations": "the agent asks what it is to run",
      "ssm:ListAssociations": "the agent asks what it is to run",
      "ssm:DescribeAssociation": "the agent reads an association",
      "ssm:UpdateAssociationStatus": "the agent says how an association ended",
      "ssm:UpdateInstanceAssociationStatus": "the agent says how an association ended",
      "ssm:DescribeDocument": "the agent looks a document up",
      "ssm:GetDocument": "the agent reads the commands of a document",
      "ssmmessages:CreateControlChannel": "the agent waits for sessions and commands",
      "ssmmessages:CreateDataChannel": "a session begins",
      "ssmmessages:OpenControlChannel": "the agent waits for sessions and commands",
      "ssmmessages:OpenDataChannel": "a session begins",
      "ec2messages:AcknowledgeMessage": "the agent takes a command",
      "ec2messages:DeleteMessage": "the agent has taken a command",
      "ec2messages:FailMessage": "the agent can't take a command",
      "ec2messages:GetEndpoint": "the agent finds where commands come from",
      "ec2messages:GetMessages": "the agent asks for commands",
      "ec2messages:SendReply": "the agent says how a command ended",
      "ecr:GetAuthorizationToken": "docker login",
      "ecr:BatchCheckLayerAvailability": "docker pull",
      "ecr:BatchGetImage": "docker pull, of the manifest",
      "ecr:GetDownloadUrlForLayer": "docker pull, of the layers",
      "logs:CreateLogStream": "Docker begins a stream for a container, if logs go to CloudWatch",
      "logs:PutLogEvents": "Docker writes what a container prints",
      "secretsmanager:GetSecretValue": "a unit writes secrets to files in memory before its container starts",
      "elasticfilesystem:ClientMount": "the mount helper mounts the store",
      "elasticfilesystem:ClientWrite": "builds write engines",
    },
  },
};
