import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { requestProfile } from "@engine-room/triton-requests";
import { afterAll, describe, expect, it } from "vitest";
import { loadConfig, parseConfig } from "../../../containers/services/gateway/src/config.ts";
import { configOf, sha256 } from "./support.ts";

const good = configOf({ encoders: 8000, model: 8100 });

function problemsOf(values: unknown): string[] {
  try {
    parseConfig(values, "gateway.json");
  } catch (error) {
    return (error as Error).message.split("\n").map((line) => line.trim());
  }
  return [];
}

describe("configuration", () => {
  it("fills in the documented defaults", () => {
    const config = parseConfig({ models: [{ name: "m", http: "http://10.0.0.1:8000/" }] });
    expect(config).toMatchObject({
      host: "127.0.0.1",
      port: 8080,
      apiKeys: [],
      limits: {
        bodyBytes: 4_194_304,
        requestSeconds: 300,
        connections: 20_000,
        concurrentRequests: 256,
        queuedRequests: 1024,
      },
      log: { level: "info" },
    });
    expect(config.models[0]).toMatchObject({
      http: "http://10.0.0.1:8000",
      profile: requestProfile("inflight_batcher_llm"),
      maxTokens: 1024,
      contextTokens: 2048,
      stopWords: [],
    });
    expect(config.rateLimit).toBeUndefined();
  });

  it("reports all problems at once, each with path, value, reason and fix", () => {
    const problems = problemsOf({
      ...good,
      port: 70_000,
      hots: "0.0.0.0",
      encoders: { http: "127.0.0.1:8000", modelName: "e", maxBatchSize: 0 },
      models: [
        {
          name: "m",
          http: "http://127.0.0.1:1/v2",
          flavour: "vllm",
          chatTemplate: "{% if %}",
          maxTokens: "many",
        },
      ],
      limits: { requestSeconds: -1 },
      apiKeys: [
        { name: "a", sha256: sha256("1") },
        { name: "a", sha256: sha256("2") },
      ],
    });
    expect(problems[0]).toBe("gateway.json: 11 problems");
    expect(problems).toContain("port = 70000: is too large; use 65535 or less");
    expect(problems).toContain("hots: there is no such key; remove it or correct its name");
    expect(problems).toContain("encoders.dimension = (absent): is required; add it");
    expect(problems).toContain("encoders.maxBatchSize = 0: is too small; use 1 or more");
    expect(problems).toContain(
      'models[0].flavour = "vllm": is not known here; use one of inflight_batcher_llm, inflight_batcher_llm_echo, inflight_batcher_llm_bls, inflight_batcher_llm_legacy',
    );
    expect(problems).toContain('models[0].maxTokens = "many": is a string; write a number');
    expect(problems.find((line) => line.startsWith("models[0].chatTemplate"))).toContain(
      "is no valid Jinja template",
    );
    expect(problems.find((line) => line.startsWith("models[0].http"))).toContain("without path");
    expect(problems.find((line) => line.startsWith("encoders.http"))).toContain("must be http://HOST:PORT");
    expect(problems).toContain('apiKeys[1].name = "a": is taken by another key: rename one of them');
    expect(problems.find((line) => line.startsWith("limits.requestSeconds"))).toContain("use more than 0");
  });

  it("finds ids and keys that are used twice, and answers that fill the whole context", () => {
    const model = { name: "m", http: "http://127.0.0.1:1" };
    const key = { name: "alice", sha256: sha256("k") };
    expect(
      problemsOf({
        encoders: good.encoders,
        models: [model, { ...model, maxTokens: 2048 }],
        apiKeys: [key, key],
      }).slice(1),
    ).toEqual([
      'models[1].name = "m": is taken by another model: give each model an id of its own',
      "models[1].maxTokens = 2048: leaves no room for a prompt in a context of 2048 tokens: use 2047 or less",
      'apiKeys[1].name = "alice": is taken by another key: rename one of them',
      "apiKeys[1].sha256 = [hidden]: is the same key again: remove one of them",
    ]);
  });

  it("takes a profile in full, or the short form of a usual one, and not both", () => {
    const profile = requestProfile("llava");
    const model = { name: "m", http: "http://127.0.0.1:1" };
    const read = (more: object) => parseConfig({ models: [{ ...model, ...more }] }).models[0]?.profile;
    expect(read({ profile })).toEqual(profile);
    expect(read({ flavour: "inflight_batcher_llm_legacy", tritonModel: "bls", endId: 2 })).toEqual(
      requestProfile("inflight_batcher_llm", {
        tritonModel: "bls",
        seedField: "random_seed",
        minTokensField: "min_length",
        endId: 2,
      }),
    );
    expect(
      problemsOf({ models: [{ ...model, profile, flavour: "inflight_batcher_llm", endId: 0 }] }),
    ).toEqual([
      "gateway.json: 2 problems",
      'models[0].flavour = "inflight_batcher_llm": is said by the model\'s profile too: remove it, and write it there if it differs',
      "models[0].endId = 0: is said by the model's profile too: remove it, and write it there if it differs",
    ]);
  });

  it("names a wrong key of a profile by its path", () => {
    const profile = { ...requestProfile("llava"), seedField: "sead" };
    expect(problemsOf({ models: [{ name: "m", http: "http://127.0.0.1:1", profile }] })[1]).toBe(
      'models[0].profile.seedField = "sead": is not known here; use one of seed, random_seed',
    );
  });

  it("refuses a language model with the encoder's id", () => {
    expect(
      problemsOf({ ...good, models: [{ name: "all-MiniLM-L6-v2", http: "http://127.0.0.1:1" }] })[1],
    ).toContain("models[0].name");
  });

  it("refuses to serve nothing", () => {
    expect(problemsOf({})[1]).toContain("add a language model");
  });

  it("never shows a key that was written where its hash belongs", () => {
    const problems = problemsOf({ ...good, apiKeys: [{ name: "alice", sha256: "sk-my-secret-key" }] });
    expect(problems.join()).toContain("apiKeys[0].sha256");
    expect(problems.join()).not.toContain("my-secret");
  });

  it.each(["ftp://host:1", "http://user:password@host:1", "http://host:1?x", "http://host:99999", "host:1"])(
    "refuses %s as Triton's address",
    (http) => {
      expect(problemsOf({ models: [{ name: "m", http }] })[1]).toContain("models[0].http");
    },
  );
});

