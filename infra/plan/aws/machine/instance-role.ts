/** Rights of an instance in its account, and the secrets that it reads. */
import type { DockerStack } from "../../docker/docker-stack.ts";
import { SECRET_PATHS, type SecretName } from "../../docker/types.ts";
import type { Ec2Plan } from "../../gpu-stack.ts";
import { placeholder } from "../names.ts";
import { allow, arn, rolePlan } from "../roles.ts";
import type { AwsContext, RolePlan, Statement } from "../types.ts";
import { secretFileName } from "./compose.ts";

/** A secret that containers of the instance read. */
export interface InstanceSecret {
  readonly name: SecretName;
  /** Name of the one that the stack makes in Secrets Manager; null: it is there already. */
  readonly secretName: string | null;
  /** As a policy may name it; of one that the stack makes with `??????` for what only Secrets Manager knows. */
  readonly arn: string;
  readonly region: string;
}

/** Secrets that the containers of a stack read, in the order of the table of secrets. */
export function instanceSecrets(
  { config }: Ec2Plan,
  stack: DockerStack,
  context: AwsContext,
): readonly InstanceSecret[] {
  const read = new Set(stack.containers.flatMap(({ container }) => Object.values(container.secretFiles)));
  const names = (Object.keys(SECRET_PATHS) as SecretName[]).filter((name) => read.has(name));
  return names.map((name) => {
    const { tokenSecretArn } = config.hub;
    if (name === "hubToken" && tokenSecretArn !== undefined) {
      // `arn:aws:secretsmanager:REGION:…`
      return { name, secretName: null, arn: tokenSecretArn, region: tokenSecretArn.split(":")[3] ?? "" };
    }
    const secretName = `${context.name}/${secretFileName(name)}`;
    // Secrets Manager ends the ARN in six characters that it chooses.
    const ownArn = arn(context, "secretsmanager", `secret:${secretName}-??????`);
    return { name, secretName, arn: ownArn, region: context.region };
  });
}

/** No container takes it: answers of the metadata service end at the machine itself. */
export function instanceRole(
  stack: DockerStack,
  secrets: readonly InstanceSecret[],
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

function secretStatements(secrets: readonly InstanceSecret[]): readonly Statement[] {
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
