import { describe, expect, test } from "vitest";
import { budgetArgs } from "../../../../infra/plan/aws/account.ts";
import { keyedName, plainName } from "../../../../infra/plan/aws/context.ts";
import { documentText } from "../../../../infra/plan/aws/data-files.ts";
import { awsNotes, edgePlan, recordNote } from "../../../../infra/plan/aws/edge.ts";
import { type RolePlan, rolePlan } from "../../../../infra/plan/aws/roles.ts";
import { awsPlan, ec2Values, eksValues, publicGateway } from "./stacks.ts";

type Values = Readonly<Record<string, unknown>>;

describe("file system", () => {
  test("a stack in `retain` is retained", () => {
    const isRetained = (retain: readonly string[]) => awsPlan({ ...eksValues, retain }).context.isRetained;
    expect(isRetained(["prod"])).toBe(false);
    expect(isRetained(["prod", "demo"])).toBe(true);
  });

  test("the file system policy allows mounts through mount targets and over TLS only, without root access", () => {
    const { Statement: statements } = JSON.parse(documentText("fileSystemPolicy", { arn: "arn:of:files" }));
    expect(statements).toMatchObject([
      {
        Effect: "Allow",
        Action: ["elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"],
        Resource: "arn:of:files",
        Condition: { Bool: { "elasticfilesystem:AccessedViaMountTarget": "true" } },
      },
      { Effect: "Deny", Action: "*", Condition: { Bool: { "aws:SecureTransport": "false" } } },
    ]);
  });
});

describe("load balancer", () => {
  const planned = (gateway: Values, rest: Values = eksValues) => {
    const { plan, context } = awsPlan({ ...rest, gateway });
    return edgePlan(plan, context);
  };

  test("an internal load balancer accepts the VPC and its peers under the name that AWS gives it", () => {
    const network = { peeredCidrs: ["10.1.0.0/16", "10.2.0.0/16"] };
    expect(planned({ limits: { requestSeconds: 600 } }, { ...eksValues, network })).toMatchObject({
      isPublic: false,
      cidrs: ["10.64.0.0/16", "10.1.0.0/16", "10.2.0.0/16"],
      url: null,
      loadBalancer: {
        name: expect.stringMatching(/^engine-room-demo-[0-9a-f]{8}$/),
        internal: true,
        idleTimeout: 610,
      },
      targetGroup: {
        name: expect.stringMatching(/^engine-room-demo-[0-9a-f]{8}$/),
        targetType: "ip",
        port: 8080,
        deregistrationDelay: 600,
        healthCheck: { path: "/healthz" },
      },
      listener: { protocol: "HTTP", port: 80 },
    });
  });

  test("timeouts for the longest request stay within AWS's limits", () => {
    const { loadBalancer, targetGroup } = planned({ limits: { requestSeconds: 3600 } });
    expect(loadBalancer.idleTimeout).toBeLessThanOrEqual(4000);
    expect(targetGroup.deregistrationDelay).toBeLessThanOrEqual(3600);
  });

  test("an internal host name without TLS has an http URL", () => {
    expect(planned({ hostname: "models.internal.example.org" }).url).toBe(
      "http://models.internal.example.org",
    );
  });

  test("a load balancer or target group gets another name when a change needs a replacement", () => {
    const named = (gateway: Values, rest: Values = eksValues) => {
      const { loadBalancer, targetGroup } = planned(gateway, rest);
      return { loadBalancerName: loadBalancer.name, targetGroupName: targetGroup.name };
    };
    const before = named({});
    expect(named({ limits: { requestSeconds: 9 } })).toEqual(before);
    const opened = named(publicGateway);
    expect(opened.loadBalancerName).not.toBe(before.loadBalancerName);
    // A target group has one load balancer.
    expect(opened.targetGroupName).not.toBe(before.targetGroupName);
    const moved = named({}, { ...eksValues, network: { cidr: "10.80.0.0/16" } });
    expect(moved.loadBalancerName).not.toBe(before.loadBalancerName);
    expect(moved.targetGroupName).not.toBe(before.targetGroupName);
    const ported = named({ port: 8443 }, ec2Values);
    expect(ported.targetGroupName).not.toBe(named({ port: 8444 }, ec2Values).targetGroupName);
  });
});

