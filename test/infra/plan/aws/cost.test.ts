/** Costs of a stack on AWS in addition to the pools of its stack file. */
import { describe, expect, test } from "vitest";
import { onDemandHourlyUsd, priceOf } from "../../../../infra/plan/catalogue/prices.ts";
import type { GpuCost } from "../../../../infra/plan/cost/types.ts";
import { projectStackValues } from "../../../harness/stack-files.ts";
import { awsPlan, ec2Values, eksValues, publicGateway } from "./stacks.ts";

function costOf(values: Readonly<Record<string, unknown>>): GpuCost {
  return awsPlan(values).plan.cost;
}

function lineOf({ lines }: GpuCost, what: string) {
  return lines.find((line) => line.what === what);
}

const system = 2 * (onDemandHourlyUsd("us-east-1", "m7i.large") ?? 0);

test("a cluster pays for its system nodes while it is awake", () => {
  const cost = costOf(eksValues);
  expect(lineOf(cost, "pool system")).toEqual({
    what: "pool system",
    arithmetic: "2 × m7i.large, 0.1008 USD an hour each, on demand in us-east-1",
    hourlyUsd: system,
    asleepHourlyUsd: 0,
  });
  const rest = cost.lines.filter(({ what }) => what !== "pool system");
  expect(cost.hourlyUsd).toBeCloseTo(
    rest.reduce((sum, { hourlyUsd }) => sum + (hourlyUsd ?? 0), system),
    3,
  );
  expect(lineOf(costOf(ec2Values), "pool system")).toBeUndefined();
});

test("a pool without a price in its region is listed and left out of the sum", () => {
  const cost = costOf({ ...eksValues, region: "eu-west-3" });
  expect(lineOf(cost, "pool system")?.hourlyUsd).toBeNull();
  expect(cost.withoutPrice).toContain("pool system");
});

test("a cluster pays for a disk of each database and of Prometheus if these are its own", () => {
  const encoders = { device: "cpu", pool: "cpu" };
  const own = costOf({ ...eksValues, encoders, databaseStorage: { sizeGiB: 30 } });
  expect(lineOf(own, "disks of databases")).toEqual({
    what: "disks of databases",
    arithmetic: "2 × 30 GiB: 60.0 GB × 0.08 USD a month (EBS gp3, 2026-08-17) ÷ 730",
    hourlyUsd: 0.0066,
    asleepHourlyUsd: 0.0066,
  });
  expect(lineOf(own, "disk of Prometheus")?.arithmetic).toMatch(/^1 × 50 GiB: 50\.0 GB × /);

  const others = costOf({
    ...eksValues,
    encoders: false,
    cluster: { charts: { "kube-prometheus-stack": "existing" } },
  });
  expect(others.lines.filter(({ what }) => what.startsWith("disk")).map(({ what }) => what)).toEqual([
    "disks of the machines",
  ]);
});

test("a stack on EC2 pays for one disk of databases", () => {
  const cost = costOf({ ...ec2Values, databaseStorage: { sizeGiB: 30 } });
  expect(lineOf(cost, "disk of databases")?.arithmetic).toContain("1 × 30 GiB");
  expect(lineOf(cost, "disks of databases")).toBeUndefined();
});

test("root disks are priced at the size that nodes get, which is small beside local disks", () => {
  const sized = (instanceType: string) => ({
    ...eksValues,
    encoders: false,
    pools: [{ name: "gpu", instanceType, nodes: { min: 0, max: 2 }, diskGiB: 300 }],
  });
  const disks = (instanceType: string) => lineOf(costOf(sized(instanceType)), "disks of the machines");
  const words = (instanceType: string) => disks(instanceType)?.arithmetic;
  // Two machines of 50 GiB for controllers, and one with GPUs.
  expect(words("g5.12xlarge")).toMatch(
    /^1 × 50 GiB \(images and engines on local disks\) \+ 2 × 50 GiB: 150\.0 GB [^,]*, 2026-08-17\) ÷ 730$/,
  );
  expect(disks("g5.12xlarge")?.hourlyUsd).toBeCloseTo((150 * 0.08) / 730, 4);
  // Images on EBS need more than the 125 MiB/s that each disk includes.
  expect(words("g5.xlarge")).toMatch(
    /^1 × 300 GiB \+ 2 × 50 GiB: 400\.0 GB .*, and 125 MiB\/s × 0\.04 USD a month/,
  );
  expect(disks("g5.xlarge")?.hourlyUsd).toBeCloseTo((400 * 0.08 + 125 * 0.04) / 730, 3);
  const twoKinds = sized("g5.12xlarge");
  const pools = [...twoKinds.pools, { name: "cpu", instanceType: "m7i.xlarge", diskGiB: 50 }];
  const together = lineOf(costOf({ ...twoKinds, pools }), "disks of the machines")?.arithmetic;
  expect(together).toMatch(/^1 × 50 GiB \(images and engines on local disks\) \+ 3 × 50 GiB: 200\.0 GB /);
});

