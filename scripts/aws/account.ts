/** The account of the credentials, and a stack's resources left in it, by tag, with the commands that delete them. */
import { type AwsContext, STACK_TAG } from "../../infra/plan/aws/context.ts";
import { UserError } from "../errors.ts";
import { type Finding, problem, refusal } from "../preflight/finding.ts";
import { AwsError, ask } from "./session.ts";

/** Account of the project's own stack files and examples, and of AWS's documentation. */
const EXAMPLE_ACCOUNT = "111122223333";

type Account = Pick<AwsContext, "account" | "region">;

/** Returns null when the credentials are those of the stack's account. */
export async function callerFinding({ account, region }: Account): Promise<Finding | null> {
  try {
    const { Account = "", Arn } = (await ask("sts:GetCallerIdentity", region, {})) ?? {};
    if (Account === account) return null;
    const isExample = account === EXAMPLE_ACCOUNT;
    return problem(
      "credentials",
      `Your credentials are of the account ${Account}.`,
      `The stack file names the account ${account}${isExample ? ", the account of examples" : ""}, and you are ${Arn}. No other check was run.`,
      isExample
        ? `Write \`account: "${Account}"\` if the stack belongs there; else take credentials of its account, and write that one.`
        : "Take credentials of the stack's account, or correct `account`.",
    );
  } catch (error) {
    if (!(error instanceof AwsError)) throw error;
    const { AWS_PROFILE: profile = "" } = process.env;
    return problem(
      "credentials",
      `AWS does not know who you are in ${region}.`,
      `${error.words}${profile === "" ? "" : ` (AWS_PROFILE is ${profile})`}. No other check was run.`,
      "Log in (`aws sso login`), or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; `aws sts get-caller-identity` must answer. If AWS was not reached, correct `region`, AWS_ENDPOINT_URL or the proxy.",
    );
  }
}

/**
 * In another account no resource of the stack is found, as if the stack did not exist.
 *
 * @throws UserError if the credentials are unknown, or another account's.
 */
export async function requireAccount(place: Account): Promise<void> {
  const finding = await callerFinding(place);
  if (finding !== null) throw refusal(finding);
}

/** ARNs of the region that have a stack's tag. AWS lists some for a while after they are deleted. @throws AwsError */
export async function taggedArns(region: string, stack: string): Promise<readonly string[]> {
  const answer = await ask("tag:GetResources", region, { TagFilters: [{ Key: STACK_TAG, Values: [stack] }] });
  return (answer?.ResourceTagMappingList ?? []).flatMap(({ ResourceARN }) => ResourceARN ?? []).toSorted();
}

/** Resources that cost money while they exist, by service and id in an ARN, with their price and the words of the AWS CLI. */
const KINDS: readonly (readonly [pattern: RegExp, what: string, deletion: string])[] = [
  [
    /^elasticfilesystem:file-system\/(fs-\w+)$/,
    "file system with engines and weights, by GB and month",
    "efs delete-file-system --file-system-id {id} (after its mount targets)",
  ],
  [/^ec2:volume\/(vol-\w+)$/, "disk, by GB and month", "ec2 delete-volume --volume-id {id}"],
  [
    /^ec2:snapshot\/(snap-\w+)$/,
    "snapshot, by GB and month; a daily copy of documents ends by itself",
    "ec2 delete-snapshot --snapshot-id {id} (a daily copy: backup delete-recovery-point --backup-vault-name VAULT --recovery-point-arn {arn})",
  ],
  [
    /^ec2:instance\/(i-\w+)$/,
    "machine unless terminated, by second while it runs, its disks always",
    "ec2 terminate-instances --instance-ids {id}",
  ],
  [
    /^ec2:natgateway\/(nat-\w+)$/,
    "NAT gateway, by hour and GB",
    "ec2 delete-nat-gateway --nat-gateway-id {id}",
  ],
  [
    /^ec2:elastic-ip\/(eipalloc-\w+)$/,
    "public address, by hour",
    "ec2 release-address --allocation-id {id} (after the NAT gateway that has it)",
  ],
  [
    /^ec2:vpc-endpoint\/(vpce-\w+)$/,
    "endpoint of the VPC, by hour, except that of S3",
    "ec2 delete-vpc-endpoints --vpc-endpoint-ids {id}",
  ],
  [
    /^elasticloadbalancing:(loadbalancer\/.+)$/,
    "load balancer, by hour",
    "elbv2 delete-load-balancer --load-balancer-arn {arn}",
  ],
  [/^eks:cluster\/(.+)$/, "cluster, by hour", "eks delete-cluster --name {id} (after its node groups)"],
  [
    /^eks:nodegroup\/([^/]+)\/([^/]+)\/.+$/,
    "machines of a pool, by machine and second",
    "eks delete-nodegroup --cluster-name {id} --nodegroup-name {name}",
  ],
  [
    /^logs:log-group:(.+?)(?::\*)?$/,
    "log group, by GB and month until its retention ends",
    "logs delete-log-group --log-group-name {id}",
  ],
  [
    /^ecr:repository\/(.+)$/,
    "repository of images, by GB and month",
    "ecr delete-repository --force --repository-name {id}",
  ],
  [/^secretsmanager:secret:(.+)$/, "secret, by month", "secretsmanager delete-secret --secret-id {arn}"],
  [
    /^kms:key\/(.+)$/,
    "key unless its deletion is scheduled, by month",
    "kms schedule-key-deletion --key-id {id}",
  ],
  [
    /^backup:recovery-point:(.+)$/,
    "copy of AWS Backup, by GB and month",
    "backup delete-recovery-point --backup-vault-name VAULT --recovery-point-arn {arn}",
  ],
];

