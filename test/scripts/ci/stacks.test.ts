import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import { fromRuntimeConfig } from "../../../infra/config/config.ts";
import { openLockPullRequest } from "../../../scripts/ci/lock-pull-request.ts";
import { outputsSummary } from "../../../scripts/ci/outputs-summary.ts";
import { endedStacks, previewStackFile, previewStackName } from "../../../scripts/ci/preview-stack.ts";
import { matrixStacks } from "../../../scripts/ci/stacks.ts";
import { projectName, projectRoot, readStackFile } from "../../../scripts/program/stack-file.ts";
import { FakeGitHub, type FakePull } from "./fake-github.ts";

let fake: FakeGitHub;
beforeEach(async () => {
  fake = await FakeGitHub.start();
});
afterEach(() => fake.stop());

describe("matrixStacks", () => {
  const pipelines = {
    b: { isPreviewed: true, keptBack: null },
    a: { isPreviewed: true, keptBack: "it is made of paper" },
    c: { isPreviewed: false, keptBack: null },
  };

  test("previews those of the table, and deploys those that the repository names", () => {
    expect(matrixStacks("preview", "", pipelines)).toEqual(["a", "b"]);
    expect(matrixStacks("deployed", " c, b\n", pipelines)).toEqual(["b", "c"]);
    expect(matrixStacks("deployed", "b b", pipelines)).toEqual(["b"]);
    expect(matrixStacks("deployed", "", pipelines)).toEqual([]);
  });

  test("refuses stacks that there are not, and those that are never deployed", () => {
    expect(() => matrixStacks("deployed", "b z", pipelines)).toThrow(
      'There is no stack "z" to deploy; there are a, b, c.',
    );
    expect(() => matrixStacks("deployed", "a", pipelines)).toThrow(
      "The stack a is not deployed: it is made of paper.",
    );
  });
});

