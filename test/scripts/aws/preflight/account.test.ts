import { describe, expect, test, vi } from "vitest";
import type { Finding } from "../../../../scripts/preflight/finding.ts";
import { ACCOUNT, EC2_STACK, EKS_STACK, REGION } from "../../../harness/aws/stacks.ts";
import {
  type Answers,
  CERTIFICATE,
  certificateOf,
  defaultKey,
  disks,
  HUB_SECRET,
  networks,
  offered,
} from "../account.ts";
import { xmlAnswer } from "../fake-aws.ts";
import { eks, found, MACHINE, MACHINES, preflight, useWorld, type Values, world } from "./account-fixture.ts";

useWorld();

test("preflight finds nothing wrong in a complete account, and only reads it", async () => {
  expect(await found()).toEqual([]);
  expect(world.aws?.asked.filter((action) => !/:(Describe|Get|List)/.test(action))).toEqual([]);
});

test("preflight names the command that pushes missing images", async () => {
  const checks = await preflight();
  const [finding] = checks.find(({ looksAt }) => looksAt === "images and registries")?.findings ?? [];
  expect(finding).toMatchObject({ severity: "problem", check: "images" });
  expect(finding?.fix).toMatch(
    /^Run `pulumi -C bootstrap up` if the account has no repositories yet, then `npx engine-room images --stack dev --push` where Docker is; then `npx engine-room up --stack dev`\.$/,
  );
});

test("preflight sends no other request with credentials of another account", async () => {
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
  expect(world.aws?.asked).toEqual(["sts:GetCallerIdentity"]);
});

test("credentials of another account are fixed in the stack file's example account, and replaced otherwise", async () => {
  const identity = () =>
    xmlAnswer(
      "GetCallerIdentity",
      { Account: "999900001111", Arn: "arn:aws:iam::999900001111:root" },
      "member",
    );
  const fixOf = async (stack: Values) =>
    (await found({ "sts:GetCallerIdentity": identity }, stack)).map(({ fix }) => fix);
  expect(await fixOf(eks)).toEqual([expect.stringContaining('Write `account: "999900001111"`')]);
  await world.aws?.close();
  expect(await fixOf({ ...eks, account: "999988887777" })).toEqual([
    "Take credentials of the stack's account, or correct `account`.",
  ]);
});

const unknown: Answers = {
  "sts:GetCallerIdentity": () => ({ error: "InvalidClientTokenId", status: 403 }),
};

test("unknown credentials are one problem", async () => {
  const findings = await found(unknown, { ...eks, account: "999988887777" });
  expect(findings).toHaveLength(1);
  expect(findings[0]?.why).toContain("InvalidClientTokenId");
});

test("each denied action is a warning", async () => {
  const denied = () => ({ error: "AccessDeniedException", status: 400 }) as const;
  const findings = await found({
    "ec2:DescribeInstanceTypeOfferings": () => ({ error: "UnauthorizedOperation", status: 403 }),
    "servicequotas:GetServiceQuota": denied,
  });
  expect(findings.every(({ severity }) => severity === "warning")).toBe(true);
  const actions = findings.map(({ what }) => /^(\S+) does not answer\.$/.exec(what)?.[1]);
  expect(new Set(actions)).toEqual(
    new Set(["ec2:DescribeInstanceTypeOfferings", "servicequotas:GetServiceQuota"]),
  );
});

test("an answer that is not AWS's is a warning with its status", async () => {
  const page = () => ({ xml: "<!doctype html>\n<title>A proxy</title>" }) as const;
  const findings = await found({ "servicequotas:GetServiceQuota": page });
  expect(new Set(findings.map(({ severity, check }) => `${severity} ${check}`))).toEqual(
    new Set(["warning quotas"]),
  );
  expect(findings[0]?.why).toMatch(
    /^It answers with status 200, and not as AWS does; so this was not checked: quotas of vCPUs\.$/,
  );
});

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

