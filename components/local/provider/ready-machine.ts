/**
 * `local:index:ReadyMachine`: a machine of EC2 that has run its commands, and to which its load balancer sends requests. AWS's provider
 * waits for a command too, but checks the state of the whole association, which may be success before the machine has reported (issue 31175
 * of terraform-provider-aws): then nothing has run. A load balancer answers 503 itself until the machine has passed two health checks.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { type HandlerContext, resourceHandler } from "./contract.ts";

const POLL_MILLISECONDS = 5000;
const REQUEST_TIMEOUT_MILLISECONDS = 15_000;

/** Two good answers ten seconds apart make a target healthy; the rest is for a new load balancer. */
const TARGET_LIMIT_SECONDS = 180;

/** A machine that is stopped or stops. https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_TargetHealth.html */
const STOPPED = "Target.InvalidState";

export const readyMachineInputs = z.strictObject({
  region: z.string(),
  instanceId: z.string(),
  /** Target group in which the machine is registered. */
  targetGroupArn: z.string(),
  /** Ids of the associations of Systems Manager, by name, in the order in which they run. */
  commands: z.record(z.string(), z.string()),
  /** How long all commands together may take. */
  commandSeconds: z.number().min(0),
});

type ReadyMachine = z.infer<typeof readyMachineInputs>;

export const readyMachine = readyMachineHandler(POLL_MILLISECONDS, TARGET_LIMIT_SECONDS);

/** @param pollMilliseconds - Time between two requests to AWS. @param targetSeconds - Limit for a target to become healthy. */
export function readyMachineHandler(pollMilliseconds: number, targetSeconds: number) {
  return resourceHandler<ReadyMachine, ReadyMachine>({
    schema: readyMachineInputs,
    replaceOn: ["region", "instanceId", "targetGroupArn"],
    ignored: ["commandSeconds"],
    idOf: ({ instanceId }) => instanceId,
    async bring(machine, _olds, context) {
      const { instanceId, commands, commandSeconds } = machine;
      const aws = await connected(machine);
      const wait = { context, pollMilliseconds };
      await until(commandSeconds, wait, async () => {
        const state = await aws.state();
        if (state === "running") return null;
        if (state !== "pending")
          throw new Error(
            `The machine ${instanceId} is ${state}, and runs no command; \`npx engine-room wake\` starts it.`,
          );
        return `The machine ${instanceId} is still ${state} after ${commandSeconds} s.`;
      });
      await until(commandSeconds, wait, async () => missingCommands(machine, await aws.runs()));
      await until(targetSeconds, wait, async () => {
        const targets = await aws.targets();
        return isServed(targets) ? null : unserved(targets, instanceId, targetSeconds);
      });
      context.report(`has run ${Object.keys(commands).length} commands, and gets requests`);
      return machine;
    },
    /** `up` waits for a machine that was started again; a sleeping machine is unchanged. */
    async find(machine) {
      return isServed(await (await connected(machine)).targets()) ? machine : undefined;
    },
    // It goes with the machine.
    remove: async () => undefined,
  });
}

interface Run {
  readonly id: string;
  readonly status: string;
  readonly words: string;
}

interface Target {
  readonly id: string;
  readonly state: string;
  readonly reason: string;
  readonly words: string;
}

/** Questions about a machine, with the credentials of the environment. */
async function connected({ region, instanceId, targetGroupArn }: ReadyMachine) {
  const [ec2, ssm, elasticloadbalancing] = await Promise.all([
    import("@aws-sdk/client-ec2"),
    import("@aws-sdk/client-ssm"),
    import("@aws-sdk/client-elastic-load-balancing-v2"),
  ]);
  const requestHandler = { requestTimeout: REQUEST_TIMEOUT_MILLISECONDS, throwOnRequestTimeout: true };
  const settings = { region, requestHandler };
  const machines = new ec2.EC2Client(settings);
  const commands = new ssm.SSMClient(settings);
  const balancers = new elasticloadbalancing.ElasticLoadBalancingV2Client(settings);
  return {
    async state(): Promise<string> {
      const answer = await machines.send(new ec2.DescribeInstancesCommand({ InstanceIds: [instanceId] }));
      return answer.Reservations?.[0]?.Instances?.[0]?.State?.Name ?? "gone";
    },
    /** Systems Manager does not know a machine that has not reported yet. */
    async runs(): Promise<readonly Run[]> {
      try {
        const question = new ssm.DescribeInstanceAssociationsStatusCommand({ InstanceId: instanceId });
        const { InstanceAssociationStatusInfos = [] } = await commands.send(question);
        return InstanceAssociationStatusInfos.map(
          ({ AssociationId = "", Status = "", ExecutionSummary }) => ({
            id: AssociationId,
            status: Status,
            words: ExecutionSummary || "Systems Manager returned no reason",
          }),
        );
      } catch (error) {
        if ((error as Error).name === "InvalidInstanceId") return [];
        throw error;
      }
    },
    async targets(): Promise<readonly Target[]> {
      const question = new elasticloadbalancing.DescribeTargetHealthCommand({
        TargetGroupArn: targetGroupArn,
      });
      const { TargetHealthDescriptions = [] } = await balancers.send(question);
      return TargetHealthDescriptions.map(({ Target, TargetHealth }) => ({
        id: Target?.Id ?? "",
        state: TargetHealth?.State ?? "",
        reason: TargetHealth?.Reason ?? "",
        words: TargetHealth?.Description || TargetHealth?.Reason || "without a reason",
      }));
    },
  };
}

/** @returns A sentence about missing commands; null when all have run. @throws Error if a command failed. */
function missingCommands(
  { region, instanceId, commands, commandSeconds }: ReadyMachine,
  runs: readonly Run[],
): string | null {
  const states = Object.entries(commands).map(([name, id]) => ({
    name,
    run: runs.find((one) => one.id === id),
  }));
  const failed = states.find(({ run }) => run?.status === "Failed");
  if (failed?.run !== undefined)
    throw new Error(
      `The command ${failed.name} failed on ${instanceId}: ${failed.run.words}. State Manager has its output; \`aws ssm start-associations-once --region ${region} --association-ids ${failed.run.id}\` runs it again.`,
    );
  const missing = states.filter(({ run }) => run?.status !== "Success").map(({ name }) => name);
  return missing.length === 0
    ? null
    : `${instanceId} has not run ${missing.join(", ")} within ${commandSeconds} s.`;
}

/** A stopped machine gets requests once it is awake. */
function isServed(targets: readonly Target[]): boolean {
  const isStopped = targets.length > 0 && targets.every(({ reason }) => reason === STOPPED);
  return isStopped || targets.some(({ state }) => state === "healthy");
}

function unserved(targets: readonly Target[], instanceId: string, seconds: number): string {
  const words = targets.map(({ id, state, words: reason }) => `${id} is ${state} (${reason})`);
  return `The load balancer sends no requests to ${instanceId} after ${seconds} s: ${words.join(", ") || "no machine is registered with it"}. The log of the gateway on the machine shows whether requests arrive.`;
}

interface Wait {
  readonly context: HandlerContext;
  readonly pollMilliseconds: number;
}

/** @param ask - Returns the missing condition, or null. @throws Error with the condition after the time. */
async function until(
  seconds: number,
  { context: { signal }, pollMilliseconds }: Wait,
  ask: () => Promise<string | null>,
): Promise<void> {
  const deadline = Date.now() + seconds * 1000;
  while (true) {
    const missing = await ask();
    if (missing === null) return;
    if (Date.now() >= deadline) throw new Error(missing);
    await sleep(pollMilliseconds, undefined, signal && { signal });
  }
}
