import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parseBootstrap } from "../../../infra/config/bootstrap.ts";
import { POLICY_LENGTH } from "../../../infra/plan/aws/bootstrap.ts";
import { imageSources } from "../../../infra/plan/docker/images.ts";
import { ConfigError } from "../../../infra/problems.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { last } from "../platforms/program.ts";
import { type BootstrapValues, planOf, renderedBootstrap, runtimeValues, VALUES } from "./rendered.ts";

const { resources, outputs } = await renderedBootstrap();
const named = (name: string) => {
  const found = resources.find((one) => one.name === name);
  if (found === undefined) throw new Error(`There is no resource ${name}.`);
  return found;
};

const SUBJECTS = [
  "cluster",
  "edge",
  "machines",
  "network",
  "read",
  "read-stack",
  "roles",
  "state",
  "storage",
];

test("bootstrap has exactly these resources", () => {
  const tree = resources.map(({ type, name, parent }) => `${type} ${name} < ${last(parent)}`);
  const images = ["cpu-models", "encoders", "services", "tritonserver", "trtllm"];
  const ofStack = (stack: string) => [
    ...SUBJECTS.map((subject) => `aws:iam/policy:Policy access-${stack}-${subject} < access`),
    ...["deploy", "preview"].map((job) => `aws:iam/role:Role access-${job}-${stack} < access`),
    ...SUBJECTS.map(
      (subject) =>
        `aws:iam/rolePolicyAttachment:RolePolicyAttachment access-deploy-${stack}-${stack}-${subject} < access`,
    ),
    ...["read", "read-stack", "state"].map(
      (subject) =>
        `aws:iam/rolePolicyAttachment:RolePolicyAttachment access-preview-${stack}-${stack}-${subject} < access`,
    ),
  ];
  expect(tree.toSorted()).toEqual(
    [
      "pulumi:pulumi:Stack engine-room-main < ",
      "pulumi:providers:aws aws < engine-room-main",
      "engine-room:aws:Registries registries < engine-room-main",
      ...images.flatMap((image) => [
        `aws:ecr/repository:Repository registries-${image} < registries`,
        `aws:ecr/lifecyclePolicy:LifecyclePolicy registries-${image}-lifecycle < registries`,
      ]),
      "engine-room:aws:StateStore state < engine-room-main",
      "aws:s3/bucket:Bucket state-bucket < state",
      "aws:s3/bucketPolicy:BucketPolicy state-policy < state",
      "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock state-access < state",
      "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration state-encryption < state",
      "aws:s3/bucketVersioning:BucketVersioning state-versions < state",
      "aws:kms/key:Key state-key < state",
      "engine-room:aws:DeployAccess access < engine-room-main",
      "aws:iam/openIdConnectProvider:OpenIdConnectProvider access-github < access",
      "aws:iam/policy:Policy access-images < access",
      "aws:iam/role:Role access-images < access",
      "aws:iam/rolePolicyAttachment:RolePolicyAttachment access-images-images < access",
      ...["dev", "prod"].flatMap(ofStack),
    ].toSorted(),
  );
});

test("each image that the project builds has a repository, and so has the copy of NVIDIA's", () => {
  const built = Object.entries(imageSources).flatMap(([name, { kind }]) => (kind === "built" ? [name] : []));
  const repositories = resources.filter(({ type }) => type === "aws:ecr/repository:Repository");
  expect(repositories.map(({ inputs }) => inputs.name).toSorted()).toEqual(
    [...built, "tritonserver"].map((name) => `engine-room/${name}`).toSorted(),
  );
  for (const { inputs } of repositories) {
    expect(inputs).toMatchObject({
      imageTagMutability: "IMMUTABLE",
      imageScanningConfiguration: { scanOnPush: true },
    });
    // AWS refuses to delete a repository that has images.
    expect(inputs).not.toHaveProperty("forceDelete");
  }
});

