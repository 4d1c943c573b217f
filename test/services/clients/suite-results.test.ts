/** Comparison of the official clients' suites: every test that differs from its expected outcome has a sentence. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { differences, judge, type Outcome } from "./suite-results.ts";
import { OPENAI, PYMONGO, QDRANT_CLIENT } from "./suites.ts";

const setUp = (nodeid: string) => ({ $report_type: "TestReport", nodeid, when: "setup", outcome: "passed" });
const called = (nodeid: string, outcome: string, longrepr?: unknown) => [
  setUp(nodeid),
  { $report_type: "TestReport", nodeid, when: "call", outcome, longrepr },
];
const failed = (nodeid: string, ...messages: string[]) =>
  called(nodeid, "failed", { chain: messages.map((message) => [{}, { message }, null]) });
const END = { $report_type: "SessionFinish" };

const NO_COMMAND =
  "pymongo.errors.OperationFailure: no such command: 'distinct', full error: " +
  `{'ok': 0.0, 'errmsg': "no such command: 'distinct'", 'code': 59, 'codeName': 'CommandNotFound'}`;
const HANG = "Failed: Timeout (>60.0s) from pytest-timeout.";

const judged = (...lines: object[]) =>
  judge(lines.map((line) => `${JSON.stringify(line)}\n`).join(""), PYMONGO.refusal);

const KNOWN: Outcome = {
  passed: ["a.py::passes"],
  refused: { "59: no such command: 'distinct'": ["a.py::is_refused"] },
  skipped: { "no replica set": 1 },
};
const SKIPPED = called("a.py::skipped", "skipped", ["a.py", 1, "Skipped: no replica set"]);

test("a suite with the recorded outcome has no differences", () => {
  const judgement = judged(
    ...called("a.py::passes", "passed"),
    ...failed("a.py::is_refused", NO_COMMAND, "AssertionError: 59 != 11000"),
    ...SKIPPED,
    END,
  );
  expect(judgement).toEqual({ outcome: KNOWN, wrong: [] });
  expect(differences(KNOWN, judgement)).toEqual([]);
});

test.each([
  [
    "starts to pass",
    [...called("a.py::passes", "passed"), ...called("a.py::is_refused", "passed"), ...SKIPPED, END],
    [`a.py::is_refused was refused with "59: no such command: 'distinct'", and is passed`],
  ],
  [
    "gives a wrong answer, and another hangs",
    [
      ...failed("a.py::passes", "AssertionError: 1 != 2"),
      ...failed("a.py::is_refused", HANG),
      ...SKIPPED,
      END,
    ],
    [
      "a.py::passes failed without a refusal: AssertionError: 1 != 2",
      `a.py::is_refused failed without a refusal: ${HANG}`,
    ],
  ],
  [
    "is skipped, and another is refused with other words",
    [
      ...called("a.py::passes", "skipped", ["a.py", 1, "Skipped: no replica set"]),
      ...failed("a.py::is_refused", NO_COMMAND.replaceAll("distinct", "count")),
      ...SKIPPED,
      END,
    ],
    [
      "a.py::passes was passed, and is not run",
      `a.py::is_refused was refused with "59: no such command: 'distinct'", and is refused with "59: no such command: 'count'"`,
      'The suite skipped 1 tests, and skips 2, with "no replica set"',
    ],
  ],
  [
    "ends pytest",
    [...failed("a.py::is_refused", NO_COMMAND), ...SKIPPED, setUp("a.py::passes")],
    ["a.py::passes ended pytest itself", "pytest did not come to its end"],
  ],
])("a test that %s is named in a sentence", (_what, lines, sentences) => {
  expect(differences(KNOWN, judged(...lines))).toEqual(sentences);
});

test.each([
  [PYMONGO, NO_COMMAND, "59: no such command: 'distinct'"],
  [
    PYMONGO,
    "BulkWriteError: batch op errors occurred, full error: {'writeErrors': [{'index': 0, 'code': 238, 'errmsg': 'Updates with a pipeline are not supported by this server'}]}",
    "238: Updates with a pipeline are not supported by this server",
  ],
  [PYMONGO, "{'ok': 0.0, 'errmsg': 'E11000 duplicate key', 'code': 11000}", undefined],
  [
    QDRANT_CLIENT,
    `Unexpected Response: 404 (Not Found)\nRaw response content:\nb'{"status":{"error":"PUT /x is not supported by this server"},"time":0}'`,
    "404: PUT /x is not supported by this server",
  ],
  [QDRANT_CLIENT, "Unexpected Response: 500 (Internal Server Error)", undefined],
  [
    OPENAI,
    "openai.NotFoundError: Error code: 404 - There is no GET /v1/files",
    "404: There is no GET /v1/files",
  ],
  [OPENAI, "openai.InternalServerError: Error code: 500 - It failed", undefined],
] as const)("the refusal is the server's own error: %#", ({ refusal }, failure, words) => {
  expect(refusal(failure)).toBe(words);
});

test.each([PYMONGO, QDRANT_CLIENT, OPENAI])(
  "$client's tests are those of the version that is locked",
  (suite) => {
    const locked = readFileSync(join(import.meta.dirname, "requirements.lock"), "utf8");
    expect(locked).toContain(`\n${suite.client}==${suite.version} `);
  },
);
