/** What `npm run up` tells AWS before Pulumi begins, with EKS and its own rules about sizes for a stand-in. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import type { EksPlan } from "../../../infra/plan/gpu-stack.ts";
import { ConfigError } from "../../../infra/problems.ts";
import { readyMachines } from "../../../scripts/aws/before-up.ts";
import { plannedSize, sizePools } from "../../../scripts/aws/pool-sizes.ts";
import { changePools } from "../../../scripts/aws/sleep.ts";
import { type AwsTarget, awsTarget } from "../../../scripts/program/aws-target.ts";
import { EKS_STACK } from "../../harness/aws/stacks.ts";
import { type Answers, account } from "./account.ts";
import { type FakeAws, type FakeInput, startFakeAws, stubCredentials } from "./fake-aws.ts";

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

interface Group {
  /** One after the other, the last one again and again. @default ["ACTIVE"] */
  readonly statuses?: string[];
  readonly instanceType?: string;
  /** Of a list that has it, and of no answer. */
  readonly isGone?: boolean;
}

const TYPES: Readonly<Record<string, string>> = { gpu: "g5.xlarge", cpu: "m7i.xlarge", system: "m7i.large" };

/**
 * A cluster whose node groups have these sizes. EKS keeps what it isn't told, and refuses what does not fit.
 *
 * @param statuses - Of an update, as those of a group. @param groups - What differs from a group that is ACTIVE.
 */
