/** What `npm run up` tells AWS before Pulumi begins, with EKS and its own rules about sizes for a stand-in. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import type { AwsPlan, EksPlan } from "../../../infra/plan/gpu-stack.ts";
import { readyMachines } from "../../../scripts/aws/before-up.ts";
import { plannedSize, sizePools } from "../../../scripts/aws/pool-sizes.ts";
import { changePools } from "../../../scripts/aws/sleep.ts";
import { awsTarget } from "../../../scripts/program/aws-target.ts";
import { EC2_STACK, EKS_STACK } from "../../harness/aws/stacks.ts";
import { type Answers, account, running } from "./account.ts";
import { type FakeAws, type FakeInput, startFakeAws } from "./fake-aws.ts";

interface Size {
  min: number;
  max: number;
  desired: number;
}

const planOf = (gpu: object) =>
  checkedPlan({
    ...EKS_STACK,
    pools: [
      { name: "gpu", instanceType: "g5.xlarge", ...gpu },
      { name: "cpu", instanceType: "m7i.xlarge" },
    ],
  }).plan as EksPlan;

/** A cluster whose node groups have these sizes. EKS keeps what it isn't told, and refuses what does not fit. */
function cluster(sizes: Record<string, Size>, statuses: string[] = []): Answers {
  const nameOf = ({ path }: FakeInput) => /node-groups\/([^/]+)/.exec(path)?.[1] ?? "";
  return {
    "eks:ListNodegroups": () => ({ json: { nodegroups: Object.keys(sizes) } }),
    "eks:DescribeNodegroup": (input) => {
      const { min, max, desired } = sizes[nameOf(input)] as Size;
      const labels = { "engine-room/pool": nameOf(input).replace(/-\d+$/, "") };
      const scalingConfig = { minSize: min, maxSize: max, desiredSize: desired };
      return { json: { nodegroup: { labels, scalingConfig } } };
    },
    "eks:UpdateNodegroupConfig": (input) => {
      const before = sizes[nameOf(input)] as Size;
      const { minSize, maxSize, desiredSize } = input.body.scalingConfig as Record<string, number>;
      const size = {
        min: minSize ?? before.min,
        max: maxSize ?? before.max,
        desired: desiredSize ?? before.desired,
      };
      if (size.min > size.desired || size.desired > size.max) return { error: "InvalidParameterException" };
      sizes[nameOf(input)] = size;
      return { json: { update: { id: "update-1", status: "InProgress" } } };
    },
    "eks:DescribeUpdate": () => ({ json: { update: { status: statuses.shift() ?? "Successful" } } }),
  };
}

const SYSTEM = { min: 2, max: 4, desired: 2 };
const ONE = { min: 1, max: 1, desired: 1 };

let aws: FakeAws | undefined;
beforeEach(() => {
  vi.stubEnv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE");
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await aws?.close();
});

async function use(answers: Answers): Promise<void> {
  aws = await startFakeAws(account(answers));
  vi.stubEnv("AWS_ENDPOINT_URL", aws.url);
}

const changes = () => aws?.asked.filter((action) => action === "eks:UpdateNodegroupConfig").length;

