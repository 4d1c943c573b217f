import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { runCheck, SKIP_REASONS, Skipped } from "../../../scripts/verify/check.ts";
import { holdsOne } from "../../../scripts/verify/language-model.ts";
import { parsePage } from "../../../scripts/verify/metric-names.ts";
import { comparison, startSeconds } from "../../../scripts/verify/times.ts";
import { dot, maxDifference, nearestTexts } from "../../../scripts/verify/vectors.ts";

describe("a page of Prometheus", () => {
  test("is read series by series", () => {
    const page = [
      "# HELP nv_inference_count Number of inferences",
      "# TYPE nv_inference_count counter",
      'nv_inference_count{model="ensemble",version="1"} 12',
      'odd{text="a \\"b\\", {c}=\\"d\\""} 1.5e+3 1700000000',
      "nv_cpu_utilization 0.25",
      "nv_gpu_power_usage NaN",
      "",
      "not a line",
    ].join("\n");
    expect(parsePage(page)).toEqual([
      { name: "nv_inference_count", labels: { model: "ensemble", version: "1" } },
      { name: "odd", labels: { text: 'a \\"b\\", {c}=\\"d\\"' } },
      { name: "nv_cpu_utilization", labels: {} },
      { name: "nv_gpu_power_usage", labels: {} },
    ]);
  });
});

describe("vectors", () => {
  test("dot and nearest", () => {
    expect(dot([0.6, 0.8], [0.8, 0.6])).toBeCloseTo(0.96);
    expect(
      nearestTexts(
        [
          [0, 1],
          [1, 0],
        ],
        [
          [0.9, 0.1],
          [0.1, 0.9],
        ],
      ),
    ).toEqual([1, 0]);
  });

  test("a difference is found wherever it is", () => {
    const rows = fc.array(
      fc.array(fc.float({ noNaN: true, min: -1, max: 1 }), { minLength: 3, maxLength: 3 }),
      {
        minLength: 1,
      },
    );
    fc.assert(
      fc.property(rows, fc.nat(), fc.nat(2), (vectors, row, column) => {
        const other = vectors.map((vector) => [...vector]);
        const changed = other[row % other.length] ?? [];
        changed[column] = (changed[column] ?? 0) + 3;
        expect(maxDifference(vectors, vectors)).toBe(0);
        expect(maxDifference(vectors, other)).toBeCloseTo(3, 5);
      }),
    );
  });

  test("what is no number is no match", () => {
    expect(maxDifference([[1, Number.NaN]], [[1, 0]])).toBe(Infinity);
  });

  test("other shapes can't be compared", () => {
    expect(() => maxDifference([[1]], [[1, 2]])).toThrow(RangeError);
    expect(() => maxDifference([[1]], [])).toThrow("1 and 0 vectors");
    expect(() => dot([1], [1, 2])).toThrow(RangeError);
  });
});

describe("times", () => {
  const started = "2026-01-01T00:00:00.250000000Z";
  const serves = (time: string) => `${time} I0101 1 http_server.cc:4755] Started HTTPService at 0.0.0.0:8000`;

  test("of a start go to the first line that says so", () => {
    const log = `${started} loading\n${serves("2026-01-01T00:01:40.750000000Z")}\n${serves("2026-01-01T00:09:00Z")}\n`;
    expect(startSeconds(started, log)).toBe(100.5);
  });

  test("of a start whose line is gone, or is of an earlier one, are unknown", () => {
    expect(startSeconds(started, "2026-01-01T00:09:00Z a request\n")).toBeNull();
    expect(startSeconds(started, serves("2025-12-31T23:59:59Z"))).toBeNull();
    expect(startSeconds(started, "Started HTTPService at 0.0.0.0:8000")).toBeNull();
  });

  test("are compared where there is an estimate, and left out where nothing was done", () => {
    expect(comparison({ download: 0, llm: 90, requirements: 4 }, { download: 140, llm: 60 })).toEqual({
      text: "llm 90.0 s (1.50 × the estimate), requirements 4.0 s",
      figures: { llmSeconds: 90, llmRatio: 1.5, requirementsSeconds: 4 },
    });
  });
});

test("an answer holds a word whatever its case", () => {
  expect(holdsOne("It is PARIS.", { answerContains: ["London", "paris"] })).toBe(true);
  expect(holdsOne("It is Rome.", { answerContains: ["London", "paris"] })).toBe(false);
});

describe("a check", () => {
  const run = (work: () => Promise<{ text: string; figures?: Record<string, number> }>) =>
    runCheck({ name: "start", level: "gpu", run: work });

  test("that passes has its figures, to four digits", async () => {
    expect(await run(async () => ({ text: "fine", figures: { startSeconds: 12.345678 } }))).toEqual({
      record: { name: "start", level: "gpu", outcome: "passed", figures: { startSeconds: 12.35 } },
      text: "fine",
    });
  });

  test("that has nothing to look at says why", async () => {
    const { record, text } = await run(async () => {
      throw new Skipped("noEngine");
    });
    expect(record).toMatchObject({ outcome: "skipped", reason: "noEngine" });
    expect(text).toBe(SKIP_REASONS.noEngine);
  });

  test("that fails keeps its words for people", async () => {
    const { record, text } = await run(() => {
      throw new Error("fetch failed", { cause: new Error("connect ECONNREFUSED 10.0.0.1:8000") });
    });
    expect(record).toEqual({ name: "start", level: "gpu", outcome: "failed", figures: {} });
    expect(text).toBe("fetch failed: connect ECONNREFUSED 10.0.0.1:8000");
  });
});
