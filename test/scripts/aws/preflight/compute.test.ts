import { describe, expect, test } from "vitest";
import { checkedPlan } from "../../../../infra/checked-plan.ts";
import type { AwsPlan } from "../../../../infra/plan/gpu-stack.ts";
import { isPrincipal } from "../../../../scripts/preflight/aws-access.ts";
import { awsNeeds } from "../../../../scripts/preflight/aws-needs.ts";
import { vcpuFindings } from "../../../../scripts/preflight/aws-quotas.ts";
import { checkTable } from "../../../../scripts/preflight/finding.ts";
import { awsTarget } from "../../../../scripts/program/aws-target.ts";
import { ACCOUNT, EC2_STACK, EKS_STACK } from "../../../harness/aws/stacks.ts";
import { projectStackValues } from "../../../harness/stack-files.ts";
import { type Answers, networks, quotaOf, running } from "../account.ts";
import { xmlAnswer } from "../fake-aws.ts";
import { eks, found, MACHINES, NEEDS, preflight, useWorld, type Values, world } from "./world.ts";

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

test("a quota below what `up` waits for is a problem", async () => {
  const two = {
    ...NEEDS,
    machines: MACHINES.map((one) => ({ ...one, plannedMachines: 2, maxMachines: 2 })),
  };
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

test("quotas of spot machines count only spot machines", async () => {
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

test("a quota without room for an update of the machines is a warning", async () => {
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

test("quotas of VPCs and addresses count existing ones", async () => {
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
      "of another instance type",
      { instanceType: "g5.2xlarge" },
      ["problem", `The capacity reservation ${id} holds no g5.xlarge.`],
    ],
    [
      "in another zone",
      { availabilityZone: "us-east-1b" },
      ["problem", `The capacity reservation ${id} is in another zone than the pool gpu.`],
    ],
    ["that has expired", { state: "expired" }, ["problem", `The capacity reservation ${id} is not active.`]],
    [
      "that is a Capacity Block",
      { reservationType: "capacity-block" },
      ["problem", `The capacity reservation ${id} is a Capacity Block.`],
    ],
    [
      "for fewer machines than the pool's largest number",
      { totalInstanceCount: 1, availableInstanceCount: 1 },
      ["warning", `The capacity reservation ${id} has room for 1 of 2 machines of the pool gpu.`],
    ],
    [
      "for fewer machines than `up` waits for",
      { totalInstanceCount: 1, availableInstanceCount: 1 },
      ["problem", `The capacity reservation ${id} has room for 1 of 2 machines of the pool gpu.`],
      2,
    ],
    [
      "that others use up",
      { availableInstanceCount: 0 },
      ["problem", `The capacity reservation ${id} has room for 0 of 2 machines of the pool gpu.`],
    ],
  ])("a capacity reservation %s is reported", async (_, changes, finding, plannedMachines = 1) => {
    const machines = MACHINES.map((one) => ({ ...one, plannedMachines }));
    const findings = await found(holding(changes), reserved, { ...NEEDS, machines });
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

  test("a missing capacity reservation is a problem", async () => {
    const none = () => ({ error: "InvalidCapacityReservationId.NotFound" }) as const;
    const findings = await found({ "ec2:DescribeCapacityReservations": none }, reserved);
    expect(findings.map(({ severity, what }) => [severity, what])).toEqual([
      ["problem", `There is no capacity reservation ${id}.`],
    ]);
  });
});

describe("the cluster", () => {
  test.each([
    ["EXTENDED_SUPPORT", "warning"],
    ["UNSUPPORTED", "problem"],
  ])("a version of Kubernetes in %s is a %s", async (versionStatus, severity) => {
    const findings = await found({
      "eks:DescribeClusterVersions": () => ({
        json: { clusterVersions: [{ clusterVersion: "1.35", versionStatus }] },
      }),
    });
    expect(findings.map((one) => [one.severity, one.check])).toEqual([[severity, "kubernetesVersion"]]);
  });

  test("an add-on version that EKS lacks is a problem that names the newest version", async () => {
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

    test("an add-on's settings that fit EKS' schema are not a finding", async () => {
      expect(await setTo({ nodeSelector: { pool: "system" } })).toEqual([]);
    });
    test.each([
      [{ nodeSelectors: {} }, "At the top", "nodeSelectors"],
      [{ controller: { nodeSelector: {} } }, "controller", "nodeSelector"],
      [{ nodeSelector: { pool: 1 } }, "nodeSelector.pool", "string"],
    ])("an add-on's settings %j are a problem", async (configuration, where, word) => {
      const findings = await setTo(configuration);
      expect(findings.map(({ severity, what }) => [severity, what])).toEqual([
        ["problem", "EKS does not take what coredns v1.0.0-eksbuild.1 is set to."],
      ]);
      expect(findings[0]?.why).toContain(`${where}: `);
      expect(findings[0]?.why).toContain(word);
    });
    test.each(["", '{"$ref": "#/elsewhere"}'])(
      "an add-on's unreadable schema %j is a warning",
      async (schema) => {
        const findings = await setTo({}, schema);
        expect(findings.map(({ severity, check }) => [severity, check])).toEqual([["warning", "addOns"]]);
      },
    );
    test("the schema of an add-on version that EKS lacks is not asked for", async () => {
      const findings = await found({ "eks:DescribeAddonVersions": () => ({ json: { addons: [] } }) }, eks, {
        ...NEEDS,
        addOns: NEEDS.addOns.map((one) => ({ ...one, configuration: {} })),
      });
      expect(findings.map(({ what }) => what)).toEqual(["EKS does not install coredns v1.0.0-eksbuild.1."]);
    });
  });
});

test("preflight does not ask ECR about repositories of another registry", async () => {
  await found({}, { ...eks, images: { registry: "registry.example.org/room" } });
  expect(world.aws?.asked).not.toContain("ecr:DescribeRepositories");
});

test("administrators other than the caller are not a finding", async () => {
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

  test("an administrator with an access entry that is not the stack's is a problem", async () => {
    const findings = await ofAccess(there);
    expect(findings.map(({ severity, what }) => [severity, what])).toEqual(
      [made, joined].map((admin) => [
        "problem",
        `${admin} has an access entry of the cluster engine-room-dev that is not the stack's.`,
      ]),
    );
    expect(findings[1]?.fix).toContain(`--principal-arn ${joined}`);
  });

  test("denied access entries are one warning", async () => {
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
])("the principal %s is that of the session %s: %s", (principal, session, isSame) => {
  expect(isPrincipal(`arn:aws:iam::${ACCOUNT}:${principal}`, `arn:aws:sts::${ACCOUNT}:${session}`)).toBe(
    isSame,
  );
});

test("a session of another account's role with the same name is another principal", () => {
  const session = "arn:aws:sts::999900001111:assumed-role/team/session";
  expect(isPrincipal(`arn:aws:iam::${ACCOUNT}:role/team`, session)).toBe(false);
});

test("an address for examples in `access.apiCidrs` is a problem", async () => {
  const findings = await found({}, { ...eks, access: { apiCidrs: ["203.0.113.7/32"] } });
  expect(findings.map(({ severity, check }) => [severity, check])).toEqual([["problem", "access"]]);
  expect(findings[0]?.why).toContain("203.0.113.0/24");
});

test('checks of what a stack lacks are "not needed" in the table', async () => {
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

const STANDARD = "L-1216C47A";

const G_AND_VT = "L-DB2E81BA";

const P = "L-417A185B";

const needsOf = (values: Values) => awsNeeds(awsTarget(checkedPlan(values).plan as AwsPlan, "dev")).machines;

/** Severities by quota code, where nothing else runs. */
function severities(values: Values, vcpus: Readonly<Record<string, number>>) {
  const quotas = new Map(
    Object.entries(vcpus).map(([code, value]) => [code, { kind: "answer", value }] as const),
  );
  const nothing = {
    others: { kind: "answer", value: [] },
    vcpus: { kind: "answer", value: new Map() },
  } as const;
  return vcpuFindings(needsOf(values), { quotas, region: "us-east-1", ...nothing })
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
