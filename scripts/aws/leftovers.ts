/** What an account still has of a stack by the tag of all its resources, what of it costs money, and what `down` says of it. */
import { STACK_TAG } from "../../infra/plan/aws/context.ts";
import { UserError } from "../errors.ts";
import { type Answer, ask, mapAnswer } from "./session.ts";

/** ARNs of the region that have a stack's tag. The API keeps some for a while that are deleted. */
export async function taggedArns(region: string, stack: string): Promise<Answer<readonly string[]>> {
  const answer = await ask("tag:GetResources", region, { TagFilters: [{ Key: STACK_TAG, Values: [stack] }] });
  return mapAnswer(answer, ({ ResourceTagMappingList = [] }) =>
    ResourceTagMappingList.flatMap(({ ResourceARN }) => ResourceARN ?? []).toSorted(),
  );
}

/**
 * Kinds of resources that cost money while they exist, by service and id in an ARN; what each is, what it costs by, and the words
 * of the AWS CLI that delete it.
 */
const KINDS: readonly (readonly [
  pattern: RegExp,
  what: string,
  costs: string,
  deletion: (id: string, arn: string) => string,
])[] = [
  [
    /^elasticfilesystem:file-system\/(fs-\w+)$/,
    "file system with engines and weights",
    "by GB and month",
    (id) => `efs delete-file-system --file-system-id ${id} (after its mount targets)`,
  ],
  [
    /^ec2:volume\/(vol-\w+)$/,
    "disk, of databases or of a machine",
    "by GB and month",
    (id) => `ec2 delete-volume --volume-id ${id}`,
  ],
  [
    /^ec2:snapshot\/(snap-\w+)$/,
    "snapshot",
    "by GB and month",
    (id) => `ec2 delete-snapshot --snapshot-id ${id}`,
  ],
  [
    /^ec2:instance\/(i-\w+)$/,
    "machine, unless it is terminated already",
    "by second while it runs, its disks always",
    (id) => `ec2 terminate-instances --instance-ids ${id}`,
  ],
  [
    /^ec2:natgateway\/(nat-\w+)$/,
    "NAT gateway",
    "by hour and GB",
    (id) => `ec2 delete-nat-gateway --nat-gateway-id ${id}`,
  ],
  [
    /^ec2:elastic-ip\/(eipalloc-\w+)$/,
    "public address",
    "by hour",
    (id) => `ec2 release-address --allocation-id ${id} (after the NAT gateway that has it)`,
  ],
  [
    /^ec2:vpc-endpoint\/(vpce-\w+)$/,
    "endpoint of the VPC",
    "by hour, except that of S3",
    (id) => `ec2 delete-vpc-endpoints --vpc-endpoint-ids ${id}`,
  ],
  [
    /^elasticloadbalancing:(loadbalancer\/.+)$/,
    "load balancer",
    "by hour",
    (_, arn) => `elbv2 delete-load-balancer --load-balancer-arn ${arn}`,
  ],
  [
    /^eks:cluster\/(.+)$/,
    "cluster",
    "by hour",
    (id) => `eks delete-cluster --name ${id} (after its node groups)`,
  ],
  [
    /^eks:nodegroup\/([^/]+\/[^/]+)\/.+$/,
    "machines of a pool",
    "by machine and second",
    (id) => `eks delete-nodegroup --cluster-name ${id.replace("/", " --nodegroup-name ")}`,
  ],
  [
    /^logs:log-group:(.+?)(:\*)?$/,
    "log group",
    "by GB and month until its retention ends",
    (id) => `logs delete-log-group --log-group-name ${id}`,
  ],
  [
    /^ecr:repository\/(.+)$/,
    "repository of images",
    "by GB and month",
    (id) => `ecr delete-repository --force --repository-name ${id}`,
  ],
  [
    /^secretsmanager:secret:(.+)$/,
    "secret",
    "by month",
    (_, arn) => `secretsmanager delete-secret --secret-id ${arn}`,
  ],
  [
    /^kms:key\/(.+)$/,
    "key, unless its deletion is scheduled already",
    "by month",
    (id) => `kms schedule-key-deletion --key-id ${id}`,
  ],
  [
    /^backup:recovery-point:(.+)$/,
    "copy of AWS Backup",
    "by GB and month",
    (_, arn) => `backup delete-recovery-point --backup-vault-name VAULT --recovery-point-arn ${arn}`,
  ],
];

