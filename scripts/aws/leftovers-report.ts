/** What `down` says of what an account has of a stack. Pure. */
import { UserError } from "../errors.ts";
import type { Answer } from "./session.ts";
import { type Leftover, leftovers } from "./tagged.ts";

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
