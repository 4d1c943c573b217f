import { describe, expect, test } from "vitest";
import { checkedPlan } from "../../../../infra/checked-plan.ts";
import type { AwsPlan } from "../../../../infra/plan/gpu-stack.ts";
import { machineNeeds, vcpuFindings } from "../../../../scripts/preflight/aws-capacity.ts";
import { checkTable } from "../../../../scripts/preflight/finding.ts";
import { awsTarget } from "../../../../scripts/program/targets.ts";
import { EC2_STACK, EKS_STACK } from "../../../harness/aws/stacks.ts";
import { projectStackValues } from "../../../harness/stack-files.ts";
import { type Answers, quotaOf, running } from "../account.ts";
import { xmlAnswer } from "../fake-aws.ts";
import { eks, found, MACHINES, preflight, useWorld, type Values, world } from "./account-fixture.ts";

useWorld();

test("a low quota is reported with its code and the missing vCPUs, running machines included", async () => {
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

test("a quota below the machines that `up` waits for is a problem", async () => {
  const two = MACHINES.map((one) => ({ ...one, plannedMachines: 2, maxMachines: 2 }));
  const [finding] = await found({ "servicequotas:GetServiceQuota": quotaOf("L-DB2E81BA", 7) }, eks, two);
  expect(finding).toMatchObject({ severity: "problem", what: "The quota L-DB2E81BA lacks 1 vCPUs." });
  expect(finding?.why).toContain("`npx engine-room up` waits for machines with 8");
});

test("quotas do not count the stack's own machines twice", async () => {
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

test("a pool with several instance types needs each in its zones, and a quota for the largest", async () => {
  const values = {
    ...eks,
    pools: [{ ...EKS_STACK.pools[0], otherInstanceTypes: ["g5.4xlarge"] }, EKS_STACK.pools[1]],
  };
  const target = awsTarget(checkedPlan(values).plan as AwsPlan, "dev");
  const [, gpu] = machineNeeds(target);
  expect(gpu).toMatchObject({ instanceType: "g5.xlarge", otherInstanceTypes: ["g5.4xlarge"], vcpus: 16 });
  const onlyFirst: Answers = {
    "ec2:DescribeInstanceTypeOfferings": () =>
      xmlAnswer("DescribeInstanceTypeOfferings", {
        instanceTypeOfferingSet: ["g5.xlarge", "m7i.large", "m7i.xlarge"].flatMap((instanceType) =>
          ["us-east-1a", "us-east-1b"].map((location) => ({ instanceType, location })),
        ),
      }),
  };
  const findings = await found(onlyFirst, values, machineNeeds(target));
  expect(findings.filter(({ check }) => check === "offerings").map(({ what }) => what)).toEqual([
    "The pool gpu finds no g5.4xlarge in us-east-1a, us-east-1b.",
  ]);
});

test("quotas of spot machines count only spot machines", async () => {
  const spot = MACHINES.map((one) => ({ ...one, isSpot: true }));
  const findings = await found(
    {
      "servicequotas:GetServiceQuota": quotaOf("L-3819A6DF", 8),
      "ec2:DescribeInstances": () => running([{ type: "g5.xlarge", isSpot: true }, { type: "g5.xlarge" }]),
    },
    eks,
    spot,
  );
  expect(findings.map(({ what }) => what)).toEqual(["The quota L-3819A6DF lacks 4 vCPUs."]);
});

test("an unchanged quota has AWS's default", async () => {
  const findings = await found({
    "servicequotas:GetServiceQuota": ({ body }) =>
      body.QuotaCode === "L-DB2E81BA"
        ? { error: "NoSuchResourceException" }
        : { json: { Quota: { Value: 1000 } } },
    "servicequotas:GetAWSDefaultServiceQuota": () => ({ json: { Quota: { Value: 0 } } }),
  });
  expect(findings.map(({ what }) => what)).toEqual(["The quota L-DB2E81BA lacks 8 vCPUs."]);
});

describe("capacity reservations", () => {
  const id = "cr-0123456789abcdef0";
  const named = `The capacity reservation ${id} of the pool gpu`;
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
    ["of another instance type", { instanceType: "g5.2xlarge" }, ["problem", `${named} holds g5.2xlarge.`]],
    ["in another zone", { availabilityZone: "us-east-1b" }, ["problem", `${named} is in us-east-1b.`]],
    ["that has expired", { state: "expired" }, ["problem", `${named} is expired, not active.`]],
    [
      "that is a Capacity Block",
      { reservationType: "capacity-block" },
      ["problem", `${named} is a Capacity Block, and the pool has capacity: onDemand.`],
    ],
    [
      "for fewer machines than the pool's largest number",
      { totalInstanceCount: 1, availableInstanceCount: 1 },
      ["warning", `${named} has room for 1 of 2 machines.`],
    ],
    [
      "for fewer machines than `up` waits for",
      { totalInstanceCount: 1, availableInstanceCount: 1 },
      ["problem", `${named} has room for 1 of 2 machines.`],
      2,
    ],
    [
      "that others use up",
      { availableInstanceCount: 0 },
      ["problem", `${named} has room for 0 of 2 machines.`],
    ],
  ])("a capacity reservation %s is reported", async (_, changes, finding, plannedMachines = 1) => {
    const machines = MACHINES.map((one) => ({ ...one, plannedMachines }));
    const findings = await found(holding(changes), reserved, machines);
    expect(findings.map(({ severity, what }) => [severity, what])).toEqual([finding]);
  });

  test("a capacity reservation that holds the pool's machines is not a finding, even when the stack uses it", async () => {
    expect(await found(holding(), reserved)).toEqual([]);
    await world.aws?.close();
    const own = { type: "g5.xlarge", tags: { "engine-room:stack": "dev" } };
    const used = {
      ...holding({ availableInstanceCount: 0 }),
      "ec2:DescribeInstances": () => running([own, own]),
    };
    expect(await found(used, reserved)).toEqual([]);
  });

  describe("of a Capacity Block", () => {
    const block = MACHINES.map((one) => ({ ...one, isBlock: true }));
    const kind = { reservationType: "capacity-block", endDate: "2026-12-24T11:30:00.000Z" };

    test("an active block is a warning with its end", async () => {
      const findings = await found(holding(kind), reserved, block);
      expect(findings.map(({ severity, what }) => [severity, what])).toEqual([
        ["warning", `The Capacity Block ${id} of the pool gpu ends at 2026-12-24T11:30:00.000Z.`],
      ]);
    });

    test("a block that has not begun is a problem with its time", async () => {
      const coming = { ...kind, state: "scheduled", startDate: "2026-12-23T11:30:00.000Z" };
      const [finding] = await found(holding(coming), reserved, block);
      expect(finding).toMatchObject({
        severity: "problem",
        what: `${named} is scheduled, not active, from 2026-12-23T11:30:00.000Z to 2026-12-24T11:30:00.000Z.`,
      });
    });

    test("an ordinary reservation is refused as a Capacity Block", async () => {
      const [finding] = await found(holding(), reserved, block);
      expect(finding).toMatchObject({ severity: "problem", what: `${named} is not a Capacity Block.` });
    });

    test("its machines count against no quota of vCPUs", async () => {
      const findings = await found(
        { ...holding(kind), "servicequotas:GetServiceQuota": quotaOf("L-DB2E81BA", 0) },
        reserved,
        block,
      );
      expect(findings.filter(({ check }) => check === "quotas")).toEqual([]);
    });
  });

  test("a missing capacity reservation is a problem", async () => {
    const none = () => ({ error: "InvalidCapacityReservationId.NotFound" }) as const;
    const findings = await found({ "ec2:DescribeCapacityReservations": none }, reserved);
    expect(findings.map(({ severity, what }) => [severity, what])).toEqual([
      ["problem", `${named} is not in us-east-1.`],
    ]);
  });
});

test("a machine whose address `access.apiCidrs` lacks is a warning", async () => {
  world.ownAddress = "1.2.3.5";
  const findings = await found();
  expect(findings.map(({ severity, check }) => [severity, check])).toEqual([["warning", "access"]]);
  expect(findings[0]?.what).toContain("1.2.3.5");
  await world.aws?.close();
  expect(await found({}, { ...eks, access: { apiCidrs: ["1.2.3.0/24"] } })).toEqual([]);
});

test("a machine outside the networks of a private API is a warning, and a VPN's address is accepted", async () => {
  const access = { endpoint: "private", privateCidrs: ["10.8.0.0/16"] };
  const findings = await found({}, { ...eks, access });
  expect(findings.map(({ severity, check }) => [severity, check])).toEqual([["warning", "access"]]);
  expect(findings[0]?.why).toContain("192.168.1.7");
  await world.aws?.close();
  world.localAddresses = ["192.168.1.7", "10.8.0.3"];
  expect(await found({}, { ...eks, access })).toEqual([]);
});

test("an address for examples in `access.apiCidrs` is a problem", async () => {
  const findings = await found({}, { ...eks, access: { apiCidrs: ["203.0.113.7/32"] } });
  expect(findings.map(({ severity, check }) => [severity, check])).toEqual([["problem", "access"]]);
  expect(findings[0]?.why).toContain("203.0.113.0/24");
});

test('checks of absent parts of a stack are "not needed" in the table', async () => {
  const checks = await preflight({}, EC2_STACK, MACHINES.slice(0, 1));
  const table = checkTable(checks);
  for (const looksAt of ["addresses that reach the cluster's API", "capacity reservations", "certificate"])
    expect(table).toMatch(new RegExp(`^${looksAt} +not needed$`, "m"));
  expect(table).toMatch(/^quotas of vCPUs +ok$/m);
});

const STANDARD = "L-1216C47A";

const G_AND_VT = "L-DB2E81BA";

const P = "L-417A185B";

const needsOf = (values: Values) => machineNeeds(awsTarget(checkedPlan(values).plan as AwsPlan, "dev"));

/** Severities by quota code, if nothing else runs. */
function severities(values: Values, vcpus: Readonly<Record<string, number>>) {
  const quotas = new Map(Object.entries(vcpus));
  return vcpuFindings(needsOf(values), { quotas, region: "us-east-1", others: [] })
    .filter(({ what }) => / lacks \d+ vCPUs\.$/.test(what))
    .map(({ severity, what }) => [severity, what.split(" ")[2]]);
}

const dev = projectStackValues("Pulumi.dev.yaml");

const prod = projectStackValues("Pulumi.prod.yaml");

test("`up` waits for the machines of all replicas, of controllers and of builds", () => {
  const machines = (values: Values) =>
    needsOf(values).map(({ pool, plannedMachines, maxMachines }) => [pool, plannedMachines, maxMachines]);
  expect(machines(prod)).toEqual([
    ["system", 2, 4],
    ["a100", 1, 1],
    ["a10g", 2, 4],
    ["cpu", 2, 4],
  ]);
  const [gpu, cpu] = EKS_STACK.pools;
  const models = [{ ...EKS_STACK.models[0], pool: "gpu", buildPool: "builds" }];
  expect(machines({ ...EKS_STACK, models, pools: [gpu, cpu, { ...gpu, name: "builds" }] })).toContainEqual([
    "builds",
    1,
    2,
  ]);
});

// dev: 2 × 2 of controllers and 4 of the encoders, of up to 12. prod: 2 × 16, of up to 64; 96 of the p4d.
test.each([
  ["dev in a new account", dev, { [STANDARD]: 5 }, [["problem", STANDARD]]],
  ["dev with one vCPU less than `up` waits for", dev, { [STANDARD]: 7 }, [["problem", STANDARD]]],
  ["dev with what `up` waits for", dev, { [STANDARD]: 8 }, [["warning", STANDARD]]],
  ["dev with its largest sizes", dev, { [STANDARD]: 12 }, []],
  ["prod with one of two machines", prod, { [G_AND_VT]: 16 }, [["problem", G_AND_VT]]],
  ["prod with both machines", prod, { [G_AND_VT]: 32 }, [["warning", G_AND_VT]]],
  ["prod without a P machine", prod, { [P]: 95 }, [["problem", P]]],
  ["prod with its largest sizes", prod, { [G_AND_VT]: 64, [P]: 96 }, []],
] as const)("quotas are judged for %s", (_, values, vcpus, expected) => {
  expect(severities(values, vcpus)).toEqual(expected);
});
