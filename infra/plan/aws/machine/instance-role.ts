/** What an instance may do in its account. */
import type { DockerStack } from "../../docker/types.ts";
import { placeholder } from "../placeholders.ts";
import type { AwsContext, InstanceSecretPlan, RolePlan, Statement } from "../types.ts";

/** No container takes it: answers of the metadata service end at the machine itself. */
export function instanceRole(
  stack: DockerStack,
  secrets: readonly InstanceSecretPlan[],
  context: AwsContext,
): RolePlan {
  return {
    subject: "instance",
    service: "ec2.amazonaws.com",
    managedPolicies: [],
    statements: [
      ...agentStatements(context),
      ...registryStatements(stack, context),
      ...secretStatements(secrets),
      fileSystemStatement(context),
    ],
    serviceAccount: null,
  };
}

/**
 * AmazonSSMManagedInstanceCore without its reading of every parameter of the account, and without inventory and patches.
 * https://docs.aws.amazon.com/aws-managed-policy/latest/reference/AmazonSSMManagedInstanceCore.html
 */
function agentStatements({ partition, region, account, name }: AwsContext): readonly Statement[] {
  return [
    {
      sid: "ReportToSystemsManager",
      effect: "Allow",
      actions: ["ssm:UpdateInstanceInformation", "ssm:ListInstanceAssociations", "ssm:ListAssociations"],
      // The agent calls them before it has a name that a policy could hold it to.
      resources: ["*"],
      why: "The agent says that the machine is there, and asks what it is to do.",
    },
    {
      sid: "RunAssociations",
      effect: "Allow",
      actions: [
        "ssm:DescribeAssociation",
        "ssm:UpdateAssociationStatus",
        "ssm:UpdateInstanceAssociationStatus",
        "ssm:DescribeDocument",
        "ssm:GetDocument",
      ],
      resources: [
        `arn:${partition}:ssm:${region}:${account}:document/${name}-*`,
        `arn:${partition}:ssm:${region}:${account}:association/*`,
        `arn:${partition}:ec2:${region}:${account}:instance/*`,
      ],
      why: "It reads the documents of this stack, runs them, and says how they ended.",
    },
    {
      sid: "OpenSessions",
      effect: "Allow",
      actions: [
        "ssmmessages:CreateControlChannel",
        "ssmmessages:CreateDataChannel",
        "ssmmessages:OpenControlChannel",
        "ssmmessages:OpenDataChannel",
      ],
      resources: ["*"],
      why: "Sessions and port forwarding go through it: the machine has no key and no open port for them.",
    },
    {
      sid: "TakeMessages",
      effect: "Allow",
      actions: [
        "ec2messages:AcknowledgeMessage",
        "ec2messages:DeleteMessage",
        "ec2messages:FailMessage",
        "ec2messages:GetEndpoint",
        "ec2messages:GetMessages",
        "ec2messages:SendReply",
      ],
      resources: ["*"],
      why: "Commands come as messages where the agent has no channel open.",
    },
  ];
}

/** `ACCOUNT.dkr.ecr.REGION.amazonaws.com/NAME@sha256:…`, or with a tag. */
const ECR_IMAGE = /^(\d{12})\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com\/([^@:]+)/;

function registryStatements({ images }: DockerStack, { partition }: AwsContext): readonly Statement[] {
  const arns = images.flatMap((image) => {
    const [, account, region, name] = (image.kind === "locked" && ECR_IMAGE.exec(image.reference)) || [];
    return name === undefined ? [] : [`arn:${partition}:ecr:${region}:${account}:repository/${name}`];
  });
  if (arns.length === 0) return [];
  return [
    {
      sid: "LogInToRegistries",
      effect: "Allow",
      actions: ["ecr:GetAuthorizationToken"],
      // It takes no resource: https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonelasticcontainerregistry.html
      resources: ["*"],
      why: "The password for the registry, of twelve hours.",
    },
    {
      sid: "PullImages",
      effect: "Allow",
      actions: ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"],
      resources: [...new Set(arns)].sort(),
      why: "The images of its containers, and no others.",
    },
  ];
}

function secretStatements(secrets: readonly InstanceSecretPlan[]): readonly Statement[] {
  if (secrets.length === 0) return [];
  return [
    {
      sid: "ReadSecrets",
      effect: "Allow",
      actions: ["secretsmanager:GetSecretValue"],
      resources: secrets.map(({ arn }) => arn),
      why: "Tokens and addresses that containers read from files in memory.",
    },
  ];
}

function fileSystemStatement({ partition, region, account }: AwsContext): Statement {
  const id = placeholder("fileSystemId");
  return {
    sid: "MountEngineStore",
    effect: "Allow",
    actions: ["elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"],
    resources: [`arn:${partition}:elasticfilesystem:${region}:${account}:file-system/${id}`],
    conditions: { Bool: { "elasticfilesystem:AccessedViaMountTarget": "true" } },
    why: "Builds write engines into the store, and servers read them.",
  };
}
