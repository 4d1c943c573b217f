import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import type { AwsPlan, EksPlan } from "../../../infra/plan/gpu-stack.ts";
import type { NodeGroupReading } from "../../../scripts/aws/eks.ts";
import { changeMachine, changePools, poolChanges } from "../../../scripts/aws/sleep.ts";
import { awsTarget } from "../../../scripts/program/aws-target.ts";
import { EC2_STACK, EKS_STACK } from "../../harness/aws/stacks.ts";
import { type Answers, account, running } from "./account.ts";
import { type FakeAws, startFakeAws } from "./fake-aws.ts";

const planOf = (values: Readonly<Record<string, unknown>>) => checkedPlan(values).plan as EksPlan;
const warm = planOf({
  ...EKS_STACK,
  pools: [
    { name: "gpu", instanceType: "g5.xlarge", nodes: { min: 1, max: 2 } },
    { name: "cpu", instanceType: "m7i.xlarge", nodes: { min: 1, max: 1 } },
  ],
});
const withoutAutoscaler = planOf({
  ...EKS_STACK,
  pools: [
    { name: "gpu", instanceType: "g5.xlarge", nodes: { min: 2, max: 2 } },
    { name: "cpu", instanceType: "m7i.xlarge" },
  ],
  cluster: { charts: { "cluster-autoscaler": "none" } },
});

const group = (pool: string, min: number, desired: number, max = 2): NodeGroupReading => ({
  name: `${pool}-20261121000000000000000001`,
  status: "ACTIVE",
  labels: { "engine-room/pool": pool },
  instanceTypes: [pool === "gpu" ? "g5.xlarge" : "m7i.xlarge"],
  min,
  max,
  desired,
});

describe("pools", () => {
  test("asleep have no least number of machines, and the autoscaler has the rest", () => {
    const changes = poolChanges(warm, [group("gpu", 1, 2), group("cpu", 0, 1)], "sleep");
    expect(changes.map(({ pool, change }) => [pool, change])).toEqual([
      ["gpu", { name: "gpu-20261121000000000000000001", min: 0, max: 2 }],
      ["cpu", null],
    ]);
  });

  test("without autoscaler: those of GPUs go to zero at once, and others stay", () => {
    const changes = poolChanges(withoutAutoscaler, [group("gpu", 0, 2), group("cpu", 0, 1)], "sleep");
    expect(changes.map(({ change }) => change?.desired ?? null)).toEqual([0, null]);
  });

  test("awake have the plan's size again, and no machine less than they have", () => {
    const changes = poolChanges(warm, [group("gpu", 0, 0), group("cpu", 0, 1, 1)], "wake");
    expect(changes.map(({ change }) => change)).toEqual([
      { name: "gpu-20261121000000000000000001", min: 1, max: 2, desired: 1 },
      { name: "cpu-20261121000000000000000001", min: 1, max: 1 },
    ]);
    expect(
      poolChanges(warm, [group("gpu", 1, 2), group("cpu", 1, 1, 1)], "wake").every(
        ({ change }) => change === null,
      ),
    ).toBe(true);
  });

  const notes = (plan: EksPlan, gpus: number, cpus: number) =>
    poolChanges(plan, [group("gpu", 0, gpus), group("cpu", 1, cpus)], "sleep").map(({ note }) => note);

  test("whose machines run still are not called asleep, and it is said when those go", () => {
    expect(notes(warm, 1, 1)).toEqual([
      "1 machine runs still; the autoscaler ends it about 10 minutes after the last server there",
      expect.stringMatching(/^1 machine runs still; the autoscaler ends what the gateway, the databases/),
    ]);
    expect(notes(warm, 2, 2)).toEqual([
      expect.stringMatching(/^2 machines run still; the autoscaler ends them about/),
      expect.stringMatching(/^2 machines run still;/),
    ]);
    expect(notes(warm, 0, 0)).toEqual(["sleeps already", "no machine runs"]);
    expect(notes(withoutAutoscaler, 1, 1)).toEqual([
      "1 machine ends now",
      expect.stringMatching(/^1 machine runs on: other pods are there/),
    ]);
  });

  test.each([
    ["that are not there", []],
    ["that EKS could not make, or deletes", [{ ...group("gpu", 1, 1), status: "CREATE_FAILED" }]],
  ])("%s are said", (_which, groups) => {
    const [gpu] = poolChanges(warm, groups, "sleep");
    expect(gpu).toMatchObject({ change: null, note: expect.stringContaining("npm run up") });
  });
});

let aws: FakeAws | undefined;
const before = { ...process.env };
beforeEach(() => {
  Object.assign(process.env, {
    AWS_ACCESS_KEY_ID: "AKIAIOSFODNN7EXAMPLE",
    AWS_SECRET_ACCESS_KEY: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
  });
});
afterEach(async () => {
  process.env = { ...before };
  await aws?.close();
});

async function use(answers: Answers): Promise<void> {
  aws = await startFakeAws(account(answers));
  process.env.AWS_ENDPOINT_URL = aws.url;
}

describe("what AWS answers, and moto does not", () => {
  test("EKS without the cluster: a sentence with the command that makes it", async () => {
    await use({ "eks:ListNodegroups": () => ({ error: "ResourceNotFoundException", status: 404 }) });
    const { context } = awsTarget(warm, "dev");
    await expect(changePools(warm, context, "sleep")).rejects.toThrow(
      /no cluster engine-room-dev.*npm run up/,
    );
  });

  const ec2 = checkedPlan(EC2_STACK).plan as AwsPlan;

  test("EC2: what AWS refuses is a sentence", async () => {
    await use({
      "ec2:DescribeInstances": () => running([{ type: "g5.xlarge", state: "stopped" }]),
      "ec2:StartInstances": () => ({ error: "InsufficientInstanceCapacity", status: 500 }),
    });
    const { context } = awsTarget(ec2, "dev");
    await expect(changeMachine(context, "wake")).rejects.toThrow(/InsufficientInstanceCapacity/);
  });
});
