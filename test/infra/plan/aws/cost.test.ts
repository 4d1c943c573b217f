/** What a stack on AWS costs besides the pools of its stack file. */
import { expect, test } from "vitest";
import { onDemandHourlyUsd } from "../../../../infra/plan/catalogue/prices.ts";
import type { GpuCost } from "../../../../infra/plan/cost/types.ts";
import { awsPlan, ec2Values, eksValues, publicGateway } from "./stacks.ts";

function costOf(values: Readonly<Record<string, unknown>>): GpuCost {
  return awsPlan(values).plan.cost;
}

function lineOf({ lines }: GpuCost, what: string) {
  return lines.find((line) => line.what === what);
}

const system = 2 * (onDemandHourlyUsd("us-east-1", "m7i.large") ?? 0);

test("a cluster pays for the machines of its controllers, asleep too", () => {
  const cost = costOf(eksValues);
  expect(lineOf(cost, "pool system")).toEqual({
    what: "pool system",
    arithmetic: "2 × m7i.large, 0.1008 USD an hour each, on demand in us-east-1, always",
    hourlyUsd: system,
  });
  const rest = cost.lines.filter(({ what }) => what !== "pool system");
  expect(cost.hourlyUsd).toBeCloseTo(
    rest.reduce((sum, { hourlyUsd }) => sum + (hourlyUsd ?? 0), system),
    3,
  );
  // Its one machine with GPUs is away then, and its disk of 50 GiB; a pool without any keeps its one.
  const awake = (lineOf(cost, "pool gpu")?.hourlyUsd ?? 0) + (50 * 0.08) / 730;
  expect(cost.asleepHourlyUsd).toBeCloseTo(cost.hourlyUsd - awake, 3);
  expect(lineOf(costOf(ec2Values), "pool system")).toBeUndefined();
});

test("a region without prices leaves them out of the sum, and says so", () => {
  const cost = costOf({ ...eksValues, region: "eu-west-3" });
  expect(lineOf(cost, "pool system")?.hourlyUsd).toBeNull();
  expect(cost.unpriced).toContain("pool system: 2 × m7i.large, not in the price table of eu-west-3");
});

test("a cluster has a disk for each of its databases and for Prometheus, where they are its own", () => {
  const encoders = { device: "cpu", pool: "cpu" };
  const own = costOf({ ...eksValues, encoders, databaseStorage: { sizeGiB: 30 } });
  expect(lineOf(own, "disks of databases")).toEqual({
    what: "disks of databases",
    arithmetic: "2 × 30 GiB: 60.0 GB × 0.08 USD a month (EBS gp3, 2026-08-17) ÷ 730",
    hourlyUsd: 0.0066,
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

test("one machine has one disk for its databases, asleep too", () => {
  const cost = costOf({ ...ec2Values, databaseStorage: { sizeGiB: 30 } });
  expect(lineOf(cost, "disk of databases")?.arithmetic).toContain("1 × 30 GiB");
  expect(lineOf(cost, "disks of databases")).toBeUndefined();
});

test("root disks are those that machines get: small where images are on local ones", () => {
  const sized = (instanceType: string) => ({
    ...eksValues,
    encoders: false,
    pools: [{ name: "gpu", instanceType, nodes: { min: 0, max: 2 }, diskGiB: 300 }],
  });
  const disks = (instanceType: string) => lineOf(costOf(sized(instanceType)), "disks of the machines");
  const words = (instanceType: string) => disks(instanceType)?.arithmetic;
  // Two machines of 50 GiB for controllers, and one with GPUs.
  expect(words("g5.12xlarge")).toMatch(/^150 GiB in all: [^,]*, 2026-08-17\) ÷ 730$/);
  expect(disks("g5.12xlarge")?.hourlyUsd).toBeCloseTo((150 * 0.08) / 730, 4);
  // Images on EBS want more than the 125 MiB/s that a disk has anyway.
  expect(words("g5.xlarge")).toMatch(/^400 GiB in all: .*, and 125 MiB\/s × 0\.04 USD a month/);
  expect(disks("g5.xlarge")?.hourlyUsd).toBeCloseTo((400 * 0.08 + 125 * 0.04) / 730, 3);
  const ec2 = { ...ec2Values, pools: [{ name: "gpu", instanceType: "g5.12xlarge", diskGiB: 300 }] };
  expect(lineOf(costOf(ec2), "disks of the machines")?.arithmetic).toMatch(
    /^300 GiB in all: [^,]*, 2026-08-17\) ÷ 730$/,
  );
});

test("machines that are kept warm cost while the stack is asleep", () => {
  const pools = (warm: number) => {
    const [gpu, ...others] = eksValues.pools;
    return [{ ...gpu, nodes: { min: 0, max: 2 }, warm }, ...others];
  };
  const asleep = (warm: number) => costOf({ ...eksValues, pools: pools(warm) }).asleepHourlyUsd;
  const price = onDemandHourlyUsd("us-east-1", String(eksValues.pools[0]?.instanceType)) ?? 0;
  expect(price).toBeGreaterThan(0);
  expect(asleep(1) - asleep(0)).toBeCloseTo(price, 1);
});

test("a public address is paid for each NAT gateway, and in each zone of a public load balancer", () => {
  const addresses = (rest: object) =>
    lineOf(costOf({ ...eksValues, ...rest }), "public IPv4 address")?.arithmetic.split(" ")[0];
  const zones = ["a", "b", "c"];
  expect(addresses({})).toBe("1");
  expect(addresses({ network: { zones, nat: "perZone" } })).toBe("3");
  expect(addresses({ network: { zones }, gateway: publicGateway })).toBe("4");
});
