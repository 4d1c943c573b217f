/** Output of `npm test`: progress of each suite while it runs, its result when it ends, and tables at the end. */
import { PAGE_COLUMNS, textTable } from "../plan/text-table.ts";
import type { FileResult, TestEvent, TestResult } from "./events.ts";
import type { SuiteName, SuiteResult } from "./suites.ts";

const SLOWEST_FILES = 10;

/** Interval at which the line on a terminal is written again. */
const REFRESH_MS = 500;

/**
 * A failure is printed at once; a terminal has one line that changes, and elsewhere each suite has one line when it
 * ends.
 */
export class Progress {
  readonly #out: NodeJS.WriteStream;
  readonly #running = new Map<SuiteName, { done: number; files: number }>();
  readonly #started = performance.now();
  readonly #timer: NodeJS.Timeout | undefined;
  #written = 0;

  constructor(out: NodeJS.WriteStream) {
    this.#out = out;
    if (out.isTTY) this.#timer = setInterval(() => this.#refresh(), REFRESH_MS);
  }

  event(suite: SuiteName, event: TestEvent): void {
    const state = this.#running.get(suite) ?? { done: 0, files: 0 };
    this.#running.set(suite, state);
    if ("line" in event) this.#print(`       ${suite}: ${event.line}\n`);
    else if ("files" in event) state.files += event.files;
    else {
      state.done += 1;
      for (const failure of failuresOf(event)) this.#print(`FAILED ${suite}: ${failure}\n`);
    }
  }

  /** Prints the output of runners only if something failed. */
  suiteEnded(result: SuiteResult): void {
    this.#running.delete(result.name);
    const hasFailed = result.files.some((file) => failuresOf(file).length > 0);
    if (hasFailed) this.#print(`\n== ${result.name}\n${result.output}\n`);
    this.#print(suiteLine(result));
  }

  close(): void {
    clearInterval(this.#timer);
    this.#clear();
  }

  #print(text: string): void {
    this.#clear();
    this.#out.write(text);
  }

  #refresh(): void {
    const suites = [...this.#running].map(
      ([name, { done, files }]) => `${name} ${done}/${Math.max(files, done)}`,
    );
    const line = `       ${clock(performance.now() - this.#started)}  files done: ${suites.join(", ")}`;
    this.#clear();
    // A wrapped line could not be overwritten.
    this.#out.write(line.slice(0, (this.#out.columns || PAGE_COLUMNS) - 1));
    this.#written = line.length;
  }

  #clear(): void {
    if (this.#written === 0) return;
    this.#out.clearLine(0);
    this.#out.cursorTo(0);
    this.#written = 0;
  }
}

/** Minutes and seconds: 1:05. */
function clock(milliseconds: number): string {
  const seconds = Math.floor(milliseconds / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

function suiteLine({ name, files, seconds }: SuiteResult): string {
  const counts = countsOf(files);
  const mark = counts.failed > 0 ? "FAILED" : "ok    ";
  return `${mark} ${name.padEnd(8)}  ${countsText(counts)} in ${seconds.toFixed(1)} s\n`;
}

/** Tables of the slowest files and of skipped tests, the failures again, and the sum as the last line. */
export function summaryText(results: readonly SuiteResult[]): string {
  const files = results.flatMap((result) => result.files);
  const failures = results.flatMap(({ name, files: own }) =>
    own.flatMap(failuresOf).map((failure) => `FAILED ${name}: ${failure}`),
  );
  const parts = [slowestTable(files), skippedTable(results), failures, [countsText(countsOf(files))]];
  return parts
    .filter((lines) => lines.length > 0)
    .map((lines) => `\n${lines.join("\n")}\n`)
    .join("");
}

export function hasFailures(results: readonly SuiteResult[]): boolean {
  return countsOf(results.flatMap(({ files }) => files)).failed > 0;
}

function slowestTable(files: readonly FileResult[]): readonly string[] {
  const slowest = files.toSorted((a, b) => b.seconds - a.seconds).slice(0, SLOWEST_FILES);
  const rows = slowest.map(({ file, seconds, tests }) => [seconds.toFixed(1), String(tests.length), file]);
  return textTable([">SECONDS", ">TESTS", "SLOWEST FILES"], rows);
}

function skippedTable(results: readonly SuiteResult[]): readonly string[] {
  const counts = new Map<string, { readonly suite: string; readonly reason: string; tests: number }>();
  for (const { name: suite, files } of results)
    for (const { state, reason } of files.flatMap(({ tests }) => tests)) {
      if (state !== "skipped") continue;
      const key = `${suite} ${reason}`;
      const row = counts.get(key) ?? { suite, reason, tests: 0 };
      row.tests += 1;
      counts.set(key, row);
    }
  if (counts.size === 0) return [];
  const rows = [...counts.values()].map(({ suite, reason, tests }) => [
    String(tests),
    suite,
    reason === "" ? "no reason given" : reason,
  ]);
  return textTable([">SKIPPED", "SUITE", "REASON"], rows);
}

type Counts = Readonly<Record<TestResult["state"], number>>;

function countsOf(files: readonly FileResult[]): Counts {
  const counts = { passed: 0, failed: 0, skipped: 0 };
  for (const { state } of files.flatMap(({ tests }) => tests)) counts[state] += 1;
  return counts;
}

function countsText({ passed, failed, skipped }: Counts): string {
  return `${passed} passed, ${failed} failed, ${skipped} skipped`;
}

/** Returns `file > title: reason` for each failed test. */
function failuresOf({ file, tests }: FileResult): readonly string[] {
  return tests
    .filter(({ state }) => state === "failed")
    .map(({ title, reason }) =>
      [[file, title].filter(Boolean).join(" > "), reason].filter(Boolean).join(": "),
    );
}
