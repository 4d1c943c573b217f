/** What sleep and wake do to node groups and to a machine, as EKS and EC2 tell it afterwards. */
import { DescribeInstancesCommand, TerminateInstancesCommand } from "@aws-sdk/client-ec2";
import { DescribeNodegroupCommand } from "@aws-sdk/client-eks";
import { describe, expect, test, vi } from "vitest";
import { checkedPlan } from "../../infra/checked-plan.ts";
import type { EksPlan } from "../../infra/plan/gpu-stack.ts";
import { ask } from "../../scripts/aws/session.ts";
import { changePools } from "../../scripts/aws/sleep.ts";
import { awsTarget } from "../../scripts/program/aws-target.ts";
import { MOTO_ACCOUNT } from "../harness/aws/moto.ts";
import { ec2Client, eksClient, makeCluster, makeMachine } from "../harness/aws/resources.ts";
import { useMoto, wrongRows } from "../harness/aws/use-moto.ts";
import { writtenStackFile } from "../harness/stack-files.ts";
import { runCommand } from "../scripts/plan/run-plan.ts";

vi.mock("../../scripts/aws/session.ts", { spy: true });

const REGION = "us-west-2";
const STACK = "dev";
const CLUSTER = "engine-room-dev";
const moto = useMoto(REGION);

const shared = {
  platform: "aws",
  account: MOTO_ACCOUNT,
  region: REGION,
  models: [{ name: "gpt2-medium", model: "gpt2-medium" }],
};

describe("node groups of a cluster", () => {
  const planOf = (values: Readonly<Record<string, unknown>> = {}) =>
    checkedPlan({
      ...shared,
      access: { apiCidrs: ["203.0.113.7/32"] },
      pools: [
        { name: "gpu", instanceType: "g5.xlarge", nodes: { min: 1, max: 3 } },
        { name: "cpu", instanceType: "m7i.xlarge", nodes: { min: 1, max: 2 } },
      ],
      engines: { whenFull: "stopServer" },
      ...values,
    }).plan as EksPlan;
  const withoutAutoscaler = planOf({ cluster: { charts: { "cluster-autoscaler": "none" } } });

  const groups = [
    { pool: "gpu", name: "gpu-0001", min: 1, max: 3, desired: 2 },
    { pool: "cpu", name: "cpu-0001", min: 1, max: 2, desired: 1 },
    { pool: "system", name: "system-0001", min: 1, max: 2, desired: 2 },
    { pool: null, name: "by-hand", min: 2, max: 2, desired: 2 },
  ];

  const change = (plan: EksPlan, direction: "sleep" | "wake") =>
    changePools(plan, awsTarget(plan, STACK).context, direction);

  /** As EKS tells it: least, desired and most machines, by group. */
  async function sizes(): Promise<Readonly<Record<string, unknown>>> {
    const answers = groups.map(async ({ name }) => {
      const { nodegroup } = await eksClient(REGION).send(
        new DescribeNodegroupCommand({ clusterName: CLUSTER, nodegroupName: name }),
      );
      const { minSize, desiredSize, maxSize } = nodegroup?.scalingConfig ?? {};
      return [name, [minSize, desiredSize, maxSize]] as const;
    });
    return Object.fromEntries(await Promise.all(answers));
  }
  const others = { "system-0001": [1, 2, 2], "by-hand": [2, 2, 2] };

  test("have no least number asleep, and that of the stack file awake; what is no pool of it stays", async () => {
    const plan = planOf();
    await makeCluster(REGION, CLUSTER, groups);
    await change(plan, "sleep");
    // The autoscaler, which nobody plays here, takes machines away.
    expect(await sizes()).toEqual({ ...others, "gpu-0001": [0, 2, 3], "cpu-0001": [0, 1, 2] });
    expect(await change(plan, "sleep")).toMatch(/^gpu +0 +2 machines run still/m);
    await change(plan, "wake");
    expect(await sizes()).toEqual({ ...others, "gpu-0001": [1, 2, 3], "cpu-0001": [1, 1, 2] });
  });

  test("without autoscaler: machines with GPUs end, and as many as the stack file wants come back", async () => {
    await makeCluster(REGION, CLUSTER, groups);
    await change(withoutAutoscaler, "sleep");
    expect(await sizes()).toMatchObject({ ...others, "gpu-0001": [0, 0, 3] });
    await change(withoutAutoscaler, "wake");
    expect(await sizes()).toEqual({ ...others, "gpu-0001": [1, 1, 3], "cpu-0001": [1, 1, 2] });
  });

  test("many of them are read at once, and Node has nothing to warn of", async () => {
    const warnings: string[] = [];
    const warned = ({ message }: Error) => warnings.push(message);
    process.on("warning", warned);
    const many = Array.from({ length: 12 }, (_, index) => ({
      pool: index === 11 ? "gpu" : null,
      name: `group-${index}`,
      ...{ min: 1, max: 1, desired: 1 },
    }));
    await makeCluster(REGION, CLUSTER, many);
    expect(await change(planOf(), "sleep")).toMatch(/^gpu +0 /m);
    process.off("warning", warned);
    expect(warnings).toEqual([]);
  });
});