describe("budget", () => {
  const planned = (guard: Values) => {
    const { plan, config, context } = awsPlan({ ...eksValues, guard });
    return { cost: plan.cost, budget: budgetArgs(config, plan.cost, context) };
  };

  test("a budget is created only if e-mail addresses are given", () => {
    expect(planned({}).budget).toBeNull();
    expect(planned({ monthlyUsd: 500, emails: ["ops@example.org"] }).budget).toMatchObject({
      limitAmount: "500",
      costFilters: [{ name: "TagKeyValue", values: ["user:engine-room:stack$demo"] }],
    });
  });

  test("a budget of the account needs no tag", () => {
    const emails = ["ops@example.org"];
    expect(planned({ emails, scope: "account" }).budget?.costFilters).toEqual([
      { name: "LinkedAccount", values: ["111122223333"] },
    ]);
  });

  test("a budget without an amount is a fifth above the planned cost", () => {
    const { cost, budget } = planned({ emails: ["ops@example.org"] });
    expect(cost.monthlyUsd).toBeGreaterThan(1000);
    expect(budget?.limitAmount).toBe(String(Math.ceil(Number(cost.monthlyUsd) * 1.2)));
  });
});

test("tags of running resources do not change with the ttl", () => {
  const { context } = awsPlan({ ...eksValues, guard: { ttlHours: 24 } });
  const { "engine-room:ttl-hours": hours, ...rest } = context.tags;
  expect(hours).toBe("24");
  expect(context.lastingTags).toEqual(rest);
  expect(awsPlan(eksValues).context.lastingTags).toEqual(rest);
});

test.each([
  ["engine-room-prod", "engine-room-prod"],
  ["engine-room-preview-of-a-long-name", /^engine-room-preview-of-[0-9a-f]{8}$/],
  ["engine-room-a_b", /^engine-room-a-b-[0-9a-f]{8}$/],
  ["engine-room-a.b", /^engine-room-a-b-[0-9a-f]{8}$/],
  ["engine-room-A", /^engine-room-a-[0-9a-f]{8}$/],
  ["engine-room-a-", /^engine-room-a-[0-9a-f]{8}$/],
  ["engine-room-a--b", /^engine-room-a-b-[0-9a-f]{8}$/],
])("the AWS name of %s matches %s", (name, wanted) => {
  const plain = plainName(name, 32);
  expect(plain).toMatch(typeof wanted === "string" ? new RegExp(`^${wanted}$`) : wanted);
  expect(plain.length).toBeLessThanOrEqual(32);
});

test("AWS names differ if stack names differ only in characters that are cut or replaced", () => {
  const names = ["a_b", "a.b", "a-b", "A-b", `${"x".repeat(40)}1`, `${"x".repeat(40)}2`];
  expect(new Set(names.map((name) => plainName(`engine-room-${name}`, 32))).size).toBe(names.length);
});

test("a keyed AWS name changes with its key and stays within its length", () => {
  const [one, other] = [1, 2].map((port) => keyedName(`engine-room-${"x".repeat(88)}`, 32, { port }));
  expect(one).not.toBe(other);
  expect(one).toMatch(/^[a-z0-9-]{1,32}$/);
});

const { context } = awsPlan(eksValues);

/** Condition of the role's only statement. */
function conditionOf({ args }: RolePlan): unknown {
  return JSON.parse(args.assumeRolePolicy).Statement[0].Condition;
}

test("EKS assumes a cluster's role for that cluster only", () => {
  expect(conditionOf(rolePlan(context, "cluster"))).toEqual({
    StringEquals: { "aws:SourceAccount": "111122223333" },
    ArnLike: { "aws:SourceArn": "arn:aws:eks:us-east-1:111122223333:cluster/engine-room-demo" },
  });
});

test("the role of flow logs is assumed for the account's own flow logs only, in each partition", () => {
  const gov = { ...context, region: "us-gov-west-1", partition: "aws-us-gov" };
  for (const [of, arn] of [
    [context, "arn:aws:ec2:us-east-1:111122223333:vpc-flow-log/*"],
    [gov, "arn:aws-us-gov:ec2:us-gov-west-1:111122223333:vpc-flow-log/*"],
  ] as const)
    expect(conditionOf(rolePlan(of, "flow-logs", { logGroup: "flow-logs" }))).toEqual({
      StringEquals: { "aws:SourceAccount": "111122223333" },
      ArnLike: { "aws:SourceArn": arn },
    });
});

