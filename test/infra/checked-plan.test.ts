import * as pulumi from "@pulumi/pulumi";
import { describe, expect, test } from "vitest";
import { checkedPlan } from "../../infra/checked-plan.ts";
import { ConfigError, type Problem } from "../../infra/problems.ts";
import { awsValues, clusterModel, clusterValues, dockerModel, dockerValues } from "./plan/checks/stacks.ts";
import { problemsThrownBy } from "./problems-thrown.ts";

type Values = Readonly<Record<string, unknown>>;

function problemsOf(values: Values): readonly Problem[] {
  return problemsThrownBy(() => checkedPlan(values));
}

function pathsOf(values: Values): readonly string[] {
  return problemsOf(values).map(({ path }) => path);
}

test("a stack file without problems is planned, with warnings", () => {
  const { plan, problems, warnings } = checkedPlan(dockerValues);
  expect([plan.platform, problems]).toEqual(["docker", []]);
  expect(warnings.some(({ reason }) => reason.includes("575.51.03"))).toBe(true);
});

const ecs = { ...awsValues, compute: "ecs" };

test("a stack file with an unknown compute has its other problems reported too, whether EKS or EC2 was meant", () => {
  const values = { ...ecs, region: "us-esat-1", access: { apiCidrs: ["0.0.0.0/0"] } };
  expect(pathsOf(values)).toEqual(["compute", "region", "access.apiCidrs[0]"]);
  expect(pathsOf(ecs)).toEqual(["compute"]);
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

describe("a stack file with problems of its keys and of its plan", () => {
  const mixed = {
    platform: "aws",
    account: "111122223333",
    region: "us-east-1",
    release: 25.1,
    colour: "blue",
    access: { apiCidrs: ["0.0.0.0/0"] },
    models: [
      { name: "Chat", model: "llama-2-7b-chat", tensorParallel: 3, replicas: "two" },
      { name: "broken" },
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
    pools: [{ name: "gpu", instanceType: "g5.12xlarge", nodes: { min: 3, max: 2 }, diskGiB: 5 }],
    gateway: {
      exposure: "public",
      apiKeys: [],
      tls: { certificateArn: "arn:aws:acm:us-east-1:111122223333:certificate/a" },
    },
    hub: { token: 12_345_678 },
  };

  test("all problems of a stack file are reported together, those of keys and those of the plan", () => {
    expect(pathsOf(mixed).toSorted()).toEqual(
      [
        // What the schema says,
        "models[0].name",
        "models[0].replicas",
        "models[1].model",
        "pools[0].diskGiB",
        "hub.token",
        "release",
        "colour",
        // and what a plan of the rest finds.
        "models[2].model",
        "models[2].name",
        "models[4].name",
        "models[0].tensorParallel",
        "models[3].quantization",
        "models[3].quantization",
        "models[3].triton.maxBatchSize",
        "pools[0].nodes.min",
        "gateway.apiKeys",
        "gateway.hostname",
        "access.apiCidrs[0]",
      ].toSorted(),
    );
    for (const { reason, fix } of problemsOf(mixed)) {
      expect(reason).toMatch(/\.$/);
      expect(fix).toMatch(/[.?]$/);
    }
  });

  test("problems name places of the stack file, also after an entry that was left out", () => {
    const repeated = problemsOf(mixed).find(({ path }) => path === "models[4].name");
    expect(repeated?.reason).toContain("models[3].name");
  });

  test("problems show no credential", () => {
    expect(JSON.stringify(problemsOf(mixed))).not.toContain("12345678");
    expect(problemsOf(mixed).find(({ path }) => path === "hub.token")?.value).toBe("[secret]");
    for (const hub of [
      "hf_ATokenAtTheWrongPlace",
      { tokenFile: "hf_ATokenAtTheWrongPlace" },
      { tokn: "hf_ATokenAtTheWrongPlace" },
    ]) {
      const problems = problemsOf({ ...dockerValues, hub, note: "hf_ATokenAtTheWrongPlace" });
      expect(problems.length).toBeGreaterThanOrEqual(2);
      expect(JSON.stringify(problems)).not.toContain("hf_AToken");
    }
    const secure = problemsOf({
      ...dockerValues,
      hub: { token: { secure: "v1:cipher" } },
      colour: { secure: "v1:cipher" },
    });
    expect(JSON.stringify(secure)).not.toContain("cipher");
  });
});

test.each<[string, Values, readonly string[]]>([
  [
    "a release written as a number has no advisories and recipes judged by it",
    dockerModel({}, { release: 24.02 }),
    ["release"],
  ],
  [
    "a limit of the wrong kind has no memory fit judged by it",
    dockerModel(
      { model: "llama-3.2-11b-vision", limits: { maxBatchSize: "8" } },
      { hub: { tokenFile: "/run/token" } },
    ),
    ["models[0].limits.maxBatchSize"],
  ],
  [
    "a pool without a name is not reported as missing by models that name it",
    clusterModel({ pool: "gpu" }, { name: undefined }),
    ["pools[0].name"],
  ],
  [
    "a cluster's certificate keys on AWS have no gateway judged by them",
    { ...awsValues, gateway: { exposure: "public", apiKeys: [], tls: { secretName: "a", issuer: "b" } } },
    ["gateway.tls.certificateArn", "gateway.tls.secretName", "gateway.tls.issuer"],
  ],
  ["absent pools are the only problem", { ...clusterValues, pools: undefined }, ["pools"]],
  ["absent models are the only problem", { ...clusterValues, models: undefined }, ["models"]],
  ["an absent host is the only problem", { ...dockerValues, host: undefined }, ["host"]],
  ["an absent region is the only problem", { ...awsValues, region: undefined }, ["region"]],
  [
    "a misspelt key is not reported as absent too",
    { ...awsValues, access: undefined, acess: awsValues.access },
    ["acess"],
  ],
  [
    "a catalogue row with little in it has its absent keys as the only problems",
    dockerModel({ model: "own" }, { catalogue: { models: { own: { title: "x" } } } }),
    [
      "catalogue.models.own.source",
      "catalogue.models.own.recipe",
      "catalogue.models.own.architecture",
      "catalogue.models.own.trainedContextTokens",
      "catalogue.models.own.limits",
      "catalogue.models.own.tokenizer",
      "catalogue.models.own.golden",
    ],
  ],
  [
    "a token of the wrong kind is not reported as absent too",
    dockerModel({ model: "llama-2-7b" }, { hub: { token: 1 } }),
    ["hub.token"],
  ],
])("%s", (_title, values, paths) => {
  expect(pathsOf(values)).toEqual(paths);
});

test("a problem that does not rest on a wrong value is reported beside it", () => {
  const values = clusterModel({ tensorParallel: 3, triton: { maxQueueSize: -1 } }, { diskGiB: "200" });
  expect(pathsOf(values)).toEqual([
    "models[0].triton.maxQueueSize",
    "pools[0].diskGiB",
    "models[0].tensorParallel",
  ]);
});

test("an entry that lacks several keys has these as its only problems", () => {
  const models = [
    { name: "gateway", model: "gpt2-medium", weights: { from: "s3" } },
    { name: "b", model: "own" },
  ];
  const values = {
    ...clusterValues,
    models,
    catalogue: { models: { own: { title: "x", recipe: "gpt" } } },
  };
  const paths = pathsOf(values);
  expect(paths).toContain("models[0].weights.uri");
  expect(paths).toContain("models[0].weights.revision");
  expect(paths).toContain("models[0].name");
  expect(paths).not.toContain("models[1].model");
});

test("a stack on an unknown platform has its models checked too", () => {
  expect(pathsOf({ ...clusterModel({ tensorParallel: 3 }), platform: "kubernets" })).toEqual([
    "platform",
    "models[0].tensorParallel",
  ]);
});

test("Pulumi prints a ConfigError without a stack trace", () => {
  expect(pulumi.RunError.isInstance(new ConfigError([]))).toBe(true);
});
