import fc from "fast-check";
import { expect, test } from "vitest";
import { networkPlan } from "../../../../infra/plan/aws/account.ts";
import {
  formatCidr,
  instanceZone,
  LONGEST_VPC_PREFIX,
  machineZones,
  overlap,
  parseCidr,
  SHORTEST_VPC_PREFIX,
  vpcCidr,
  zoneCidrs,
} from "../../../../infra/plan/aws/network.ts";
import { ZONE_LETTERS } from "../../../../infra/plan/catalogue/aws.ts";
import { times } from "../../../harness/thorough.ts";
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

test("a zone keeps its subnets whatever other zones the stack file names, in any order", () => {
  const some = fc.uniqueArray(fc.constantFrom(...ZONE_LETTERS), { minLength: 2, maxLength: 3 });
  const subnetsOf = (zones: readonly string[]) => {
    const { privateSubnets, publicSubnets } = planned({ zones });
    return new Map([...privateSubnets, ...publicSubnets].map(({ zone, args }) => [args.cidrBlock, zone]));
  };
  fc.assert(
    fc.property(some, some, (one, other) => {
      const [a, b] = [subnetsOf(one), subnetsOf(other)];
      for (const [cidr, zone] of a) expect(b.get(cidr)).toBe(other.includes(zone as "a") ? zone : undefined);
    }),
    { numRuns: times(20, 200) },
  );
});