describe("a configuration file", () => {
  const folder = mkdtempSync(join(tmpdir(), "gateway-config-"));
  afterAll(() => rmSync(folder, { recursive: true }));
  const written = (name: string, text: string): string => {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  };
  const key = { name: "alice", sha256: sha256("k") };

  it("may keep the list of API keys in a file of its own", () => {
    const apiKeysFile = written("keys.json", JSON.stringify([key]));
    expect(loadConfig(written("gateway.json", JSON.stringify({ ...good, apiKeysFile }))).apiKeys).toEqual([
      key,
    ]);
  });

  it("has the keys in one place", () => {
    const both = written("both.json", JSON.stringify({ ...good, apiKeys: [key], apiKeysFile: "/keys.json" }));
    expect(() => loadConfig(both)).toThrow(/both given; keep one/);
  });

  it("never opens the gateway because the file with its keys is missing, or is none", () => {
    const gone = written("gone.json", JSON.stringify({ ...good, apiKeysFile: join(folder, "nowhere.json") }));
    expect(() => loadConfig(gone)).toThrow(/nowhere\.json can't be read/);
    const apiKeysFile = written("text.json", "sk-my-secret-key");
    const other = written("other.json", JSON.stringify({ ...good, apiKeysFile }));
    expect(() => loadConfig(other)).toThrow(/text\.json is not JSON/);
    expect(() => loadConfig(other)).not.toThrow(/my-secret/);
    expect(() => loadConfig(written("number.json", JSON.stringify({ ...good, apiKeysFile: 1 })))).toThrow(
      /apiKeysFile is no text/,
    );
  });
});