test("a zone without a pool's instance type is a problem even if another zone offers it", async () => {
  const some = await found({ "ec2:DescribeInstanceTypeOfferings": offered(["a"]) });
  expect(some.map(({ severity, what }) => [severity, what])).toEqual([
    ["problem", "The pool gpu finds no g5.xlarge in us-east-1b."],
    ["problem", "The pool cpu finds no m7i.xlarge in us-east-1b."],
  ]);
  expect(some[0]?.why).toBe(
    "Only us-east-1a of us-east-1 offer it to this account; EKS makes no node group with a subnet in a zone without it.",
  );
  expect(some[0]?.fix).toBe(
    "Have only zones of these in `network`, and as `zones` of the pool gpu, or take another instance type.",
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

test("the pool for controllers needs its instance type in its own zones only", async () => {
  const values = { ...eks, network: { zones: ["a", "b", "c"] } };
  const system = [{ pool: "system", instanceType: "m7i.large", ...MACHINE }];
  const by = (...zones: readonly string[]) =>
    found({ "ec2:DescribeInstanceTypeOfferings": offered(zones) }, values, system);
  expect(await by("a", "b")).toEqual([]);
  await world.aws?.close();
  const [finding, ...rest] = await by("a", "c");
  expect(rest).toEqual([]);
  expect(finding).toMatchObject({
    severity: "problem",
    what: "The pool system finds no m7i.large in us-east-1b.",
    fix: "Have only zones of these in `network`, or take another instance type.",
  });
});

test("the zone of a single machine must offer its instance type", async () => {
  const zoned = (zone: string) => ({ ...EC2_STACK, pools: [{ ...EC2_STACK.pools[0], zone }] });
  const onlyB = { "ec2:DescribeInstanceTypeOfferings": offered(["b"]) };
  const needs = MACHINES.slice(0, 1);
  const [finding, ...rest] = await found(onlyB, zoned("a"), needs);
  expect(rest).toEqual([]);
  expect(finding).toMatchObject({
    severity: "problem",
    what: "The pool gpu finds no g5.xlarge in us-east-1a.",
  });
  expect(finding?.fix).toContain("and as `zone` of the pool gpu");
  await world.aws?.close();
  expect(await found(onlyB, zoned("b"), needs)).toEqual([]);
});

describe("the databases' disk of an instance", () => {
  const foundOf = async (zones: readonly string[], disk: { zone: string; sizeGiB: number }) => {
    const needs = MACHINES.slice(0, 1);
    const answers = { "ec2:DescribeVolumes": () => disks({ "vol-1": disk }) };
    const findings = await found(answers, { ...EC2_STACK, network: { zones } }, needs);
    return findings.map(({ severity, what, fix }) => `${severity}: ${what} ${fix}`);
  };

  test("a databases' disk in the machine's zone and of the stack file's size is accepted", async () => {
    expect(await foundOf(["a", "b"], { zone: "a", sizeGiB: 20 })).toEqual([]);
  });

  test("a databases' disk in another zone than the machine is a problem", async () => {
    expect(await foundOf(["a", "b"], { zone: "b", sizeGiB: 20 })).toEqual([
      expect.stringMatching(
        /^problem: The databases' disk vol-1 is in us-east-1b, and the machine would be in us-east-1a\. Write `zone: b` /,
      ),
    ]);
  });

  test("a databases' disk that would have to shrink is a problem", async () => {
    expect(await foundOf(["a", "b"], { zone: "a", sizeGiB: 50 })).toEqual([
      "problem: The databases' disk vol-1 has 50 GiB, and the stack file says 20. Write `sizeGiB: 50` in `databaseStorage`.",
    ]);
  });
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
  ["of another VPC is a problem", subnet("vpc-00000000000000000", "us-east-1a", 4000), ["problem"]],
  ["that is nearly full is a warning", subnet("vpc-0123456789abcdef0", "us-east-1a", 9), ["warning"]],
])("an existing subnet %s", async (_, subnets, severities) => {
  const findings = await found({ ...vpc, "ec2:DescribeSubnets": subnets }, existingNetwork);
  expect(findings.map(({ severity }) => severity)).toEqual(severities);
});

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

test.each([
  ["whose wildcard covers the host name", certificateOf("ISSUED", ["*.example.org"]), []],
  ["for a deeper name only", certificateOf("ISSUED", ["*.a.example.org"]), ["not for models.example.org"]],
])("preflight reports a certificate %s", async (_, answer, words) => {
  const findings = await found({ "acm:DescribeCertificate": () => answer }, publicGateway);
  expect(findings).toHaveLength(words.length);
  for (const [index, word] of words.entries()) expect(findings[index]?.what).toContain(word);
});

test("gated models are requested with the secret's token, which no finding shows", async () => {
  world.hubStatus = 403;
  const findings = await found({}, gated);
  expect(world.hubAsked).toHaveLength(1);
  expect(world.hubAsked[0]?.authorization).toBe("Bearer hf_the-token");
  expect(world.hubAsked[0]?.path).toMatch(
    /^\/meta-llama\/Llama-2-7b-chat-hf\/resolve\/[0-9a-f]{40}\/config\.json$/,
  );
  expect(findings.map(({ severity, check }) => [severity, check])).toEqual([["problem", "hub"]]);
  expect(JSON.stringify(findings)).not.toContain("hf_the-token");
});

test("gated models are requested with HF_TOKEN if the secret may not be read", async () => {
  vi.stubEnv("HF_TOKEN", "hf_mine");
  const denied = () => ({ error: "AccessDeniedException" });
  const findings = await found({ "secretsmanager:GetSecretValue": denied }, gated);
  expect(world.hubAsked.map(({ authorization }) => authorization)).toEqual(["Bearer hf_mine"]);
  expect(findings.map(({ severity, check }) => [severity, check])).toEqual([["warning", "hubToken"]]);
});

test("accessible gated models have no finding", async () => {
  expect(await found({}, gated)).toEqual([]);
});

test("a secret that is encrypted with a customer's own key is a problem", async () => {
  const by = (KmsKeyId: string) => ({
    "secretsmanager:DescribeSecret": () => ({ json: { ARN: HUB_SECRET, KmsKeyId } }),
  });
  const key = `arn:aws:kms:${REGION}:${ACCOUNT}:key/12345678-1234-1234-1234-123456789012`;
  const findings = await found(by(key), gated);
  expect(findings.map(({ severity, check }) => [severity, check])).toEqual([["problem", "hubToken"]]);
  expect(findings[0]?.why).toContain(key);
  await world.aws?.close();
  expect(await found(by("alias/aws/secretsmanager"), gated)).toEqual([]);
});

// "secret" has six letters, like the suffix that AWS adds, so no pattern distinguishes the two.
test("an incomplete ARN of a secret is a problem whose fix has the complete ARN", async () => {
  const part = HUB_SECRET.replace("hub-token-AbCdEf", "hub-secret");
  const findings = await found(
    { "secretsmanager:DescribeSecret": () => ({ json: { ARN: `${part}-AbCdEf` } }) },
    { ...gated, hub: { tokenSecretArn: part } },
  );
  expect(findings.map(({ severity, check }) => [severity, check])).toEqual([["problem", "hubToken"]]);
  expect(findings[0]?.fix).toBe(`Write \`tokenSecretArn: ${part}-AbCdEf\`.`);
});

test("a default key of EBS that is the customer's is a problem, unless the stack file names a key", async () => {
  const KEY = "arn:aws:kms:us-east-1:111122223333:key/12345678-1234-1234-1234-123456789012";
  const answers = { "ec2:GetEbsDefaultKmsKeyId": () => defaultKey(KEY) };
  const of = (findings: readonly Finding[]) => findings.filter(({ check }) => check === "encryption");
  const [finding, ...others] = of(await found(answers));
  expect(others).toEqual([]);
  expect(finding).toMatchObject({ severity: "problem", what: expect.stringContaining(KEY) });
  expect(finding?.fix).toContain("kmsKeyArn");
  await world.aws?.close();
  // A machine on EC2 starts with the caller's permissions.
  expect(of(await found(answers, EC2_STACK))).toMatchObject([{ severity: "warning" }]);
  await world.aws?.close();
  expect(of(await found(answers, { ...eks, kmsKeyArn: KEY }))).toEqual([]);
  expect(world.aws?.asked).not.toContain("ec2:GetEbsDefaultKmsKeyId");
});

test("a token's secret may be encrypted by the stack's own key, and by no other", async () => {
  const KEY = "arn:aws:kms:us-east-1:111122223333:key/12345678-1234-1234-1234-123456789012";
  const hub = { tokenSecretArn: HUB_SECRET };
  const secretOf = (KmsKeyId: string) => ({
    "secretsmanager:DescribeSecret": () => ({ json: { ARN: HUB_SECRET, KmsKeyId } }),
  });
  const of = async (key: string, values: Values) => {
    const findings = await found(secretOf(key), { ...eks, hub, ...values });
    await world.aws?.close();
    return findings.filter(({ check }) => check === "hubToken").map(({ what }) => what);
  };
  const another = ["The secret with the hub's token is encrypted by another key."];
  expect(await of(KEY, {})).toEqual(another);
  expect(await of(KEY, { kmsKeyArn: KEY })).toEqual([]);
  expect(await of("12345678-1234-1234-1234-123456789012", { kmsKeyArn: KEY })).toEqual([]);
  expect(await of("1234-1234-1234-123456789012", { kmsKeyArn: KEY })).toEqual(another);
});