test("the role of machines is assumed without conditions", () => {
  expect(conditionOf(rolePlan(context, "node"))).toBeUndefined();
});

function planned(values: Values) {
  const { plan, context } = awsPlan(values);
  return { plan, context, edge: edgePlan(plan, context) };
}

function notes(values: Values): readonly string[] {
  const { plan, context, edge } = planned(values);
  return awsNotes(plan, context, edge);
}

test.each([
  ["a cluster", eksValues],
  ["one machine", ec2Values],
])("the notes of %s say that `down` deletes everything with documents and engines", (_name, values) => {
  expect(notes(values).at(-1)).toBe(
    "`npx engine-room down` deletes all that the stack has made, documents, weights and engines with it. `retain: [demo]` has it stop before that.",
  );
});

test("the notes say that `down` keeps the engines of an existing store", () => {
  const existing = { fileSystemId: "fs-01234567", securityGroupId: "sg-01234567" };
  expect(notes({ ...eksValues, engineStore: { existing } }).at(-1)).toContain(
    "documents with it; weights and engines stay in fs-01234567",
  );
});

test("the notes of a retained stack say that `down` stops at protected resources", () => {
  expect(notes({ ...eksValues, retain: ["demo"] }).at(-1)).toContain("stops at what `retain` protects");
  expect(notes({ ...eksValues, retain: ["other"] }).at(-1)).toContain("deletes all");
});

test("without keys the notes say that every address of the load balancer may use the models", () => {
  const network = { peeredCidrs: ["10.1.0.0/16"] };
  expect(notes({ ...eksValues, network })[0]).toMatch(
    /^Everybody in 10\.64\.0\.0\/16, 10\.1\.0\.0\/16, every pod of the cluster among them, may use the models/,
  );
  expect(notes({ ...ec2Values, network })[0]).toMatch(
    /^Everybody in 10\.64\.0\.0\/16, 10\.1\.0\.0\/16 may use the models/,
  );
});

test("without keys and load balancer the notes say that every pod may use the models", () => {
  const charts = { "load-balancer-controller": "none" };
  expect(notes({ ...eksValues, cluster: { charts } })[0]).toMatch(/^Every pod of the cluster may/);
});

test("with keys there is no note about open access", () => {
  expect(notes({ ...eksValues, gateway: publicGateway })).toHaveLength(1);
});

test("the notes ask for a DNS record of a host name without a hosted zone", () => {
  const { edge } = planned({ ...eksValues, gateway: publicGateway });
  expect(edge.needsRecord).toBe(true);
  expect(recordNote(edge, "demo.elb.amazonaws.com")).toMatch(
    /models\.example\.org.*demo\.elb\.amazonaws\.com/,
  );
  const needsRecord = (gateway: Values) => planned({ ...eksValues, gateway }).edge.needsRecord;
  expect(needsRecord({ ...publicGateway, zoneId: "Z0123456789" })).toBe(false);
  expect(needsRecord({})).toBe(false);
});

const CLUSTER = {
  name: "engine-room-dev",
  region: "us-east-1",
  endpoint: "https://0123.gr7.us-east-1.eks.amazonaws.com",
  certificateAuthority: "Q0E=",
};

test("the kubeconfig of EKS names the cluster and the login command and has no secret", () => {
  const config: unknown = JSON.parse(documentText("kubeconfig", CLUSTER));
  expect(config).toMatchObject({
    apiVersion: "v1",
    kind: "Config",
    "current-context": "engine-room-dev",
    clusters: [
      {
        name: "engine-room-dev",
        cluster: { server: CLUSTER.endpoint, "certificate-authority-data": CLUSTER.certificateAuthority },
      },
    ],
    contexts: [{ name: "engine-room-dev", context: { cluster: "engine-room-dev", user: "engine-room-dev" } }],
  });
  const [{ user }] = (config as { users: [{ user: { exec: { command: string; args: string[] } } }] }).users;
  expect(Object.keys(user)).toEqual(["exec"]);
  expect([user.exec.command, ...user.exec.args].join(" ")).toBe(
    "aws eks get-token --cluster-name engine-room-dev --region us-east-1 --output json",
  );
});
