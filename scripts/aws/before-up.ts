/** What `npm run up` tells AWS before Pulumi begins: sizes of pools, and the start of a machine that sleeps. */
import type { AwsTarget } from "../program/aws-target.ts";
import { stackMachines, startMachines } from "./ec2.ts";
import { sizePools } from "./pool-sizes.ts";
import { required } from "./session.ts";

/**
 * Machines as the stack file has them, before pods and commands wait for them. What is not there yet is Pulumi's to make.
 * Whether the credentials are of the stack's account is asked before, by `requireAccountOf`.
 *
 * @returns What was changed, a line each.
 * @throws UserError where AWS refuses.
 */
export async function readyMachines({ plan, context }: AwsTarget): Promise<readonly string[]> {
  const { region, stack } = context;
  if (plan.compute === "eks") return sizePools(plan, context);
  const stopped = required(await stackMachines(region, stack, ["stopped"]), "").map(({ id }) => id);
  if (stopped.length === 0) return [];
  required(await startMachines(region, stopped), `The machine ${stopped.join(", ")} of ${stack} is gone.`);
  return [`${stopped.join(", ")} was asleep, and starts`];
}
