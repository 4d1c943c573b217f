import { afterEach, expect, test, vi } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import type { AwsPlan } from "../../../infra/plan/gpu-stack.ts";
import { useStackCluster } from "../../../scripts/aws/kubeconfig.ts";
import { awsTarget } from "../../../scripts/program/aws-target.ts";
import { EKS_STACK } from "../../harness/aws/stacks.ts";
import { account } from "./account.ts";
import { type FakeAws, startFakeAws } from "./fake-aws.ts";

const { context } = awsTarget(checkedPlan(EKS_STACK).plan as AwsPlan, "dev");

let aws: FakeAws | undefined;
afterEach(async () => {
  vi.unstubAllEnvs();
  await aws?.close();
});

// moto allows everybody everything.
test("a kubeconfig is not made where AWS does not tell, in AWS's own words", async () => {
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
