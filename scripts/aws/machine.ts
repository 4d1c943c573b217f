/** The machine of a stack on EC2: its state, its start and stop, and sessions of Systems Manager. */
import type { Filter } from "@aws-sdk/client-ec2";
import { type AwsContext, DATABASE_DISK, STACK_TAG } from "../../infra/plan/aws/context.ts";
import { instanceZone } from "../../infra/plan/aws/network.ts";
import { ConfigError } from "../../infra/problems.ts";
import { UserError } from "../errors.ts";
import { type Finding, problem, refusal } from "../preflight/finding.ts";
import { programFindings } from "../preflight/programs.ts";
import type { AwsTarget } from "../program/targets.ts";
import { AwsError, ask, until } from "./session.ts";

/** A machine of EC2. */
export interface Machine {
  readonly id: string;
  readonly type: string;
  /** With the region: `us-east-1a`. */
  readonly zone: string;
  readonly isSpot: boolean;
  readonly vcpus: number;
  /** `running`, `stopped`. */
  readonly state: string;
  readonly tags: ReadonlyMap<string, string>;
}

const AWAKE: readonly string[] = ["pending", "running"];
const ASLEEP: readonly string[] = ["stopping", "stopped"];

/** A large machine takes minutes to stop, because its memory is cleared first. */
const LONGEST_STOP_SECONDS = 1200;
const POLL_SECONDS = 5;

/** Machines of the account in the region. @param filters - By EC2's own names. */
async function machines(region: string, filters: Filter[]): Promise<readonly Machine[]> {
  const answer = await ask("ec2:DescribeInstances", region, { Filters: filters });
  return (answer?.Reservations ?? []).flatMap(({ Instances = [] }) =>
    Instances.map((one) => ({
      id: one.InstanceId ?? "",
      type: one.InstanceType ?? "",
      zone: one.Placement?.AvailabilityZone ?? "",
      isSpot: one.InstanceLifecycle === "spot",
      vcpus: (one.CpuOptions?.CoreCount ?? 0) * (one.CpuOptions?.ThreadsPerCore ?? 1),
      state: one.State?.Name ?? "",
      tags: new Map((one.Tags ?? []).map(({ Key = "", Value = "" }) => [Key, Value])),
    })),
  );
}

/** Machines of the whole account in the region that run or start, and so count against quotas. */
export function runningMachines(region: string): Promise<readonly Machine[]> {
  return machines(region, [{ Name: "instance-state-name", Values: [...AWAKE] }]);
}

function stackMachines({ region, stack }: AwsContext, states: readonly string[]) {
  return machines(region, [
    { Name: `tag:${STACK_TAG}`, Values: [stack] },
    { Name: "instance-state-name", Values: [...states] },
  ]);
}

/** null without a machine. */
export async function stackMachine(context: AwsContext): Promise<Machine | null> {
  const found = await stackMachines(context, [...AWAKE, ...ASLEEP]);
  // A replaced machine may still stop while its successor runs.
  return found.find(({ state }) => state === "running") ?? found[0] ?? null;
}

/** @returns The machine's id. @throws UserError if it does not run, or this machine lacks a program for sessions. */
export async function requireMachine(context: AwsContext): Promise<string> {
  const [missing] = await programFindings("ec2");
  if (missing !== undefined) throw refusal(missing);
  const own = await stackMachine(context);
  if (own?.state !== "running") throw notRunning(context, own);
  return own.id;
}

/** Error for a machine that ended while a command changed it. */
function goneMachine(ids: readonly string[], { region, stack }: AwsContext): UserError {
  return new UserError(
    `EC2 has no ${ids.join(", ")} in ${region} any more; \`npx engine-room up --stack ${stack}\` creates the missing resources.`,
  );
}

