/** `npm test` follows its runners by the events that they write. */
import { spawnSync } from "node:child_process";
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { LineReader, PytestLog } from "../../../scripts/testing/events.ts";
import { hasFailures, summaryText } from "../../../scripts/testing/progress.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "engine-room-events-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

test("this project's Vitest reports each file with its tests, their reasons, failed hooks, and files that can't be read", () => {
  const files = {
    "a.test.mjs": `
      test("a sum holds", () => {});
      test("a GPU is used", (context) => context.skip("no GPU here"));
      describe("a cluster", { skip: true, meta: { skipped: "no Go on PATH" } }, () => { test("starts", () => {}); });
      describe("a server", () => { beforeAll(() => { throw new Error("no port"); }); test("answers", () => {}); });
      describe("a sum", () => { test("is right", () => { expect(1 + 1).toBe(3); }); });`,
    "b.test.mjs": `throw new Error("no such port");`,
  };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(directory, name), text);
  const path = join(directory, "events");
  const reporter = `--reporter=${join(projectRoot, "scripts/testing/vitest-reporter.ts")}`;
  const args = ["run", "--globals", "--no-file-parallelism", "--root", directory, reporter];
  const { status } = spawnSync(join(projectRoot, "node_modules/.bin/vitest"), args, {
    cwd: directory,
    env: { ...process.env, ENGINE_ROOM_TEST_EVENTS: path },
  });
  expect(status).toBe(1);
  const seconds = expect.any(Number);
  const lines = readFileSync(path, "utf8").trim().split("\n");
  const events = lines.map((line) => JSON.parse(line) as { readonly file?: string });
  expect(events.toSorted((a, b) => String(a.file).localeCompare(String(b.file)))).toEqual([
    {
      file: "a.test.mjs",
      seconds,
      tests: [
        { title: "a server", state: "failed", reason: "no port" },
        { title: "a sum holds", state: "passed", reason: "" },
        { title: "a GPU is used", state: "skipped", reason: "no GPU here" },
        { title: "a cluster > starts", state: "skipped", reason: "no Go on PATH" },
        { title: "a server > answers", state: "skipped", reason: "" },
        {
          title: "a sum > is right",
          state: "failed",
          reason: "expected 2 to be 3 // Object.is equality",
        },
      ],
    },
    { file: "b.test.mjs", seconds, tests: [{ title: "", state: "failed", reason: "no such port" }] },
    { files: 2 },
  ]);
});

test("lines of pytest-reportlog become results by file: fixtures that fail, skipped tests, files that can't be read", () => {
  const log = new PytestLog("containers/python");
  const test = (nodeid: string, when: string, outcome: string, longrepr: unknown = null) => ({
    $report_type: "TestReport",
    nodeid,
    when,
    outcome,
    longrepr,
    duration: 0.25,
  });
  const crash = (message: string) => ({ reprcrash: { message } });
  const lines = [
    { pytest_version: "9.2.0", $report_type: "SessionStart" },
    {
      $report_type: "CollectReport",
      nodeid: "tests/test_c.py",
      outcome: "failed",
      longrepr: "E   no module named x\n",
      result: [],
    },
    {
      $report_type: "CollectReport",
      nodeid: "tests/test_a.py",
      outcome: "passed",
      longrepr: null,
      result: [{ nodeid: "tests/test_a.py::test_sum", type: "Function" }],
    },
    test("tests/test_a.py::test_sum", "setup", "passed"),
    test("tests/test_a.py::test_sum", "call", "failed", crash("AssertionError: 2\nassert 2 == 3")),
    test("tests/test_a.py::test_sum", "teardown", "passed"),
    test("tests/test_a.py::test_gpu[a]", "setup", "skipped", ["a.py", 7, "Skipped: no GPU here"]),
    test("tests/test_a.py::test_gpu[a]", "teardown", "passed"),
    test("tests/test_b.py::test_port", "setup", "failed", crash("OSError: in use")),
    { $report_type: "SessionFinish", exitstatus: 1 },
  ];
  expect(lines.flatMap((line) => log.events(JSON.stringify(line)))).toEqual([
    {
      file: "containers/python/tests/test_c.py",
      seconds: 0,
      tests: [{ title: "", state: "failed", reason: "E   no module named x" }],
    },
    { files: 1 },
    {
      file: "containers/python/tests/test_a.py",
      seconds: 1.25,
      tests: [
        { title: "test_sum", state: "failed", reason: "AssertionError: 2" },
        { title: "test_gpu[a]", state: "skipped", reason: "no GPU here" },
      ],
    },
    {
      file: "containers/python/tests/test_b.py",
      seconds: 0.25,
      tests: [{ title: "test_port", state: "failed", reason: "OSError: in use" }],
    },
  ]);
});

test("a growing file is read in complete lines, also if a character is cut in two", () => {
  const path = join(directory, "events");
  const reader = new LineReader(path);
  expect(reader.read()).toEqual([]);
  const [first = 0, ...rest] = Buffer.from("é\nb\nc");
  writeFileSync(path, Buffer.from([first]));
  expect(reader.read()).toEqual([]);
  appendFileSync(path, Buffer.from(rest));
  expect(reader.read()).toEqual(["é", "b"]);
  appendFileSync(path, "\n");
  expect(reader.read()).toEqual(["c"]);
});

test("the summary has the slowest files, skipped tests by reason, failures by title, and the sum as its last line", () => {
  const skipped = (reason: string) => ({ title: "a stack comes up", state: "skipped", reason }) as const;
  const unit = {
    name: "unit",
    seconds: 3,
    output: "",
    files: [
      { file: "test/quick.test.ts", seconds: 0.25, tests: [skipped("no Pulumi CLI on PATH")] },
      {
        file: "test/slow.test.ts",
        seconds: 2.5,
        tests: [
          skipped("no Pulumi CLI on PATH"),
          { title: "a sum > is right", state: "failed", reason: "expected 2 to be 3" },
          { title: "a sum > is kept", state: "passed", reason: "" },
        ],
      },
    ],
  } as const;
  expect(hasFailures([unit])).toBe(true);
  expect(hasFailures([{ ...unit, files: unit.files.slice(0, 1) }])).toBe(false);
  expect(summaryText([unit])).toBe(`
  SECONDS  TESTS  SLOWEST FILES
      2.5      3  test/slow.test.ts
      0.3      1  test/quick.test.ts

  SKIPPED  SUITE  REASON
        2  unit   no Pulumi CLI on PATH

FAILED unit: test/slow.test.ts > a sum > is right: expected 2 to be 3

1 passed, 1 failed, 2 skipped
`);
});
