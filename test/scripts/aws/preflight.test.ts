import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import { fromRuntimeConfig } from "../../../infra/config/config.ts";
import type { AwsPlan } from "../../../infra/plan/gpu-stack.ts";
import { isPrincipal } from "../../../scripts/preflight/aws-access.ts";
import { awsPreflight } from "../../../scripts/preflight/aws-checks.ts";
import type { MachineNeed } from "../../../scripts/preflight/aws-quotas.ts";
import type { AwsNeeds } from "../../../scripts/preflight/aws-reading.ts";
import { checkTable, type Finding } from "../../../scripts/preflight/finding.ts";
import { awsTarget } from "../../../scripts/program/aws-target.ts";
import { projectName } from "../../../scripts/program/stack-file.ts";
import { ACCOUNT, EC2_STACK, EKS_STACK, REGION } from "../../harness/aws/stacks.ts";
import { stackConfig } from "../../infra/platforms/aws-stacks.ts";
import {
  type Answers,
  account,
  CERTIFICATE,
  certificateOf,
  disks,
  HUB_SECRET,
  networks,
  offered,
  quotaOf,
  running,
  zonesOf,
} from "./account.ts";
import { type FakeAws, startFakeAws, xmlAnswer } from "./fake-aws.ts";

type Values = Readonly<Record<string, unknown>>;

const eks: Values = EKS_STACK;
const gated: Values = {
  ...eks,
  hub: { tokenSecretArn: HUB_SECRET },
  pools: [
    { name: "gpu", instanceType: "g5.4xlarge" },
    { name: "cpu", instanceType: "m7i.xlarge" },
  ],
  models: [{ name: "chat", model: "llama-2-7b-chat", limits: { maxBatchSize: 1 } }],
};
const publicGateway: Values = {
  ...eks,
  gateway: {
    exposure: "public",
    hostname: "models.example.org",
    tls: { certificateArn: CERTIFICATE },
    apiKeys: [{ name: "one", sha256: "0".repeat(64) }],
  },
};
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

const MACHINE = { isSpot: false, vcpus: 4, plannedMachines: 1, maxMachines: 1, surgeMachines: 0 };
const MACHINES: readonly MachineNeed[] = [
  { pool: "gpu", instanceType: "g5.xlarge", ...MACHINE, maxMachines: 2 },
  { pool: "cpu", instanceType: "m7i.xlarge", ...MACHINE },
];
const NEEDS: AwsNeeds = {
  machines: MACHINES,
  addOns: [{ name: "coredns", version: "v1.0.0-eksbuild.1", configuration: null }],
};

let aws: FakeAws | undefined;
let hub: Server | undefined;
let hubAsked: { readonly path: string; readonly authorization: string | undefined }[] = [];
const before = { ...process.env };

beforeEach(async () => {
  hubAsked = [];
  hub = createServer((request, response) => {
    hubAsked.push({ path: request.url ?? "", authorization: request.headers.authorization });
    response.statusCode = hubStatus;
    response.end();
  });
  await new Promise<void>((resolve) => hub?.listen(0, "127.0.0.1", resolve));
  Object.assign(process.env, {
    HF_ENDPOINT: `http://127.0.0.1:${(hub.address() as AddressInfo).port}`,
    AWS_ACCESS_KEY_ID: "AKIAIOSFODNN7EXAMPLE",
    AWS_SECRET_ACCESS_KEY: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    AWS_EC2_METADATA_DISABLED: "true",
  });
  delete process.env.HF_TOKEN;
});
afterEach(async () => {
  process.env = { ...before };
  hub?.close();
  await aws?.close();
  hubStatus = 302;
});
let hubStatus = 302;

async function preflight(changes: Answers = {}, values = eks, needs = NEEDS) {
  aws = await startFakeAws(account(changes));
  process.env.AWS_ENDPOINT_URL = aws.url;
  const target = awsTarget(checkedPlan(values).plan as AwsPlan, "dev");
  return awsPreflight(target, needs, async () => ({ kind: "there" }));
}

/** Findings but those of images, which nobody has pushed here. */
async function found(changes: Answers = {}, values = eks, needs = NEEDS): Promise<readonly Finding[]> {
  const checks = await preflight(changes, values, needs);
  return checks.flatMap(({ findings }) => findings).filter(({ check }) => check !== "images");
}

