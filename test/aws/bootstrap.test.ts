/** Resources of bootstrap/, and permissions of deployers against the calls of commands and Amazon's provider. */
import { describe, expect, test } from "vitest";
import { filled } from "../../infra/plan/aws/data-files.ts";
import { argumentProblems } from "../harness/aws/arguments.ts";
import { operations } from "../harness/aws/operations/index.ts";
import { actionsOf, lintPolicies, policyDocuments } from "../harness/aws/policies.ts";
import {
  actionsFor,
  CLI_ACTIONS,
  PROVIDER_CALLS,
  PROVIDER_OWN,
  readActions,
} from "../harness/aws/provider-calls.ts";
import { awsPython } from "../harness/aws/python.ts";
import { CLI_OPERATIONS, SDK_OPERATIONS } from "../harness/aws/script-operations.ts";
import { ServiceModels } from "../harness/aws/service-models.ts";
import { planOf, renderedBootstrap, VALUES } from "../infra/bootstrap/rendered.ts";
import { awsGraph } from "../infra/platforms/aws-stacks.ts";

interface PolicyDocument {
  readonly Version: string;
  readonly Statement: readonly { readonly Action: readonly string[]; readonly Resource: readonly string[] }[];
}

const { resources } = await renderedBootstrap();
const keyArn = "arn:aws:kms:us-east-1:111122223333:key/01234567-89ab-cdef-0123-456789abcdef";
const documents = new Map(
  planOf({
    ...VALUES,
    clusterNames: ["platform"],
    permissionsBoundaryArn: "arn:aws:iam::111122223333:policy/boundary",
  }).policies.map(({ name, document }) => [name, JSON.parse(filled(document, { keyArn })) as unknown]),
);

test("AWS's models accept every argument of bootstrap", async () => {
  const models = new ServiceModels(await awsPython());
  const own = resources.filter(({ type }) => type.startsWith("aws:"));
  expect(own.length).toBeGreaterThan(60);
  expect(own.flatMap((resource) => argumentProblems(resource, models))).toEqual([]);
});

/** Merges statements by action: a policy may allow an action in several statements, whose resources have different conditions. */
function byAction(document: unknown): object {
  const { Version, Statement } = document as PolicyDocument;
  const resources = new Map<string, Set<string>>();
  for (const { Action, Resource } of Statement)
    for (const action of Action)
      resources.set(action, new Set([...(resources.get(action) ?? []), ...Resource]));
  return {
    Version,
    Statement: [...resources].map(([Action, all]) => ({
      Effect: "Allow",
      Action,
      Resource: [...all].sort(),
    })),
  };
}

/** Findings that are wrong because the linter's definitions are of April 2025, each with the document that shows it. */
const UNKNOWN_TO_LINTER = [
  // https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html
  /^UNKNOWN_CONDITION_FOR_ACTION Unknown condition aws:ViaAWSService for/,
  // https://docs.github.com/en/actions/how-tos/secure-your-work/security-harden-deployments/oidc-in-aws
  /^UNKNOWN_FEDERATION_SOURCE arn:aws:iam::111122223333:oidc-provider\/token\.actions\.githubusercontent\.com$/,
  /^UNKNOWN_CONDITION_FOR_ACTION Unknown condition token\.actions\.githubusercontent\.com:(aud|sub) for/,
];

test("a linter finds nothing in the policies and trust policies of bootstrap", async () => {
  const trust = policyDocuments(resources.filter(({ type }) => type !== "aws:iam/policy:Policy"));
  expect(Object.keys(trust)).toHaveLength(6);
  expect(documents.size).toBe(19);
  const all = await lintPolicies({ ...trust, ...Object.fromEntries(documents) });
  const findings = all
    // A resource of an action may be in another statement, which the next test checks.
    .filter(({ policy, issue }) => !(documents.has(policy) && issue === "RESOURCE_MISMATCH"))
    .map(({ issue, detail }) => `${issue} ${detail}`);
  for (const known of UNKNOWN_TO_LINTER) expect(findings.some((one) => known.test(one))).toBe(true);
  expect(findings.filter((one) => !UNKNOWN_TO_LINTER.some((known) => known.test(one)))).toEqual([]);
});

test("each action of a policy has all resource types that it requires", async () => {
  const whole = [...documents].map(([name, document]) => [name, byAction(document)] as const);
  const mismatches = (await lintPolicies(Object.fromEntries(whole))).filter(
    ({ issue }) => issue === "RESOURCE_MISMATCH",
  );
  expect(mismatches).toEqual([]);
});

const bootstrapTypes = new Set(resources.map(({ type }) => type));
const stackTypes = new Set<string>();
for (const stack of ["dev", "prod", "ec2", "company", "company-ec2"] as const)
  for (const { type } of (await awsGraph(stack)).resources) stackTypes.add(type);

const roles = planOf().roles;
const allowed = (environment: string, all = planOf().policies) => {
  const names = roles.find((role) => role.environment === environment)?.policies ?? [];
  return new Set(
    names.flatMap((name) => actionsOf(JSON.parse(all.find((one) => one.name === name)?.document ?? "{}"))),
  );
};

