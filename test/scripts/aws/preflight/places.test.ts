/** Preflight of a stack on AWS: zones, what is in them already, and networks. */
import { describe, expect, test } from "vitest";
import { EC2_STACK, EKS_STACK } from "../../../harness/aws/stacks.ts";
import { type Answers, disks, networks, offered, zonesOf } from "../account.ts";
import { xmlAnswer } from "../fake-aws.ts";
import { eks, found, MACHINE, MACHINES, NEEDS, useWorld, type Values, world } from "./world.ts";

useWorld();

const existingNetwork: Values = {
  ...eks,
  network: {
    existing: {
      vpcId: "vpc-0123456789abcdef0",
      cidr: "10.1.0.0/16",
      privateSubnets: [
        { id: "subnet-0123456789abcdef0", zone: "a" },
        { id: "subnet-0123456789abcdef1", zone: "b" },
      ],
    },
  },
};

describe("zones", () => {
  test("without the instance type are a problem, though others have it: EKS makes no node group there", async () => {
    const some = await found({ "ec2:DescribeInstanceTypeOfferings": offered(["a"]) });
    expect(some.map(({ severity, what }) => [severity, what])).toEqual([
      ["problem", "The pool gpu finds no g5.xlarge in us-east-1b."],
      ["problem", "The pool cpu finds no m7i.xlarge in us-east-1b."],
    ]);
    expect(some[0]?.why).toBe(
      "Only us-east-1a of us-east-1 offers it to this account. EKS makes no node group with a subnet in a zone without it.",
    );
    expect(some[0]?.fix).toBe(
      "Write zones of these as `zones` of the pool gpu, and have them in `network.zones`.",
    );
    await world.aws?.close();
    const narrow = EKS_STACK.pools.map((pool) => ({ ...pool, zones: ["a"] }));
    expect(
      await found({ "ec2:DescribeInstanceTypeOfferings": offered(["a"]) }, { ...eks, pools: narrow }),
    ).toEqual([]);
    await world.aws?.close();
    const none = await found({ "ec2:DescribeInstanceTypeOfferings": offered([]) });
    expect(none.map(({ severity, fix }) => [severity, fix])).toEqual(
      Array(2).fill(["problem", "Take another region or another instance type."]),
    );
  });

  test("of the pool for controllers are its own: a third one may lack its type", async () => {
    const values = { ...eks, network: { zones: ["a", "b", "c"] } };
    const system = { ...NEEDS, machines: [{ pool: "system", instanceType: "m7i.large", ...MACHINE }] };
    const by = (...zones: readonly string[]) =>
      found({ "ec2:DescribeInstanceTypeOfferings": offered(zones) }, values, system);
    expect(await by("a", "b")).toEqual([]);
    await world.aws?.close();
    const [finding, ...rest] = await by("a", "c");
    expect(rest).toEqual([]);
    expect(finding).toMatchObject({
      severity: "problem",
      what: "The pool system finds no m7i.large in us-east-1b.",
      fix: "Have zones of these alone in `network.zones`.",
    });
  });

  test("of one machine are one: that without the instance type is a problem", async () => {
    const zoned = (zone: string) => ({ ...EC2_STACK, pools: [{ ...EC2_STACK.pools[0], zone }] });
    const onlyB = { "ec2:DescribeInstanceTypeOfferings": offered(["b"]) };
    const needs = { machines: MACHINES.slice(0, 1), addOns: [] };
    const [finding, ...rest] = await found(onlyB, zoned("a"), needs);
    expect(rest).toEqual([]);
    expect(finding).toMatchObject({
      severity: "problem",
      what: "The pool gpu finds no g5.xlarge in us-east-1a.",
    });
    expect(finding?.fix).toContain("one of these as `zone` of the pool gpu");
    await world.aws?.close();
    expect(await found(onlyB, zoned("b"), needs)).toEqual([]);
  });

  test.each([
    ["d", "There is no zone us-east-1d."],
    ["b", "The zone us-east-1b is not available."],
    ["e", "EKS makes no cluster with a subnet in us-east-1e."],
  ])("that can't be used, as %s, are a problem", async (letter, what) => {
    const all = { a: [6, "available"], b: [1, "impaired"], e: [3, "available"] } as const;
    const findings = await found(
      {
        "ec2:DescribeAvailabilityZones": () => zonesOf(all),
        "ec2:DescribeInstanceTypeOfferings": offered(["a", "b", "d", "e"]),
      },
      { ...eks, network: { zones: ["a", letter] } },
    );
    expect(findings.map((one) => [one.severity, one.check, one.what])).toEqual([["problem", "zones", what]]);
    expect(findings[0]?.fix).toBe("Take zones of a in `network.zones`.");
  });

  test("without EKS are there for one machine", async () => {
    const findings = await found(
      { "ec2:DescribeInstanceTypeOfferings": offered(["a", "e"]) },
      { ...EC2_STACK, network: { zones: ["a", "e"] } },
      { machines: MACHINES.slice(0, 1), addOns: [] },
    );
    expect(findings).toEqual([]);
  });

  const clusterIn = (...zones: readonly string[]): Answers => ({
    "eks:DescribeCluster": () => ({
      json: { cluster: { resourcesVpcConfig: { subnetIds: zones.map((zone) => `subnet-${zone}`) } } },
    }),
    "ec2:DescribeSubnets": () =>
      xmlAnswer("DescribeSubnets", {
        subnetSet: zones.map((zone) => ({
          subnetId: `subnet-${zone}`,
          availabilityZone: `us-east-1${zone}`,
        })),
      }),
  });

  test("of a cluster that is there are those that it was made with", async () => {
    expect(await found(clusterIn("b", "a"))).toEqual([]);
    await world.aws?.close();
    const findings = await found(
      { ...clusterIn("a", "b"), "ec2:DescribeInstanceTypeOfferings": offered(["a", "b", "c"]) },
      { ...eks, network: { zones: ["a", "b", "c"] } },
    );
    expect(findings.map((one) => [one.severity, one.check])).toEqual([["problem", "zones"]]);
    expect(findings[0]?.why).toContain(
      "us-east-1a, us-east-1b, and would get some in us-east-1a, us-east-1b, us-east-1c",
    );
    expect(findings[0]?.fix).toContain("Write a, b in `network.zones`");
  });
});