function notRunning({ region, stack }: AwsContext, machine: Machine | null): UserError {
  return new UserError(
    machine === null
      ? `The stack ${stack} has no machine in ${region} that your credentials see; \`npx engine-room up --stack ${stack}\` creates it.`
      : `The machine ${machine.id} of ${stack} is ${machine.state}; \`npx engine-room wake --stack ${stack}\` starts it.`,
  );
}

/** Words of one session. https://docs.aws.amazon.com/cli/latest/reference/ssm/start-session.html */
function sessionCommand(
  region: string,
  instanceId: string,
  document: string,
  parameters: Readonly<Record<string, string>>,
): readonly [string, ...string[]] {
  const lists = Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, [value]]));
  return [
    "aws",
    ...["ssm", "start-session", "--region", region, "--target", instanceId],
    ...["--document-name", document, "--parameters", JSON.stringify(lists)],
  ];
}

/** Forwards one port of 127.0.0.1 to a port of the machine. */
export function portSession(
  region: string,
  instanceId: string,
  { port, localPort }: { readonly port: number; readonly localPort: number },
): readonly string[] {
  const parameters = { portNumber: String(port), localPortNumber: String(localPort) };
  return sessionCommand(region, instanceId, "AWS-StartPortForwardingSession", parameters);
}

/** Runs one command in a terminal on the machine. Its user may become root. */
export function terminalSession(
  region: string,
  instanceId: string,
  command: string,
): readonly [string, ...string[]] {
  return sessionCommand(region, instanceId, "AWS-StartInteractiveCommand", { command });
}

/**
 * Changes that `npx engine-room up` makes before Pulumi begins: the start of a sleeping machine. `requireAccount` comes before it.
 *
 * @returns A line for each change.
 * @throws ConfigError if an image can't be pulled yet: the `up` would fail after machines that cost money have started.
 * @throws UserError if AWS refuses, or `up` would replace the databases' disk or make it smaller.
 */
export async function readyMachines(target: AwsTarget, pollSeconds?: number): Promise<readonly string[]> {
  const { plan, context, imageProblems } = target;
  if (imageProblems.length > 0) throw new ConfigError(imageProblems);
  if (plan.compute === "eks") return [];
  // The state of a stack of an earlier version has no resource that refuses it.
  const disk = await databaseDiskFinding(target);
  if (disk !== null) throw refusal(disk);
  // Pulumi starts a machine after changing its type, and ends a machine in another zone.
  const zone = `${context.region}${instanceZone(plan.config)}`;
  const own = (await stackMachines(context, ASLEEP)).filter(
    (one) => one.type === plan.spec.pools[0]?.instanceType && one.zone === zone,
  );
  if (own.length > 0) await startAsleep(context, own, pollSeconds);
  return own.map(({ id }) => `${id} was asleep, and starts`);
}

/**
 * A problem with a disk of the databases that `up` would replace with an empty disk, because it is in another zone, or that EBS would not
 * shrink; null otherwise. Disks that are being deleted do not count.
 */
export async function databaseDiskFinding({ plan, context }: AwsTarget): Promise<Finding | null> {
  const { region, stack, name } = context;
  if (plan.compute !== "ec2") return null;
  const answer = await ask("ec2:DescribeVolumes", region, {
    Filters: [
      { Name: `tag:${STACK_TAG}`, Values: [stack] },
      { Name: "tag:Name", Values: [`${name}-${DATABASE_DISK}`] },
      { Name: "status", Values: ["creating", "available", "in-use"] },
    ],
  });
  const disks = answer?.Volumes ?? [];
  const zone = `${region}${instanceZone(plan.config)}`;
  const own = disks.find(({ AvailabilityZone }) => AvailabilityZone === zone);
  const [first] = disks;
  if (own === undefined && first !== undefined) {
    const letter = first.AvailabilityZone?.slice(region.length);
    return problem(
      "databaseDisk",
      `The databases' disk ${first.VolumeId} is in ${first.AvailabilityZone}, and the machine would be in ${zone}.`,
      "A disk is of one zone: `npx engine-room up` would delete it with all documents, and create an empty disk.",
      `Write \`zone: ${letter}\` for the pool, and have ${letter} among the zones of the network. To leave that zone, take a snapshot of ${first.VolumeId} if its documents matter, then run \`npx engine-room down --stack ${stack}\` and \`npx engine-room up --stack ${stack}\`.`,
    );
  }
  const { sizeGiB } = plan.config.databaseStorage;
  const { VolumeId, Size = 0 } = own ?? {};
  if (Size <= sizeGiB) return null;
  return problem(
    "databaseDisk",
    `The databases' disk ${VolumeId} has ${Size} GiB, and the stack file says ${sizeGiB}.`,
    "EBS can't make a disk smaller, so `npx engine-room up` would fail there.",
    `Write \`sizeGiB: ${Size}\` in \`databaseStorage\`.`,
  );
}