/** IAM's name of a service, by botocore's. */
const SERVICES: Readonly<Record<string, string>> = {
  efs: "elasticfilesystem",
  elbv2: "elasticloadbalancing",
};
/** Actions whose name is not that of their operation. */
const OTHER_NAMES: Readonly<Record<string, string>> = { "budgets:CreateBudget": "budgets:ModifyBudget" };

function actionOf(operation: string): string {
  const [service = "", name = ""] = operation.split(":");
  const action = `${SERVICES[service] ?? service}:${name}`;
  return OTHER_NAMES[action] ?? action;
}

describe("roles of a stack", () => {
  test("every resource type of stacks, and no other, has its provider calls", () => {
    const types = Object.keys(operations).filter((type) => !bootstrapTypes.has(type) || stackTypes.has(type));
    expect(Object.keys(PROVIDER_CALLS).toSorted()).toEqual(types.toSorted());
    for (const type of stackTypes)
      if (type.startsWith("aws:")) expect(Object.keys(PROVIDER_CALLS)).toContain(type);
  });

  test.each(Object.entries(PROVIDER_CALLS))("the calls for %s include its creation", (type, calls) => {
    const { operation, properties = {} } = operations[type] ?? { operation: "" };
    const further = Object.values(properties).flatMap((target) =>
      typeof target === "object" && "operation" in target ? [target.operation] : [],
    );
    for (const one of [operation, ...further]) expect(actionsFor(calls)).toContain(actionOf(one));
  });

  test.each(Object.entries(PROVIDER_CALLS))("deployers may make all calls for %s", (_type, calls) => {
    const may = allowed("deploy-dev");
    expect(actionsFor(calls).filter((action) => !may.has(action))).toEqual([]);
  });

  test.each(Object.entries(PROVIDER_CALLS))("previewers may read %s", (_type, calls) => {
    const may = allowed("preview-dev");
    expect(readActions(calls).filter((action) => !may.has(action))).toEqual([]);
  });

  const OF_STATE = [
    "kms:Decrypt",
    "kms:Encrypt",
    "s3:DeleteObject",
    "s3:GetObject",
    "s3:ListBucket",
    "s3:PutObject",
  ];

  test("deployers may make every call of the commands", () => {
    const may = allowed("deploy-dev");
    const calls = [
      ...Object.keys(SDK_OPERATIONS),
      ...Object.keys(CLI_OPERATIONS).flatMap((one) => CLI_ACTIONS[one] ?? [one]),
    ];
    expect(calls.length).toBeGreaterThan(25);
    expect(calls.filter((action) => !may.has(action))).toEqual([]);
  });

  test("in an existing cluster deployers may only make the calls for the stack's own resources", async () => {
    const { resources: ofStack } = await awsGraph("existing");
    const calls = ofStack.flatMap(({ type }) => {
      const known = PROVIDER_CALLS[type];
      // The cluster is only read.
      return known === undefined ? [] : type.endsWith(":Cluster") ? readActions(known) : actionsFor(known);
    });
    const needed = new Set(
      [...calls, ...Object.keys(SDK_OPERATIONS)].filter((one) => one.startsWith("eks:")),
    );
    // The owner of the cluster sets its access.
    needed.delete("eks:UpdateClusterConfig");
    const statements = ["dev-read-stack", "dev-cluster"].flatMap(
      (name) => (documents.get(name) as PolicyDocument).Statement,
    );
    const there = statements.filter(({ Resource }) => Resource.some((one) => /\/platform(\/|$)/.test(one)));
    const actions = there.flatMap(({ Action }) => Action);
    expect([...new Set(actions)].toSorted()).toEqual(
      [...needed].filter((one) => one !== "eks:DescribeClusterVersions").toSorted(),
    );
    for (const { Action, Resource } of there)
      if (Action.some((one) => !/:(Describe|List|Create|TagResource)/.test(one)))
        expect(Resource.filter((one) => one.includes(":cluster/"))).toEqual([]);
  });

  test("deployers have no permission that nothing calls", () => {
    const used = new Set([
      ...Object.values(PROVIDER_CALLS).flatMap(actionsFor),
      ...Object.keys(SDK_OPERATIONS),
      ...Object.values(CLI_ACTIONS).flat(),
      ...PROVIDER_OWN,
      ...OF_STATE,
    ]);
    expect([...allowed("deploy-dev")].filter((action) => !used.has(action))).toEqual([]);
  });
});

test("the role that pushes images may only make the calls of a push", () => {
  // https://docs.aws.amazon.com/AmazonECR/latest/userguide/image-push-iam.html, and what `images` asks before
  expect([...allowed("images")].toSorted()).toEqual([
    "ecr:BatchCheckLayerAvailability",
    "ecr:BatchGetImage",
    "ecr:CompleteLayerUpload",
    "ecr:DescribeImages",
    "ecr:DescribeRepositories",
    "ecr:GetAuthorizationToken",
    "ecr:GetDownloadUrlForLayer",
    "ecr:InitiateLayerUpload",
    "ecr:PutImage",
    "ecr:UploadLayerPart",
    "sts:GetCallerIdentity",
  ]);
});
