/** The one machine of a stack on EC2: its state, its start and stop, and the sessions of Systems Manager that lead to it. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Filter, Instance } from "@aws-sdk/client-ec2";
import { type AwsContext, DATABASE_DISK, STACK_TAG } from "../../infra/plan/aws/context.ts";
import { instanceZone } from "../../infra/plan/aws/network.ts";
import { ConfigError } from "../../infra/problems.ts";
import { UserError } from "../errors.ts";
import { type Finding, problem, refusal } from "../preflight/finding.ts";
import { programFindings } from "../preflight/programs.ts";
import type { AwsTarget } from "../program/targets.ts";
import { sizePools } from "./pools.ts";
import { type Answer, ask, mapAnswer, required, tagMap } from "./session.ts";

/** A machine of EC2. */
export interface Machine {
  readonly id: string;
  readonly type: string;
  /** With the region: `us-east-1a`. */
  readonly zone: string;
  readonly isSpot: boolean;
  /** `running`, `stopped`. */
  readonly state: string;
  readonly tags: ReadonlyMap<string, string>;
}

const AWAKE: readonly string[] = ["pending", "running"];
/** Of a machine that sleeps, or is about to. */
const ASLEEP: readonly string[] = ["stopping", "stopped"];

/** A large machine takes minutes to stop, because its memory is cleared first. */
const POLL_SECONDS = 5;
const LONGEST_STOP_SECONDS = 1200;

/** https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-error-codes.html */
const NO_CAPACITY = "InsufficientInstanceCapacity";

/** Machines of the account in the region. @param filters - By EC2's own names. */
async function machines(region: string, filters: Filter[]): Promise<Answer<readonly Machine[]>> {
  const answer = await ask("ec2:DescribeInstances", region, { Filters: filters });
  return mapAnswer(answer, ({ Reservations = [] }) =>
    Reservations.flatMap(({ Instances = [] }) => Instances.map(machine)),
  );
}

function machine(one: Instance): Machine {
  return {
    id: one.InstanceId ?? "",
    type: one.InstanceType ?? "",
    zone: one.Placement?.AvailabilityZone ?? "",
    isSpot: one.InstanceLifecycle === "spot",
    state: one.State?.Name ?? "",
    tags: tagMap(one.Tags),
  };
}

/** Machines that run or are about to, of the whole account in the region: those that count against quotas. */
export function runningMachines(region: string): Promise<Answer<readonly Machine[]>> {
  return machines(region, [{ Name: "instance-state-name", Values: [...AWAKE] }]);
}

/** Those of a stack that are in one of some states. @throws UserError where AWS does not say. */
async function stackMachines(
  { region, stack }: AwsContext,
  states: readonly string[],
): Promise<readonly Machine[]> {
  const answer = await machines(region, [
    { Name: `tag:${STACK_TAG}`, Values: [stack] },
    { Name: "instance-state-name", Values: [...states] },
  ]);
  return required(answer, `${region} has no machines.`);
}

/** null: there is none. @throws UserError where AWS does not say. */
export async function stackMachine(context: AwsContext): Promise<Machine | null> {
  const found = await stackMachines(context, [...AWAKE, ...ASLEEP]);
  // A replaced one may still stop while its successor runs.
  return found.find(({ state }) => state === "running") ?? found[0] ?? null;
}

