/** Preflight of a stack on AWS: whose credentials they are, what they may not ask, and an account that has all. */
import { describe, expect, test } from "vitest";
import { checkedPlan } from "../../../../infra/checked-plan.ts";
import { fromRuntimeConfig } from "../../../../infra/config/config.ts";
import type { AwsPlan } from "../../../../infra/plan/gpu-stack.ts";
import { awsPreflight } from "../../../../scripts/preflight/aws-checks.ts";
import { awsTarget } from "../../../../scripts/program/aws-target.ts";
import { projectName } from "../../../../scripts/program/stack-file.ts";
import { stackConfig } from "../../../infra/platforms/aws-stacks.ts";
import type { Answers } from "../account.ts";
import { xmlAnswer } from "../fake-aws.ts";
import { eks, found, NEEDS, preflight, useWorld, type Values, world } from "./world.ts";

useWorld();

describe("an account in which all is there", () => {
  test("has nothing to say, and was only read", async () => {
    expect(await found()).toEqual([]);
    expect(world.aws?.asked.filter((action) => !/:(Describe|Get|List)/.test(action))).toEqual([]);
  });

  test("images that nobody pushed are a problem with the command that pushes them", async () => {
    const checks = await preflight();
    const [finding] = checks.find(({ looksAt }) => looksAt === "images and registries")?.findings ?? [];
    expect(finding).toMatchObject({ severity: "problem", check: "images" });
    expect(finding?.fix).toMatch(
      /^Run first `npm run up -- --stack dev --registries`, .* then `npm run images -- --stack dev --push` where Docker is; then `npm run up -- --stack dev`\.$/,
    );
    const existing = await preflight({}, { ...eks, images: { repositories: "existing" } });
    const fixes = existing.flatMap(({ findings }) => findings).filter(({ check }) => check === "images");
    expect(fixes[0]?.fix).toMatch(/^Run `npm run images -- --stack dev --push`/);
  });
});

describe("credentials", () => {
  test("of another account end it: nothing else is asked", async () => {
    const identity = () =>
      xmlAnswer(
        "GetCallerIdentity",
        { Account: "999900001111", Arn: "arn:aws:iam::999900001111:root" },
        "member",
      );
    const [finding, ...rest] = await found({ "sts:GetCallerIdentity": identity });
    expect(rest).toEqual([]);
    expect(finding).toMatchObject({ severity: "problem", check: "credentials" });
    expect(finding?.what).toContain("999900001111");
    expect(world.aws?.asked).toEqual(["sts:GetCallerIdentity"]);
  });

  test("of another account have a fix by whose the stack's account is", async () => {
    const identity = () =>
      xmlAnswer(
        "GetCallerIdentity",
        { Account: "999900001111", Arn: "arn:aws:iam::999900001111:root" },
        "member",
      );
    const fixOf = async (stack: Values) =>
      (await found({ "sts:GetCallerIdentity": identity }, stack)).map(({ fix }) => fix);
    expect(await fixOf(eks)).toEqual([expect.stringContaining('Write `account: "999900001111"`')]);
    await world.aws?.close();
    expect(await fixOf({ ...eks, account: "999988887777" })).toEqual([
      "Take credentials of the stack's account, or correct `account`.",
    ]);
  });

  const unknown: Answers = {
    "sts:GetCallerIdentity": () => ({ error: "InvalidClientTokenId", status: 403 }),
  };

  test("that AWS does not know are one problem", async () => {
    const findings = await found(unknown, { ...eks, account: "999988887777" });
    expect(findings).toHaveLength(1);
    expect(findings[0]?.why).toContain("InvalidClientTokenId");
  });

  test("that AWS does not know leave what the file alone tells: nobody's account, and nobody's addresses", async () => {
    const { values } = stackConfig("dev");
    const checks = await preflight(unknown, fromRuntimeConfig(values, projectName()));
    expect(checks.map(({ looksAt, findings }) => [looksAt, findings.map(({ what }) => what)])).toEqual([
      [
        "credentials and account",
        ["AWS does not know who you are.", "`account` is 111122223333, the account of examples."],
      ],
      [
        "addresses that reach the cluster's API",
        ["`access.apiCidrs` has 203.0.113.7/32, which nobody comes from."],
      ],
    ]);
    expect(world.aws?.asked).toEqual(["sts:GetCallerIdentity"]);
  });

  test("are not judged where AWS is not reached", async () => {
    await preflight();
    await world.aws?.close();
    const target = awsTarget(checkedPlan({ ...eks, account: "999988887777" }).plan as AwsPlan, "dev");
    const [check, ...rest] = await awsPreflight(target, NEEDS, async () => ({ kind: "there" }));
    expect(rest.flatMap(({ findings }) => findings)).toEqual([]);
    expect(check?.findings.map(({ what }) => what)).toEqual(["AWS was not reached in us-east-1."]);
    expect(check?.findings[0]?.fix).toContain("`region`");
  });

  test("that may not ask are a finding for each action, and no crash", async () => {
    const denied = () => ({ error: "AccessDeniedException", status: 400 }) as const;
    const findings = await found({
      "ec2:DescribeInstances": () => ({ error: "UnauthorizedOperation", status: 403 }),
      "servicequotas:GetServiceQuota": denied,
      "eks:DescribeClusterVersions": denied,
    });
    expect(findings.every(({ severity }) => severity === "warning")).toBe(true);
    const actions = findings.map(({ what }) => /may not ask (\S+)\.$/.exec(what)?.[1]);
    expect(new Set(actions)).toEqual(
      new Set(["ec2:DescribeInstances", "servicequotas:GetServiceQuota", "eks:DescribeClusterVersions"]),
    );
  });
});

test("what no service of AWS says is told in one line, once for all that it was asked about", async () => {
  const needs = {
    ...NEEDS,
    addOns: ["coredns", "kube-proxy"].map((name) => ({ name, version: "v1", configuration: null })),
  };
  const page = () => ({ xml: "<!doctype html>\n<title>A proxy</title>" }) as const;
  const findings = await found({ "eks:DescribeAddonVersions": page }, eks, needs);
  expect(findings.map(({ check }) => check)).toEqual(["addOns"]);
  expect(findings[0]?.why).toBe(
    "It answers with status 200, and not as AWS does; so nobody knows whether EKS installs coredns v1, kube-proxy v1.",
  );
});