test.each([
  [300, "300"],
  [20, "75"],
])("the root disk of an EC2 machine that asks for %i GiB has %s GiB", (diskGiB, size) => {
  const ec2 = { ...ec2Values, pools: [{ name: "gpu", instanceType: "g5.12xlarge", diskGiB }] };
  const words = lineOf(costOf(ec2), "disks of the machines")?.arithmetic ?? "";
  expect(words.startsWith(`1 × ${size} GiB: ${size}.0 GB `)).toBe(true);
  expect(words).toMatch(/: [^,]*, 2026-08-17\) ÷ 730$/);
});

describe("asleep", () => {
  const [gpuPool, cpuPool] = eksValues.pools;
  const asleepOf = (what: string, rest: object) =>
    lineOf(costOf({ ...eksValues, ...rest }), what)?.asleepHourlyUsd;

  test.each([
    ["warm", { nodes: { min: 0, max: 2 }, warm: 1 }],
    ["kept at a minimum", { nodes: { min: 1, max: 2 } }],
  ])("nodes with GPUs that are %s cost nothing asleep, nor do their disks", (_what, changes) => {
    const pools = [{ ...gpuPool, ...changes }, cpuPool];
    expect(asleepOf("pool gpu", { pools })).toBe(0);
    const { lines } = costOf({ ...eksValues, pools });
    const disks = lines.find(({ what }) => what === "disks of the machines");
    expect(disks?.asleepHourlyUsd).toBeLessThan(disks?.hourlyUsd ?? 0);
  });

  test("a cluster without machines pays for its control plane, network, load balancer and disks with data", () => {
    const encoders = { device: "gpu", pool: "gpu" };
    const pools = [{ ...gpuPool, nodes: { min: 0, max: 3 } }, cpuPool];
    const { lines } = costOf({ ...eksValues, pools, encoders });
    const paid = lines.filter(({ asleepHourlyUsd }) => asleepHourlyUsd !== 0);
    expect(paid.map(({ what }) => what)).toEqual([
      "EKS control plane",
      "NAT gateway",
      "public IPv4 address",
      "application load balancer",
      "engine store",
      "disks of databases",
      "disk of Prometheus",
      "logs of the control plane",
    ]);
    for (const { asleepHourlyUsd, hourlyUsd } of paid) expect(asleepHourlyUsd).toBe(hourlyUsd);
  });

  test("beside someone else's autoscaler, nodes of encoders, gateway, databases and controllers are paid for", () => {
    const cluster = { charts: { "cluster-autoscaler": "existing" } };
    const encoders = { device: "gpu", pool: "gpu" };
    const pools = [{ ...gpuPool, nodes: { min: 0, max: 3 } }, cpuPool];
    const price = onDemandHourlyUsd("us-east-1", String(gpuPool?.instanceType));
    expect(asleepOf("pool gpu", { pools, encoders, cluster })).toBe(price);
    expect(asleepOf("pool cpu", { encoders, cluster })).toBe(
      onDemandHourlyUsd("us-east-1", String(cpuPool?.instanceType)),
    );
    expect(asleepOf("pool system", { encoders, cluster })).toBe(system);
  });

  test("Pulumi.dev.yaml costs at most 250 dollars a month asleep, and as much as before awake", () => {
    const { hourlyUsd, asleepMonthlyUsd } = costOf(projectStackValues("Pulumi.dev.yaml"));
    expect(asleepMonthlyUsd).toBeLessThan(250);
    expect(hourlyUsd).toBeLessThanOrEqual(1.636);
  });

  test("an EC2 machine costs nothing asleep, but its disk does", () => {
    const cost = costOf(ec2Values);
    expect(lineOf(cost, "pool gpu")?.asleepHourlyUsd).toBe(0);
    const disks = lineOf(cost, "disks of the machines");
    expect(disks?.hourlyUsd).toBeGreaterThan(0);
    expect(disks?.asleepHourlyUsd).toBe(disks?.hourlyUsd);
    expect(cost.asleepHourlyUsd).toBeCloseTo(
      Number(cost.hourlyUsd) - Number(lineOf(cost, "pool gpu")?.hourlyUsd),
      4,
    );
  });
});

