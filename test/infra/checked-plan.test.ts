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

describe("a stack file without problems", () => {
  test("is planned, with warnings", () => {
    const { plan, problems, warnings } = checkedPlan(dockerValues);
    expect([plan.platform, problems]).toEqual(["docker", []]);
    expect(warnings.some(({ reason }) => reason.includes("575.51.03"))).toBe(true);
  });
});

describe("a stack file whose compute is none of AWS's", () => {
  const ecs = { ...awsValues, compute: "ecs" };

  test("has what is wrong with either reported beside it", () => {
    const values = { ...ecs, region: "us-esat-1", access: { apiCidrs: ["0.0.0.0/0"] } };
    expect(pathsOf(values)).toEqual(["compute", "region", "access.apiCidrs[0]"]);
    expect(pathsOf(ecs)).toEqual(["compute"]);
  });
});

describe("a stack file with a misspelt region", () => {
  test("has that problem alone: no check holds against the rest what it knows of no region", () => {
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
});

describe("a stack file with mistakes of both kinds", () => {
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

  test("has all of them reported together", () => {
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

  test("names the places of the stack file, though an entry was taken out", () => {
    const repeated = problemsOf(mixed).find(({ path }) => path === "models[4].name");
    expect(repeated?.reason).toContain("models[3].name");
  });

  test("shows no credential", () => {
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

describe("what was taken out is not held against the rest", () => {
  test.each<[string, Values, readonly string[]]>([
    [
      "a release in digits leaves its advisories and recipes alone",
      dockerModel({}, { release: 24.02 }),
      ["release"],
    ],
    [
      "a model's limits leave its fit alone",
      dockerModel(
        { model: "llama-3.2-11b-vision", limits: { maxBatchSize: "8" } },
        { hub: { tokenFile: "/run/token" } },
      ),
      ["models[0].limits.maxBatchSize"],
    ],
    [
      "a pool without name leaves those that use it alone",
      clusterModel({ pool: "gpu" }, { name: undefined }),
      ["pools[0].name"],
    ],
    [
      "certificates of a cluster leave a gateway on AWS alone",
      { ...awsValues, gateway: { exposure: "public", apiKeys: [], tls: { secretName: "a", issuer: "b" } } },
      ["gateway.tls.certificateArn", "gateway.tls.secretName", "gateway.tls.issuer"],
    ],
    ["no pools at all", { ...clusterValues, pools: undefined }, ["pools"]],
    ["no models at all", { ...clusterValues, models: undefined }, ["models"]],
    ["no host", { ...dockerValues, host: undefined }, ["host"]],
    ["no region", { ...awsValues, region: undefined }, ["region"]],
    [
      "a misspelt key is as good as dropped",
      { ...awsValues, access: undefined, acess: awsValues.access },
      ["acess"],
    ],
    [
      "a row of the stack's own",
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
      "credentials of the wrong kind",
      dockerModel({ model: "llama-2-7b" }, { hub: { token: 1 } }),
      ["hub.token"],
    ],
  ])("%s", (_title, values, paths) => {
    expect(pathsOf(values)).toEqual(paths);
  });

  test("while what does not rest on it is", () => {
    const values = clusterModel({ tensorParallel: 3, triton: { maxQueueSize: -1 } }, { diskGiB: "200" });
    expect(pathsOf(values)).toEqual([
      "models[0].triton.maxQueueSize",
      "pools[0].diskGiB",
      "models[0].tensorParallel",
    ]);
  });

  test("nor is what lacks several keys at once more than itself", () => {
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

  test("even where the platform has no such name", () => {
    expect(pathsOf({ ...clusterModel({ tensorParallel: 3 }), platform: "kubernets" })).toEqual([
      "platform",
      "models[0].tensorParallel",
    ]);
  });
});

test("the engine shows the problems of a stack file alone, without a stack trace", () => {
  expect(pulumi.RunError.isInstance(new ConfigError([]))).toBe(true);
});
