import { afterAll, beforeAll, expect, test } from "vitest";
import { type AwsStandIn, MOTO_ACCOUNT, startMoto } from "../harness/aws/moto.ts";
import { askPython } from "../harness/aws/python.ts";

let aws: AwsStandIn;
beforeAll(async () => {
  aws = await startMoto({ region: "eu-west-1", hasManagedPolicies: true });
});
afterAll(() => aws.stop());

/** @returns The answer of boto3, AWS's own client. */
function call(service: string, operation: string, parameters: object): Promise<unknown> {
  return askPython("call.py", { environment: aws.environment, service, operation, parameters });
}

test("answers of an account and a region that it was asked for", async () => {
  expect(await call("sts", "get_caller_identity", {})).toMatchObject({ Account: MOTO_ACCOUNT });
  const zones = await call("ec2", "describe_availability_zones", {});
  expect(zones).toMatchObject({ AvailabilityZones: [{ ZoneName: "eu-west-1a" }, {}, {}] });
});

test("keeps what is made until it is told to forget", async () => {
  await call("ecr", "create_repository", { repositoryName: "engine-room/services" });
  expect(await call("ecr", "describe_repositories", {})).toMatchObject({
    repositories: [{ repositoryName: "engine-room/services" }],
  });
  await aws.reset();
  expect(await call("ecr", "describe_repositories", {})).toMatchObject({ repositories: [] });
});

test("has AWS's own policies where they are asked for", async () => {
  const policy = await call("iam", "get_policy", {
    PolicyArn: "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy",
  });
  expect(policy).toMatchObject({ Policy: { PolicyName: "AmazonEKSClusterPolicy" } });
});

test("says what a call was refused for", async () => {
  await expect(call("eks", "describe_cluster", { name: "none" })).rejects.toThrow(
    /ResourceNotFoundException/,
  );
});

test("is gone when it was stopped", async () => {
  const other = await startMoto();
  expect((await fetch(`${other.url}/moto-api/`)).ok).toBe(true);
  await other.stop();
  await expect(fetch(`${other.url}/moto-api/`)).rejects.toThrow();
});
