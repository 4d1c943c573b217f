/** Preflight of a stack on AWS: quotas, and capacity that is reserved. */
import { describe, expect, test } from "vitest";
import { EKS_STACK } from "../../../harness/aws/stacks.ts";
import { type Answers, networks, quotaOf, running } from "../account.ts";
import { xmlAnswer } from "../fake-aws.ts";
import { eks, found, MACHINES, NEEDS, useWorld, type Values, world } from "./world.ts";

useWorld();

describe("quotas", () => {
  test("say the code and how many vCPUs are missing, with what runs already", async () => {
    const findings = await found({
      "servicequotas:GetServiceQuota": quotaOf("L-DB2E81BA", 10),
      "ec2:DescribeInstances": () => running([{ type: "g5.xlarge" }, { type: "m7i.xlarge" }]),
    });
    expect(findings).toHaveLength(1);
    // 2 × 4 of the pool and 4 that run, of 10.
    expect(findings[0]).toMatchObject({
      severity: "warning",
      check: "quotas",
      what: "The quota L-DB2E81BA lacks 2 vCPUs.",
    });
    expect(findings[0]?.fix).toContain("--desired-value 12");
  });

  test("that leave no room for the machines that `up` waits for are a problem", async () => {
    const two = {
      ...NEEDS,
      machines: MACHINES.map((one) => ({ ...one, plannedMachines: 2, maxMachines: 2 })),
    };
    const [finding] = await found({ "servicequotas:GetServiceQuota": quotaOf("L-DB2E81BA", 7) }, eks, two);
    expect(finding).toMatchObject({ severity: "problem", what: "The quota L-DB2E81BA lacks 1 vCPUs." });
    expect(finding?.why).toContain("`npm run up` waits for machines with 8");
  });

  test("do not count the stack's own machines twice", async () => {
    const own = [
      { type: "g5.xlarge", tags: { "engine-room:stack": "dev" } },
      { type: "g5.xlarge", tags: { "eks:cluster-name": "engine-room-dev" } },
    ];
    expect(
      await found({
        "servicequotas:GetServiceQuota": quotaOf("L-DB2E81BA", 8),
        "ec2:DescribeInstances": () => running(own),
      }),
    ).toEqual([]);
  });

  test("of spot machines are others, and count spot machines alone", async () => {
    const spot = MACHINES.map((one) => ({ ...one, isSpot: true }));
    const findings = await found(
      {
        "servicequotas:GetServiceQuota": quotaOf("L-3819A6DF", 8),
        "ec2:DescribeInstances": () => running([{ type: "g5.xlarge", isSpot: true }, { type: "g5.xlarge" }]),
      },
      eks,
      { ...NEEDS, machines: spot },
    );
    expect(findings.map(({ what }) => what)).toEqual(["The quota L-3819A6DF lacks 4 vCPUs."]);
  });

  test("that hold all machines and no update of them are a warning", async () => {
    const machines = MACHINES.map((one) => (one.pool === "cpu" ? { ...one, surgeMachines: 4 } : one));
    const findings = await found({ "servicequotas:GetServiceQuota": quotaOf("L-1216C47A", 15) }, eks, {
      ...NEEDS,
      machines,
    });
    // 4 of the pool and 4 × 4 besides, of 15.
    expect(findings.map(({ severity, what }) => [severity, what])).toEqual([
      ["warning", "The quota L-1216C47A lacks 5 vCPUs for an update of the machines."],
    ]);
    expect(findings[0]?.why).toContain("has 11 left");
    expect(findings[0]?.why).toContain("4 × m7i.xlarge of cpu");
    expect(
      await found({ "servicequotas:GetServiceQuota": quotaOf("L-1216C47A", 20) }, eks, {
        ...NEEDS,
        machines,
      }),
    ).toEqual([]);
  });

  test("that nobody changed have AWS's default", async () => {
    const findings = await found({
      "servicequotas:GetServiceQuota": ({ body }) =>
        body.QuotaCode === "L-DB2E81BA"
          ? { error: "NoSuchResourceException" }
          : { json: { Quota: { Value: 1000 } } },
      "servicequotas:GetAWSDefaultServiceQuota": () => ({ json: { Quota: { Value: 0 } } }),
    });
    expect(findings.map(({ what }) => what)).toEqual(["The quota L-DB2E81BA lacks 8 vCPUs."]);
  });

  test("of VPCs and addresses count what others have", async () => {
    const findings = await found({
      "servicequotas:GetServiceQuota": ({ body }) => ({
        json: {
          Quota: { Value: body.QuotaCode === "L-F678F1CE" || body.QuotaCode === "L-0263D0A3" ? 1 : 999 },
        },
      }),
      "ec2:DescribeVpcs": () => networks({ "vpc-1": { cidr: "172.31.0.0/16" } }),
      "ec2:DescribeAddresses": () =>
        xmlAnswer("DescribeAddresses", { addressesSet: [{ publicIp: "192.0.2.1" }] }),
    });
    expect(findings.map(({ what }) => what)).toEqual([
      "The quota L-F678F1CE lacks 1.",
      "The quota L-0263D0A3 lacks 1.",
    ]);
  });
});

