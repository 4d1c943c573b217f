/** What `npx engine-room up` tells AWS before Pulumi begins: sizes of pools, and the start of a machine that sleeps. */
import { instanceZone } from "../../infra/plan/aws/network.ts";
import type { Ec2Plan } from "../../infra/plan/gpu-stack.ts";
import { ConfigError } from "../../infra/problems.ts";
import { databaseDiskFindings, readDatabaseDisks } from "../preflight/aws-database-disk.ts";
import { refusal } from "../preflight/finding.ts";
import type { AwsTarget } from "../program/aws-target.ts";
import { type RunningMachine, stackMachines } from "./ec2.ts";
import { ASLEEP, startAsleep } from "./machine-start.ts";
import { sizePools } from "./pool-sizes.ts";
import { required } from "./session.ts";

/**
 * Machines as the stack file has them, before pods and commands wait for them. What is not there yet is Pulumi's to make.
 * Whether the credentials are of the stack's account is asked before, by `requireAccountOf`.
 *
 * @returns What was changed, a line each.
 * @throws ConfigError where there are images that no machine could pull: the `up` would fail over machines that cost money.
 * @throws UserError where AWS refuses, or where the databases' disk would be another one.
 */
export async function readyMachines(target: AwsTarget, pollSeconds?: number): Promise<readonly string[]> {
  const { plan, context, imageProblems } = target;
  if (imageProblems.length > 0) throw new ConfigError(imageProblems);
  if (plan.compute === "eks") return sizePools(plan, context, pollSeconds);
  await requireOwnDisk(target);
  const { region, stack } = context;
  const asleep = required(await stackMachines(region, stack, ASLEEP), `${region} has no machines.`);
  const own = asleep.filter((machine) => stays(plan, machine));
  await startAsleep(context, own, pollSeconds);
  return own.map(({ id }) => `${id} was asleep, and starts`);
}

/** A machine of another type is started by Pulumi once it has its own, and one in another zone ends. */
function stays({ config, spec }: Ec2Plan, { type, zone }: RunningMachine): boolean {
  return type === spec.pools[0]?.instanceType && zone === `${config.region}${instanceZone(config)}`;
}

/** Nobody is asked whether the disk may go: `up` runs without a question. */
async function requireOwnDisk(target: AwsTarget): Promise<void> {
  const disks = await readDatabaseDisks(target);
  if (disks !== null) required(disks, "AWS does not say which disks the stack has.");
  const [finding] = databaseDiskFindings(target, disks);
  if (finding !== undefined) throw refusal(finding);
}