test("the lifecycle policy expires untagged images after a day and keeps the newest of the rest", () => {
  const rules = (image: string) =>
    JSON.parse(named(`registries-${image}-lifecycle`).inputs.policy as string).rules;
  const kept = (countNumber: number) => [
    { rulePriority: 1, selection: { tagStatus: "untagged", countUnit: "days", countNumber: 1 } },
    // ECR requires the rule for any tag to be the last.
    { rulePriority: 2, selection: { tagStatus: "any", countType: "imageCountMoreThan", countNumber } },
  ];
  expect(rules("services")).toMatchObject(kept(100));
  expect(rules("tritonserver")).toMatchObject(kept(10));
});

test("the state is versioned, encrypted, private, over TLS only and protected", () => {
  expect(named("state-bucket").options).toMatchObject({ protect: true });
  expect(named("state-bucket").inputs.bucket).toBe("engine-room-state-111122223333-us-east-1");
  expect(named("state-bucket").inputs).not.toHaveProperty("forceDestroy");
  expect(named("state-versions").inputs.versioningConfiguration).toEqual({ status: "Enabled" });
  expect(named("state-encryption").inputs.rules).toEqual([
    { applyServerSideEncryptionByDefault: { sseAlgorithm: "AES256" } },
  ]);
  expect(named("state-access").inputs).toMatchObject({
    blockPublicAcls: true,
    blockPublicPolicy: true,
    ignorePublicAcls: true,
    restrictPublicBuckets: true,
  });
  expect(JSON.parse(named("state-policy").inputs.policy as string).Statement).toMatchObject([
    { Effect: "Deny", Action: "s3:*", Condition: { Bool: { "aws:SecureTransport": "false" } } },
  ]);
  expect(named("state-key").options).toMatchObject({ protect: true });
  expect(named("state-key").inputs.enableKeyRotation).toBe(true);
});

test("a role is for the jobs of one environment of one repository", () => {
  const roles = resources.filter(({ type }) => type === "aws:iam/role:Role");
  for (const { name, inputs } of roles) {
    const environment = name.replace("access-", "");
    expect(inputs).toMatchObject({ name: `engine-room.${environment}`, maxSessionDuration: 4 * 3600 });
    expect(JSON.parse(inputs.assumeRolePolicy as string).Statement).toEqual([
      {
        Effect: "Allow",
        Principal: {
          Federated: "arn:aws:iam::111122223333:oidc-provider/token.actions.githubusercontent.com",
        },
        Action: ["sts:AssumeRoleWithWebIdentity"],
        Condition: {
          StringEquals: {
            "token.actions.githubusercontent.com:aud": "sts.amazonaws.com",
            "token.actions.githubusercontent.com:sub": `repo:octo-org/rooms:environment:${environment}`,
          },
        },
      },
    ]);
  }
  expect(roles.map(({ name }) => name).toSorted()).toEqual([
    "access-deploy-dev",
    "access-deploy-prod",
    "access-images",
    "access-preview-dev",
    "access-preview-prod",
  ]);
});

test("a repository whose tokens name it with its ids is trusted under both", () => {
  const repository = "octo-org@123456/rooms@456789";
  const [role] = planOf({ ...VALUES, github: { repository } }).roles;
  expect(role?.args.assumeRolePolicy).toContain(`"repo:${repository}:environment:deploy-dev"`);
});