describe("a stack on EC2", () => {
  const tags = { "engine-room:stack": STACK };
  const command = (name: "sleep" | "wake") => {
    const file = writtenStackFile(moto.folder(), {
      ...shared,
      compute: "ec2",
      pools: [{ name: "gpu", instanceType: "g5.xlarge" }],
    });
    return runCommand(name, "--stack", STACK, "--config-file", file);
  };

  /** By id. */
  async function states(): Promise<Readonly<Record<string, string | undefined>>> {
    const { Reservations = [] } = await ec2Client(REGION).send(new DescribeInstancesCommand({}));
    const found = Reservations.flatMap(({ Instances = [] }) => Instances);
    return Object.fromEntries(found.map(({ InstanceId = "", State }) => [InstanceId, State?.Name]));
  }

  test("its machine stops and starts, and nobody else's does", async () => {
    const own = await makeMachine(REGION, { type: "g5.xlarge", tags });
    const other = await makeMachine(REGION, { type: "g5.xlarge", tags: { "engine-room:stack": "prod" } });
    const nobodys = await makeMachine(REGION, { type: "g5.xlarge", isStopped: true });
    const asleep = await command("sleep");
    expect(asleep).toMatchObject({ exitCode: 0, stderr: "" });
    expect(asleep.stdout).toMatch(new RegExp(`^${own} stops\\.`));
    expect(await states()).toEqual({ [own]: "stopped", [other]: "running", [nobodys]: "stopped" });
    expect((await command("sleep")).stdout).toMatch(
      new RegExp(
        `^${own} sleeps already; \`npm run wake -- --stack dev\` starts it\\.\nAsleep the stack still costs`,
      ),
    );
    expect((await command("wake")).stdout).toMatch(new RegExp(`^${own} starts;`));
    expect(await states()).toEqual({ [own]: "running", [other]: "running", [nobodys]: "stopped" });
    expect((await command("wake")).stdout).toMatch(new RegExp(`^${own} is awake already;`));
  });

  test("a machine that ended is none: both say what makes another one", async () => {
    const id = await makeMachine(REGION, { type: "g5.xlarge", tags });
    await ec2Client(REGION).send(new TerminateInstancesCommand({ InstanceIds: [id] }));
    for (const name of ["sleep", "wake"] as const)
      expect(await command(name)).toMatchObject({
        exitCode: 0,
        stdout: expect.stringMatching(/^No machine of it .*npm run up -- --stack dev/),
      });
  });
});

test("moto has answered what the table of operations says", () => {
  expect(wrongRows(vi.mocked(ask), "sleep")).toEqual([]);
});
