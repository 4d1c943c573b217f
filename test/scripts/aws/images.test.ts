import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import type { AwsPlan } from "../../../infra/plan/gpu-stack.ts";
import { imagesThatEcrLacks, prepareEcrPush, withLogin } from "../../../scripts/aws/push-target.ts";
import { awsTarget } from "../../../scripts/program/aws-target.ts";
import { ACCOUNT, type Answers, account, EKS_STACK, REGION } from "./account.ts";
import { type FakeAws, startFakeAws } from "./fake-aws.ts";

const REGISTRY = `${ACCOUNT}.dkr.ecr.${REGION}.amazonaws.com/engine-room`;
const target = awsTarget(checkedPlan(EKS_STACK).plan as AwsPlan, "dev");

let aws: FakeAws | undefined;
const before = { ...process.env };
beforeEach(() => {
  Object.assign(process.env, { AWS_ACCESS_KEY_ID: "AKIAIOSFODNN7EXAMPLE", AWS_SECRET_ACCESS_KEY: "example" });
});
afterEach(async () => {
  process.env = { ...before };
  await aws?.close();
});
async function use(answers: Answers): Promise<void> {
  aws = await startFakeAws(account(answers));
  process.env.AWS_ENDPOINT_URL = aws.url;
}

test("repositories that are missing end a push, with the command that makes them", async () => {
  await use({
    "ecr:DescribeRepositories": ({ body }) =>
      JSON.stringify(body).includes("services")
        ? { json: { repositories: [{}] } }
        : { error: "RepositoryNotFoundException" },
  });
  const push = prepareEcrPush(target, REGISTRY, ["services", "trtllm"]);
  await expect(push).rejects.toThrow(
    /no repository engine-room\/trtllm, .*npm run up -- --stack dev --registries/,
  );
  expect(process.env.DOCKER_CONFIG).toBe(before.DOCKER_CONFIG);
});

test("an image that ECR lacks is one to copy, and one that it has is not", async () => {
  await use({
    "ecr:DescribeImages": ({ body }) =>
      JSON.stringify(body).includes("trtllm") ? { error: "ImageNotFoundException" } : { json: {} },
  });
  const digest = `@sha256:${"0".repeat(64)}`;
  const images = (["services", "trtllm"] as const).map((name) => ({
    name,
    reference: `${REGISTRY}/${name}${digest}`,
  }));
  expect([...(await imagesThatEcrLacks({ ...target, images }))]).toEqual(["trtllm"]);
});

describe("Docker's configuration", () => {
  const login = { user: "AWS", password: "token" };
  test("gets the login, which no helper is asked for, and keeps those of other registries", () => {
    const host = REGISTRY.split("/")[0] ?? "";
    const config = withLogin(
      { auths: { "nvcr.io": {} }, credsStore: "desktop", credHelpers: { [host]: "ecr-login" } },
      { own: "/home/me/.docker", host, login },
    );
    expect(config).toEqual({
      auths: { "nvcr.io": {}, [host]: { auth: Buffer.from("AWS:token").toString("base64") } },
      credHelpers: { "nvcr.io": "desktop" },
      cliPluginsExtraDirs: ["/home/me/.docker/cli-plugins"],
    });
  });
});
