import { describe, expect, test } from "vitest";
import { edgePlan } from "../../../../infra/plan/aws/edge.ts";
import { fileSystemPlan, fileSystemPolicy } from "../../../../infra/plan/aws/file-system.ts";
import { guardPlan } from "../../../../infra/plan/aws/guard.ts";
import { keyedName, plainName } from "../../../../infra/plan/aws/plain-name.ts";
import { lifecyclePolicy, repositoryPlans } from "../../../../infra/plan/aws/registries.ts";
import { awsPlan, ec2Values, eksValues, publicGateway } from "./stacks.ts";

type Values = Readonly<Record<string, unknown>>;

describe("the file system", () => {
  const planned = (engineStore: Values, rest: Values = {}) => {
    const { config, context } = awsPlan({ ...eksValues, engineStore, ...rest });
    return fileSystemPlan(config, context);
  };

  test("is made elastic, with backups, as the user of builders and servers", () => {
    expect(planned({})).toEqual({
      kind: "create",
      fileSystemId: null,
      securityGroupId: null,
      throughput: { mode: "elastic" },
      hasBackups: true,
      userId: 1000,
      permissions: "0750",
      path: "/engine-room",
      isProtected: false,
    });
  });

  test("has the throughput that is paid for", () => {
    const { throughput } = planned({ throughput: "provisioned", provisionedMiBPerSecond: 512 });
    expect(throughput).toEqual({ mode: "provisioned", mibps: 512 });
  });

  test("is kept for the stacks that the stack file names", () => {
    expect(planned({}, { retain: ["prod"] }).isProtected).toBe(false);
    expect(planned({}, { retain: ["prod", "demo"] }).isProtected).toBe(true);
  });

  test("may be one that is there", () => {
    const existing = { fileSystemId: "fs-01234567", securityGroupId: "sg-01234567" };
    expect(planned({ existing })).toMatchObject({ kind: "existing", ...existing, path: "/engine-room" });
  });

  test("is mounted through its mount targets, over TLS and by nobody as root", () => {
    const { Statement: statements } = JSON.parse(fileSystemPolicy("arn:of:files"));
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

describe("repositories", () => {
  const planned = (images: Values) =>
    repositoryPlans(awsPlan({ ...eksValues, images }).config, ["services", "trtllm", "mongo"]);

  test("are made for what the project builds, and for NVIDIA's images", () => {
    expect(planned({}).map(({ name }) => name)).toEqual([
      "engine-room/services",
      "engine-room/trtllm",
      "engine-room/tritonserver",
    ]);
  });

  test("are none where a registry is named, or another stack has made them", () => {
    expect(planned({ registry: "registry.example.org/models" })).toEqual([]);
    expect(planned({ repositories: "existing" })).toEqual([]);
  });

  test("lose what has no tag, and the oldest of too many", () => {
    const { rules } = JSON.parse(lifecyclePolicy({ name: "a/b", image: "b", keptImages: 7 }));
    expect(rules).toMatchObject([
      { rulePriority: 1, selection: { tagStatus: "untagged", countUnit: "days", countNumber: 1 } },
      // ECR wants the rule for any tag to be the last.
      { rulePriority: 2, selection: { tagStatus: "any", countType: "imageCountMoreThan", countNumber: 7 } },
    ]);
  });
});

describe("the edge", () => {
  const planned = (gateway: Values, rest: Values = eksValues) => {
    const { plan, context } = awsPlan({ ...rest, gateway });
    return edgePlan(plan, context);
  };

  test("answers the VPC and its peers alone, by the name that AWS gives it", () => {
    const network = { peeredCidrs: ["10.1.0.0/16", "10.2.0.0/16"] };
    expect(planned({ limits: { requestSeconds: 600 } }, { ...eksValues, network })).toEqual({
      loadBalancerName: expect.stringMatching(/^engine-room-demo-[0-9a-f]{8}$/),
      targetGroupName: expect.stringMatching(/^engine-room-demo-[0-9a-f]{8}$/),
      isPublic: false,
      cidrs: ["10.64.0.0/16", "10.1.0.0/16", "10.2.0.0/16"],
      hostname: null,
      zoneId: null,
      certificateArn: null,
      targetPort: 8080,
      targetType: "ip",
      healthPath: "/healthz",
      idleTimeoutSeconds: 610,
      drainSeconds: 600,
      url: null,
    });
  });

  test("answers everybody where it is public, by its own name", () => {
    expect(planned({ ...publicGateway, zoneId: "Z0123456789" })).toMatchObject({
      isPublic: true,
      cidrs: ["0.0.0.0/0"],
      hostname: "models.example.org",
      zoneId: "Z0123456789",
      certificateArn: publicGateway.tls.certificateArn,
      url: "https://models.example.org",
    });
  });

  test("keeps within AWS's limits for the longest answer", () => {
    const { idleTimeoutSeconds, drainSeconds } = planned({ limits: { requestSeconds: 3600 } });
    expect(idleTimeoutSeconds).toBeLessThanOrEqual(4000);
    expect(drainSeconds).toBeLessThanOrEqual(3600);
  });

  test("has a name without TLS inside of the VPC", () => {
    expect(planned({ hostname: "models.internal.example.org" }).url).toBe(
      "http://models.internal.example.org",
    );
  });

  test("reaches the one machine by the port that its gateway is published on", () => {
    expect(planned({ port: 8443 }, ec2Values)).toMatchObject({ targetPort: 8443, targetType: "instance" });
  });

  test("has another name whenever AWS can't change what it is", () => {
    const named = (gateway: Values, rest: Values = eksValues) => {
      const { loadBalancerName, targetGroupName } = planned(gateway, rest);
      return { loadBalancerName, targetGroupName };
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

describe("the budget", () => {
  const planned = (guard: Values) => {
    const { plan, config, context } = awsPlan({ ...eksValues, guard });
    return { cost: plan.cost, budget: guardPlan(config, plan.cost, context).budget };
  };

  test("is made where somebody is told", () => {
    expect(planned({}).budget).toBeNull();
    expect(planned({ monthlyUsd: 500, emails: ["ops@example.org"] }).budget).toEqual({
      monthlyUsd: 500,
      emails: ["ops@example.org"],
      tagFilter: "user:engine-room:stack$demo",
    });
  });

  test("is a fifth above the plan where the stack file names none", () => {
    const { cost, budget } = planned({ emails: ["ops@example.org"] });
    expect(cost.monthlyUsd).toBeGreaterThan(1000);
    expect(budget?.monthlyUsd).toBe(Math.ceil(Number(cost.monthlyUsd) * 1.2));
  });
});

test("what runs has no tag that another ttl changes", () => {
  const { context } = awsPlan({ ...eksValues, guard: { ttlHours: 24 } });
  const { "engine-room:ttl-hours": hours, ...rest } = context.tags;
  expect(hours).toBe("24");
  expect(context.lastingTags).toEqual(rest);
  expect(awsPlan(eksValues).context.lastingTags).toEqual(rest);
});

describe("names of AWS", () => {
  test.each([
    ["engine-room-prod", "engine-room-prod"],
    ["engine-room-preview-of-a-long-name", /^engine-room-preview-of-[0-9a-f]{8}$/],
    ["engine-room-a_b", /^engine-room-a-b-[0-9a-f]{8}$/],
    ["engine-room-a.b", /^engine-room-a-b-[0-9a-f]{8}$/],
    ["engine-room-A", /^engine-room-a-[0-9a-f]{8}$/],
    ["engine-room-a-", /^engine-room-a-[0-9a-f]{8}$/],
    ["engine-room-a--b", /^engine-room-a-b-[0-9a-f]{8}$/],
  ])("of %s are plain", (name, wanted) => {
    const plain = plainName(name, 32);
    expect(plain).toMatch(typeof wanted === "string" ? new RegExp(`^${wanted}$`) : wanted);
    expect(plain.length).toBeLessThanOrEqual(32);
  });

  test("differ where stacks differ in what is cut or replaced", () => {
    const names = ["a_b", "a.b", "a-b", "A-b", `${"x".repeat(40)}1`, `${"x".repeat(40)}2`];
    expect(new Set(names.map((name) => plainName(`engine-room-${name}`, 32))).size).toBe(names.length);
  });

  test("change with what they are keyed by, within their length", () => {
    const [one, other] = [1, 2].map((port) => keyedName(`engine-room-${"x".repeat(88)}`, 32, { port }));
    expect(one).not.toBe(other);
    expect(one).toMatch(/^[a-z0-9-]{1,32}$/);
  });
});