describe("an up", () => {
  test("with a raised least number starts the machines that lack", async () => {
    const sizes = { "gpu-1": { min: 0, max: 2, desired: 0 }, "cpu-1": ONE, "system-1": SYSTEM };
    await use(cluster(sizes));
    const lines = await readyMachines(awsTarget(planOf({ nodes: { min: 0, max: 2 }, warm: 1 }), "dev"));
    expect(sizes["gpu-1"]).toEqual({ min: 1, max: 2, desired: 1 });
    expect(lines).toEqual([
      "Pool gpu: 0 to 2 machines with 0 wanted before, 1 to 2 machines with 1 wanted now",
    ]);
    expect(changes()).toBe(1);
  });

  test("with a raised most leaves the machines that serve", async () => {
    const sizes = { "gpu-1": { min: 0, max: 4, desired: 4 } };
    await use(cluster(sizes));
    await readyMachines(awsTarget(planOf({ nodes: { min: 0, max: 6 } }), "dev"));
    expect(sizes["gpu-1"]).toEqual({ min: 0, max: 6, desired: 4 });
  });

  test("with a lower most ends what is above it", async () => {
    const sizes = { "gpu-1": { min: 0, max: 4, desired: 4 } };
    await use(cluster(sizes));
    await readyMachines(awsTarget(planOf({ nodes: { min: 0, max: 2 } }), "dev"));
    expect(sizes["gpu-1"]).toEqual({ min: 0, max: 2, desired: 2 });
  });

  test("after a sleep wakes the pools", async () => {
    const sizes: Record<string, Size> = { "gpu-1": { min: 1, max: 2, desired: 1 }, "cpu-1": { ...ONE } };
    await use(cluster(sizes));
    const target = awsTarget(planOf({ nodes: { min: 1, max: 2 } }), "dev");
    await changePools(target.plan as EksPlan, target.context, "sleep");
    // The autoscaler takes them away.
    sizes["gpu-1"] = { min: 0, max: 2, desired: 0 };
    await readyMachines(target);
    expect(sizes).toEqual({ "gpu-1": { min: 1, max: 2, desired: 1 }, "cpu-1": ONE });
  });

  test("tells EKS nothing where all is so, or where there is no cluster yet", async () => {
    await use(cluster({ "gpu-1": { min: 0, max: 2, desired: 2 }, "cpu-1": ONE, "system-1": SYSTEM }));
    const target = awsTarget(planOf({ nodes: { min: 0, max: 2 } }), "dev");
    expect(await readyMachines(target)).toEqual([]);
    expect(changes()).toBe(0);
    await aws?.close();
    await use({ "eks:ListNodegroups": () => ({ error: "ResourceNotFoundException", status: 404 }) });
    expect(await readyMachines(target)).toEqual([]);
  });

  test("waits until EKS has changed a group, and says why it has not", async () => {
    const { context, plan } = awsTarget(planOf({ nodes: { min: 0, max: 2 } }), "dev");
    await use(cluster({ "gpu-1": { min: 0, max: 1, desired: 1 } }, ["InProgress", "InProgress"]));
    await sizePools(plan as EksPlan, context, 0);
    expect(aws?.asked.filter((action) => action === "eks:DescribeUpdate")).toHaveLength(3);
    await aws?.close();
    await use({
      ...cluster({ "gpu-1": { min: 0, max: 1, desired: 1 } }),
      "eks:DescribeUpdate": () => ({
        json: {
          update: { status: "Failed", errors: [{ errorCode: "AccessDenied", errorMessage: "not now" }] },
        },
      }),
    });
    await expect(sizePools(plan as EksPlan, context, 0)).rejects.toThrow(
      /gpu-1.*Failed.*AccessDenied: not now/,
    );
  });

  test("of a machine that sleeps starts it, before commands wait for it", async () => {
    const states: (string | null)[] = [];
    await use({
      "ec2:DescribeInstances": ({ parameters }) => {
        states.push(parameters.get("Filter.2.Value.1"));
        return running([{ type: "g5.xlarge" }]);
      },
      "ec2:StartInstances": () => ({ xml: "<StartInstancesResponse/>" }),
    });
    const plan = checkedPlan(EC2_STACK).plan as AwsPlan;
    expect(await readyMachines(awsTarget(plan, "dev"))).toEqual(["i-0 was asleep, and starts"]);
    expect(states).toEqual(["stopped"]);
    expect(aws?.asked.at(-1)).toBe("ec2:StartInstances");
  });
});

test("a size that is right already is none", () => {
  const group = { name: "gpu-1", labels: {}, min: 0, max: 2, desired: 1 };
  expect(plannedSize({ min: 0, max: 2 }, group)).toBeNull();
  expect(plannedSize({ min: 0, max: 3 }, group)).toEqual({ name: "gpu-1", min: 0, max: 3 });
});
