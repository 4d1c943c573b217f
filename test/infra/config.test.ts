import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { fromRuntimeConfig, parseConfig } from "../../infra/config.ts";
import { editDistance } from "../../infra/config-problems.ts";
import { ConfigError, type Problem } from "../../infra/problems.ts";

const model = { name: "smollm2", model: "smollm2-135m-instruct" };
const smallest = { platform: "local", models: [model] };

function problemsOf(values: Record<string, unknown>): readonly Problem[] {
  try {
    parseConfig(values);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
}

describe("a stack file that is right", () => {
  test("gets its defaults", () => {
    const config = parseConfig(smallest);
    expect(config.models[0]).toMatchObject({
      parallelRequests: 4,
      contextTokens: 2048,
      ports: { http: 0, grpc: 0, metrics: 0 },
    });
    expect(config.encoders).toMatchObject({ maxBatchSize: 32, dynamicBatching: true, visionWeights: "auto" });
    expect(config.gateway.limits).toEqual({
      bodyMiB: 10,
      requestSeconds: 300,
      concurrentRequests: 256,
      queuedRequests: 1024,
    });
  });

  test("is frozen, all the way down", () => {
    const config = parseConfig(smallest);
    expect(Object.isFrozen(config)).toBe(true);
    expect(() => Object.assign(config.gateway.limits, { bodyMiB: 1 })).toThrow(TypeError);
  });

  test("comes from the Pulumi runtime as text", () => {
    const values = fromRuntimeConfig(
      {
        "engine-room:platform": "local",
        "engine-room:models": JSON.stringify([model]),
        "aws:region": "eu-west-1",
      },
      "engine-room",
    );
    expect(parseConfig(values).models[0]?.name).toBe("smollm2");
  });
});

describe("a stack file with mistakes", () => {
  test("has all ten of them reported at once, each with path, value, reason and fix", () => {
    const sha256 = "0".repeat(64);
    const problems = problemsOf({
      platform: "local",
      colour: "blue",
      models: [
        { name: "My Model", model: "smollm2-135m-instruct", paralelRequests: 2 },
        { name: "b", model: "gpt-5", contextTokens: 512, maxTokens: 4000, ports: { http: 8000 } },
        { name: "b", model: "smollm2-135m-instruct", threads: "four" },
      ],
      encoders: { maxBatchSize: 100_000, ports: { http: 8000 } },
      gateway: {
        apiKeys: [
          { name: "alice", sha256 },
          { name: "alice", sha256 },
        ],
        limits: null,
      },
    });
    expect(problems.map((problem) => [problem.path, problem.value])).toEqual([
      ["models[0].name", '"My Model"'],
      ["models[0].paralelRequests", "2"],
      ["models[1].model", '"gpt-5"'],
      ["models[2].threads", '"four"'],
      ["encoders.maxBatchSize", "100000"],
      ["gateway.limits", "null"],
      ["colour", '"blue"'],
      ["models[2].name", '"b"'],
      ["gateway.apiKeys[1].name", '"alice"'],
      ["models[1].ports.http", "8000"],
      ["models[1].maxTokens", "4000"],
    ]);
    for (const problem of problems) {
      expect(problem.reason).toMatch(/\.$/);
      expect(problem.fix).toMatch(/[.?]$/);
    }
    const byPath = new Map(problems.map((problem) => [problem.path, problem]));
    expect(byPath.get("models[0].paralelRequests")?.fix).toBe("Did you mean `parallelRequests`?");
    expect(byPath.get("encoders.maxBatchSize")?.reason).toContain("256");
    expect(byPath.get("models[2].threads")?.fix).toBe("Write a number, without quotes.");
    expect(byPath.get("models[1].model")?.fix).toContain("smollm2-135m-instruct");
    expect(byPath.get("models[1].maxTokens")?.reason).toContain("512");
    expect(byPath.get("models[1].ports.http")?.reason).toContain("encoders.ports.http");
  });

  test("names a platform of a later version in one sentence", () => {
    expect(problemsOf({ platform: "aws", anything: 1 })).toEqual([
      {
        path: "platform",
        value: '"aws"',
        reason: "The platform aws is not in this version; available: local.",
        fix: "Set `engine-room:platform: local`, or use a later version.",
      },
    ]);
  });

  test.each([
    ["misspelt", { platfrom: "local" }, ["platform", "models", "platfrom"]],
    ["unknown", { platform: "cloud", colour: 1 }, ["platform", "models", "colour"]],
  ])("whose platform is %s reports its other mistakes too", (_title, values, paths) => {
    const problems = problemsOf(values);
    expect(problems.map((problem) => problem.path)).toEqual(paths);
    expect(problems[0]?.fix).toBe("Set `engine-room:platform: local`.");
  });

  test("counts what is required and absent", () => {
    expect(problemsOf({ platform: "local" })[0]).toMatchObject({
      path: "models",
      value: "(absent)",
      reason: "It is required.",
    });
    expect(problemsOf({ platform: "local", models: [{}] }).map((problem) => problem.path)).toEqual([
      "models[0].name",
      "models[0].model",
    ]);
  });

  test("does not show a secret that stands in the wrong place", () => {
    const [problem] = problemsOf({ ...smallest, colour: { secure: "v1:ciphertext" } });
    expect(problem?.value).toBe('"[secret]"');
  });

  test("knows that a default context is too small for a large answer", () => {
    expect(problemsOf({ platform: "local", models: [{ ...model, maxTokens: 2048 }] })[0]?.reason).toContain(
      "2048",
    );
  });

  test("knows how long a context the model was trained for", () => {
    const [problem] = problemsOf({ platform: "local", models: [{ ...model, contextTokens: 16_384 }] });
    expect(problem).toMatchObject({ path: "models[0].contextTokens", fix: "Use 8192 or less." });
  });

  test("keeps the names of services that every stack has", () => {
    const problems = problemsOf({ platform: "local", models: [{ ...model, name: "gateway" }] });
    expect(problems.map(({ path, fix }) => [path, fix])).toEqual([
      ["models[0].name", "Give the model another name."],
    ]);
  });

  test("never ends in anything but a configuration or a ConfigError", () => {
    const values = fc.dictionary(
      fc.constantFrom("platform", "models", "encoders", "gateway", "x"),
      fc.jsonValue(),
    );
    fc.assert(
      fc.property(values, (input) => {
        try {
          parseConfig({ platform: "local", ...(input as object) });
        } catch (error) {
          expect(error).toBeInstanceOf(ConfigError);
        }
      }),
    );
  });
});

describe("edit distance", () => {
  test("of known pairs", () => {
    expect(editDistance("kitten", "sitting")).toBe(3);
    expect(editDistance("", "abc")).toBe(3);
  });

  test("is symmetric, zero only for equals, and at most the longer length", () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (a, b) => {
        const distance = editDistance(a, b);
        expect(distance).toBe(editDistance(b, a));
        expect(distance === 0).toBe(a === b);
        expect(distance).toBeLessThanOrEqual(Math.max(a.length, b.length));
      }),
    );
  });
});
