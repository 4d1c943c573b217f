/** Suites are counted from their runners' reports, and name what failed at the end of what they print. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { countJunit, countVitest, sumCounts } from "../../../scripts/testing/reports.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "engine-room-reports-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

/** @returns What this project's own Vitest says of these files. */
function runVitest(files: Readonly<Record<string, string>>) {
  for (const [name, text] of Object.entries(files)) writeFileSync(join(directory, name), text);
  const report = join(directory, "report.json");
  const { status } = spawnSync(
    join(projectRoot, "node_modules/.bin/vitest"),
    ["run", "--globals", "--root", directory, "--reporter=json", `--outputFile=${report}`],
    { cwd: directory },
  );
  return countVitest(report, status ?? 1, directory);
}

test("Vitest's: passed, failed and skipped; what failed by file, test and first line of the reason", () => {
  const counts = runVitest({
    "a.test.mjs": `
      test("holds", () => {});
      test.skip("is not for here", () => {});
      describe("a sum", () => { test("is right", () => { expect(1 + 1).toBe(3); }); });`,
    "b.test.mjs": `throw new Error("no such port");`,
  });
  expect(counts).toEqual({
    passed: 1,
    failed: 2,
    skipped: 1,
    failures: [
      expect.stringMatching(/^a\.test\.mjs > a sum is right: AssertionError: expected 2 to be 3/),
      "b.test.mjs: no such port",
    ],
  });
});

// As pytest 8 writes it.
const JUNIT = `<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest" errors="1" failures="1" skipped="1" tests="5" time="0.016" timestamp="2026-01-01T00:00:00" hostname="host"><testcase classname="tests.test_a" name="test_holds" time="0.000" /><testcase classname="tests.test_a" name="test_sum[&quot;a&quot;]" time="0.000"><failure message="AssertionError: expected &lt;2&gt;&#10;assert 2 == 3">def test_sum():
&gt;       assert 1 + 1 == 3</failure></testcase><testcase classname="tests.test_a" name="test_gpu" time="0.000"><skipped type="pytest.skip" message="no GPU here">test_a.py:7</skipped></testcase><testcase classname="tests.test_b" name="test_port" time="0.000"><error message="failed on setup with &quot;OSError: in use&quot;">trace</error></testcase><testcase classname="tests.test_b" name="test_last" time="0.000" /></testsuite></testsuites>`;

test("pytest's: the same, errors of fixtures among the failures", () => {
  const report = join(directory, "junit.xml");
  writeFileSync(report, JUNIT);
  expect(countJunit(report, 1)).toEqual({
    passed: 2,
    failed: 2,
    skipped: 1,
    failures: [
      `tests.test_a > test_sum["a"]: AssertionError: expected <2>`,
      `tests.test_b > test_port: failed on setup with "OSError: in use"`,
    ],
  });
});

test("a runner that leaves no report, or fails without a failure, has failed", () => {
  const missing = join(directory, "missing");
  const none = { passed: 0, failed: 1, skipped: 0, failures: ["the runner left no report"] };
  expect(countVitest(missing, 0, directory)).toEqual(none);
  expect(countJunit(missing, 0)).toEqual(none);
  const report = join(directory, "report.json");
  writeFileSync(report, JSON.stringify({ numPassedTests: 3, testResults: [] }));
  const died = { passed: 3, failed: 1, skipped: 0, failures: ["the runner exited with 134"] };
  expect(countVitest(report, 134, directory)).toEqual(died);
  expect(sumCounts([died, none])).toEqual({
    passed: 3,
    failed: 2,
    skipped: 0,
    failures: ["the runner exited with 134", "the runner left no report"],
  });
});
