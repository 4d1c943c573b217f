/** What an instance may do in its account. */
import type { DockerStack } from "../../docker/types.ts";
import { placeholder } from "../names.ts";
import { allow, arn, rolePlan } from "../roles.ts";
import type { AwsContext, InstanceSecretPlan, RolePlan, Statement } from "../types.ts";

/** No container takes it: answers of the metadata service end at the machine itself. */
export function instanceRole(
  stack: DockerStack,
  secrets: readonly InstanceSecretPlan[],
  context: AwsContext,
): RolePlan {
  return rolePlan(context, "instance", "ec2.amazonaws.com", {
    statements: [
      ...agentStatements(context),
      ...registryStatements(stack, context),
      ...secretStatements(secrets),
      fileSystemStatement(context),
    ],
  });
}

/**
 * AmazonSSMManagedInstanceCore without its reading of every parameter of the account, and without inventory and patches.
 * https://docs.aws.amazon.com/aws-managed-policy/latest/reference/AmazonSSMManagedInstanceCore.html
 */
function agentStatements(context: AwsContext): readonly Statement[] {
  return [
    // The agent says that the machine is there, and asks what it is to do.
    // The agent calls them before it has a name that a policy could hold it to.
    allow(
      "ReportToSystemsManager",
      ["ssm:UpdateInstanceInformation", "ssm:ListInstanceAssociations", "ssm:ListAssociations"],
      ["*"],
    ),
    // It reads the documents of this stack, runs them, and says how they ended.
    allow(
      "RunAssociations",
      [
        "ssm:DescribeAssociation",
        "ssm:UpdateAssociationStatus",
        "ssm:UpdateInstanceAssociationStatus",
        "ssm:DescribeDocument",
        "ssm:GetDocument",
      ],
      [
        arn(context, "ssm", `document/${context.name}-*`),
        arn(context, "ssm", "association/*"),
        arn(context, "ec2", "instance/*"),
      ],
    ),
    // Sessions and port forwarding go through it: the machine has no key and no open port for them.
    allow(
      "OpenSessions",
      [
        "ssmmessages:CreateControlChannel",
        "ssmmessages:CreateDataChannel",
        "ssmmessages:OpenControlChannel",
        "ssmmessages:OpenDataChannel",
      ],
      ["*"],
    ),
    // Commands come as messages where the agent has no channel open.
    allow(
      "TakeMessages",
      [
        "ec2messages:AcknowledgeMessage",
        "ec2messages:DeleteMessage",
        "ec2messages:FailMessage",
        "ec2messages:GetEndpoint",
        "ec2messages:GetMessages",
        "ec2messages:SendReply",
      ],
      ["*"],
    ),
  ];
}

/** `ACCOUNT.dkr.ecr.REGION.amazonaws.com/NAME@sha256:…`, or with a tag. */
const ECR_IMAGE = /^(\d{12})\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com\/([^@:]+)/;

function registryStatements({ images }: DockerStack, { partition }: AwsContext): readonly Statement[] {
  const arns = images.flatMap((image) => {
    const [, account = "", region = "", name] =
      (image.kind === "locked" && ECR_IMAGE.exec(image.reference)) || [];
    return name === undefined ? [] : [arn({ partition, account, region }, "ecr", `repository/${name}`)];
  });
  if (arns.length === 0) return [];
  return [
    // The password for the registry, of twelve hours.
    // It takes no resource: https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonelasticcontainerregistry.html
    allow("LogInToRegistries", ["ecr:GetAuthorizationToken"], ["*"]),
    // The images of its containers, and no others.
    allow(
      "PullImages",
      ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"],
      [...new Set(arns)].sort(),
    ),
  ];
}

function secretStatements(secrets: readonly InstanceSecretPlan[]): readonly Statement[] {
  if (secrets.length === 0) return [];
  return [
    // Tokens and addresses that containers read from files in memory.
    allow(
      "ReadSecrets",
      ["secretsmanager:GetSecretValue"],
      secrets.map(({ arn }) => arn),
    ),
  ];
}

/** Builds write engines into the store, and servers read them. */
function fileSystemStatement(context: AwsContext): Statement {
  return allow(
    "MountEngineStore",
    ["elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"],
    [arn(context, "elasticfilesystem", `file-system/${placeholder("fileSystemId")}`)],
    { Bool: { "elasticfilesystem:AccessedViaMountTarget": "true" } },
  );
}