interface Leftover {
  readonly arn: string;
  /** Kind of resource, with its price. */
  readonly what: string;
  /** A command of the AWS CLI. */
  readonly deletion: string;
}

/** Resources that cost money, in the order of the table of kinds; others are free: networks, security groups, roles. Pure. */
export function leftovers(region: string, arns: readonly string[]): readonly Leftover[] {
  return KINDS.flatMap(([pattern, what, deletion]) =>
    arns.flatMap((arn) => {
      const [, , service, , , ...rest] = arn.split(":");
      const found = pattern.exec([service, ...rest].join(":"));
      if (found === null) return [];
      const values: Readonly<Record<string, string>> = { arn, id: found[1] ?? "", name: found[2] ?? "" };
      const words = deletion.replace(/\{(\w+)\}/g, (_, key: string) => values[key] ?? "");
      return [{ arn, what, deletion: `aws --region ${region} ${words}` }];
    }),
  );
}

const TAG_EDITOR = "https://console.aws.amazon.com/resource-groups/tag-editor";
const tagOf = (stack: string) => `the tag engine-room:stack=${stack}`;
const leftoverLines = ({ what, arn, deletion }: Leftover) => `  ${what}\n    ${arn}\n    ${deletion}`;

interface Place {
  readonly region: string;
  readonly stack: string;
}

/**
 * Lists remaining paid resources of a stack, with the commands that delete them.
 *
 * @param tagged - ARNs with the stack's tag, or why they are unknown.
 */
export function leftoversReport({ region, stack }: Place, tagged: readonly string[] | AwsError): string {
  const tag = tagOf(stack);
  // The vault of EFS's own backups: https://docs.aws.amazon.com/efs/latest/ug/awsbackup.html#automatic-backups
  const untagged = [
    "In no list by tag:",
    "  copies that AWS Backup made of its file system, by GB and month",
    `    aws --region ${region} backup list-recovery-points-by-backup-vault --backup-vault-name aws/efs/automatic-backup-vault`,
    `  the log group of the cluster engine-room-${stack}, where EKS wrote once more after it was deleted`,
    `    aws --region ${region} logs describe-log-groups --log-group-name-prefix /aws/eks/engine-room-${stack}/`,
    "",
  ].join("\n");
  if (tagged instanceof AwsError)
    return `It is unknown which resources still cost money: ${tagged.words}. Look for ${tag} in ${region} (${TAG_EDITOR}).\n${untagged}`;
  const costly = leftovers(region, tagged);
  const free = tagged.length - costly.length;
  const others = free === 0 ? "" : ` ${free} more with it cost nothing by themselves.`;
  if (costly.length === 0) return `Nothing with ${tag} still costs money.${others}\n${untagged}`;
  return [
    `These with ${tag} still cost money; AWS lists some for a while after they are gone.${others}`,
    ...costly.map(leftoverLines),
    untagged,
  ].join("\n");
}

/**
 * Checks the account for resources of a stack without state.
 *
 * @param unknown - Beginning of the sentence about the missing stack.
 * @throws UserError if the account has resources of it that cost money, or does not answer.
 */
export async function requireNoLeftovers(unknown: string, { region, stack }: Place): Promise<void> {
  const tagged = await taggedArns(region, stack).catch((error: Error) => {
    throw new UserError(
      `${unknown}, and whether the account has resources of it is not known: ${error.message}. Look for ${tagOf(stack)} in ${region} (${TAG_EDITOR}).`,
    );
  });
  const costly = leftovers(region, tagged);
  // An empty vault of daily copies outlives the stack, and costs nothing.
  if (costly.length === 0) return;
  throw new UserError(
    [
      `${unknown}, and the account has ${tagged.length} of its resources: log in to the backend that has it (\`pulumi login\`, or PULUMI_BACKEND_URL), and run \`down\` again.`,
      "AWS lists some for a while after they are gone. Only if that state is lost, delete them by hand:",
      ...costly.map(leftoverLines),
      `  ${tagged.length - costly.length} more cost nothing by themselves`,
    ].join("\n"),
  );
}