describe("capacity reservations", () => {
  const id = "cr-0123456789abcdef0";
  const reserved: Values = {
    ...eks,
    pools: [{ ...EKS_STACK.pools[0], zones: ["a"], capacityReservationId: id }, EKS_STACK.pools[1]],
  };
  const holding = (changes: object = {}): Answers => ({
    "ec2:DescribeCapacityReservations": () =>
      xmlAnswer("DescribeCapacityReservations", {
        capacityReservationSet: [
          {
            capacityReservationId: id,
            instanceType: "g5.xlarge",
            availabilityZone: "us-east-1a",
            state: "active",
            reservationType: "default",
            totalInstanceCount: 2,
            availableInstanceCount: 2,
            ...changes,
          },
        ],
      }),
  });

  test.each<[string, changes: object, readonly [string, string], plannedMachines?: number]>([
    [
      "another type",
      { instanceType: "g5.2xlarge" },
      ["problem", `The capacity reservation ${id} holds no g5.xlarge.`],
    ],
    [
      "another zone",
      { availabilityZone: "us-east-1b" },
      ["problem", `The capacity reservation ${id} is in another zone than the pool gpu.`],
    ],
    ["over", { state: "expired" }, ["problem", `The capacity reservation ${id} is not active.`]],
    [
      "a Capacity Block",
      { reservationType: "capacity-block" },
      ["problem", `The capacity reservation ${id} is a Capacity Block.`],
    ],
    [
      "too small",
      { totalInstanceCount: 1, availableInstanceCount: 1 },
      ["warning", `The capacity reservation ${id} has room for 1 of 2 machines of the pool gpu.`],
    ],
    [
      "too small for what `up` waits for",
      { totalInstanceCount: 1, availableInstanceCount: 1 },
      ["problem", `The capacity reservation ${id} has room for 1 of 2 machines of the pool gpu.`],
      2,
    ],
    [
      "used by others",
      { availableInstanceCount: 0 },
      ["problem", `The capacity reservation ${id} has room for 0 of 2 machines of the pool gpu.`],
    ],
  ])("%s", async (_, changes, finding, plannedMachines = 1) => {
    const machines = MACHINES.map((one) => ({ ...one, plannedMachines }));
    const findings = await found(holding(changes), reserved, { ...NEEDS, machines });
    expect(findings.map(({ severity, what }) => [severity, what])).toEqual([finding]);
  });

  test("that hold what the pool wants are no finding, whoever of the stack uses them", async () => {
    expect(await found(holding(), reserved)).toEqual([]);
    await world.aws?.close();
    const own = { type: "g5.xlarge", tags: { "engine-room:stack": "dev" } };
    const used = {
      ...holding({ availableInstanceCount: 0 }),
      "ec2:DescribeInstances": () => running([own, own]),
    };
    expect(await found(used, reserved)).toEqual([]);
  });

  test("that are not there are a problem", async () => {
    const none = () => ({ error: "InvalidCapacityReservationId.NotFound" }) as const;
    const findings = await found({ "ec2:DescribeCapacityReservations": none }, reserved);
    expect(findings.map(({ severity, what }) => [severity, what])).toEqual([
      ["problem", `There is no capacity reservation ${id}.`],
    ]);
  });
});