describe("a region without prices", () => {
  const abroad = { ...eksValues, region: "eu-central-1" };

  test("the EKS control plane has the same price in all regions except China and GovCloud", () => {
    const regions = ["eu-central-1", "us-east-1", "cn-north-1", "us-gov-west-1"];
    expect(regions.map((region) => priceOf("EKS control plane", region)?.usd)).toEqual([
      0.1,
      0.1,
      undefined,
      undefined,
    ]);
    expect(lineOf(costOf(abroad), "EKS control plane")?.hourlyUsd).toBe(0.1);
  });

  test("in a region without prices the cost lists what is missing and shows us-east-1 beside it", () => {
    const cost = costOf(abroad);
    expect(cost).toMatchObject({ hourlyUsd: 0.1, monthlyUsd: 73, asleepHourlyUsd: 0.1, buildUsd: null });
    expect(cost.withoutPrice).toEqual(
      costOf(eksValues).lines.flatMap(({ what }) => (what === "EKS control plane" ? [] : [what])),
    );
    const { hourlyUsd, asleepHourlyUsd } = costOf(eksValues);
    expect(cost.elsewhere).toEqual({ region: "us-east-1", hourlyUsd, asleepHourlyUsd });
    expect(costOf(eksValues).elsewhere).toBeNull();
    expect(costOf({ ...ec2Values, region: "eu-central-1" })).toMatchObject({
      hourlyUsd: null,
      monthlyUsd: null,
      asleepHourlyUsd: 0,
    });
  });

  test("prices of the stack file complete the sum of a region without prices", () => {
    const pools = eksValues.pools.map((pool) => ({ ...pool, hourlyUsd: 1 }));
    const cost = costOf({ ...abroad, pools, otherHourlyUsd: 0.5 });
    expect(cost.withoutPrice).toEqual([]);
    expect(cost.hourlyUsd).toBeCloseTo(pools.length + 0.1 + 0.5, 4);
    expect(lineOf(cost, "all else")).toMatchObject({ hourlyUsd: 0.5, asleepHourlyUsd: 0.5 });
    expect(lineOf(cost, "all else")?.arithmetic).toMatch(
      /^pool system, NAT gateway, .*: from the stack file$/,
    );
    expect(cost.elsewhere).toBeNull();
  });
});

describe("provisioned throughput of the engine store", () => {
  const WHAT = "throughput of the engine store";
  const engineStore = { throughput: "provisioned", provisionedMiBPerSecond: 1000 };

  test("provisioned throughput is paid for awake and asleep, less what the storage includes", () => {
    const [plain, own] = [costOf(eksValues), costOf({ ...eksValues, engineStore })];
    const line = lineOf(own, WHAT);
    expect(line?.hourlyUsd).toBeCloseTo((1000 * 6) / 730, 1);
    expect(line?.hourlyUsd).toBeLessThan((1000 * 6) / 730);
    expect(line?.asleepHourlyUsd).toBe(line?.hourlyUsd);
    expect(Number(own.hourlyUsd) - Number(plain.hourlyUsd)).toBeCloseTo(line?.hourlyUsd ?? 0, 3);
    expect(lineOf(plain, WHAT)).toBeUndefined();
  });

  test("provisioned throughput has no price in other regions and none for an existing file system", () => {
    expect(costOf({ ...eksValues, region: "eu-west-3", engineStore }).withoutPrice).toContain(WHAT);
    const existing = { fileSystemId: "fs-01234567", securityGroupId: "sg-01234567" };
    expect(lineOf(costOf({ ...eksValues, engineStore: { existing } }), WHAT)).toBeUndefined();
  });
});

test("a public address is paid for each NAT gateway and each zone of a public load balancer", () => {
  const addresses = (rest: object) =>
    lineOf(costOf({ ...eksValues, ...rest }), "public IPv4 address")?.arithmetic.split(" ")[0];
  const zones = ["a", "b", "c"];
  expect(addresses({})).toBe("1");
  expect(addresses({ network: { zones, nat: "perZone" } })).toBe("3");
  expect(addresses({ network: { zones }, gateway: publicGateway })).toBe("4");
});

test("a stack pays for one whole copy of its documents' disk if it is copied", () => {
  const line = {
    what: "copies of documents",
    arithmetic:
      "a full copy of 30 GiB, without daily changes: 30.0 GB × 0.05 USD a month (EBS snapshots, 2017-07-01) ÷ 730",
    hourlyUsd: 0.0021,
    asleepHourlyUsd: 0.0021,
  };
  const databaseStorage = { sizeGiB: 30 };
  for (const values of [eksValues, ec2Values]) {
    const copies = (changes: object) => lineOf(costOf({ ...values, ...changes }), "copies of documents");
    expect(copies({ databaseStorage })).toBeUndefined();
    expect(copies({ databaseStorage, retain: ["demo"] })).toEqual(line);
    expect(copies({ databaseStorage: { ...databaseStorage, backupDays: 7 } })).toEqual(line);
    expect(
      copies({ databaseStorage: { ...databaseStorage, backupDays: 0 }, retain: ["demo"] }),
    ).toBeUndefined();
    expect(copies({ encoders: false, retain: ["demo"] })).toBeUndefined();
  }
});
