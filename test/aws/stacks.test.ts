/** Resources of stacks against AWS's own models of its APIs, and every policy through a linter. */
import { beforeAll, describe, expect, test } from "vitest";
import { checkedPlan } from "../../infra/checked-plan.ts";
import { fromRuntimeConfig } from "../../infra/config/config.ts";
import { pulledImages } from "../../infra/image-inputs.ts";
import { type Ec2Stack, type EksStack, ec2Stack, eksStack } from "../../infra/plan/aws/account.ts";
import { filled } from "../../infra/plan/aws/data-files.ts";
import { policyDocument, type RolePlan } from "../../infra/plan/aws/roles.ts";
import { machineTypes } from "../../infra/plan/catalogue/machines.ts";
import { dockerStack } from "../../infra/plan/docker/docker-stack.ts";
import { replacementRows } from "../../scripts/diff/replacements.ts";
import { readStackFile, stackReference } from "../../scripts/program/stack-file.ts";
import { argumentProblems } from "../harness/aws/arguments.ts";
import { operations } from "../harness/aws/operations/index.ts";
import { lintPolicies, policyDocuments } from "../harness/aws/policies.ts";
import { awsPython } from "../harness/aws/python.ts";
import { isObject, ServiceModels, type Shape, wholePattern } from "../harness/aws/service-models.ts";
import { awsGraph, type RenderedResource } from "../infra/platforms/aws-stacks.ts";
import { awsProperties } from "../scripts/diff/aws-properties.ts";
import { ROLE_USES } from "./action-uses.ts";
import { badResources } from "./bad-resources.ts";
import { goodResources } from "./good-resources.ts";

const models = new ServiceModels(await awsPython());

test.each(goodResources.map((resource) => [resource.type, resource] as const))(
  "AWS's models accept the example of %s",
  (_type, resource) => {
    expect(argumentProblems(resource, models)).toEqual([]);
  },
);

test("every row of the table of operations has an example", () => {
  expect(new Set(goodResources.map(({ type }) => type))).toEqual(new Set(Object.keys(operations)));
});

test("resources of other providers are not checked", () => {
  const resource = { type: "kubernetes:core/v1:Secret", name: "keys", inputs: { nobody: "asks" } };
  expect(argumentProblems(resource, models)).toEqual([]);
});

test("EC2 has every instance type of the catalogue", () => {
  const known = models.values("ec2", "InstanceType");
  const named = Object.keys(machineTypes);
  expect(named.length).toBeGreaterThan(20);
  expect(named.filter((name) => !known.includes(name))).toEqual([]);
});

test.each(badResources)("the check of arguments refuses $what", ({ resource, problem }) => {
  const problems = argumentProblems(resource, models);
  expect(problems).toHaveLength(1);
  expect(problems[0]).toMatch(problem);
});

test.each(Object.entries(operations))("the row of %s names parameters that AWS has", (type, row) => {
  const unknown = "[unknown]";
  for (const property of Object.keys(row.properties ?? {})) {
    const [first = "", ...rest] = property.split(".");
    const value = rest.reduceRight<unknown>((inner, key) => ({ [key]: inner }), unknown);
    const problems = argumentProblems({ type, name: "it", inputs: { [first]: value } }, models);
    expect(problems.filter((problem) => !problem.includes("is required"))).toEqual([]);
  }
});

test.each(Object.entries(operations))("the row of %s names properties that the provider has", (type, row) => {
  const properties = awsProperties(type);
  const named = Object.keys(row.properties ?? {}).map((path) => path.split(".")[0] ?? "");
  expect(named.filter((name) => !properties.includes(name))).toEqual([]);
});

test("every type of the table of operations has a row in the table of replacements", () => {
  expect(Object.keys(operations).filter((type) => !replacementRows().has(type))).toEqual([]);
});

test("JavaScript can read every pattern in the shapes of the operations", () => {
  for (const { operation } of Object.values(operations)) {
    const [service = "", name = ""] = operation.split(":");
    const model = models.service(service);
    const seen = new Set<string>();
    const visit = (shape: Shape) => {
      const { pattern } = shape;
      if (pattern !== undefined) expect(() => wholePattern(pattern)).not.toThrow();
      const below = [...Object.values(shape.members ?? {}), shape.member, shape.key, shape.value];
      for (const reference of below)
        if (reference !== undefined && !seen.has(reference.shape)) {
          seen.add(reference.shape);
          visit(model.shape(reference.shape));
        }
    };
    visit(model.input(name));
  }
});

describe.each(["dev", "prod", "ec2", "company", "company-ec2", "existing"] as const)("%s", (stack) => {
  let resources: readonly RenderedResource[];
  beforeAll(async () => {
    // An existing cluster is read, and has no arguments.
    resources = (await awsGraph(stack)).resources.filter(({ readId }) => readId === undefined);
  });

  test(`AWS's models accept every argument of the stack ${stack}`, () => {
    expect(resources.filter(({ type }) => type.startsWith("aws:")).length).toBeGreaterThan(40);
    expect(resources.flatMap((resource) => argumentProblems(resource, models))).toEqual([]);
  });

  test(`a linter finds nothing in the policies of the stack ${stack}`, async () => {
    const documents = policyDocuments(resources);
    expect(Object.keys(documents).length).toBeGreaterThan(2);
    expect(await lintPolicies(documents)).toEqual([]);
  });
});

function stackOf(
  name: string,
  file?: string,
  others: Readonly<Record<string, unknown>> = {},
): EksStack | Ec2Stack {
  const { values } = readStackFile(stackReference(name, file));
  const { plan } = checkedPlan({ ...fromRuntimeConfig(values), ...others });
  if (plan.platform !== "aws") throw new Error(`${name} is no stack on AWS.`);
  if (plan.compute === "eks") return eksStack(plan, name);
  const images = pulledImages(plan).images.map((image) => ({ kind: "locked" as const, ...image }));
  return ec2Stack(plan, name, dockerStack(plan, { stack: name, images }));
}

