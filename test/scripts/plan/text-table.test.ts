import { afterEach, describe, expect, test, vi } from "vitest";
import { duration, figure, paragraph, textTable, wrapText } from "../../../scripts/plan/text-table.ts";

afterEach(() => vi.unstubAllEnvs());

describe("a table", () => {
  const columns = [{ title: "NAME" }, { title: "GiB", align: "right" }, { title: "HOW" }] as const;

  test("has columns as wide as their cells, and no spaces at line ends", () => {
    expect(
      textTable(columns, [
        ["weights", "12.55", "two bytes each"],
        ["pool", "0.3", ""],
      ]),
    ).toEqual(["  NAME       GiB  HOW", "  weights  12.55  two bytes each", "  pool       0.3"]);
  });

  test("wraps its last column below itself", () => {
    expect(textTable(columns, [["pool", "0.3", "one two three four five six"]], { width: 38 })).toEqual([
      "  NAME  GiB  HOW",
      "  pool  0.3  one two three four five",
      "             six",
    ]);
  });

  test("takes missing cells for empty ones", () => {
    expect(textTable(columns, [["sum"]])).toEqual(["  NAME  GiB  HOW", "  sum"]);
  });
});

describe("text", () => {
  test("breaks at spaces only, and leaves a longer word whole", () => {
    expect(wrapText("a bc def a-very-long-word x", 6)).toEqual(["a bc", "def", "a-very-long-word", "x"]);
    expect(wrapText("", 6)).toEqual([""]);
  });

  test.each([
    ["the terminal's columns", { COLUMNS: "72" }, 72],
    ["no less than a table needs", { COLUMNS: "20" }, 60],
    ["no more than one can read", { COLUMNS: "400" }, 120],
    ["80 without a terminal", { COLUMNS: undefined }, 80],
  ])("keeps to %s", async (_what, { COLUMNS }, columns) => {
    vi.stubEnv("COLUMNS", COLUMNS);
    vi.resetModules();
    const fresh = await import("../../../scripts/plan/text-table.ts");
    expect(fresh.PAGE_COLUMNS).toBe(columns);
    const lines = fresh.paragraph("word ".repeat(60).trimEnd());
    expect(Math.max(...lines.map((line) => line.length))).toBeGreaterThan(columns - 6);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(columns);
  });

  test("keeps to the page with its margin", () => {
    const lines = paragraph("word ".repeat(60).trimEnd(), 4);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(100);
    expect(lines.every((line) => line.startsWith("    word"))).toBe(true);
  });
});

describe("figures", () => {
  test("are grouped by thousands, the same in every locale", () => {
    expect([figure(1234567.891, 2), figure(999, 0), figure(0.5, 3), figure(-1234.5, 1)]).toEqual([
      "1,234,567.89",
      "999",
      "0.500",
      "-1,234.5",
    ]);
  });

  test("of time get coarser as they grow", () => {
    expect([0, 45, 89.6, 90, 1500, 5400, 7200, 7500].map(duration)).toEqual([
      "0 s",
      "45 s",
      "90 s",
      "2 min",
      "25 min",
      "1 h 30 min",
      "2 h",
      "2 h 5 min",
    ]);
  });
});