test("docs/ci.md has the trust policy of each environment, as bootstrap creates it", () => {
  const guide = readFileSync(join(projectRoot, "docs/ci.md"), "utf8");
  const [, shown = ""] = /^```json\n(\{\n {2}"Version"[^`]*)^```$/m.exec(guide) ?? [];
  const { roles } = planOf();
  expect(roles.length).toBeGreaterThan(4);
  for (const { environment, args } of roles)
    expect(JSON.parse(shown.replace("deploy-prod", environment))).toEqual(JSON.parse(args.assumeRolePolicy));
});

test("GitHub's OIDC provider is created unless the account has it, and before roles", async () => {
  const provider = named("access-github");
  expect(provider.inputs).toMatchObject({
    url: "https://token.actions.githubusercontent.com",
    clientIdLists: ["sts.amazonaws.com"],
  });
  expect(named("access-deploy-dev").dependencies).toContain(provider.urn);
  const oidcProviderArn = "arn:aws:iam::111122223333:oidc-provider/token.actions.githubusercontent.com";
  const existing = await renderedBootstrap({
    ...VALUES,
    github: { repository: "octo-org/rooms", oidcProviderArn, sessionHours: 8 },
  });
  expect(existing.resources.filter(({ name }) => name === "access-github")).toEqual([]);
  const role = existing.resources.find(({ name }) => name === "access-deploy-dev");
  expect(role?.inputs.assumeRolePolicy).toContain(oidcProviderArn);
  expect(role?.inputs.maxSessionDuration).toBe(8 * 3600);
});

test("without a repository on GitHub there are policies and no roles", async () => {
  const { github: _github, ...rest } = VALUES;
  const types = (await renderedBootstrap(rest)).resources.map(({ type }) => type);
  expect(types).toContain("aws:iam/policy:Policy");
  expect(types).not.toContain("aws:iam/role:Role");
  expect(types).not.toContain("aws:iam/openIdConnectProvider:OpenIdConnectProvider");
});

test("outputs say where to log in, which key to use, and the settings of each environment", () => {
  expect(outputs).toMatchObject({
    registry: "111122223333.dkr.ecr.us-east-1.amazonaws.com/engine-room",
    stateUrl: "s3://engine-room-state-111122223333-us-east-1?region=us-east-1",
  });
  expect(Object.keys(outputs).toSorted()).toEqual([
    "policies",
    "registry",
    "roles",
    "secretsProvider",
    "stateUrl",
  ]);
});

describe("policies", () => {
  const { policies } = planOf();
  interface Statement {
    readonly Sid: string;
    readonly Action: readonly string[];
    readonly Resource: readonly string[];
    readonly Condition?: object;
  }
  const statements = (name: string, all = policies): readonly Statement[] =>
    JSON.parse(all.find((one) => one.name === name)?.document ?? "{}").Statement;

  test.each(policies.map(({ name, document }) => [name, document] as const))(
    "the policy %s is within IAM's limit for the longest names",
    (_name, document) => {
      // Forty characters of a stack's name in place of three; the ARN of the key in place of its placeholder.
      const stacks = document.split(/(?<=[-/:"])(?:dev|prod)(?=[-/."\]])/).length - 1;
      const keys = document.split("keyArn").length - 1;
      expect(document.length + 37 * stacks + 70 * keys).toBeLessThanOrEqual(POLICY_LENGTH);
    },
  );

  test("a role has ten policies at most", () => {
    for (const { policies: own } of planOf().roles) expect(own.length).toBeLessThanOrEqual(10);
  });

  test("no action has a star, and only actions without a resource have any", () => {
    for (const { name } of policies)
      for (const { Sid, Action } of statements(name))
        expect([name, Sid, Action.filter((one) => one.includes("*"))]).toEqual([name, Sid, []]);
  });

  test("previews change nothing: what they may do describes, reads or decrypts", () => {
    const actions = ["dev-read", "dev-read-stack", "dev-state"]
      .flatMap((name) => statements(name))
      .flatMap(({ Action }) => Action);
    expect(actions.length).toBeGreaterThan(60);
    expect(actions.filter((one) => !/:(Describe|Get|List|View|Decrypt$)/.test(one))).toEqual([]);
  });

  test("policies of a stack name no other stack, and no role of bootstrap", () => {
    for (const { name, document } of policies.filter((one) => one.name.startsWith("dev-"))) {
      expect([name, document]).not.toEqual([name, expect.stringContaining("prod")]);
      const roles = /arn:aws:iam::111122223333:(?:role|policy)\/[^"]*/g;
      for (const [arn] of document.matchAll(roles)) {
        const pattern = new RegExp(`^${arn.replaceAll(".", "\\.").replaceAll("*", ".*")}$`);
        for (const own of planOf().roles)
          expect(`arn:aws:iam::111122223333:role/${own.args.name}`).not.toMatch(pattern);
      }
    }
  });

  test("a tag is set only on a resource without it", () => {
    const tagging = policies
      .flatMap(({ name }) => statements(name))
      .filter(({ Action }) =>
        Action.some((one) => /:(CreateTags|AddTags|TagResource|AddTagsToResource)$/.test(one)),
      );
    const claims = tagging.filter(({ Condition }) =>
      JSON.stringify(Condition ?? {}).includes("aws:RequestTag"),
    );
    expect(claims.length).toBeGreaterThan(5);
    for (const { Sid, Condition } of claims)
      expect([Sid, Condition]).toEqual([Sid, { ...Condition, Null: expect.anything() }]);
  });

  test("with a permissions boundary, roles are created only with it, and no one may remove it", () => {
    const permissionsBoundaryArn = "arn:aws:iam::111122223333:policy/boundary";
    const bound = planOf({ ...VALUES, permissionsBoundaryArn }).policies;
    const making = statements("dev-roles", bound).find(({ Sid }) => Sid === "MakeRoles");
    expect(making?.Condition).toEqual({ ArnEquals: { "iam:PermissionsBoundary": permissionsBoundaryArn } });
    const actions = (all = policies) => statements("dev-roles", all).flatMap(({ Action }) => Action);
    expect(actions()).toContain("iam:DeleteRolePermissionsBoundary");
    expect(actions(bound)).not.toContain("iam:DeleteRolePermissionsBoundary");
  });

  test("records can be written only in named zones", () => {
    const { zoneIds: _zoneIds, ...rest } = VALUES;
    const dns = (all = policies) =>
      ["dev-edge", "dev-read-stack"].flatMap((name) =>
        statements(name, all).flatMap(({ Action, Resource }) =>
          Action.some((one) => one.startsWith("route53:")) ? Resource : [],
        ),
      );
    expect(dns(planOf(rest).policies)).toEqual([]);
    expect(new Set(dns())).toEqual(
      new Set(["arn:aws:route53:::hostedzone/Z0123456789ABCDEFGHIJ", "arn:aws:route53:::change/*"]),
    );
  });
});

describe("configuration", () => {
  const problemsOf = (values: BootstrapValues) => {
    try {
      parseBootstrap(runtimeValues(values));
    } catch (error) {
      if (error instanceof ConfigError) return error.problems.map(({ path, reason }) => `${path}: ${reason}`);
      throw error;
    }
    return [];
  };

  test("all mistakes are reported together", () => {
    expect(
      problemsOf({
        account: "1111",
        region: "us-east",
        stacks: [],
        github: { repository: "octo-org@1/rooms", sessionHours: 13 },
        statcks: ["dev"],
      }).map((one) => one.split(":")[0]),
    ).toEqual(["account", "region", "stacks", "github.repository", "github.sessionHours", "statcks"]);
    expect(problemsOf(VALUES)).toEqual([]);
  });

  test("a region that AWS does not have is refused", () => {
    expect(problemsOf({ ...VALUES, region: "us-east-9" })).toEqual([
      "region: It is not a region of the commercial cloud or of GovCloud.",
    ]);
  });

  test("a stack whose name begins with another's is refused, and so is a duplicate name", () => {
    expect(problemsOf({ ...VALUES, stacks: ["dev", "dev-2", "dev"] })).toEqual([
      expect.stringMatching(/^stacks\[1\]: The deployer of dev could change dev-2/),
      "stacks[2]: The list has it twice.",
    ]);
    expect(problemsOf({ ...VALUES, stacks: ["dev", "develop"] })).toEqual([]);
  });
});
