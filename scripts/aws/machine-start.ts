/** Starts the machine of a stack on EC2, for `up` and for `wake`. */
import { setTimeout as sleep } from "node:timers/promises";
import type { AwsContext } from "../../infra/plan/aws/context.ts";
import { UserError } from "../errors.ts";
import { type RunningMachine, stackMachines, startMachines } from "./ec2.ts";
import { required } from "./session.ts";

/** Of a machine that sleeps, or is about to. */
export const ASLEEP: readonly string[] = ["stopping", "stopped"];

/** A large machine takes minutes to stop, because its memory is cleared first. */
const POLL_SECONDS = 5;
const LONGEST_STOP_SECONDS = 1200;

/** https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-error-codes.html */
const NO_CAPACITY = "InsufficientInstanceCapacity";

/**
 * Starts machines, those that still stop once they have stopped: EC2 starts no other ones.
 *
 * @param machines - Of the stack, in states of {@link ASLEEP}.
 * @throws UserError where AWS refuses, or has no machine of the type.
 */
export async function startAsleep(
  { region, stack }: AwsContext,
  machines: readonly RunningMachine[],
  pollSeconds = POLL_SECONDS,
): Promise<void> {
  if (machines.length === 0) return;
  const ids = machines.map(({ id }) => id);
  if (machines.some(({ state }) => state === "stopping")) await stopEnd(region, stack, ids, pollSeconds);
  const answer = await startMachines(region, ids);
  if (answer.kind === "silent" && answer.words.startsWith(NO_CAPACITY))
    throw new UserError(
      `EC2 has no ${machines[0]?.type} for ${ids.join(", ")} in ${machines[0]?.zone} now (${answer.words}). Try again later, or write another \`instanceType\` for the pool and run \`npx engine-room up --stack ${stack}\`: the disks stay.`,
    );
  required(
    answer,
    `The machine ${ids.join(", ")} of ${stack} is gone; \`npx engine-room up --stack ${stack}\` makes it.`,
  );
}

async function stopEnd(
  region: string,
  stack: string,
  ids: readonly string[],
  pollSeconds: number,
): Promise<void> {
  const deadline = Date.now() + LONGEST_STOP_SECONDS * 1000;
  process.stderr.write(`${ids.join(", ")} still stops, and starts once it has stopped.\n`);
  while (true) {
    const stopping = required(await stackMachines(region, stack, ["stopping"]), `${region} has no machines.`);
    if (!stopping.some(({ id }) => ids.includes(id))) return;
    if (Date.now() > deadline)
      throw new UserError(
        `${ids.join(", ")} has not stopped within ${LONGEST_STOP_SECONDS} s, and can't start before; \`npx engine-room status --stack ${stack}\` says how it is.`,
      );
    await sleep(pollSeconds * 1000);
  }
}
