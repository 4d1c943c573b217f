/** What the test runners report, counted, with what failed by name. */
import { readFileSync } from "node:fs";
import { relative } from "node:path";

export interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** `file > test: first line of the reason` of each that failed, where the report names them. */
  readonly failures: readonly string[];
}

interface VitestReport {
  readonly numPassedTests?: number;
  readonly numFailedTests?: number;
  readonly numPendingTests?: number;
  readonly testResults?: readonly {
    /** Absolute path of the file. */
    readonly name: string;
    readonly status: string;
    /** Why the file itself could not run. */
    readonly message?: string;
    readonly assertionResults: readonly {
      readonly fullName: string;
      readonly status: string;
      readonly failureMessages?: readonly string[];
    }[];
  }[];
}

const NO_REPORT: Counts = { passed: 0, failed: 1, skipped: 0, failures: ["the runner left no report"] };

/**
 * @param report - Path of what Vitest's JSON reporter wrote.
 * @param code - How the runner exited.
 * @param root - What the files are named from.
 * @returns A file that could not be read, and a report that is missing, as one failure each.
 */
export function countVitest(report: string, code: number, root: string): Counts {
  const text = readReport(report);
  if (text === undefined) return NO_REPORT;
  const read = JSON.parse(text) as VitestReport;
  const failures = (read.testResults ?? []).flatMap((file) => {
    const path = relative(root, file.name);
    const failed = file.assertionResults.filter((test) => test.status === "failed");
    if (failed.length === 0 && file.status === "failed") return [failure(path, [file.message ?? ""])];
    return failed.map((test) => failure(`${path} > ${test.fullName}`, test.failureMessages ?? []));
  });
  const { numPassedTests: passed = 0, numFailedTests = 0, numPendingTests: skipped = 0 } = read;
  // Vitest counts no test of a file that could not be read.
  const failed = Math.max(numFailedTests, failures.length);
  return atLeastOneFailure({ passed, failed, skipped, failures }, code);
}

/**
 * @param report - Path of what `pytest --junitxml` wrote.
 * @param code - How the runner exited.
 * @returns A report that is missing as one failure.
 */
export function countJunit(report: string, code: number): Counts {
  const text = readReport(report) ?? "";
  const suite = /<testsuite [^>]*>/.exec(text)?.[0];
  if (suite === undefined) return NO_REPORT;
  const number = (name: string) => Number(attribute(suite, name) ?? 0);
  const failed = number("failures") + number("errors");
  const skipped = number("skipped");
  const cases = [...text.matchAll(/(<testcase [^>]*[^/])><(?:failure|error)( message="[^"]*")?/g)];
  const failures = cases.map(([, test = "", reason = ""]) =>
    failure(`${attribute(test, "classname")} > ${attribute(test, "name")}`, [
      attribute(reason, "message") ?? "",
    ]),
  );
  return atLeastOneFailure({ passed: number("tests") - failed - skipped, failed, skipped, failures }, code);
}

/** @returns The counts of several runs as those of one. */
export function sumCounts(counts: readonly Counts[]): Counts {
  const total = (key: "passed" | "failed" | "skipped") => counts.reduce((all, one) => all + one[key], 0);
  return {
    passed: total("passed"),
    failed: total("failed"),
    skipped: total("skipped"),
    failures: counts.flatMap((one) => one.failures),
  };
}

function atLeastOneFailure(counts: Counts, code: number): Counts {
  if (code === 0 || counts.failed > 0) return counts;
  return { ...counts, failed: 1, failures: [...counts.failures, `the runner exited with ${code}`] };
}

function failure(name: string, reasons: readonly string[]): string {
  const reason = (reasons[0] ?? "").trim().split("\n", 1)[0] ?? "";
  return reason === "" ? name : `${name}: ${reason}`;
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&lt;": "<",
  "&gt;": ">",
  "&quot;": '"',
  "&apos;": "'",
  "&#10;": "\n",
  "&amp;": "&",
};

function attribute(element: string, name: string): string | undefined {
  const value = new RegExp(` ${name}="([^"]*)"`).exec(element)?.[1];
  return value?.replace(/&(?:lt|gt|quot|apos|amp|#10);/g, (entity) => ENTITIES[entity] ?? entity);
}

function readReport(report: string): string | undefined {
  try {
    return readFileSync(report, "utf8");
  } catch {
    return undefined;
  }
}