export interface Leftover {
  readonly arn: string;
  readonly what: string;
  readonly costs: string;
  /** A command of the AWS CLI. */
  readonly deletion: string;
}

/** Those that cost money, in the order of the table of kinds; the rest is free: networks, security groups, roles. Pure. */
export function leftovers(region: string, arns: readonly string[]): readonly Leftover[] {
  return KINDS.flatMap(([pattern, what, costs, deletion]) =>
    arns.flatMap((arn) => {
      const [, , service, , , ...rest] = arn.split(":");
      const id = pattern.exec([service, ...rest].join(":"))?.[1];
      return id === undefined
        ? []
        : [{ arn, what, costs, deletion: `aws --region ${region} ${deletion(id, arn)}` }];
    }),
  );
}

/** What has a price and may have no tag of the stack, with words of the AWS CLI that list it. */
const NOT_LISTED: readonly {
  readonly what: (stack: string) => string;
  readonly listing: (stack: string) => string;
}[] = [
  {
    what: () => "copies that AWS Backup made of its file system, by GB and month",
    // The vault of EFS's own backups: https://docs.aws.amazon.com/efs/latest/ug/awsbackup.html#automatic-backups
    listing: () =>
      "backup list-recovery-points-by-backup-vault --backup-vault-name aws/efs/automatic-backup-vault",
  },
  {
    what: (stack) =>
      `the log group of the cluster engine-room-${stack}, where EKS wrote once more after it was deleted`,
    listing: (stack) => `logs describe-log-groups --log-group-name-prefix /aws/eks/engine-room-${stack}/`,
  },
];

const TAG_EDITOR = "https://console.aws.amazon.com/resource-groups/tag-editor";

/**
 * What a stack has left that costs money, with the commands that delete it.
 *
 * @param answer - ARNs with the stack's tag.
 */
export function leftoversReport(region: string, stack: string, answer: Answer<readonly string[]>): string {
  const tag = tagOf(stack);
  const notListed = [
    "In no list by tag:",
    ...NOT_LISTED.map(
      ({ what, listing }) => `  ${what(stack)}\n    aws --region ${region} ${listing(stack)}`,
    ),
    "",
  ].join("\n");
  if (answer.kind !== "answer")
    return `What still costs money is not known: ${silence(answer)}. Look for ${tag} in ${region} (${TAG_EDITOR}).\n${notListed}`;
  const costly = leftovers(region, answer.value);
  const free = answer.value.length - costly.length;
  const others = free === 0 ? "" : ` ${free} more with it cost nothing by themselves.`;
  if (costly.length === 0) return `Nothing with ${tag} still costs money.${others}\n${notListed}`;
  return [
    `These with ${tag} still cost money; AWS lists some for a while after they are gone.${others}`,
    ...costly.map(leftoverLines),
    notListed,
  ].join("\n");
}

/**
 * Of a stack that the state does not know.
 *
 * @param unknown - Beginning of the sentence that says so. @param answer - ARNs with the stack's tag.
 * @throws UserError where the account has any, or does not say.
 */
export function refuseStrangers(
  unknown: string,
  { region, stack }: { readonly region: string; readonly stack: string },
  answer: Answer<readonly string[]>,
): void {
  if (answer.kind !== "answer")
    throw new UserError(
      `${unknown}, and whether the account has things of it is not known: ${silence(answer)}. Look for ${tagOf(stack)} in ${region} (${TAG_EDITOR}).`,
    );
  const { length } = answer.value;
  if (length === 0) return;
  const costly = leftovers(region, answer.value);
  throw new UserError(
    [
      `${unknown}, and the account has ${length === 1 ? "1 thing" : `${length} things`} of it: log in to the backend that has it (\`pulumi login\`, or PULUMI_BACKEND_URL), and run \`down\` again.`,
      "AWS lists some for a while after they are gone. Only where that state is lost, delete them by hand:",
      ...costly.map(leftoverLines),
      ...(costly.length === length ? [] : [`  ${length - costly.length} more cost nothing by themselves`]),
    ].join("\n"),
  );
}

const tagOf = (stack: string) => `the tag engine-room:stack=${stack}`;

function silence(answer: Exclude<Answer<unknown>, { readonly kind: "answer" }>): string {
  return answer.kind === "absent" ? "AWS has no answer" : answer.words.replace(/\.$/, "");
}

function leftoverLines({ what, costs, arn, deletion }: Leftover): string {
  return `  ${what}, ${costs}\n    ${arn}\n    ${deletion}`;
}
