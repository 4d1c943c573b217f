import { expect, test } from "vitest";
import { lintPolicies } from "../harness/aws/policies.ts";

const ACCOUNT = "arn:aws:iam::123456789012:root";

function document(statement: object): object {
  return { Version: "2012-10-17", Statement: [statement] };
}

const get = { Effect: "Allow", Action: "s3:GetObject", Resource: "arn:aws:s3:::weights/*" };
const documents = {
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

test("finds what IAM would refuse, or would never match", async () => {
  const findings = await lintPolicies(documents);
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