describe("the stack of a pull request", () => {
  const template = readFileSync(join(projectRoot, "Pulumi.kind.yaml"), "utf8");

  test("is planned from its file, in a namespace of its own", () => {
    const folder = mkdtempSync(join(tmpdir(), "engine-room-pr-"));
    try {
      const configFile = join(folder, "Pulumi.pr-12.yaml");
      writeFileSync(configFile, previewStackFile(template, { stack: "pr-12", registry: "ghcr.io/room" }));
      const { values } = readStackFile({ name: "pr-12", configFile });
      const { plan } = checkedPlan(fromRuntimeConfig(values, projectName()));
      expect(plan).toMatchObject({
        platform: "kubernetes",
        tier: "cpu",
        cluster: { namespace: { isCreated: true }, retained: [] },
      });
      expect(values["engine-room:namespace"]).toBe("engine-room-cpu-pr-12");
      expect(JSON.parse(values["engine-room:images"] ?? "")).toEqual({ registry: "ghcr.io/room" });
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test("keeps the template's registry where none is given, and the rest of the template", () => {
    const file = parse(previewStackFile(template, { stack: "pr-1", registry: "" }));
    const { config } = parse(template);
    expect(file.config).toEqual({
      ...config,
      "engine-room:namespace": "engine-room-cpu-pr-1",
      "engine-room:createNamespace": true,
      "engine-room:retain": [],
      "engine-room:priorityClasses": "none",
    });
  });

  test.each(["0", "-1", "1; rm", "1e3", "", "12345678901", "../1"])("has no name for %j", (number) => {
    expect(() => previewStackName(number)).toThrow("no number of a pull request");
  });
});

describe("endedStacks", () => {
  const now = Date.parse("2026-08-01T12:00:00Z");
  const label = { name: "preview-stack" };
  const pull = (number: number, state: string, labels: FakePull["labels"]): FakePull => ({
    number,
    state,
    labels,
    head: { label: "a:b", sha: "", repo: null },
    base: { ref: "main", repo: { id: 1 } },
  });
  const ended = (...stacks: { name: string; lastUpdate?: string }[]) =>
    endedStacks(fake.client(), stacks, { hours: 48, now });

  test("are those of pull requests that are closed, lost the label or are gone, and those that are old", async () => {
    fake.pulls = [
      pull(1, "open", [label]),
      pull(2, "closed", [label]),
      pull(3, "open", [{ name: "bug" }]),
      pull(5, "open", [label]),
      pull(6, "open", [label]),
    ];
    const fresh = "2026-07-30T12:00:00.000Z";
    const result = await ended(
      { name: "pr-1", lastUpdate: fresh },
      { name: "pr-2", lastUpdate: fresh },
      { name: "room/engine-room/pr-3", lastUpdate: fresh },
      { name: "pr-4", lastUpdate: fresh },
      { name: "pr-5", lastUpdate: "2026-07-30T11:00:00Z" },
      { name: "pr-6" },
    );
    expect(result).toEqual([
      { stack: "pr-2", pullRequest: 2, reason: "its pull request is closed" },
      { stack: "pr-3", pullRequest: 3, reason: "the label preview-stack is gone" },
      { stack: "pr-4", pullRequest: 4, reason: "its pull request is gone" },
      { stack: "pr-5", pullRequest: 5, reason: "its last update was 49.0 hours ago, and it has 48" },
    ]);
  });

  test("are none of the project's own", async () => {
    expect(await ended({ name: "onprem" }, { name: "pr-x" }, { name: "pr-01" }, { name: "apr-1" })).toEqual(
      [],
    );
  });

  test("are unknown, not ended, while GitHub does not answer", async () => {
    fake.outage = 502;
    await expect(ended({ name: "pr-1" })).rejects.toThrow("GitHub answers 502");
  });
});

describe("openLockPullRequest", () => {
  const lock = (images: object) => Buffer.from(JSON.stringify({ version: 1, images }));
  const digest = `registry.example.org/room/services@sha256:${"a".repeat(64)}`;
  const fresh = lock({ services: { contentHash: "b".repeat(64), reference: digest } });
  const open = (file: Buffer) => openLockPullRequest(fake.client(), file);

  test("puts the file onto a branch at main's commit, and opens one pull request", async () => {
    expect(await open(fresh)).toBe("Opened #77.");
    expect(fake.changes.map(({ method, path }) => `${method} ${path}`)).toEqual([
      "POST /git/refs",
      "PUT /contents/images.lock.json",
      "POST /pulls",
    ]);
    expect(fake.changes[0]?.body).toEqual({ ref: "refs/heads/images-lock", sha: "a".repeat(40) });
    expect(fake.changes[1]?.body).toMatchObject({
      branch: "images-lock",
      content: fresh.toString("base64"),
      sha: "b".repeat(40),
    });
    expect(fake.changes[2]?.body).toMatchObject({ head: "images-lock", base: "main" });
  });

  test("moves a branch that is there, and leaves its pull request open", async () => {
    fake.branches.set("images-lock", "c".repeat(40));
    fake.pulls = [
      {
        number: 8,
        state: "open",
        labels: [],
        head: { label: "room:images-lock", sha: "", repo: null },
        base: { ref: "main", repo: { id: 1 } },
      },
    ];
    expect(await open(fresh)).toBe("Updated #8.");
    expect(fake.changes[0]).toMatchObject({
      method: "PATCH",
      path: "/git/refs/heads/images-lock",
      body: { force: true },
    });
  });

  test("does nothing where main has it", async () => {
    fake.files.set("main:images.lock.json", fresh);
    expect(await open(fresh)).toContain("Nothing to do");
    expect(fake.changes).toEqual([]);
  });

  test.each([
    ["no JSON", Buffer.from("<html>")],
    [
      "a tag in place of a digest",
      lock({ services: { contentHash: "b".repeat(64), reference: "registry/services:latest" } }),
    ],
    ["another version", Buffer.from('{"version":2,"images":{}}')],
    ["more than it can be", Buffer.alloc(2 ** 20 + 1, " ")],
  ])("refuses %s", async (_title, file) => {
    await expect(open(file)).rejects.toThrow("images.lock.json");
    expect(fake.changes).toEqual([]);
  });
});

test("a summary has a row an endpoint, and nothing in it ends a cell", () => {
  const triton = { http: "http://t:8000", grpc: "t:8001", metrics: "http://t:8002/metrics" };
  const outputs = {
    endpoints: {
      gateway: "http://gateway:8080",
      mongo: null,
      vector: "http://vector:6333",
      encoders: null,
      models: { "a|b": { ...triton, generate: "http://t:8000/`x|y\nz" } },
      gatewayReach: "cluster",
      reach: "cluster",
    },
    notes: ["seeded\nweights"],
  };
  expect(outputsSummary("onprem", outputs)).toBe(
    [
      "### Stack onprem",
      "",
      "| Endpoint | Address |",
      "|---|---|",
      "| Gateway | `http://gateway:8080` |",
      "| a b, generate | `http://t:8000/ x y z` |",
      "| a b, gRPC | `t:8001` |",
      "| Vectors | `http://vector:6333` |",
      "",
      "Reached from within the cluster; `npm run connect` brings them to another machine.",
      "",
      "> seeded weights",
      "",
    ].join("\n"),
  );
});
