import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { fromRuntimeConfig } from "../../../infra/config/config.ts";
import { loadPlan } from "../../../infra/load-plan.ts";
import {
  modelPreviewFigures,
  modelPreviewText,
  type PreviewRound,
  stackPreviewFigures,
  stackPreviewText,
  writeStackFiles,
} from "../../../scripts/bench/model-preview.ts";
import { projectName, readStackFile } from "../../../scripts/program/stack-file.ts";

function round(empty: number, one: number, all: number, hasCpu = true): PreviewRound {
  const cost = (wallSeconds: number) => ({ wallSeconds, cpuSeconds: hasCpu ? 2 * wallSeconds : null });
  return { empty: cost(empty), one: cost(one), all: cost(all) };
}

test("differences are taken round by round, and divided by the models that make them", () => {
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

test("a system that does not say CPU time has none", () => {
  const figures = modelPreviewFigures(2, [round(1, 2, 3, false)]);
  expect(figures.cpu).toBeNull();
  expect(modelPreviewText("in one process", figures)).not.toContain("CPU");
});

test("a stack's ratio is the median of the rounds' own, whatever the machine did in one of them", () => {
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

test("the stack files have one model and fifty, in a cluster, and plan; members besides the configuration stay", async () => {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-preview-test-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const files = writeStackFiles(folder, { encryptionsalt: "v1:salt" });
  const plans = await Promise.all(
    [files.one, files.all].map((configFile) =>
      loadPlan(fromRuntimeConfig(readStackFile({ name: "bench", configFile }).values, projectName())),
    ),
  );
  expect(plans.map(({ platform, models }) => [platform, models.length])).toEqual([
    ["kubernetes", 1],
    ["kubernetes", 50],
  ]);
  expect(readFileSync(files.all, "utf8")).toMatch(/^encryptionsalt: v1:salt$/m);
});
