import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { instanceZone, machineZones, networkPlan, vpcCidr } from "../../../../infra/plan/aws/network.ts";
import { ZONE_LETTERS } from "../../../../infra/plan/catalogue/zones.ts";
import { awsPlan, ec2Values, eksValues } from "./stacks.ts";

function planned(network: object, values: object = eksValues) {
  const { config, context } = awsPlan({ ...values, network });
  const plan = networkPlan(config, context);
  if (plan.kind !== "create") throw new Error("It is there already.");
  return plan;
}

const existing = {
  vpcId: "vpc-01234567",
  cidr: "10.80.0.0/16",
  privateSubnets: [
    { id: "subnet-00000001", zone: "c" },
    { id: "subnet-00000002", zone: "a" },
  ],
};

describe("a network of the stack's own", () => {
  test("is planned whole", () => {
    expect(planned({})).toEqual({
      kind: "create",
      cidr: "10.64.0.0/16",
      privateSubnets: [
        { zone: "a", cidr: "10.64.0.0/19" },
        { zone: "b", cidr: "10.64.32.0/19" },
      ],
      publicSubnets: [
        { zone: "a", cidr: "10.64.192.0/22" },
        { zone: "b", cidr: "10.64.196.0/22" },
      ],
      natZones: ["a"],
      interfaceEndpoints: ["ecr.api", "ecr.dkr", "elasticfilesystem", "logs", "sts"],
      flowLogs: {
        logGroup: "engine-room-demo/flow-logs",
        retentionDays: 30,
        role: expect.objectContaining({ subject: "flow-logs", service: "vpc-flow-logs.amazonaws.com" }),
      },
      publicSubnetTags: { "kubernetes.io/role/elb": "1" },
      privateSubnetTags: { "kubernetes.io/role/internal-elb": "1" },
    });
  });

  test("keeps a zone's subnets whatever zones there are besides, in whatever order", () => {
    const some = fc.uniqueArray(fc.constantFrom(...ZONE_LETTERS), { minLength: 2, maxLength: 3 });
    const subnetsOf = (zones: readonly string[]) => {
      const { privateSubnets, publicSubnets } = planned({ zones });
      return new Map([...privateSubnets, ...publicSubnets].map(({ zone, cidr }) => [cidr, zone]));
    };
    fc.assert(
      fc.property(some, some, (one, other) => {
        const [a, b] = [subnetsOf(one), subnetsOf(other)];
        for (const [cidr, zone] of a)
          expect(b.get(cidr)).toBe(other.includes(zone as "a") ? zone : undefined);
      }),
      { numRuns: 30 },
    );
  });

  test("has its one NAT gateway, and its one machine, in the same zone however zones are ordered", () => {
    const zoned = (zones: readonly string[], pool: object = {}) => {
      const { config, context } = awsPlan({
        ...ec2Values,
        network: { zones },
        pools: [{ ...ec2Values.pools[0], ...pool }],
      });
      const plan = networkPlan(config, context);
      if (config.compute !== "ec2" || plan.kind !== "create") throw new Error("It is another stack.");
      return [instanceZone(config), ...plan.natZones];
    };
    expect(zoned(["c", "a", "b"])).toEqual(["a", "a"]);
    expect(zoned(["a", "b"])).toEqual(["a", "a"]);
    expect(zoned(["c", "a"], { zone: "c" })).toEqual(["c", "c"]);
  });

  test("has a NAT gateway in each zone where the stack file wants it", () => {
    expect(planned({ zones: ["c", "a"], nat: "one" }).natZones).toEqual(["a"]);
    expect(planned({ zones: ["c", "a"], nat: "perZone" }).natZones).toEqual(["c", "a"]);
  });

  test("does without what costs by the hour, and without logs", () => {
    expect(planned({ endpoints: "free", flowLogs: false })).toMatchObject({
      interfaceEndpoints: [],
      flowLogs: null,
    });
  });

  test("keeps flow logs as long as the logs of the control plane", () => {
    const values = { ...eksValues, cluster: { logRetentionDays: 90 } };
    expect(planned({}, values).flowLogs?.retentionDays).toBe(90);
    expect(planned({}, ec2Values).flowLogs?.retentionDays).toBe(30);
  });

  test("lets flow logs write into their own group alone", () => {
    const statements = planned({}).flowLogs?.role.statements ?? [];
    const group = "arn:aws:logs:us-east-1:111122223333:log-group:engine-room-demo/flow-logs";
    expect(statements.map(({ actions, resources }) => ({ actions, resources }))).toEqual([
      {
        actions: ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
        resources: [group, `${group}:*`],
      },
      {
        actions: ["logs:DescribeLogGroups"],
        resources: ["*"],
      },
    ]);
  });

  test("has no tags of load balancer controllers where there is no cluster", () => {
    expect(planned({}, ec2Values)).toMatchObject({ publicSubnetTags: {}, privateSubnetTags: {} });
  });
});

test("a network that is there stays as it is", () => {
  const { config, context } = awsPlan({ ...eksValues, network: { existing } });
  expect(networkPlan(config, context)).toEqual({ kind: "existing", ...existing, publicSubnets: [] });
  expect(machineZones(config.network)).toEqual(["c", "a"]);
  expect(vpcCidr(config.network)).toBe("10.80.0.0/16");
});
