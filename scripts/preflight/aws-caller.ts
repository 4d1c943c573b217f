/** Whether credentials are those of the account that a stack is for. */
import type { AwsContext } from "../../infra/plan/aws/context.ts";
import type { Caller } from "../aws/account.ts";
import type { Answer } from "../aws/session.ts";
import { type Finding, problem } from "./finding.ts";

/** Of the project's own stack files and examples, and of AWS's documentation: nobody's. */
const EXAMPLE_ACCOUNT = "111122223333";

/** Words of Node and of the SDK where no service has said anything: no name, no way, no time, or a proxy's page. */
const UNREACHED = /ENOTFOUND|EAI_AGAIN|ECONN|EHOST|ENET|ETIMEDOUT|TimeoutError|AbortError|not as AWS does/;

/**
 * @param answer - Of STS, in the stack's region.
 * @param profile - That AWS_PROFILE names, and nobody knows; null: none. Pure.
 */
export function callerFindings(
  { account, region }: Pick<AwsContext, "account" | "region">,
  answer: Answer<Caller>,
  profile: string | null,
): readonly Finding[] {
  if (answer.kind === "answer") return ofCaller(account, answer.value);
  const words = answer.kind === "absent" ? "It knows no such caller" : answer.words.replace(/\.$/, "");
  if (!words.startsWith("Credentials") && UNREACHED.test(words))
    return [
      problem(
        "credentials",
        `AWS was not reached in ${region}.`,
        `${words}. Nothing else was asked.`,
        "Look at `region`, of which AWS must have one of that name, and at the way to the internet; AWS_ENDPOINT_URL and proxies decide who is asked.",
      ),
    ];
  if (profile !== null)
    return [
      problem(
        "credentials",
        `There is no AWS profile ${profile}.`,
        `AWS_PROFILE names it, and neither AWS's config file nor its credentials file has it: ${words}.`,
        "`aws configure list-profiles` lists those that there are; set AWS_PROFILE to one of them, or make it with `aws configure sso`.",
      ),
    ];
  return [
    problem(
      "credentials",
      "AWS does not know who you are.",
      `${words}.`,
      "Log in (`aws sso login`), or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; `aws sts get-caller-identity` must answer.",
    ),
  ];
}

function ofCaller(wanted: string, { account, arn }: Caller): readonly Finding[] {
  if (account === wanted) return [];
  const isExample = wanted === EXAMPLE_ACCOUNT;
  return [
    problem(
      "credentials",
      `Your credentials are of the account ${account}.`,
      `The stack file says ${wanted}${isExample ? ", the account of examples" : ""}, and you are ${arn}. Nothing else was asked.`,
      isExample
        ? `Write \`account: "${account}"\` if that one is to have the stack; else take credentials of the one that is, and write it.`
        : "Take credentials of the stack's account, or correct `account`.",
    ),
  ];
}

/**
 * An account that nobody's credentials will be of, where these are not known yet. Where they are, {@link callerFindings} says it.
 *
 * @param answer - Of STS, in the stack's region. Pure.
 */
export function exampleAccountFindings(
  { account }: Pick<AwsContext, "account">,
  answer: Answer<Caller>,
): readonly Finding[] {
  if (account !== EXAMPLE_ACCOUNT || answer.kind === "answer") return [];
  return [
    problem(
      "account",
      `\`account\` is ${EXAMPLE_ACCOUNT}, the account of examples.`,
      "No credentials are of it, and no other account is touched than the one that the stack file says.",
      'Write your own, as `account: "…"` in quotes: `aws sts get-caller-identity` shows it once you are logged in.',
    ),
  ];
}