/** Roles anywhere in a plan: of add-ons, charts and pods. */
function rolesIn(value: unknown): readonly RolePlan[] {
  if (Array.isArray(value)) return value.flatMap(rolesIn);
  if (!isObject(value)) return [];
  if (Array.isArray(value.statements)) return [value as unknown as RolePlan];
  return Object.values(value).flatMap(rolesIn);
}

const hub = { tokenSecretArn: "arn:aws:secretsmanager:us-east-1:111122223333:secret:hub-token-AbCdEf" };
const kmsKeyArn = "arn:aws:kms:us-east-1:111122223333:key/12345678-1234-1234-1234-123456789012";
const logs = { cloudwatch: { retentionDays: 7 } };
const monitoringOptions = { snsTopicArn: "arn:aws:sns:us-east-1:111122223333:alerts" };
const bucketModels = [
  {
    name: "gpt",
    model: "gpt2-medium",
    pool: "gpu",
    weights: { from: "s3", uri: "s3://company-models/gpt2", revision: "v1" },
  },
];
const stacks = [
  stackOf("dev", undefined, { logs, monitoringOptions }),
  stackOf("dev", undefined, { hub, models: bucketModels }),
  stackOf("prod", undefined, { kmsKeyArn }),
  stackOf("ec2", "examples/ec2.yaml", { hub, logs, kmsKeyArn }),
];

const roles = stacks.flatMap((stack) => rolesIn(stack).map((role) => ({ role, context: stack.context })));

/** The policy of a role, with `fs-0` for the id that AWS assigns. */
function ownPolicy({ statements }: RolePlan): unknown {
  return JSON.parse(filled(policyDocument(statements), { fileSystemId: "fs-0" }));
}

test("a linter finds nothing in the permissions and trust policies of roles", async () => {
  const documents = Object.fromEntries(
    roles.flatMap(({ role, context }) => [
      [`${context.name} ${role.subject}: trust`, JSON.parse(role.args.assumeRolePolicy)],
      ...(role.statements.length === 0 ? [] : [[`${context.name} ${role.subject}`, ownPolicy(role)]]),
    ]),
  );
  expect(Object.keys(documents).length).toBeGreaterThan(25);
  expect(await lintPolicies(documents)).toEqual([]);
});

const subjects = [
  ...new Set(roles.flatMap(({ role }) => (role.statements.length > 0 ? [role.subject] : []))),
];

test("every role with permissions has a list of uses", () => {
  expect(subjects.toSorted()).toEqual(Object.keys(ROLE_USES).toSorted());
});

test.each(Object.entries(ROLE_USES))(
  "the role %s allows the actions of its uses and no others",
  (subject, { uses }) => {
    const statements = roles.flatMap(({ role }) => (role.subject === subject ? role.statements : []));
    const allowed = statements.flatMap(({ Effect, Action }) => (Effect === "Allow" ? Action : []));
    expect([...new Set(allowed)].toSorted()).toEqual(Object.keys(uses).toSorted());
  },
);

test("no action of a statement has a star", () => {
  for (const { Sid, Action } of roles.flatMap(({ role }) => role.statements))
    expect([Sid, Action.filter((action) => action.includes("*"))]).toEqual([Sid, []]);
});

const ACCOUNT = "arn:aws:iam::123456789012:root";

function document(statement: object): object {
  return { Version: "2012-10-17", Statement: [statement] };
}

const get = { Effect: "Allow", Action: "s3:GetObject", Resource: "arn:aws:s3:::weights/*" };

/** Policies by their mistake. */
const mistakes = {
  good: document(get),
  trust: document({ Effect: "Allow", Principal: { Service: "ec2.amazonaws.com" }, Action: "sts:AssumeRole" }),
  key: document({ Effect: "Allow", Principal: { AWS: ACCOUNT }, Action: "kms:*", Resource: "*" }),
  "an action that does not exist": document({ ...get, Action: "s3:GetObjects" }),
  "a service that does not exist": document({ ...get, Action: "s4:GetObject" }),
  "a resource that the action does not go with": document({ ...get, Resource: "arn:aws:s3:::weights" }),
  "a condition that the action does not know": document({
    ...get,
    Condition: { StringEquals: { "s3:colour": "blue" } },
  }),
  "an operator that does not exist": document({
    ...get,
    Condition: { StringIs: { "aws:ResourceTag/engine-room:stack": "dev" } },
  }),
  "everything where it could be one": document({ ...get, Resource: "*" }),
  "a misspelt key": document({ ...get, Resources: "*" }),
  "an ARN that is none": document({ ...get, Resource: "weights" }),
  "no version": { Statement: [{ Effect: "Deny", Principal: { AWS: ACCOUNT }, Action: "s3:*" }] },
};

test("the linter finds each kind of mistake that IAM refuses or that never matches", async () => {
  const findings = await lintPolicies(mistakes);
  expect(findings.map(({ policy, issue }) => `${issue}: ${policy}`)).toEqual([
    "UNKNOWN_ACTION: an action that does not exist",
    "UNKNOWN_PREFIX: a service that does not exist",
    "RESOURCE_MISMATCH: a resource that the action does not go with",
    "UNKNOWN_CONDITION_FOR_ACTION: a condition that the action does not know",
    "UNKNOWN_OPERATOR: an operator that does not exist",
    "RESOURCE_STAR: everything where it could be one",
    "MALFORMED: a misspelt key",
    "INVALID_ARN: an ARN that is none",
    "NO_VERSION: no version",
  ]);
});