describe("an account in which all is there", () => {
  test("has nothing to say, and was only read", async () => {
    expect(await found()).toEqual([]);
    expect(aws?.asked.filter((action) => !/:(Describe|Get|List)/.test(action))).toEqual([]);
  });

  test("images that nobody pushed are a problem with the command that pushes them", async () => {
    const checks = await preflight();
    const [finding] = checks.find(({ looksAt }) => looksAt === "images and registries")?.findings ?? [];
    expect(finding).toMatchObject({ severity: "problem", check: "images" });
    expect(finding?.fix).toMatch(
      /^Run first `npm run up -- --stack dev --registries`, .* then `npm run images -- --stack dev --push` where Docker is; then `npm run up -- --stack dev`\.$/,
    );
    const existing = await preflight({}, { ...eks, images: { repositories: "existing" } });
    const fixes = existing.flatMap(({ findings }) => findings).filter(({ check }) => check === "images");
    expect(fixes[0]?.fix).toMatch(/^Run `npm run images -- --stack dev --push`/);
  });
});

describe("credentials", () => {
  test("of another account end it: nothing else is asked", async () => {
    const identity = () =>
      xmlAnswer(
        "GetCallerIdentity",
        { Account: "999900001111", Arn: "arn:aws:iam::999900001111:root" },
        "member",
      );
    const [finding, ...rest] = await found({ "sts:GetCallerIdentity": identity });
    expect(rest).toEqual([]);
    expect(finding).toMatchObject({ severity: "problem", check: "credentials" });
    expect(finding?.what).toContain("999900001111");
    expect(aws?.asked).toEqual(["sts:GetCallerIdentity"]);
  });

  test("of another account have a fix by whose the stack's account is", async () => {
    const identity = () =>
      xmlAnswer(
        "GetCallerIdentity",
        { Account: "999900001111", Arn: "arn:aws:iam::999900001111:root" },
        "member",
      );
    const fixOf = async (stack: Values) =>
      (await found({ "sts:GetCallerIdentity": identity }, stack)).map(({ fix }) => fix);
    expect(await fixOf(eks)).toEqual([expect.stringContaining('Write `account: "999900001111"`')]);
    await aws?.close();
    expect(await fixOf({ ...eks, account: "999988887777" })).toEqual([
      "Take credentials of the stack's account, or correct `account`.",
    ]);
  });

  const unknown: Answers = {
    "sts:GetCallerIdentity": () => ({ error: "InvalidClientTokenId", status: 403 }),
  };

  test("that AWS does not know are one problem", async () => {
    const findings = await found(unknown, { ...eks, account: "999988887777" });
    expect(findings).toHaveLength(1);
    expect(findings[0]?.why).toContain("InvalidClientTokenId");
  });

  test("that AWS does not know leave what the file alone tells: nobody's account, and nobody's addresses", async () => {
    const { values } = stackConfig("dev");
    const checks = await preflight(unknown, fromRuntimeConfig(values, projectName()));
    expect(checks.map(({ looksAt, findings }) => [looksAt, findings.map(({ what }) => what)])).toEqual([
      [
        "credentials and account",
        ["AWS does not know who you are.", "`account` is 111122223333, the account of examples."],
      ],
      [
        "addresses that reach the cluster's API",
        ["`access.apiCidrs` has 203.0.113.7/32, which nobody comes from."],
      ],
    ]);
    expect(aws?.asked).toEqual(["sts:GetCallerIdentity"]);
  });

  test("are not judged where AWS is not reached", async () => {
    await preflight();
    await aws?.close();
    const target = awsTarget(checkedPlan({ ...eks, account: "999988887777" }).plan as AwsPlan, "dev");
    const [check, ...rest] = await awsPreflight(target, NEEDS, async () => ({ kind: "there" }));
    expect(rest.flatMap(({ findings }) => findings)).toEqual([]);
    expect(check?.findings.map(({ what }) => what)).toEqual(["AWS was not reached in us-east-1."]);
    expect(check?.findings[0]?.fix).toContain("`region`");
  });

  test("that may not ask are a finding for each action, and no crash", async () => {
    const denied = () => ({ error: "AccessDeniedException", status: 400 }) as const;
    const findings = await found({
      "ec2:DescribeInstances": () => ({ error: "UnauthorizedOperation", status: 403 }),
      "servicequotas:GetServiceQuota": denied,
      "eks:DescribeClusterVersions": denied,
    });
    expect(findings.every(({ severity }) => severity === "warning")).toBe(true);
    const actions = findings.map(({ what }) => /may not ask (\S+)\.$/.exec(what)?.[1]);
    expect(new Set(actions)).toEqual(
      new Set(["ec2:DescribeInstances", "servicequotas:GetServiceQuota", "eks:DescribeClusterVersions"]),
    );
  });
});

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
    await aws?.close();
    const narrow = EKS_STACK.pools.map((pool) => ({ ...pool, zones: ["a"] }));
    expect(
      await found({ "ec2:DescribeInstanceTypeOfferings": offered(["a"]) }, { ...eks, pools: narrow }),
    ).toEqual([]);
    await aws?.close();
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
    await aws?.close();
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
    await aws?.close();
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
    await aws?.close();
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
    await aws?.close();
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

