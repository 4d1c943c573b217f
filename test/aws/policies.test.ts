import { describe, expect, test } from "vitest";
import { checkedPlan } from "../../infra/checked-plan.ts";
import { fromRuntimeConfig } from "../../infra/config/config.ts";
import { planInstanceImages } from "../../infra/image-inputs.ts";
import { ec2Stack, eksStack } from "../../infra/plan/aws/aws-stack.ts";
import { placeholderNames } from "../../infra/plan/aws/placeholders.ts";
import { policyDocument, trustPolicy } from "../../infra/plan/aws/roles.ts";
import type { AwsStack, RolePlan } from "../../infra/plan/aws/types.ts";
import { dockerStack } from "../../infra/plan/docker/docker-stack.ts";
import { projectName, readStackFile, stackReference } from "../../scripts/program/stack-file.ts";
import { lintPolicies } from "../harness/aws/policies.ts";
import { isObject } from "../harness/aws/service-models.ts";
import { ROLE_USES } from "./action-uses.ts";

function stackOf(name: string, file?: string, others: Readonly<Record<string, unknown>> = {}): AwsStack {
  const { values } = readStackFile(stackReference(name, file));
  const { plan } = checkedPlan({ ...fromRuntimeConfig(values, projectName()), ...others });
  if (plan.platform !== "aws") throw new Error(`${name} is no stack on AWS.`);
  if (plan.compute === "eks") return eksStack(plan, name);
  const images = planInstanceImages(plan).images.map((image) => ({ kind: "locked" as const, ...image }));
  return ec2Stack(plan, name, dockerStack(plan, { stack: name, images }));
}

/** Wherever a plan has them: of add-ons, of charts, of pods. */
function rolesIn(value: unknown): readonly RolePlan[] {
  if (Array.isArray(value)) return value.flatMap(rolesIn);
  if (!isObject(value)) return [];
  if (Array.isArray(value.statements)) return [value as unknown as RolePlan];
  return Object.values(value).flatMap(rolesIn);
}

const hub = { tokenSecretArn: "arn:aws:secretsmanager:us-east-1:111122223333:secret:hub-token-AbCdEf" };
const stacks = [stackOf("dev"), stackOf("prod"), stackOf("ec2", "examples/ec2.yaml", { hub })];
const roles = stacks.flatMap((stack) => rolesIn(stack).map((role) => ({ role, context: stack.context })));

/** `fs-0` and the like: what AWS will give. */
function standIns({ statements }: RolePlan): Readonly<Record<string, string>> {
  return Object.fromEntries(placeholderNames(statements).map((name) => [name, `${name}-0`]));
}

test("a linter finds nothing in what roles may do, nor in who may take them", async () => {
  const documents = Object.fromEntries(
    roles.flatMap(({ role, context }) => [
      [`${context.name} ${role.subject}: trust`, JSON.parse(trustPolicy(role, context))],
      ...(role.statements.length === 0
        ? []
        : [[`${context.name} ${role.subject}`, JSON.parse(policyDocument(role.statements, standIns(role)))]]),
    ]),
  );
  expect(Object.keys(documents).length).toBeGreaterThan(25);
  expect(await lintPolicies(documents)).toEqual([]);
});

describe("each allowed action", () => {
  const subjects = [
    ...new Set(roles.flatMap(({ role }) => (role.statements.length > 0 ? [role.subject] : []))),
  ];

  test("is of a role whose uses are listed", () => {
    expect(subjects.toSorted()).toEqual(Object.keys(ROLE_USES).toSorted());
  });

  test.each(Object.entries(ROLE_USES))("of %s has its use, and each use its action", (subject, { uses }) => {
    const statements = roles.flatMap(({ role }) => (role.subject === subject ? role.statements : []));
    const allowed = statements.flatMap(({ effect, actions }) => (effect === "Allow" ? actions : []));
    expect([...new Set(allowed)].toSorted()).toEqual(Object.keys(uses).toSorted());
  });

  test("is named whole, in a statement that says why", () => {
    for (const { sid, actions, why } of roles.flatMap(({ role }) => role.statements)) {
      expect([sid, actions.filter((action) => action.includes("*"))]).toEqual([sid, []]);
      expect(why).toMatch(/^[A-Z].{20,}\.$/);
    }
  });
});