/** The machine's id. @throws UserError where it does not run, or this machine can't open sessions. */
export async function requireMachine(context: AwsContext): Promise<string> {
  const { region, stack } = context;
  const [missing] = await programFindings("ec2");
  if (missing !== undefined) throw new UserError(`${missing.what} ${missing.why} ${missing.fix}`);
  const own = await stackMachine(context);
  if (own === null)
    throw new UserError(
      `The stack ${stack} has no machine in ${region} that your credentials see; \`npx engine-room up --stack ${stack}\` makes it.`,
    );
  if (own.state !== "running")
    throw new UserError(
      `The machine ${own.id} of ${stack} is ${own.state}; \`npx engine-room wake --stack ${stack}\` starts it.`,
    );
  return own.id;
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

/** Forwards one port of 127.0.0.1 to one of the machine's own. */
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
 * What `npx engine-room up` tells AWS before Pulumi begins: sizes of pools, and the start of a machine that sleeps. Missing
 * resources are Pulumi's to make. `requireAccount` comes before it.
 *
 * @returns A line for each change.
 * @throws ConfigError where an image can't be pulled yet: the `up` would fail over machines that cost money.
 * @throws UserError where AWS refuses, or where the databases' disk would be another one.
 */
export async function readyMachines(target: AwsTarget, pollSeconds?: number): Promise<readonly string[]> {
  const { plan, context, imageProblems } = target;
  if (imageProblems.length > 0) throw new ConfigError(imageProblems);
  if (plan.compute === "eks") return sizePools(plan, context, pollSeconds);
  // `up` may run without a question.
  const disks = await databaseDisks(target);
  required(disks, "AWS does not say which disks the stack has.");
  const [finding] = databaseDiskFindings(target, disks);
  if (finding !== undefined) throw refusal(finding);
  // A machine of another type is started by Pulumi once it has its own, and one in another zone ends.
  const zone = `${context.region}${instanceZone(plan.config)}`;
  const own = (await stackMachines(context, ASLEEP)).filter(
    (one) => one.type === plan.spec.pools[0]?.instanceType && one.zone === zone,
  );
  await startAsleep(context, own, pollSeconds);
  return own.map(({ id }) => `${id} was asleep, and starts`);
}

/** A disk of EBS. */
interface DiskReading {
  readonly id: string;
  /** With the region: `us-east-1a`. */
  readonly zone: string;
  readonly sizeGiB: number;
}

/** Disks of the databases of a stack on EC2, without those that are being deleted. */
export async function databaseDisks({
  context: { region, stack, name },
}: AwsTarget): Promise<Answer<readonly DiskReading[]>> {
  const answer = await ask("ec2:DescribeVolumes", region, {
    Filters: [
      { Name: `tag:${STACK_TAG}`, Values: [stack] },
      { Name: "tag:Name", Values: [`${name}-${DATABASE_DISK}`] },
      { Name: "status", Values: ["creating", "available", "in-use"] },
    ],
  });
  return mapAnswer(answer, ({ Volumes = [] }) =>
    Volumes.map(({ VolumeId = "", AvailabilityZone = "", Size = 0 }) => ({
      id: VolumeId,
      zone: AvailabilityZone,
      sizeGiB: Size,
    })),
  );
}

/** A disk that `up` would replace by an empty one, because it is in one zone, or that EBS would not make smaller. */
export function databaseDiskFindings(
  { plan, context: { region, stack } }: AwsTarget,
  answer: Answer<readonly DiskReading[]>,
): readonly Finding[] {
  const [disk] = answer.kind === "answer" ? answer.value : [];
  if (plan.compute !== "ec2" || answer.kind !== "answer" || disk === undefined) return [];
  const zone = `${region}${instanceZone(plan.config)}`;
  const own = answer.value.find((one) => one.zone === zone);
  if (own === undefined) {
    const letter = disk.zone.slice(region.length);
    return [
      problem(
        "databaseDisk",
        `The databases' disk ${disk.id} is in ${disk.zone}, and the machine would be in ${zone}.`,
        "A disk is of one zone: `npx engine-room up` would delete it with all documents, and make an empty one.",
        `Write \`zone: ${letter}\` for the pool, and have ${letter} among the zones of the network. To leave that zone, take a snapshot of ${disk.id} if its documents matter, then run \`npx engine-room down --stack ${stack}\` and \`npx engine-room up --stack ${stack}\`.`,
      ),
    ];
  }
  const { sizeGiB } = plan.config.databaseStorage;
  if (own.sizeGiB <= sizeGiB) return [];
  return [
    problem(
      "databaseDisk",
      `The databases' disk ${own.id} has ${own.sizeGiB} GiB, and the stack file says ${sizeGiB}.`,
      "EBS can't make a disk smaller, so `npx engine-room up` would fail there.",
      `Write \`sizeGiB: ${own.sizeGiB}\` in \`databaseStorage\`.`,
    ),
  ];
}

/**
 * Starts machines, those that still stop once they have stopped: EC2 starts no other ones.
 *
 * @param asleep - Of the stack, in states of {@link ASLEEP}.
 * @throws UserError where AWS refuses, or has no machine of the type.
 */
async function startAsleep(
  context: AwsContext,
  asleep: readonly Machine[],
  pollSeconds = POLL_SECONDS,
): Promise<void> {
  const [first] = asleep;
  if (first === undefined) return;
  const { region, stack } = context;
  const ids = asleep.map(({ id }) => id);
  if (asleep.some(({ state }) => state === "stopping")) await stopEnd(context, ids, pollSeconds);
  const answer = await ask("ec2:StartInstances", region, { InstanceIds: ids });
  if (answer.kind === "silent" && answer.words.startsWith(NO_CAPACITY))
    throw new UserError(
      `EC2 has no ${first.type} for ${ids.join(", ")} in ${first.zone} now (${answer.words}). Try again later, or write another \`instanceType\` for the pool and run \`npx engine-room up --stack ${stack}\`: the disks stay.`,
    );
  required(answer, goneMachine(stack));
}

function goneMachine(stack: string): string {
  return `The machine of ${stack} is gone; \`npx engine-room up --stack ${stack}\` makes it.`;
}

async function stopEnd(context: AwsContext, ids: readonly string[], pollSeconds: number): Promise<void> {
  const deadline = Date.now() + LONGEST_STOP_SECONDS * 1000;
  process.stderr.write(`${ids.join(", ")} still stops, and starts once it has stopped.\n`);
  while (true) {
    const stopping = await stackMachines(context, ["stopping"]);
    if (!stopping.some(({ id }) => ids.includes(id))) return;
    if (Date.now() > deadline)
      throw new UserError(
        `${ids.join(", ")} has not stopped within ${LONGEST_STOP_SECONDS} s, and can't start before; \`npx engine-room status --stack ${context.stack}\` shows its state.`,
      );
    await sleep(pollSeconds * 1000);
  }
}

/** Stops or starts the machine of a stack. @returns What to print. @throws UserError where AWS refuses. */
export async function changeMachine(
  context: AwsContext,
  direction: "sleep" | "wake",
  pollSeconds?: number,
): Promise<string> {
  const { region, stack } = context;
  const all = await stackMachines(context, [...AWAKE, ...ASLEEP]);
  if (all.length === 0)
    return `The stack has no machine; \`npx engine-room up --stack ${stack}\` makes what is missing.\n`;
  const isSleep = direction === "sleep";
  const changed = all.filter(({ state }) => (isSleep ? AWAKE : ASLEEP).includes(state));
  const ids = changed.map(({ id }) => id);
  if (ids.length === 0) {
    const names = all.map(({ id }) => id).join(", ");
    return isSleep
      ? `${names} sleeps already; \`npx engine-room wake --stack ${stack}\` starts it.\n`
      : `${names} is awake already; \`npx engine-room status --stack ${stack}\` shows its state.\n`;
  }
  if (isSleep) required(await ask("ec2:StopInstances", region, { InstanceIds: ids }), goneMachine(stack));
  else await startAsleep(context, changed, pollSeconds);
  return isSleep
    ? `${ids.join(", ")} stops. Its disks, the engine store and the load balancer stay, and cost what they cost; \`npx engine-room wake --stack ${stack}\` starts it.\n`
    : `${ids.join(", ")} starts; its services start with it, and models once they are loaded.\n`;
}
