/** `up` on one machine ends when the load balancer sends requests to it. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { edgePlan } from "../../../infra/plan/aws/edge.ts";
import { awaitTarget } from "../../../scripts/aws/load-balancer.ts";
import { awsPlan, ec2Values } from "../../infra/plan/aws/stacks.ts";
import { account } from "./account.ts";
import { type FakeAnswer, type FakeAws, startFakeAws, stubCredentials, xmlAnswer } from "./fake-aws.ts";

const GROUPS = "elasticloadbalancing:DescribeTargetGroups";
const HEALTH = "elasticloadbalancing:DescribeTargetHealth";
const { plan, context } = awsPlan(ec2Values);
const edge = edgePlan(plan, context);
const GROUP_ARN = `arn:aws:elasticloadbalancing:us-east-1:111122223333:targetgroup/${edge.targetGroupName}/0123456789abcdef`;

let aws: FakeAws;
beforeEach(() => {
  stubCredentials();
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await aws.close();
});

interface Target {
  readonly id: string;
  readonly state: string;
  readonly reason?: string;
}

const health = (...targets: readonly Target[]): FakeAnswer =>
  xmlAnswer(
    "DescribeTargetHealth",
    {
      TargetHealthDescriptions: targets.map(({ id, state, reason }) => ({
        Target: { Id: id, Port: edge.targetPort },
        TargetHealth: { State: state, ...(reason === undefined ? {} : { Reason: reason }) },
      })),
    },
    "member",
  );
const initial = health({ id: "i-0", state: "initial", reason: "Elb.InitialHealthChecking" });
const unhealthy = health({ id: "i-0", state: "unhealthy", reason: "Target.FailedHealthChecks" });
const healthy = health({ id: "i-0", state: "healthy" });

/** @param answers - Of the health, one after the other, the last one again and again. */
async function awaited(answers: readonly FakeAnswer[], limitSeconds = 60, group?: FakeAnswer) {
  let asked = 0;
  aws = await startFakeAws(
    account({
      [GROUPS]: ({ parameters }) => {
        expect(parameters.get("Names.member.1")).toBe(edge.targetGroupName);
        return (
          group ??
          xmlAnswer("DescribeTargetGroups", { TargetGroups: [{ TargetGroupArn: GROUP_ARN }] }, "member")
        );
      },
      [HEALTH]: ({ parameters }) => {
        expect(parameters.get("TargetGroupArn")).toBe(GROUP_ARN);
        return answers[Math.min(asked++, answers.length - 1)] ?? { error: "InternalFailure" };
      },
    }),
  );
  vi.stubEnv("AWS_ENDPOINT_URL", aws.url);
  return awaitTarget(context, edge, { limitSeconds, pauseMilliseconds: 1 });
}
const questions = () => aws.asked.filter((action) => action === HEALTH).length;

describe("a machine behind the load balancer", () => {
  test("is waited for until it is healthy there", async () => {
    expect(await awaited([health(), initial, unhealthy, healthy])).toBe("");
    expect(questions()).toBe(4);
  });

  test("may have a predecessor that is on its way out", async () => {
    const both = health({ id: "i-1", state: "draining" }, { id: "i-0", state: "initial" });
    expect(await awaited([both, healthy])).toBe("");
    expect(questions()).toBe(2);
  });

  test("is a failure of `up` where it is not healthy in time, with the load balancer's reason", async () => {
    await expect(awaited([unhealthy], 0)).rejects.toThrow(
      "The load balancer of demo sends no requests to its machine after 0 s: i-0 is unhealthy (Target.FailedHealthChecks). It asks the machine's port 8080 for /healthz; `npm run logs -- gateway --stack demo` says whether the gateway is asked.",
    );
  });

  test("is a failure where nobody is registered", async () => {
    await expect(awaited([health()], 0)).rejects.toThrow(/no machine is registered with it/);
  });

  test("is not waited for while it is stopped", async () => {
    const stopped = health({ id: "i-0", state: "unused", reason: "Target.InvalidState" });
    expect(await awaited([stopped])).toBe("");
    expect(questions()).toBe(1);
  });

  test.each<readonly [string, FakeAnswer | undefined, FakeAnswer, RegExp]>([
    ["who may not ask for groups", { error: "AccessDenied" }, healthy, /is not known: AccessDenied/],
    ["who may not ask for health", undefined, { error: "AccessDenied" }, /is not known: AccessDenied/],
    [
      "who finds no group",
      { error: "TargetGroupNotFound" },
      healthy,
      /is not known: there is no target group engine-room-demo-/,
    ],
  ])("is not known to %s", async (_who, group, answer, words) => {
    expect(await awaited([answer], 60, group)).toMatch(words);
  });
});