describe("certificate", () => {
  test.each([
    ["issued, by a star", certificateOf("ISSUED", ["*.example.org"]), []],
    [
      "issued, for a deeper name",
      certificateOf("ISSUED", ["*.a.example.org"]),
      ["not for models.example.org"],
    ],
  ])("%s", async (_, answer, words) => {
    const findings = await found({ "acm:DescribeCertificate": () => answer }, publicGateway);
    expect(findings).toHaveLength(words.length);
    for (const [index, word] of words.entries()) expect(findings[index]?.what).toContain(word);
  });
});

describe("gated models", () => {
  test("are asked for with the secret's token, which is in no finding", async () => {
    hubStatus = 403;
    const findings = await found({}, gated);
    expect(hubAsked).toHaveLength(1);
    expect(hubAsked[0]?.authorization).toBe("Bearer hf_the-token");
    expect(hubAsked[0]?.path).toMatch(
      /^\/meta-llama\/Llama-2-7b-chat-hf\/resolve\/[0-9a-f]{40}\/config\.json$/,
    );
    expect(findings.map(({ severity, check }) => [severity, check])).toEqual([["problem", "hub"]]);
    expect(JSON.stringify(findings)).not.toContain("hf_the-token");
  });

  test("that the hub gives are no finding", async () => {
    expect(await found({}, gated)).toEqual([]);
  });
});

test("a secret that is encrypted by a key of one's own is a problem", async () => {
  const by = (KmsKeyId: string) => ({
    "secretsmanager:DescribeSecret": () => ({ json: { ARN: HUB_SECRET, KmsKeyId } }),
  });
  const key = `arn:aws:kms:${REGION}:${ACCOUNT}:key/12345678-1234-1234-1234-123456789012`;
  const findings = await found(by(key), gated);
  expect(findings.map(({ severity, check }) => [severity, check])).toEqual([["problem", "hubToken"]]);
  expect(findings[0]?.why).toContain(key);
  await aws?.close();
  expect(await found(by("alias/aws/secretsmanager"), gated)).toEqual([]);
});

// "secret" has six letters: no pattern tells it from the end that AWS gives.
test("a part of a secret's ARN is a problem, which has all of it: roles may read what is written", async () => {
  const part = HUB_SECRET.replace("hub-token-AbCdEf", "hub-secret");
  const findings = await found(
    { "secretsmanager:DescribeSecret": () => ({ json: { ARN: `${part}-AbCdEf` } }) },
    { ...gated, hub: { tokenSecretArn: part } },
  );
  expect(findings.map(({ severity, check }) => [severity, check])).toEqual([["problem", "hubToken"]]);
  expect(findings[0]?.fix).toBe(`Write \`tokenSecretArn: ${part}-AbCdEf\`.`);
});

test("an address for examples is a problem where a cluster would answer it", async () => {
  const findings = await found({}, { ...eks, access: { apiCidrs: ["203.0.113.7/32"] } });
  expect(findings.map(({ severity, check }) => [severity, check])).toEqual([["problem", "access"]]);
  expect(findings[0]?.why).toContain("203.0.113.0/24");
});