describe("the databases' disk of an instance", () => {
  const foundOf = async (zones: readonly string[], disk: { zone: string; sizeGiB: number }) => {
    const needs = { machines: MACHINES.slice(0, 1), addOns: [] };
    const answers = { "ec2:DescribeVolumes": () => disks({ "vol-1": disk }) };
    const findings = await found(answers, { ...EC2_STACK, network: { zones } }, needs);
    return findings.map(({ severity, what, fix }) => `${severity}: ${what} ${fix}`);
  };

  test("is one in the machine's zone, and no larger than the stack file says", async () => {
    expect(await foundOf(["a", "b"], { zone: "a", sizeGiB: 20 })).toEqual([]);
  });

  test("is a problem in another zone, such as one that a new zone comes before", async () => {
    expect(await foundOf(["a", "b"], { zone: "b", sizeGiB: 20 })).toEqual([
      expect.stringMatching(
        /^problem: The databases' disk vol-1 is in us-east-1b, and the machine would be in us-east-1a\. Write `zone: b` /,
      ),
    ]);
  });

  test("is a problem where it would have to shrink", async () => {
    expect(await foundOf(["a", "b"], { zone: "a", sizeGiB: 50 })).toEqual([
      "problem: The databases' disk vol-1 has 50 GiB, and the stack file says 20. Write `sizeGiB: 50` in `databaseStorage`.",
    ]);
  });
});

describe("networks", () => {
  test("that overlap are a warning with the other VPC, which the stack's own is not", async () => {
    const findings = await found({
      "ec2:DescribeVpcs": () =>
        networks({
          "vpc-other": { cidr: "10.64.128.0/20" },
          "vpc-own": { cidr: "10.64.0.0/16", tags: { "engine-room:stack": "dev" } },
          "vpc-far": { cidr: "10.65.0.0/16" },
        }),
    });
    expect(findings.map(({ severity }) => severity)).toEqual(["warning"]);
    expect(findings[0]?.why).toMatch(/^vpc-other \(10\.64\.128\.0\/20\) has/);
  });

  const subnet = (vpcId: string, zone: string, free: number) => () =>
    xmlAnswer("DescribeSubnets", {
      subnetSet: [
        {
          subnetId: "subnet-0123456789abcdef0",
          vpcId,
          availabilityZone: zone,
          availableIpAddressCount: free,
        },
        {
          subnetId: "subnet-0123456789abcdef1",
          vpcId: "vpc-0123456789abcdef0",
          availabilityZone: "us-east-1b",
          availableIpAddressCount: 4000,
        },
      ],
    });
  const vpc = { "ec2:DescribeVpcs": () => networks({ "vpc-0123456789abcdef0": { cidr: "10.1.0.0/16" } }) };

  test.each([
    ["of another VPC", subnet("vpc-00000000000000000", "us-east-1a", 4000), ["problem"]],
    ["nearly full", subnet("vpc-0123456789abcdef0", "us-east-1a", 9), ["warning"]],
  ])("that are there: subnet %s", async (_, subnets, severities) => {
    const findings = await found({ ...vpc, "ec2:DescribeSubnets": subnets }, existingNetwork);
    expect(findings.map(({ severity }) => severity)).toEqual(severities);
  });
});
