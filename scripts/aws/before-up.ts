/** What `npm run up` tells AWS before Pulumi begins: sizes of pools, and the start of a machine that sleeps. */
import { UserError } from "../errors.ts";
import type { AwsTarget } from "../program/aws-target.ts";
import { caller } from "./account.ts";
import { stackMachines, startMachines } from "./ec2.ts";
import { sizePools } from "./pool-sizes.ts";
import { required } from "./session.ts";

/**
 * Machines as the stack file has them, before pods and commands wait for them. What is not there yet is Pulumi's to make.
 *
 * @returns What was changed, a line each.
 * @throws UserError where AWS refuses, or the credentials are of another account.
 */
export async function readyMachines({ plan, context }: AwsTarget): Promise<readonly string[]> {
  const { region, stack, account } = context;
  const { account: own, arn } = required(await caller(region), "AWS does not know who you are.");
  if (own !== account)
    throw new UserError(
      `Your credentials are of the account ${own} (${arn}), and the stack ${stack} is of ${account}; log in there, or correct \`account\`.`,
    );
  if (plan.compute === "eks") return sizePools(plan, context);
  const stopped = required(await stackMachines(region, stack, ["stopped"]), "").map(({ id }) => id);
  if (stopped.length === 0) return [];
  required(await startMachines(region, stopped), `The machine ${stopped.join(", ")} of ${stack} is gone.`);
  return [`${stopped.join(", ")} was asleep, and starts`];
}