test("what a stack does not have is not needed, rather than as it should be", async () => {
  const checks = await preflight({}, EC2_STACK, { machines: MACHINES.slice(0, 1), addOns: [] });
  const table = checkTable(checks);
  for (const looksAt of [
    "administrators of the cluster",
    "addresses that reach the cluster's API",
    "capacity reservations",
    "certificate",
    "version of Kubernetes",
    "add-ons of the cluster",
  ])
    expect(table).toMatch(new RegExp(`^${looksAt} +not needed$`, "m"));
  expect(table).toMatch(/^zones of the network +ok$/m);
});

describe("the cluster", () => {
  test.each([
    ["EXTENDED_SUPPORT", "warning"],
    ["UNSUPPORTED", "problem"],
  ])("a version of Kubernetes that is %s: a %s", async (versionStatus, severity) => {
    const findings = await found({
      "eks:DescribeClusterVersions": () => ({
        json: { clusterVersions: [{ clusterVersion: "1.35", versionStatus }] },
      }),
    });
    expect(findings.map((one) => [one.severity, one.check])).toEqual([[severity, "kubernetesVersion"]]);
  });

  test("an add-on that EKS does not install is a problem, with the newest that it has", async () => {
    const addOnVersions = ["v1.9.0-eksbuild.1", "v1.10.0-eksbuild.2", "v1.10.0-eksbuild.1"];
    const findings = await found({
      "eks:DescribeAddonVersions": () => ({
        json: {
          addons: [{ addonVersions: addOnVersions.map((addonVersion) => ({ addonVersion })) }],
        },
      }),
    });
    expect(findings.map(({ what }) => what)).toEqual(["EKS does not install coredns v1.0.0-eksbuild.1."]);
    expect(findings[0]?.why).toContain("v1.10.0-eksbuild.2 is the newest");
  });

  describe("what an add-on is set to", () => {
    /** In the draft, and with the words, of EKS' own. */
    const SCHEMA = {
      $ref: "#/definitions/Coredns",
      $schema: "http://json-schema.org/draft-06/schema#",
      definitions: {
        Coredns: {
          additionalProperties: false,
          properties: {
            nodeSelector: { additionalProperties: { type: "string" }, type: "object" },
            controller: {
              additionalProperties: false,
              properties: { replicas: { type: "integer" } },
              type: "object",
            },
          },
          title: "Coredns",
          type: "object",
        },
      },
    };
    const setTo = (configuration: Readonly<Record<string, unknown>>, schema = JSON.stringify(SCHEMA)) =>
      found({ "eks:DescribeAddonConfiguration": () => ({ json: { configurationSchema: schema } }) }, eks, {
        ...NEEDS,
        addOns: NEEDS.addOns.map((one) => ({ ...one, configuration })),
      });

    test("is no finding where EKS' schema has it", async () => {
      expect(await setTo({ nodeSelector: { pool: "system" } })).toEqual([]);
    });
    test.each([
      [{ nodeSelectors: {} }, "At the top", "nodeSelectors"],
      [{ controller: { nodeSelector: {} } }, "controller", "nodeSelector"],
      [{ nodeSelector: { pool: 1 } }, "nodeSelector.pool", "string"],
    ])("is a problem where it has not: %j", async (configuration, where, word) => {
      const findings = await setTo(configuration);
      expect(findings.map(({ severity, what }) => [severity, what])).toEqual([
        ["problem", "EKS does not take what coredns v1.0.0-eksbuild.1 is set to."],
      ]);
      expect(findings[0]?.why).toContain(`${where}: `);
      expect(findings[0]?.why).toContain(word);
    });
    test.each(["", '{"$ref": "#/elsewhere"}'])(
      "is a warning where the schema is not to be read: %s",
      async (schema) => {
        const findings = await setTo({}, schema);
        expect(findings.map(({ severity, check }) => [severity, check])).toEqual([["warning", "addOns"]]);
      },
    );
    test("is not asked for where EKS does not install the version", async () => {
      const findings = await found({ "eks:DescribeAddonVersions": () => ({ json: { addons: [] } }) }, eks, {
        ...NEEDS,
        addOns: NEEDS.addOns.map((one) => ({ ...one, configuration: {} })),
      });
      expect(findings.map(({ what }) => what)).toEqual(["EKS does not install coredns v1.0.0-eksbuild.1."]);
    });
  });
});