test("the NAT gateway and the EC2 machine are in the same zone in any order of zones", () => {
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

test("`nat: perZone` creates a NAT gateway in each zone", () => {
  expect(planned({ zones: ["c", "a"], nat: "one" }).natZones).toEqual(["a"]);
  expect(planned({ zones: ["c", "a"], nat: "perZone" }).natZones).toEqual(["c", "a"]);
});

test("`flowLogs: false` creates no flow logs, and no network has interface endpoints by default", () => {
  expect(planned({ flowLogs: false })).toMatchObject({ interfaceEndpoints: [], flowLogs: null });
});

test("private endpoints include logs and topics if the stack uses these", () => {
  const endpoints = (values: object) =>
    planned({ endpoints: "private" }, values as typeof eksValues).interfaceEndpoints;
  const logs = { cloudwatch: {} };
  const monitoringOptions = { snsTopicArn: "arn:aws:sns:us-east-1:111122223333:alerts" };
  expect([endpoints(ec2Values), endpoints({ ...ec2Values, logs })]).toEqual([
    expect.not.arrayContaining(["logs"]),
    expect.arrayContaining(["logs"]),
  ]);
  expect(endpoints(eksValues)).not.toContain("sns");
  const watched = endpoints({ ...eksValues, logs, monitoringOptions });
  expect(watched).toContain("sns");
  expect(watched.filter((one) => one === "logs")).toHaveLength(1);
});

test("private endpoints of one machine include those of its agent, and not those of a cluster", () => {
  const { interfaceEndpoints } = planned({ endpoints: "private" }, ec2Values);
  expect(interfaceEndpoints).toEqual(
    expect.arrayContaining(["ssm", "ssmmessages", "ec2messages", "secretsmanager", "ecr.dkr"]),
  );
  expect(interfaceEndpoints).not.toContain("eks");
});

test("flow logs are kept as long as the logs of the control plane", () => {
  const values = { ...eksValues, cluster: { logRetentionDays: 90 } };
  expect(planned({}, values).flowLogs?.logGroup.retentionInDays).toBe(90);
  expect(planned({}, ec2Values).flowLogs?.logGroup.retentionInDays).toBe(30);
});

test("the role of flow logs writes to their own log group only", () => {
  const statements = planned({}).flowLogs?.role.statements ?? [];
  const group = "arn:aws:logs:us-east-1:111122223333:log-group:engine-room-demo/flow-logs";
  expect(statements).toMatchObject([
    {
      Action: ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
      Resource: [group, `${group}:*`],
    },
    {
      Action: ["logs:DescribeLogGroups"],
      Resource: ["*"],
    },
  ]);
});

test("subnets of a stack without a cluster have no tags for load balancer controllers", () => {
  const { privateSubnets, publicSubnets } = planned({}, ec2Values);
  for (const { args } of [...privateSubnets, ...publicSubnets]) expect(args.tags).toEqual({});
});

test("an existing network is used without changes", () => {
  const { config, context } = awsPlan({ ...eksValues, network: { existing } });
  expect(networkPlan(config, context)).toEqual({ kind: "existing", ...existing, publicSubnets: [] });
  expect(machineZones(config.network)).toEqual(["c", "a"]);
  expect(vpcCidr(config.network)).toBe("10.80.0.0/16");
});

/** Any network of a length. */
const network = (min: number, max: number) =>
  fc
    .tuple(fc.nat(2 ** 32 - 1), fc.integer({ min, max }))
    .map(([address, length]) =>
      formatCidr(parseCidr(`${formatCidr({ first: address, length: 32 }).split("/")[0]}/${length}`)),
    );

const vpc = network(SHORTEST_VPC_PREFIX, LONGEST_VPC_PREFIX);

const zones = fc.constantFrom(...ZONE_LETTERS);

const all = (cidr: string) =>
  ZONE_LETTERS.flatMap((zone) => {
    const { privateCidr, publicCidr } = zoneCidrs(cidr, zone);
    return [privateCidr, publicCidr];
  });

test.each([
  ["10.64.0.0/16", "a", "10.64.0.0/19", "10.64.192.0/22"],
  ["10.64.0.0/16", "b", "10.64.32.0/19", "10.64.196.0/22"],
  ["10.64.0.0/16", "f", "10.64.160.0/19", "10.64.212.0/22"],
  ["172.16.240.0/20", "a", "172.16.240.0/23", "172.16.252.0/26"],
  ["172.16.240.0/20", "c", "172.16.244.0/23", "172.16.252.128/26"],
] as const)(
  "%s in zone %s has the private subnet %s and the public subnet %s",
  (cidr, zone, privateCidr, publicCidr) => {
    expect(zoneCidrs(cidr, zone)).toEqual({ privateCidr, publicCidr });
  },
);

test("subnets of all zones lie inside the VPC and do not overlap", () => {
  fc.assert(
    fc.property(vpc, (cidr) => {
      const whole = parseCidr(cidr);
      const cidrs = all(cidr);
      for (const one of cidrs.map(parseCidr)) {
        expect(one.first).toBeGreaterThanOrEqual(whole.first);
        expect(one.first + one.size).toBeLessThanOrEqual(whole.first + whole.size);
        expect(one.first % one.size).toBe(0);
      }
      cidrs.forEach((one, index) => {
        for (const other of cidrs.slice(index + 1)) expect(overlap(one, other)).toBe(false);
      });
    }),
    { numRuns: times(100, 1000) },
  );
});

test("a private subnet has eight times the addresses of a public one, which has a /26 at least", () => {
  fc.assert(
    fc.property(vpc, zones, (cidr, zone) => {
      const { privateCidr, publicCidr } = zoneCidrs(cidr, zone);
      expect(parseCidr(privateCidr).size).toBe(8 * parseCidr(publicCidr).size);
      expect(parseCidr(publicCidr).length).toBeLessThanOrEqual(26);
      expect(parseCidr(privateCidr).size).toBeGreaterThanOrEqual(512);
    }),
    { numRuns: times(100, 1000) },
  );
});

test("a CIDR block that is parsed and formatted stays the same", () => {
  fc.assert(
    fc.property(network(0, 32), (text) => {
      expect(formatCidr(parseCidr(text))).toBe(text);
    }),
    { numRuns: times(100, 1000) },
  );
});

test.each([
  ["10.0.0.0/16", "10.0.255.0/24", true],
  ["10.0.255.0/24", "10.0.0.0/16", true],
  ["10.0.0.0/16", "10.1.0.0/16", false],
  ["255.255.255.0/24", "255.255.255.255/32", true],
  ["0.0.0.0/0", "203.0.113.7/32", true],
])("`overlap` of %s and %s is %s", (a, b, shared) => {
  expect(overlap(a, b)).toBe(shared);
});

test("a CIDR block starts at the first address of its length", () => {
  expect(formatCidr(parseCidr("10.64.17.9/20"))).toBe("10.64.16.0/20");
});
