/** How `up` and `wake` start the machine of a stack, with EC2 and its states for a stand-in. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import type { AwsPlan } from "../../../infra/plan/gpu-stack.ts";
import { readyMachines } from "../../../scripts/aws/before-up.ts";
import { changeMachine } from "../../../scripts/aws/sleep.ts";
import { awsTarget } from "../../../scripts/program/aws-target.ts";
import { EC2_STACK } from "../../harness/aws/stacks.ts";
import { type Answers, account, disks, running } from "./account.ts";
import { type FakeAnswer, type FakeAws, type FakeInput, startFakeAws, stubCredentials } from "./fake-aws.ts";

const target = {
  ...awsTarget(checkedPlan(EC2_STACK).plan as AwsPlan, "dev"),
  imageProblems: [],
};

let aws: FakeAws;
beforeEach(() => {
  stubCredentials();
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await aws.close();
});

/**
 * An account with one machine, which EC2 starts only where it is stopped.
 *
 * @param machine.states - One after the other, the last one again and again.
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

const starts = () => aws.asked.filter((action) => action === "ec2:StartInstances").length;

const WAYS = {
  up: async () => (await readyMachines(target, 0)).join(),
  wake: () => changeMachine(target.context, "wake", 0),
} as const;

describe.each(["up", "wake"] as const)("%s", (way) => {
  test("starts a machine that sleeps", async () => {
    await use({ states: ["stopped"] });
    expect(await WAYS[way]()).toMatch(/^i-0 (was asleep, and )?starts/);
    expect(starts()).toBe(1);
  });

  test("starts one that still stops, once it has stopped", async () => {
    await use({ states: ["stopping", "stopping", "stopped"] });
    expect(await WAYS[way]()).toMatch(/^i-0 (was asleep, and )?starts/);
    expect(starts()).toBe(1);
  });

  test("starts none that runs", async () => {
    await use({ states: ["running"] });
    await WAYS[way]();
    expect(starts()).toBe(0);
  });

  test("says what else to do where EC2 has no machine of the type", async () => {
    await use(
      { states: ["stopped"] },
      { "ec2:StartInstances": () => ({ error: "InsufficientInstanceCapacity", status: 500 }) },
    );
    await expect(WAYS[way]()).rejects.toThrow(
      /^EC2 has no g5\.xlarge for i-0 in us-east-1a now \(InsufficientInstanceCapacity.*another `instanceType`/,
    );
  });
});

describe("up does nothing where the databases' disk", () => {
  test.each([
    ["is in another zone", { zone: "b", sizeGiB: 20 }, /vol-1 is in us-east-1b.*\n.*\nFix: Write `zone: b`/],
    ["would have to shrink", { zone: "a", sizeGiB: 21 }, /vol-1 has 21 GiB.*\n.*\nFix: Write `sizeGiB: 21`/],
  ])("%s", async (_what, disk, words) => {
    await use({ states: ["stopped"] }, { "ec2:DescribeVolumes": () => disks({ "vol-1": disk }) });
    await expect(readyMachines(target, 0)).rejects.toThrow(words);
    expect(aws.asked).toEqual(["ec2:DescribeVolumes"]);
  });

  test("is not known", async () => {
    await use({ states: ["stopped"] }, { "ec2:DescribeVolumes": () => ({ error: "UnauthorizedOperation" }) });
    await expect(readyMachines(target, 0)).rejects.toThrow(/may not ask ec2:DescribeVolumes/);
    expect(starts()).toBe(0);
  });
});

test("up takes a disk that is where it should be", async () => {
  await use(
    { states: ["stopped"] },
    { "ec2:DescribeVolumes": () => disks({ "vol-1": { zone: "a", sizeGiB: 20 } }) },
  );
  expect(await readyMachines(target, 0)).toHaveLength(1);
});

describe("up leaves to Pulumi", () => {
  test.each([
    ["of another type", { type: "p4d.24xlarge" }],
    ["in another zone", { zone: "us-east-1b" }],
  ])("a machine that sleeps, %s than the stack file's", async (_which, differs) => {
    await use({ states: ["stopped"], ...differs });
    expect(await readyMachines(target, 0)).toEqual([]);
    expect(starts()).toBe(0);
  });
});
