/** What every command that asks AWS asks first: whose credentials these are. */
import type { AwsContext } from "../../infra/plan/aws/context.ts";
import { callerFindings } from "../preflight/aws-caller.ts";
import { refusal } from "../preflight/finding.ts";
import { caller, missingProfile } from "./account.ts";

/**
 * Another account has nothing of the stack, which no answer of it would tell from a stack that is gone.
 *
 * @throws UserError in the words of preflight where the credentials are none, or another account's.
 */
export async function requireAccount(place: Pick<AwsContext, "account" | "region">): Promise<void> {
  const [finding] = callerFindings(place, await caller(place.region), await missingProfile());
  if (finding !== undefined) throw refusal(finding);
}
