import { afterEach, expect, test, vi } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import type { AwsPlan } from "../../../infra/plan/gpu-stack.ts";
import { kubeconfig, useStackCluster } from "../../../scripts/aws/kubeconfig.ts";
import { awsTarget } from "../../../scripts/program/aws-target.ts";
import { account, EKS_STACK, REGION } from "./account.ts";
import { type FakeAws, startFakeAws } from "./fake-aws.ts";

const CLUSTER = { endpoint: "https://0123.gr7.us-east-1.eks.amazonaws.com", certificateAuthority: "Q0E=" };
const { context } = awsTarget(checkedPlan(EKS_STACK).plan as AwsPlan, "dev");

test("names the cluster, and the program that logs in: nothing of it is secret", () => {
  const config: unknown = JSON.parse(kubeconfig(REGION, "engine-room-dev", CLUSTER));
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

let aws: FakeAws | undefined;
afterEach(async () => {
  vi.unstubAllEnvs();
  await aws?.close();
});

// moto allows everybody everything.
test("is not made where AWS does not tell, in AWS's own words", async () => {
  aws = await startFakeAws(
    account({ "eks:DescribeCluster": () => ({ error: "AccessDeniedException", status: 403 }) }),
  );
  const environment = {
    AWS_ENDPOINT_URL: aws.url,
    AWS_ACCESS_KEY_ID: "AKIAIOSFODNN7EXAMPLE",
    AWS_SECRET_ACCESS_KEY: "example",
  };
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
  await expect(useStackCluster(context)).rejects.toThrow(/may not ask eks:DescribeCluster/);
});
