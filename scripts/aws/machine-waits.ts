/** Waits of `up` for the machine of a stack on EC2: for its commands, and for its load balancer. */
import { setTimeout as sleep } from "node:timers/promises";
import type { AwsContext } from "../../infra/plan/aws/context.ts";
import type { EdgePlan } from "../../infra/plan/aws/edge.ts";
import type { InstanceTask } from "../../infra/plan/aws/machine/tasks.ts";
import { UserError } from "../errors.ts";
import { type Machine, stackMachine } from "./machine.ts";
import { type Answer, ask, mapAnswer } from "./session.ts";

const COMMAND_PAUSE_MILLISECONDS = 10_000;

/** Two good answers ten seconds apart make a target healthy; the rest is for a load balancer that has just been made. */
const TARGET_LIMIT_SECONDS = 180;
const TARGET_PAUSE_MILLISECONDS = 5000;

/** A machine that is stopped or stops. https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_TargetHealth.html */
const STOPPED = "Target.InvalidState";

/** Of a stack: each has to have succeeded on its machine. */
type Tasks = readonly Pick<InstanceTask, "name" | "document" | "waitSeconds">[];

/**
 * Waits until the machine of a stack has run all its commands, of which the last one ends when the gateway answers there. The
 * provider waits too, but for what Systems Manager says of an association as a whole, which may be success while the machine has
 * not reported yet (issue 31175 of terraform-provider-aws): then nothing has run.
 *
 * @returns what to print; "" where the machine has run all of them.
 * @throws UserError where the machine does not run, a command failed, or the time of all of them is over.
 */
export async function awaitCommands(
  context: AwsContext,
  tasks: Tasks,
  pauseMilliseconds = COMMAND_PAUSE_MILLISECONDS,
): Promise<string> {
  const { region, stack } = context;
  const seconds = tasks.reduce((sum, { waitSeconds }) => sum + waitSeconds, 0);
  const end = Date.now() + seconds * 1000;
  const status = `\`npx engine-room status --stack ${stack}\` shows its state.`;
  const machine = await runningMachine(context, end, pauseMilliseconds);
  for (;;) {
    const answer = await machineCommands(region, machine.id);
    if (answer.kind !== "answer")
      return `Whether ${machine.id} has run everything is not known: ${answer.kind === "absent" ? "AWS has no answer" : answer.words}. ${status}\n`;
    const runs = tasks.map(({ name, document }) => ({
      name,
      command: answer.value.find(({ Name }) => Name === document.name),
    }));
    const failed = runs.find(({ command }) => command?.Status === "Failed");
    if (failed !== undefined)
      throw new UserError(
        `The command ${failed.name} failed on ${machine.id}: ${failed.command?.ExecutionSummary || "Systems Manager does not say why"}. State Manager has its output; \`aws ssm start-associations-once --region ${region} --association-ids ${failed.command?.AssociationId}\` runs it again.`,
      );
    const missing = runs.filter(({ command }) => command?.Status !== "Success").map(({ name }) => name);
    if (missing.length === 0) return "";
    if (Date.now() >= end)
      throw new UserError(`${machine.id} has not run ${missing.join(", ")} within ${seconds} s. ${status}`);
    await sleep(pauseMilliseconds);
  }
}

/** Associations of a machine with their states; a machine that has not reported yet has run none. */
async function machineCommands(region: string, id: string) {
  const answer = await ask("ssm:DescribeInstanceAssociationsStatus", region, { InstanceId: id });
  if (answer.kind === "silent" && answer.words.startsWith("InvalidInstanceId"))
    return { kind: "answer", value: [] } as const;
  return mapAnswer(answer, ({ InstanceAssociationStatusInfos = [] }) => InstanceAssociationStatusInfos);
}

/** A machine that was asleep may still start when Pulumi is done. */
async function runningMachine(context: AwsContext, end: number, pauseMilliseconds: number): Promise<Machine> {
  const { region, stack } = context;
  for (;;) {
    const machine = await stackMachine(context);
    if (machine?.state === "running") return machine;
    if (machine === null)
      throw new UserError(
        `${region} has no machine of ${stack} any more, so nothing serves; \`npx engine-room up --stack ${stack}\` makes another one.`,
      );
    if (machine.state !== "pending" || Date.now() >= end)
      throw new UserError(
        `The machine ${machine.id} of ${stack} is ${machine.state}, so nothing serves; \`npx engine-room wake --stack ${stack}\` starts it.`,
      );
    await sleep(pauseMilliseconds);
  }
}

/**
 * Waits until the load balancer of a stack on one machine sends its requests there: it asks every ten seconds, and answers 503
 * itself until the machine has answered twice.
 *
 * @returns what to print; "" where it does, and where the machine is stopped.
 * @throws UserError where it does not within three minutes.
 */
export async function awaitTarget(
  { region, stack }: AwsContext,
  { targetGroup: { name, port, healthCheck } }: Pick<EdgePlan, "targetGroup">,
  { limitSeconds = TARGET_LIMIT_SECONDS, pauseMilliseconds = TARGET_PAUSE_MILLISECONDS } = {},
): Promise<string> {
  const end = Date.now() + limitSeconds * 1000;
  const group = await targetGroup(region, name);
  for (;;) {
    const answer =
      group.kind === "answer"
        ? await ask("elasticloadbalancing:DescribeTargetHealth", region, { TargetGroupArn: group.value })
        : group;
    if (answer.kind !== "answer")
      return `Whether the load balancer sends requests to the machine is not known: ${answer.kind === "absent" ? `there is no target group ${name}` : answer.words}.\n`;
    const targets = answer.value.TargetHealthDescriptions ?? [];
    if (targets.some(({ TargetHealth }) => TargetHealth?.State === "healthy")) return "";
    if (targets.length > 0 && targets.every(({ TargetHealth }) => TargetHealth?.Reason === STOPPED))
      return "";
    if (Date.now() >= end) {
      const words = targets.map(({ Target, TargetHealth: health }) => {
        const reason = health?.Description || health?.Reason || "without a reason";
        return `${Target?.Id} is ${health?.State} (${reason})`;
      });
      throw new UserError(
        `The load balancer of ${stack} sends no requests to its machine after ${limitSeconds} s: ${words.join(", ") || "no machine is registered with it"}. It asks the machine's port ${port} for ${healthCheck.path}; \`npx engine-room logs gateway --stack ${stack}\` says whether the gateway is asked.`,
      );
    }
    await sleep(pauseMilliseconds);
  }
}

/** ARN of a target group. */
async function targetGroup(region: string, name: string): Promise<Answer<string>> {
  const answer = await ask("elasticloadbalancing:DescribeTargetGroups", region, { Names: [name] });
  if (answer.kind !== "answer") return answer;
  const arn = answer.value.TargetGroups?.[0]?.TargetGroupArn;
  return arn === undefined ? { kind: "absent" } : { kind: "answer", value: arn };
}
