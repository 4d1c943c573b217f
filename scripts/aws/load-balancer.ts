/** What the load balancer of a stack says of the machine behind it. */
import { setTimeout as sleep } from "node:timers/promises";
import type { TargetHealthDescription } from "@aws-sdk/client-elastic-load-balancing-v2";
import type { AwsContext } from "../../infra/plan/aws/context.ts";
import type { EdgePlan } from "../../infra/plan/aws/edge.ts";
import { UserError } from "../errors.ts";
import { type Answer, ask, clientSettings } from "./session.ts";

type Edge = Pick<EdgePlan, "targetGroup">;

/** Health as its load balancer has it. */
interface TargetReading {
  /** Of the machine. */
  readonly id: string;
  /** `initial`, `healthy`, `unhealthy`, `unused`, `draining`, `unavailable`. */
  readonly state: string;
  /** `Target.FailedHealthChecks`; empty where nobody says. */
  readonly reason: string;
  readonly words: string;
}

/** Two good answers ten seconds apart make a target healthy; the rest is for a load balancer that has just been made. */
const LIMIT_SECONDS = 180;
const PAUSE_MILLISECONDS = 5000;

/** A machine that is stopped or on its way to it. https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_TargetHealth.html */
const STOPPED = "Target.InvalidState";

const sdk = () => import("@aws-sdk/client-elastic-load-balancing-v2");

async function client(region: string) {
  const { ElasticLoadBalancingV2Client } = await sdk();
  return new ElasticLoadBalancingV2Client(clientSettings(region));
}

/** ARN of a target group, which is found by its name. */
async function targetGroup(region: string, name: string): Promise<Answer<string>> {
  const { DescribeTargetGroupsCommand } = await sdk();
  const balancing = await client(region);
  const groups = await ask("elasticloadbalancing:DescribeTargetGroups", (options) =>
    balancing.send(new DescribeTargetGroupsCommand({ Names: [name] }), options),
  );
  if (groups.kind !== "answer") return groups;
  const arn = groups.value.TargetGroups?.[0]?.TargetGroupArn;
  return arn === undefined ? { kind: "absent" } : { kind: "answer", value: arn };
}

async function targetReadings(
  region: string,
  TargetGroupArn: string,
): Promise<Answer<readonly TargetReading[]>> {
  const { DescribeTargetHealthCommand } = await sdk();
  const balancing = await client(region);
  return ask("elasticloadbalancing:DescribeTargetHealth", async (options) => {
    const command = new DescribeTargetHealthCommand({ TargetGroupArn });
    const { TargetHealthDescriptions = [] } = await balancing.send(command, options);
    return TargetHealthDescriptions.map(targetReading);
  });
}

function targetReading({ Target, TargetHealth }: TargetHealthDescription): TargetReading {
  const { State = "", Reason = "", Description = "" } = TargetHealth ?? {};
  return { id: Target?.Id ?? "", state: State, reason: Reason, words: Description };
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
  { targetGroup: { name: targetGroupName, port: targetPort, healthCheck } }: Edge,
  { limitSeconds = LIMIT_SECONDS, pauseMilliseconds = PAUSE_MILLISECONDS } = {},
): Promise<string> {
  const end = Date.now() + limitSeconds * 1000;
  const group = await targetGroup(region, targetGroupName);
  for (;;) {
    const answer = group.kind === "answer" ? await targetReadings(region, group.value) : group;
    if (answer.kind !== "answer")
      return `Whether the load balancer sends requests to the machine is not known: ${answer.kind === "absent" ? `there is no target group ${targetGroupName}` : answer.words}.\n`;
    const targets = answer.value;
    if (targets.some(({ state }) => state === "healthy")) return "";
    if (targets.length > 0 && targets.every(({ reason }) => reason === STOPPED)) return "";
    if (Date.now() >= end)
      throw new UserError(
        `The load balancer of ${stack} sends no requests to its machine after ${limitSeconds} s: ${targetWords(targets)}. It asks the machine's port ${targetPort} for ${healthCheck.path}; \`npx engine-room logs gateway --stack ${stack}\` says whether the gateway is asked.`,
      );
    await sleep(pauseMilliseconds);
  }
}

function targetWords(targets: readonly TargetReading[]): string {
  if (targets.length === 0) return "no machine is registered with it";
  return targets
    .map(({ id, state, reason, words }) => `${id} is ${state} (${words || reason || "without a reason"})`)
    .join(", ");
}
