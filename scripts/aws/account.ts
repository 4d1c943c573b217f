/** Whose credentials these are, and whether a stack's account is theirs. */
import type { AwsContext } from "../../infra/plan/aws/context.ts";
import { type Finding, problem, refusal, warning } from "../preflight/finding.ts";
import { type Answer, ask, mapAnswer } from "./session.ts";

export interface Caller {
  readonly account: string;
  readonly arn: string;
}

type Place = Pick<AwsContext, "account" | "region">;

/** Of the project's own stack files and examples, and of AWS's documentation. */
const EXAMPLE_ACCOUNT = "111122223333";

/** Words of Node and of the SDK where no service has answered: no name, no route, no time, or a proxy's page. */
const UNREACHED = /ENOTFOUND|EAI_AGAIN|ECONN|EHOST|ENET|ETIMEDOUT|TimeoutError|AbortError|not as AWS does/;

/** Every user may ask this. */
export async function caller(region: string): Promise<Answer<Caller>> {
  const answer = await ask("sts:GetCallerIdentity", region, {});
  return mapAnswer(answer, ({ Account = "", Arn = "" }) => ({ account: Account, arn: Arn }));
}

/** The profile that AWS_PROFILE names and neither file of the SDK has; null: there is none. */
async function missingProfile(): Promise<string | null> {
  const { AWS_PROFILE: profile = "" } = process.env;
  if (profile === "") return null;
  const { loadSharedConfigFiles } = await import("@smithy/core/config");
  const { configFile, credentialsFile } = await loadSharedConfigFiles({ ignoreCache: true });
  return profile in configFile || profile in credentialsFile ? null : profile;
}

/**
 * Another account has nothing of the stack, which no answer of it would tell from a stack that is gone.
 *
 * @throws UserError in the words of preflight where the credentials are none, or another account's.
 */
export async function requireAccount(place: Place): Promise<void> {
  const [finding] = await callerFindings(place, await caller(place.region));
  if (finding !== undefined) throw refusal(finding);
}

/** @param answer - Of STS, in the stack's region. */
export async function callerFindings(
  { account, region }: Place,
  answer: Answer<Caller>,
): Promise<readonly Finding[]> {
  const found = (what: string, why: string, fix: string) => [problem("credentials", what, why, fix)];
  if (answer.kind === "answer") {
    const own = answer.value;
    if (own.account === account) return [];
    const isExample = account === EXAMPLE_ACCOUNT;
    return found(
      `Your credentials are of the account ${own.account}.`,
      `The stack file says ${account}${isExample ? ", the account of examples" : ""}, and you are ${own.arn}. Nothing else was asked.`,
      isExample
        ? `Write \`account: "${own.account}"\` if that one is to have the stack; else take credentials of the one that is, and write it.`
        : "Take credentials of the stack's account, or correct `account`.",
    );
  }
  const words = answer.kind === "absent" ? "It knows no such caller" : answer.words.replace(/\.$/, "");
  if (!words.startsWith("Credentials") && UNREACHED.test(words))
    return found(
      `AWS was not reached in ${region}.`,
      `${words}. Nothing else was asked.`,
      "Correct `region` if AWS has none of that name, and check the connection to the internet; AWS_ENDPOINT_URL and proxies decide who is asked.",
    );
  const profile = await missingProfile();
  return profile === null
    ? found(
        "AWS does not know who you are.",
        `${words}.`,
        "Log in (`aws sso login`), or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; `aws sts get-caller-identity` must answer.",
      )
    : found(
        `There is no AWS profile ${profile}.`,
        `AWS_PROFILE names it, and neither AWS's config file nor its credentials file has it: ${words}.`,
        "`aws configure list-profiles` lists all profiles; set AWS_PROFILE to one of them, or make it with `aws configure sso`.",
      );
}

/** Credentials are never of the examples' account. Where they are known, {@link callerFindings} says it. */
export function exampleAccountFindings(
  { account }: Pick<AwsContext, "account">,
  answer: Answer<Caller>,
): readonly Finding[] {
  if (account !== EXAMPLE_ACCOUNT || answer.kind === "answer") return [];
  return [
    problem(
      "account",
      `\`account\` is ${EXAMPLE_ACCOUNT}, the account of examples.`,
      "Your credentials are of another account, and only the account in the stack file is touched.",
      'Write your own, as `account: "…"` in quotes: `aws sts get-caller-identity` shows it once you are logged in.',
    ),
  ];
}

/**
 * A warning where a question has no answer.
 *
 * @param so - What is not known without it: `it is not known which …`.
 */
export function unanswered(
  check: string,
  answer: Answer<unknown> | undefined,
  so: string,
): readonly Finding[] {
  if (answer === undefined || answer.kind === "answer") return [];
  if (answer.kind === "absent")
    return [warning(check, "AWS answers: not found.", `So ${so}.`, "Look at it in the console.")];
  const { action, words } = answer;
  const why = `AWS answers ${words.replace(/\.$/, "")}; so ${so}.`;
  return answer.kind === "denied"
    ? [
        warning(
          check,
          `Your credentials may not ask ${action}.`,
          why,
          `Allow ${action}, which only reads, or have someone with that right run preflight.`,
        ),
      ]
    : [
        warning(
          check,
          `${action} gives no answer.`,
          why.replace("AWS answers ", ""),
          "Try again; AWS_ENDPOINT_URL, proxies and the region decide who is asked.",
        ),
      ];
}