/**
 * Starts machines; a stopping machine only once it has stopped, as EC2 requires.
 *
 * @throws UserError if AWS refuses, or has no machine of the type.
 */
async function startAsleep(
  context: AwsContext,
  asleep: readonly Machine[],
  pollSeconds = POLL_SECONDS,
): Promise<void> {
  const { region, stack } = context;
  const ids = asleep.map(({ id }) => id);
  if (asleep.some(({ state }) => state === "stopping")) {
    process.stderr.write(`${ids.join(", ")} is stopping, and starts once it has stopped.\n`);
    const stopped = await until(LONGEST_STOP_SECONDS, pollSeconds, async () => {
      const stopping = await stackMachines(context, ["stopping"]);
      return stopping.some(({ id }) => ids.includes(id)) ? undefined : true;
    });
    if (stopped === undefined)
      throw new UserError(
        `${ids.join(", ")} has not stopped within ${LONGEST_STOP_SECONDS} s, and can't start before.`,
      );
  }
  try {
    const answer = await ask("ec2:StartInstances", region, { InstanceIds: ids });
    if (answer === undefined) throw goneMachine(ids, context);
  } catch (error) {
    // https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-error-codes.html
    if (!(error instanceof AwsError) || !error.words.startsWith("InsufficientInstanceCapacity")) throw error;
    const [{ type, zone } = {}] = asleep;
    throw new UserError(
      `EC2 has no ${type} for ${ids.join(", ")} in ${zone} now (${error.words}). Try again later, or write another \`instanceType\` for the pool and run \`npx engine-room up --stack ${stack}\`: the disks stay.`,
    );
  }
}

/** Stops or starts the machine of a stack. @returns Text for the user. @throws UserError if AWS refuses. */
export async function changeMachine(
  context: AwsContext,
  direction: "sleep" | "wake",
  pollSeconds?: number,
): Promise<string> {
  const { region, stack } = context;
  const all = await stackMachines(context, [...AWAKE, ...ASLEEP]);
  if (all.length === 0)
    return `The stack has no machine; \`npx engine-room up --stack ${stack}\` creates the missing resources.\n`;
  const isSleep = direction === "sleep";
  const changed = all.filter(({ state }) => (isSleep ? AWAKE : ASLEEP).includes(state));
  const ids = changed.map(({ id }) => id);
  if (ids.length === 0)
    return `${all.map(({ id }) => id).join(", ")} is ${isSleep ? "asleep" : "awake"} already.\n`;
  if (!isSleep) {
    await startAsleep(context, changed, pollSeconds);
    return `${ids.join(", ")} starts; its services start with it, and models once they are loaded.\n`;
  }
  const answer = await ask("ec2:StopInstances", region, { InstanceIds: ids });
  if (answer === undefined) throw goneMachine(ids, context);
  return `${ids.join(", ")} stops. Its disks, the engine store and the load balancer stay, and cost what they cost; \`npx engine-room wake --stack ${stack}\` starts it.\n`;
}