test("repositories of another registry are not asked about", async () => {
  await found({}, { ...eks, images: { registry: "registry.example.org/room" } });
  expect(aws?.asked).not.toContain("ecr:DescribeRepositories");
});

describe("administrators", () => {
  test("who are others than who asks are no finding", async () => {
    const admins = [`arn:aws:iam::${ACCOUNT}:user/you`];
    expect(await found({}, { ...eks, access: { apiCidrs: ["1.2.3.4/32"], admins } })).toEqual([]);
  });

  describe("of a cluster that is there", () => {
    const [made, joined, own, none] = ["role/maker", "user/joined", "role/of/a/path/own", "role/none"].map(
      (resource) => `arn:aws:iam::${ACCOUNT}:${resource}`,
    );
    const admins = { ...eks, access: { apiCidrs: ["1.2.3.4/32"], admins: [made, joined, own, none] } };
    const tagsOf: Readonly<Record<string, object>> = {
      "role/maker": {},
      "user/joined": { "engine-room:stack": "prod" },
      "role/of/a/path/own": { "engine-room:stack": "dev" },
    };
    const there: Answers = {
      "eks:DescribeCluster": () => ({ json: { cluster: { status: "ACTIVE" } } }),
      "ec2:DescribeSubnets": () => xmlAnswer("DescribeSubnets", { subnetSet: [] }),
      "eks:DescribeAccessEntry": ({ path }) => {
        const [, resource = ""] = decodeURIComponent(path).split(`::${ACCOUNT}:`);
        const tags = tagsOf[resource];
        return tags === undefined
          ? { error: "ResourceNotFoundException", status: 404 }
          : { json: { accessEntry: { tags } } };
      },
    };
    const ofAccess = async (changes: Answers) =>
      (await found(changes, admins)).filter(({ check }) => check === "access");

    test("have no entry yet, or the stack's: EKS would refuse a second one", async () => {
      const findings = await ofAccess(there);
      expect(findings.map(({ severity, what }) => [severity, what])).toEqual(
        [made, joined].map((admin) => [
          "problem",
          `${admin} has an access entry of the cluster engine-room-dev that is not the stack's.`,
        ]),
      );
      expect(findings[1]?.fix).toContain(`--principal-arn ${joined}`);
    });

    test("are one warning where nobody may ask", async () => {
      const denied = () => ({ error: "AccessDeniedException", status: 403 }) as const;
      const findings = await ofAccess({ ...there, "eks:DescribeAccessEntry": denied });
      expect(findings.map(({ severity, what }) => [severity, what])).toEqual([
        ["warning", "Your credentials may not ask eks:DescribeAccessEntry."],
      ]);
    });
  });

  test.each([
    ["role/team", "assumed-role/team/session", true],
    ["role/aws-reserved/sso.amazonaws.com/Admin_1", "assumed-role/Admin_1/me@example.org", true],
    ["role/team", "assumed-role/team-two/session", false],
    ["user/team", "assumed-role/team/session", false],
  ])("%s and a session of %s: %s", (principal, session, isSame) => {
    expect(isPrincipal(`arn:aws:iam::${ACCOUNT}:${principal}`, `arn:aws:sts::${ACCOUNT}:${session}`)).toBe(
      isSame,
    );
  });

  test("a session of a role of the same name in another account is another one", () => {
    const session = "arn:aws:sts::999900001111:assumed-role/team/session";
    expect(isPrincipal(`arn:aws:iam::${ACCOUNT}:role/team`, session)).toBe(false);
  });
});

test("what no service of AWS says is told in one line, once for all that it was asked about", async () => {
  const needs = {
    ...NEEDS,
    addOns: ["coredns", "kube-proxy"].map((name) => ({ name, version: "v1", configuration: null })),
  };
  const page = () => ({ xml: "<!doctype html>\n<title>A proxy</title>" }) as const;
  const findings = await found({ "eks:DescribeAddonVersions": page }, eks, needs);
  expect(findings.map(({ check }) => check)).toEqual(["addOns"]);
  expect(findings[0]?.why).toBe(
    "It answers with status 200, and not as AWS does; so nobody knows whether EKS installs coredns v1, kube-proxy v1.",
  );
});
