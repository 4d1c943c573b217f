/** Who may take a role. */
import { expect, test } from "vitest";
import { networkPlan } from "../../../../infra/plan/aws/network.ts";
import { clusterRole, nodeRole } from "../../../../infra/plan/aws/role-plans.ts";
import { trustPolicy } from "../../../../infra/plan/aws/roles.ts";
import type { AwsContext, RolePlan } from "../../../../infra/plan/aws/types.ts";
import { awsPlan, eksValues } from "./stacks.ts";

const { config, context } = awsPlan(eksValues);

/** Of the one statement. */
function conditionOf(role: RolePlan, of: AwsContext = context): unknown {
  return JSON.parse(trustPolicy(role, of)).Statement[0].Condition;
}

test("EKS takes a cluster's role for that cluster alone", () => {
  expect(conditionOf(clusterRole(context))).toEqual({
    StringEquals: { "aws:SourceAccount": "111122223333" },
    ArnLike: { "aws:SourceArn": "arn:aws:eks:us-east-1:111122223333:cluster/engine-room-demo" },
  });
});

test("flow logs are written for the account's own flow logs alone, in each partition", () => {
  const network = networkPlan(config, context);
  const role = network.kind === "create" ? network.flowLogs?.role : undefined;
  if (role === undefined) throw new Error("The network has no flow logs.");
  const gov = { ...context, region: "us-gov-west-1", partition: "aws-us-gov" };
  for (const [of, arn] of [
    [context, "arn:aws:ec2:us-east-1:111122223333:vpc-flow-log/*"],
    [gov, "arn:aws-us-gov:ec2:us-gov-west-1:111122223333:vpc-flow-log/*"],
  ] as const)
    expect(conditionOf(role, of)).toEqual({
      StringEquals: { "aws:SourceAccount": "111122223333" },
      ArnLike: { "aws:SourceArn": arn },
    });
});

test("machines take theirs without conditions", () => {
  expect(conditionOf(nodeRole(context))).toBeUndefined();
});