function cluster(
  sizes: Record<string, Size>,
  statuses: string[] = [],
  groups: Readonly<Record<string, Group>> = {},
): Answers {
  const statusOf = (name: string) => groups[name]?.statuses?.[0] ?? "ACTIVE";
  const nameOf = ({ path }: FakeInput) => /node-groups\/([^/]+)/.exec(path)?.[1] ?? "";
  return {
    "eks:ListNodegroups": () => ({ json: { nodegroups: Object.keys(sizes) } }),
    "eks:DescribeNodegroup": (input) => {
      const name = nameOf(input);
      const { min, max, desired } = sizes[name] as Size;
      const { statuses: left = [], instanceType, isGone } = groups[name] ?? {};
      if (isGone === true) return { error: "ResourceNotFoundException", status: 404 };
      const pool = name.replace(/-\d+$/, "");
      const nodegroup = {
        status: statusOf(name),
        labels: { "engine-room/pool": pool },
        instanceTypes: [instanceType ?? TYPES[pool]],
        scalingConfig: { minSize: min, maxSize: max, desiredSize: desired },
      };
      if (left.length > 1) left.shift();
      return { json: { nodegroup } };
    },
    "eks:UpdateNodegroupConfig": (input) => {
      if (!["ACTIVE", "DEGRADED"].includes(statusOf(nameOf(input))))
        return { error: "ResourceInUseException", status: 409 };
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

/** All of whose images are pushed. */
const targetOf = (gpu: object): AwsTarget => ({ ...awsTarget(planOf(gpu), "dev"), imageProblems: [] });

const SYSTEM = { min: 2, max: 4, desired: 2 };
const ONE = { min: 1, max: 1, desired: 1 };

let aws: FakeAws | undefined;
beforeEach(() => {
  stubCredentials();
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
    const lines = await readyMachines(targetOf({ nodes: { min: 0, max: 2 }, warm: 1 }));
    expect(sizes["gpu-1"]).toEqual({ min: 1, max: 2, desired: 1 });
    expect(lines).toEqual([
      "Pool gpu: 0 to 2 machines with 0 wanted before, 1 to 2 machines with 1 wanted now",
    ]);
    expect(changes()).toBe(1);
  });

  test("with a raised most leaves the machines that serve", async () => {
    const sizes = { "gpu-1": { min: 0, max: 4, desired: 4 } };
    await use(cluster(sizes));
    await readyMachines(targetOf({ nodes: { min: 0, max: 6 } }));
    expect(sizes["gpu-1"]).toEqual({ min: 0, max: 6, desired: 4 });
  });

  test("with a lower most ends what is above it", async () => {
    const sizes = { "gpu-1": { min: 0, max: 4, desired: 4 } };
    await use(cluster(sizes));
    await readyMachines(targetOf({ nodes: { min: 0, max: 2 } }));
    expect(sizes["gpu-1"]).toEqual({ min: 0, max: 2, desired: 2 });
  });

  test("after a sleep wakes the pools", async () => {
    const sizes: Record<string, Size> = { "gpu-1": { min: 1, max: 2, desired: 1 }, "cpu-1": { ...ONE } };
    await use(cluster(sizes));
    const target = targetOf({ nodes: { min: 1, max: 2 } });
    await changePools(target.plan as EksPlan, target.context, "sleep");
    // The autoscaler takes them away.
    sizes["gpu-1"] = { min: 0, max: 2, desired: 0 };
    await readyMachines(target);
    expect(sizes).toEqual({ "gpu-1": { min: 1, max: 2, desired: 1 }, "cpu-1": ONE });
  });

  test("tells EKS nothing where all is so, or where there is no cluster yet", async () => {
    await use(cluster({ "gpu-1": { min: 0, max: 2, desired: 2 }, "cpu-1": ONE, "system-1": SYSTEM }));
    const target = targetOf({ nodes: { min: 0, max: 2 } });
    expect(await readyMachines(target)).toEqual([]);
    expect(changes()).toBe(0);
    await aws?.close();
    await use({ "eks:ListNodegroups": () => ({ error: "ResourceNotFoundException", status: 404 }) });
    expect(await readyMachines(target)).toEqual([]);
  });

  test("leaves groups that take no size, and says so", async () => {
    const none = { min: 0, max: 0, desired: 0 };
    const sizes = { "gpu-1": { ...ONE }, "gpu-2": { ...none }, "gpu-3": { ...none }, "gpu-4": { ...none } };
    const groups = {
      "gpu-1": { statuses: ["CREATE_FAILED"] },
      "gpu-2": { statuses: ["DELETING"] },
      "gpu-3": { statuses: ["DEGRADED"] },
      "gpu-4": { isGone: true },
    };
    await use(cluster(sizes, [], groups));
    expect(await readyMachines(targetOf({ nodes: { min: 0, max: 1 } }))).toEqual([
      "Pool gpu: its node group gpu-1 is CREATE_FAILED, and takes no size",
      "Pool gpu: its node group gpu-2 is DELETING, and takes no size",
      "Pool gpu: 0 to 0 machines with 0 wanted before, 0 to 1 machines with 0 wanted now",
    ]);
    expect(sizes).toMatchObject({ "gpu-1": ONE, "gpu-2": none, "gpu-3": { min: 0, max: 1, desired: 0 } });
  });

  test("waits for a group that EKS makes or changes, and not where it has its size", async () => {
    const { context, plan } = targetOf({ nodes: { min: 0, max: 2 } });
    const sizes = { "gpu-1": { ...ONE }, "cpu-1": ONE };
    const groups = {
      "gpu-1": { statuses: ["CREATING", "UPDATING", "ACTIVE"] },
      "cpu-1": { statuses: ["UPDATING"] },
    };
    await use(cluster(sizes, [], groups));
    await sizePools(plan as EksPlan, context, 0);
    expect(sizes["gpu-1"]).toEqual({ min: 0, max: 2, desired: 1 });
  });

  test("starts no machine of a type that Pulumi replaces", async () => {
    const sizes = { "gpu-1": { min: 0, max: 1, desired: 0 } };
    await use(cluster(sizes, [], { "gpu-1": { instanceType: "p4d.24xlarge" } }));
    expect(await readyMachines(targetOf({ nodes: { min: 1, max: 1 } }))).toEqual([]);
    expect(changes()).toBe(0);
  });

  test("of images that no machine can pull asks nothing", async () => {
    await use({});
    const target = awsTarget(planOf({}), "dev");
    await expect(readyMachines(target)).rejects.toThrow(ConfigError);
    expect(aws?.asked).toEqual([]);
  });

  test("waits until EKS has changed a group, and says why it has not", async () => {
    const { context, plan } = targetOf({ nodes: { min: 0, max: 2 } });
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
});

test("a size that is right already is none", () => {
  const group = { name: "gpu-1", min: 0, max: 2, desired: 1 };
  expect(plannedSize({ min: 0, max: 2 }, group)).toBeNull();
  expect(plannedSize({ min: 0, max: 3 }, group)).toEqual({ name: "gpu-1", min: 0, max: 3 });
});
