/** What `down` says of a stack on AWS at its end. */
import type { AwsContext } from "../../infra/plan/aws/types.ts";
import type { Answer } from "./session.ts";
import { leftovers, taggedArns } from "./tagged.ts";

/** What has a price and no tag of the stack. */
const NOT_LISTED = "copies in vaults of AWS Backup (`aws backup list-backup-vaults`)";

/** Never throws: a stack is down whether or not the list can be had. */
export async function leftoversReport({
  region,
  stack,
}: Pick<AwsContext, "region" | "stack">): Promise<string> {
  return reportOf(region, stack, await taggedArns(region, stack));
}

/** Pure. */
export function reportOf(region: string, stack: string, answer: Answer<readonly string[]>): string {
  const tag = `the tag engine-room:stack=${stack}`;
  const notListed = `Not in any list by tag: ${NOT_LISTED}.\n`;
  if (answer.kind !== "answer")
    return `What still costs money is not known: ${answer.kind === "absent" ? "AWS has no answer" : answer.words}. Look for ${tag} in ${region} (https://console.aws.amazon.com/resource-groups/tag-editor).\n${notListed}`;
  const costly = leftovers(region, answer.value);
  const free = answer.value.length - costly.length;
  const others = free === 0 ? "" : ` ${free} more with it cost nothing by themselves.`;
  if (costly.length === 0) return `Nothing with ${tag} still costs money.${others}\n${notListed}`;
  return [
    `These with ${tag} still cost money; AWS lists some for a while after they are gone.${others}`,
    ...costly.map(({ arn, what, costs, deletion }) => `  ${what}, ${costs}\n    ${arn}\n    ${deletion}`),
    notListed,
  ].join("\n");
}
