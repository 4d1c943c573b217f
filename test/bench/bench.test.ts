import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, onTestFinished, test, vi } from "vitest";
import { fromRuntimeConfig, parseConfig } from "../../infra/config/config.ts";
import { loadPlan } from "../../infra/load-plan.ts";
import { planStack } from "../../infra/plan/plan-stack.ts";
import { readStackFile } from "../../scripts/program/stack-file.ts";
import { freePort } from "../harness/ports.ts";
import { engineCopyFigures, engineCopyText } from "./engine-copy.ts";
import {
  modelPreviewFigures,
  modelPreviewText,
  type PreviewRound,
  stackPreviewFigures,
  stackPreviewText,
  writeStackFiles,
} from "./model-preview.ts";
import { stackFiles } from "./plan.ts";
import { main } from "./run.ts";
import { startServer } from "./server-process.ts";

function round(empty: number, one: number, all: number, hasCpu = true): PreviewRound {
  const cost = (wallSeconds: number) => ({ wallSeconds, cpuSeconds: hasCpu ? 2 * wallSeconds : null });
  return { empty: cost(empty), one: cost(one), all: cost(all) };
}

test("preview times are compared round by round, and divided by the number of models", () => {
  // The machine is ten times as busy in the last one. Differences of medians would be 1.5 and 1 s.
  const rounds = [round(1, 1.5, 2), round(1, 1.25, 2.5), round(10, 14, 25)];
  const figures = modelPreviewFigures(5, rounds);
  expect(figures).toEqual({
    models: 5,
    rounds: 3,
    wall: {
      emptySeconds: 1,
      stackSeconds: 2.5,
      millisecondsPerModel: 300,
      millisecondsPerFurtherModel: 312.5,
    },
    cpu: {
      emptySeconds: 2,
      stackSeconds: 5,
      millisecondsPerModel: 600,
      millisecondsPerFurtherModel: 625,
    },
  });
  expect(modelPreviewText("in one process", figures)).toBe(
    "preview of 5 models in a cluster, in one process, 3 rounds: 2.50 against 1.00 s of an empty program, 300.0 ms a model; " +
      "312.5 ms for each after the first\n" +
      "  of it CPU time: 5.00 against 2.00 s of an empty program, 600.0 ms a model; 625.0 ms for each after the first",
  );
});

test("a system without CPU times has no figures of them", () => {
  const figures = modelPreviewFigures(2, [round(1, 2, 3, false)]);
  expect(figures.cpu).toBeNull();
  expect(modelPreviewText("in one process", figures)).not.toContain("CPU");
});

test("a stack's ratio is the median of the rounds' ratios", () => {
  const seconds = (wallSeconds: number) => ({ wallSeconds, cpuSeconds: wallSeconds / 2 });
  const rounds = [
    { empty: seconds(1), stack: seconds(2) },
    { empty: seconds(10), stack: seconds(15) },
    { empty: seconds(2), stack: seconds(6) },
  ];
  const figures = stackPreviewFigures("prod", rounds);
  expect(figures).toEqual({
    stack: "prod",
    rounds: 3,
    wall: { emptySeconds: 2, stackSeconds: 6, ratio: 2 },
    cpu: { emptySeconds: 1, stackSeconds: 3, ratio: 2 },
  });
  expect(stackPreviewText(figures)).toBe(
    "graph of prod, in one process, 3 rounds: 6.00 against 2.00 s of an empty program, ratio 2.00; CPU time 3.00 against 1.00 s of an empty program, ratio 2.00",
  );
});

test("the benchmark's stack files plan one and fifty models in a cluster, and keep members outside `config`", async () => {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-preview-test-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const files = writeStackFiles(folder, { encryptionsalt: "v1:salt" });
  const plans = await Promise.all(
    [files.one, files.all].map((configFile) =>
      loadPlan(fromRuntimeConfig(readStackFile({ name: "bench", configFile }).values)),
    ),
  );
  expect(plans.map(({ platform, models }) => [platform, models.length])).toEqual([
    ["kubernetes", 1],
    ["kubernetes", 50],
  ]);
  expect(readFileSync(files.all, "utf8")).toMatch(/^encryptionsalt: v1:salt$/m);
});

