import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import type { AwsPlan, EksPlan } from "../../../infra/plan/gpu-stack.ts";
import { changeMachine, readyMachines } from "../../../scripts/aws/machine.ts";
import { changePools, type NodeGroupReading, poolChanges } from "../../../scripts/aws/pools.ts";
import { asleepLine } from "../../../scripts/platforms/aws.ts";
import { awsTarget } from "../../../scripts/program/targets.ts";
import { EC2_STACK, EKS_STACK } from "../../harness/aws/stacks.ts";
import { writtenStackFile } from "../../harness/stack-files.ts";
import { runCommand } from "../plan/run-plan.ts";
import { type Answers, account, disks, running } from "./account.ts";
import { type FakeAnswer, type FakeAws, type FakeInput, startFakeAws, stubCredentials } from "./fake-aws.ts";

let aws: FakeAws | undefined;
beforeEach(() => stubCredentials());
afterEach(async () => {
  await aws?.close();
  aws = undefined;
});
const asked = () => aws?.asked ?? [];

describe("starting the machine", () => {
  const target = {
    ...awsTarget(checkedPlan(EC2_STACK).plan as AwsPlan, "dev"),
    imageProblems: [],
  };

  /**
   * An account with one machine, which EC2 starts only if it is stopped.
   *
   * @param machine.states - States of consecutive requests; the last state repeats.
   */
  async function use(
    machine: { readonly states: readonly string[]; readonly type?: string; readonly zone?: string },
    changes: Answers = {},
  ): Promise<void> {
    const left = [...machine.states];
    const { type = "g5.xlarge", zone = "us-east-1a" } = machine;
    const describeInstances = ({ parameters }: FakeInput): FakeAnswer => {
      const state = (left.length > 1 ? left.shift() : left[0]) ?? "";
      const asked = [...parameters].flatMap(([key, value]) => (/^Filter\.2\.Value/.test(key) ? [value] : []));
      return running(asked.includes(state) ? [{ type, zone, state }] : []);
    };
    const answers: Answers = {
      "ec2:DescribeInstances": describeInstances,
      "ec2:StartInstances": () =>
        left[0] === "stopped" ? { xml: "<StartInstancesResponse/>" } : { error: "IncorrectInstanceState" },
      ...changes,
    };
    aws = await startFakeAws(account(answers));
    vi.stubEnv("AWS_ENDPOINT_URL", aws.url);
    vi.spyOn(process.stderr, "write").mockReturnValue(true);
  }

  const starts = () => asked().filter((action) => action === "ec2:StartInstances").length;

  const WAYS = {
    up: async () => (await readyMachines(target, 0)).join(),
    wake: () => changeMachine(target.context, "wake", 0),
  } as const;

  describe.each(["up", "wake"] as const)("`%s`", (way) => {
    test("the command starts a stopped machine", async () => {
      await use({ states: ["stopped"] });
      expect(await WAYS[way]()).toMatch(/^i-0 (was asleep, and )?starts/);
      expect(starts()).toBe(1);
    });

    test("the command waits for a stopping machine and then starts it", async () => {
      await use({ states: ["stopping", "stopping", "stopped"] });
      expect(await WAYS[way]()).toMatch(/^i-0 (was asleep, and )?starts/);
      expect(starts()).toBe(1);
    });

    test("the command does not start a running machine", async () => {
      await use({ states: ["running"] });
      await WAYS[way]();
      expect(starts()).toBe(0);
    });

    test("the command suggests another instance type if EC2 lacks capacity", async () => {
      await use(
        { states: ["stopped"] },
        { "ec2:StartInstances": () => ({ error: "InsufficientInstanceCapacity", status: 500 }) },
      );
      await expect(WAYS[way]()).rejects.toThrow(
        /^EC2 has no g5\.xlarge for i-0 in us-east-1a now \(InsufficientInstanceCapacity.*another `instanceType`/,
      );
    });
  });

  test.each([
    ["is in another zone", { zone: "b", sizeGiB: 20 }, "vol-0 is in us-east-1b"],
    ["is larger than the stack file says", { zone: "a", sizeGiB: 2000 }, "vol-0 has 2000 GiB"],
  ])("`up` is refused before any start if the databases' disk %s", async (_where, disk, words) => {
    await use({ states: ["stopped"] }, { "ec2:DescribeVolumes": () => disks({ "vol-0": disk }) });
    await expect(readyMachines(target, 0)).rejects.toThrow(`The databases' disk ${words}`);
    expect(starts()).toBe(0);
  });

  test("`wake` of a machine that is gone fails", async () => {
    const gone = () => ({ error: "InvalidInstanceID.NotFound" });
    await use({ states: ["stopped"] }, { "ec2:StartInstances": gone });
    await expect(WAYS.wake()).rejects.toThrow("EC2 has no i-0 in us-east-1 any more; `npx engine-room up");
  });

  test("`sleep` of a machine that is gone fails", async () => {
    const gone = () => ({ error: "InvalidInstanceID.NotFound" });
    await use({ states: ["running"] }, { "ec2:StopInstances": gone });
    await expect(changeMachine(target.context, "sleep")).rejects.toThrow(
      "EC2 has no i-0 in us-east-1 any more",
    );
  });

  test.each([
    ["of another type", { type: "p4d.24xlarge" }],
    ["in another zone", { zone: "us-east-1b" }],
  ])("`up` lets Pulumi start a stopped machine %s than the stack file's", async (_which, differs) => {
    await use({ states: ["stopped"], ...differs });
    expect(await readyMachines(target, 0)).toEqual([]);
    expect(starts()).toBe(0);
  });
});

describe("sleep", () => {
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

  const othersAutoscaler = planOf({
    ...EKS_STACK,
    pools: [
      { name: "gpu", instanceType: "g5.xlarge", nodes: { min: 1, max: 2 } },
      { name: "cpu", instanceType: "m7i.xlarge", nodes: { min: 0, max: 2 } },
    ],
    cluster: { charts: { "cluster-autoscaler": "existing" } },
  });

  const group = (pool: string, min: number, desired: number, max = 2): NodeGroupReading => ({
    name: `${pool}-20261121000000000000000001`,
    status: "ACTIVE",
    labels: { "engine-room/pool": pool },
    instanceTypes: [pool === "gpu" ? "g5.xlarge" : "m7i.xlarge"],
    release: "1.36.0-20260915",
    ...{ min, max, desired },
  });

  const all = (machines: number) => [
    group("system", 2, machines),
    group("gpu", 1, machines),
    group("cpu", 0, machines),
  ];

  test.each([
    ["with its own autoscaler", warm],
    ["without an autoscaler", withoutAutoscaler],
  ])("`sleep` of a cluster %s ends every machine, those of controllers last", (_which, plan) => {
    const changes = poolChanges(plan, all(2), "sleep");
    expect(changes.map(({ pool }) => pool)).toEqual(["cpu", "gpu", "system"]);
    for (const { pool, change } of changes)
      expect(change).toEqual({
        name: `${pool}-20261121000000000000000001`,
        minSize: 0,
        maxSize: 2,
        desiredSize: 0,
      });
    const asleep = all(0).map((one) => ({ ...one, min: 0 }));
    expect(poolChanges(plan, asleep, "sleep").every(({ change }) => change === null)).toBe(true);
  });

  test("`sleep` with an existing autoscaler sets the minimum of pools to 0, and keeps machines of controllers", () => {
    const changes = poolChanges(othersAutoscaler, all(2), "sleep");
    expect(changes.map(({ pool, change }) => [pool, change])).toEqual([
      ["cpu", null],
      ["gpu", { name: "gpu-20261121000000000000000001", minSize: 0, maxSize: 2 }],
    ]);
  });

  test("`wake` gives pools the plan's sizes and ends no machine", () => {
    const changes = poolChanges(
      warm,
      [group("system", 0, 0, 4), group("gpu", 0, 0), group("cpu", 0, 1, 1)],
      "wake",
    );
    expect(changes.map(({ change }) => change)).toEqual([
      { name: "system-20261121000000000000000001", minSize: 2, maxSize: 4, desiredSize: 2 },
      { name: "gpu-20261121000000000000000001", minSize: 1, maxSize: 2, desiredSize: 1 },
      { name: "cpu-20261121000000000000000001", minSize: 1, maxSize: 1 },
    ]);
    expect(
      poolChanges(warm, [group("system", 2, 3, 4), group("gpu", 1, 2), group("cpu", 1, 1, 1)], "wake").every(
        ({ change }) => change === null,
      ),
    ).toBe(true);
  });

  const note = (plan: EksPlan, machines: number) =>
    poolChanges(plan, [group("cpu", 1, machines)], "sleep")[0]?.note;

  test("`sleep` says when a pool's running machines end", () => {
    expect(note(warm, 0)).toBe("no machine runs");
    expect(note(warm, 1)).toBe("1 machine ends within 15 minutes");
    expect(note(othersAutoscaler, 2)).toBe(
      "2 machines until the autoscaler ends what no pod used for about 10 minutes",
    );
  });

  test.each([
    ["without a node group", []],
    ["whose node group EKS could not create", [{ ...group("gpu", 1, 1), status: "CREATE_FAILED" }]],
  ])("`sleep` of a pool %s names `npx engine-room up`", (_which, groups) => {
    const gpu = poolChanges(warm, groups, "sleep").find(({ pool }) => pool === "gpu");
    expect(gpu).toMatchObject({ change: null, note: expect.stringContaining("npx engine-room up") });
  });

  async function use(answers: Answers): Promise<void> {
    aws = await startFakeAws(account(answers));
    vi.stubEnv("AWS_ENDPOINT_URL", aws.url);
  }

  test("`sleep` of a missing EKS cluster names `npx engine-room up`", async () => {
    await use({ "eks:ListNodegroups": () => ({ error: "ResourceNotFoundException", status: 404 }) });
    const { context } = awsTarget(warm, "dev");
    await expect(changePools(warm, context, "sleep")).rejects.toThrow(
      /no cluster engine-room-dev.*npx engine-room up/,
    );
  });

  test("`wake` of a node group that is gone fails", async () => {
    await use({
      "eks:ListNodegroups": () => ({ json: { nodegroups: ["gpu-1"] } }),
      "eks:DescribeNodegroup": () => ({
        json: {
          nodegroup: {
            status: "ACTIVE",
            labels: { "engine-room/pool": "gpu" },
            scalingConfig: { minSize: 0, maxSize: 2, desiredSize: 0 },
          },
        },
      }),
      "eks:UpdateNodegroupConfig": () => ({ error: "ResourceNotFoundException", status: 404 }),
    });
    const { context } = awsTarget(warm, "dev");
    await expect(changePools(warm, context, "wake")).rejects.toThrow(
      "The cluster engine-room-dev has no node group gpu-1 any more",
    );
  });

  const ec2 = checkedPlan(EC2_STACK).plan as AwsPlan;

  test("`wake` reports a refusal of EC2", async () => {
    await use({
      "ec2:DescribeInstances": () => running([{ type: "g5.xlarge", state: "stopped" }]),
      "ec2:StartInstances": () => ({ error: "InsufficientInstanceCapacity", status: 500 }),
    });
    const { context } = awsTarget(ec2, "dev");
    await expect(changeMachine(context, "wake")).rejects.toThrow(/InsufficientInstanceCapacity/);
  });
});

describe("commands for a stack on EC2", () => {
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "engine-room-asleep-"));
  });

  afterEach(() => rmSync(folder, { recursive: true, maxRetries: 5 }));

  const useAccount = async (answers: Answers) => {
    aws = await startFakeAws(account(answers));
    vi.stubEnv("AWS_ENDPOINT_URL", aws.url);
  };

  test("a problem of the stack file is reported before AWS is asked", async () => {
    await useAccount({});
    const { account: _, ...values } = EC2_STACK;
    const file = writtenStackFile(folder, values);
    const { exitCode, stderr } = await runCommand("status", "--stack", "dev", "--config-file", file);
    expect(exitCode).toBe(1);
    expect(stderr).toContain("account");
    expect(stderr).not.toContain("undefined");
    expect(asked()).toEqual([]);
  });

  test("`sleep` prints what a stopped machine's stack still costs", async () => {
    await useAccount({
      "ec2:DescribeInstances": () => running([{ type: "g5.xlarge" }]),
      "ec2:StopInstances": () => ({ xml: "<StopInstancesResponse/>" }),
    });
    const file = writtenStackFile(folder, EC2_STACK);
    const { exitCode, stdout, stderr } = await runCommand("sleep", "--stack", "dev", "--config-file", file);
    expect([exitCode, stderr]).toEqual([0, ""]);
    const { cost } = checkedPlan(EC2_STACK).plan as AwsPlan;
    expect(stdout.endsWith(asleepLine({ cost }, "dev"))).toBe(true);
    expect(stdout).toContain(`at least $${cost.asleepHourlyUsd?.toFixed(3)} an hour`);
  });
});
