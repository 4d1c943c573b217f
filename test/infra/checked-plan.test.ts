import * as pulumi from "@pulumi/pulumi";
import { expect, test } from "vitest";
import { checkedPlan } from "../../infra/checked-plan.ts";
import { ConfigError } from "../../infra/problems.ts";
import { awsValues, clusterModel, dockerModel, dockerValues } from "./plan/checks/stacks.ts";
import { stackProblems } from "./thrown-problems.ts";

type Values = Readonly<Record<string, unknown>>;

function pathsOf(values: Values): readonly string[] {
  return stackProblems(values).map(({ path }) => path);
}

test("a stack file without problems is planned, with warnings", () => {
  const { plan, problems, warnings } = checkedPlan(dockerValues);
  expect([plan.platform, problems]).toEqual(["docker", []]);
  expect(warnings.some(({ reason }) => reason.includes("575.51.03"))).toBe(true);
});

test("a misspelt region is the only problem: no check judges the rest by it", () => {
  const values = {
    ...awsValues,
    region: "us-esat-1",
    policies: { hourlyUsdCap: 1 },
    guard: { emails: ["ops@example.org"] },
    hub: { tokenSecretArn: "arn:aws:secretsmanager:us-east-1:111122223333:secret:hub-token-AbCdEf" },
  };
  expect(pathsOf(values)).toEqual(["region"]);
  expect(pathsOf({ ...values, region: "us-west-9" })).toEqual(
    expect.arrayContaining(["policies.hourlyUsdCap", "guard.monthlyUsd", "hub.tokenSecretArn"]),
  );
});

const ofChecks = {
  ...awsValues,
  access: { apiCidrs: ["0.0.0.0/0"] },
  models: [
    { name: "gateway", model: "gpt2-medum" },
    {
      name: "tiny",
      model: "gpt2-medium",
      quantization: "fp8",
      limits: { maxBatchSize: 4 },
      triton: { maxBatchSize: 8 },
    },
    { name: "tiny", model: "gpt2-medium" },
  ],
  pools: [{ name: "gpu", instanceType: "g5.12xlarge", nodes: { min: 3, max: 2 } }],
  gateway: {
    exposure: "public",
    apiKeys: [],
    tls: { certificateArn: "arn:aws:acm:us-east-1:111122223333:certificate/a" },
  },
};

/** Values with mistakes that the schema finds. */
const ofSchema = {
  ...ofChecks,
  release: 25.1,
  colour: "blue",
  models: [
    ...ofChecks.models,
    { name: "Chat", model: "llama-2-7b-chat", replicas: "two" },
    { name: "broken" },
  ],
  hub: { token: 12_345_678 },
};

test("problems of the checks and names that can't be resolved are reported together, without repetition", () => {
  expect(pathsOf(ofChecks)).toEqual([
    "models[0].model",
    "models[0].name",
    "models[2].name",
    "models[1].quantization",
    "models[1].triton.maxBatchSize",
    "pools[0].nodes.min",
    "gateway.apiKeys",
    "gateway.hostname",
    "access.apiCidrs[0]",
  ]);
  for (const { reason, fix } of stackProblems(ofChecks)) {
    expect(reason).toMatch(/\.$/);
    expect(fix).toMatch(/[.?]$/);
  }
});

test("when the schema refuses a value, all its problems are reported, and no check runs", () => {
  expect(pathsOf(ofSchema)).toEqual([
    "release",
    "hub.token",
    "models[3].name",
    "models[3].replicas",
    "models[4].model",
    "colour",
  ]);
});

test("an unknown platform or compute is reported with the other problems of the schema", () => {
  expect(pathsOf({ ...ofChecks, compute: "ecs", colour: "blue" })).toEqual(["compute", "colour"]);
  expect(pathsOf({ ...clusterModel({ tensorParallel: 3 }), platform: "kubernets" })).toEqual(["platform"]);
});

test("problems show no credential", () => {
  expect(JSON.stringify(stackProblems(ofSchema))).not.toContain("12345678");
  expect(stackProblems(ofSchema).find(({ path }) => path === "hub.token")?.value).toBe("[secret]");
  for (const hub of [
    "hf_ATokenAtTheWrongPlace",
    { tokenFile: "hf_ATokenAtTheWrongPlace" },
    { tokn: "hf_ATokenAtTheWrongPlace" },
  ]) {
    const problems = stackProblems({ ...dockerValues, hub, note: "hf_ATokenAtTheWrongPlace" });
    expect(problems.length).toBeGreaterThanOrEqual(2);
    expect(JSON.stringify(problems)).not.toContain("hf_AToken");
  }
  const secure = stackProblems({
    ...dockerValues,
    hub: { token: { secure: "v1:cipher" } },
    colour: { secure: "v1:cipher" },
  });
  expect(JSON.stringify(secure)).not.toContain("cipher");
});

test("a catalogue row with little in it has its absent keys as problems", () => {
  expect(pathsOf(dockerModel({ model: "own" }, { catalogue: { models: { own: { title: "x" } } } }))).toEqual(
    ["source", "recipe", "architecture", "trainedContextTokens", "limits", "tokenizer", "golden"].map(
      (key) => `catalogue.models.own.${key}`,
    ),
  );
});

test("Pulumi prints a ConfigError without a stack trace", () => {
  expect(pulumi.RunError.isInstance(new ConfigError([]))).toBe(true);
});