const directory = mkdtempSync(join(tmpdir(), "engine-room-bench-server-"));

afterAll(() => rmSync(directory, { recursive: true }));

async function start(script: (port: number) => string, readySeconds = 100) {
  const port = await freePort();
  const readyUrl = `http://127.0.0.1:${port}/`;
  const command = [process.execPath, "-e", script(port)] as const;
  return {
    readyUrl,
    server: startServer({ name: "It", command, log: join(directory, `${port}`), readyUrl, readySeconds }),
  };
}

const answering = (status: number) => (port: number) =>
  `require("node:http").createServer((_, reply) => reply.writeHead(${status}).end()).listen(${port}, "127.0.0.1")`;

test("a benchmark's server answers once it is ready, and is gone when it is stopped", async () => {
  const { readyUrl, server } = await start(answering(200));
  const { stop } = await server;
  expect((await fetch(readyUrl)).status).toBe(200);
  await stop();
  await expect(fetch(readyUrl)).rejects.toThrow("fetch failed");
});

test("a benchmark's server that ends before it is ready is reported with its last lines", async () => {
  const { server } = await start(() => `console.error("no such model"); process.exit(7)`);
  await expect(server).rejects.toThrow("It ended (7) before it was ready:\nno such model");
});

test("a benchmark's server whose program is missing is reported", async () => {
  const command = [join(directory, "absent")] as const;
  const readyUrl = `http://127.0.0.1:${await freePort()}/`;
  await expect(startServer({ name: "It", command, readyUrl, readySeconds: 100 })).rejects.toThrow(/ENOENT/);
});

test("a benchmark's server that is never ready is stopped", async () => {
  const { readyUrl, server } = await start(answering(503), 0.5);
  await expect(server).rejects.toThrow("It was not ready after 0.5 s.");
  await expect(fetch(readyUrl)).rejects.toThrow("fetch failed");
});

const MEASURED = {
  readers: 8,
  files: 4,
  bytes: 2 ** 30,
  pairs: [
    { copySeconds: 1, ddSeconds: 2 },
    { copySeconds: 2, ddSeconds: 1 },
    { copySeconds: 4, ddSeconds: 4.8 },
  ],
};

test("the ratio of a copy is that of throughputs, pair by pair", () => {
  const figures = engineCopyFigures(MEASURED);
  expect([figures.medianRatio, figures.leastRatio, figures.quickestRatio]).toEqual([1.2, 0.5, 1]);
  expect(figures.copyMegabytesPerSecond).toBeCloseTo(2 ** 30 / 2e6);
  expect(figures.ddMegabytesPerSecond).toBeCloseTo(2 ** 30 / 2e6);
  expect(engineCopyText(figures)).toMatch(
    /1\.00 GiB, 8 readers, 3 pairs: .* median ratio 1\.20, least 0\.50; .* ratio 1\.00$/,
  );
});

test("a copy is not measured in memory", async () => {
  const write = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  await expect(main(["engine-copy", "--directory", "/dev/shm"])).resolves.toBe(1);
  expect(write.mock.calls.flat().join("")).toContain("/dev/shm is in memory");
});

test("the benchmark's stacks plan exactly the requested models, at most 64 each", () => {
  const stacks = stackFiles(130).map(parseConfig);
  const results = stacks.map((config) => planStack(config));
  expect(stacks.map(({ models }) => models.length)).toEqual([64, 64, 2]);
  expect(results.flatMap(({ problems }) => problems)).toEqual([]);
  const keys = results.flatMap(({ plan }) =>
    plan === null || plan.tier === "cpu" ? [] : plan.models.map(({ engine }) => engine?.key),
  );
  expect(new Set(keys).size).toBeGreaterThan(80);
});

test("an unknown benchmark is refused with the names of all", async () => {
  const write = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  await expect(main(["plans"])).resolves.toBe(1);
  expect(write.mock.calls.flat().join("")).toBe(
    'Unknown benchmark "plans": batching, diff, engine-copy, gateway, plan, preview, retrieval, slow-clients, unchanged, vectors.\n',
  );
});
