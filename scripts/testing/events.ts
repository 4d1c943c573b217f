/** Events of running test runners: a JSON object a line of a file, which `npm test` reads as it grows. */
import { closeSync, openSync, readSync } from "node:fs";
import { StringDecoder } from "node:string_decoder";

export interface TestResult {
  /** Title of the test with its groups; empty if the file itself could not run. */
  readonly title: string;
  readonly state: "passed" | "failed" | "skipped";
  /** Reason for a failure or skip, the first line; empty without a reason. */
  readonly reason: string;
}

export interface FileResult {
  /** Relative to the project. */
  readonly file: string;
  readonly seconds: number;
  readonly tests: readonly TestResult[];
}

export type TestEvent =
  /** Number of files to run. */
  | { readonly files: number }
  /** Line about progress. */
  | { readonly line: string }
  | FileResult;

/** Returns the lines since the last call, complete lines only. */
export class LineReader {
  readonly #path: string;
  readonly #decoder = new StringDecoder("utf8");
  #position = 0;
  #rest = "";

  /** @param path - Path of a file that may not exist yet. */
  constructor(path: string) {
    this.#path = path;
  }

  read(): readonly string[] {
    const lines = (this.#rest + this.#newText()).split("\n");
    this.#rest = lines.pop() ?? "";
    return lines;
  }

  #newText(): string {
    let file: number;
    try {
      file = openSync(this.#path, "r");
    } catch {
      return "";
    }
    try {
      const buffer = Buffer.alloc(64 * 1024);
      let text = "";
      for (;;) {
        const bytes = readSync(file, buffer, 0, buffer.length, this.#position);
        if (bytes === 0) return text;
        this.#position += bytes;
        text += this.#decoder.write(buffer.subarray(0, bytes));
      }
    } finally {
      closeSync(file);
    }
  }
}

/** Of pytest-reportlog 1.0: https://github.com/pytest-dev/pytest-reportlog */
interface ReportLogLine {
  readonly $report_type: string;
  readonly nodeid?: string;
  readonly when?: "setup" | "call" | "teardown" | "collect";
  readonly outcome?: "passed" | "failed" | "skipped";
  readonly duration?: number;
  readonly longrepr?:
    | null
    | string
    | readonly [path: string, line: number, reason: string]
    | { readonly reprcrash?: { readonly message?: string } | null };
  readonly result?: readonly { readonly nodeid: string; readonly type: string }[] | null;
}

/** Translates output of pytest-reportlog, line by line. */
export class PytestLog {
  readonly #folder: string;
  readonly #found = new Set<string>();
  #saidFiles = false;
  #current: { readonly file: string; seconds: number; readonly tests: Map<string, TestResult> } | undefined;

  /** @param folder - Folder in which pytest runs, relative to the project. */
  constructor(folder: string) {
    this.#folder = folder;
  }

  events(text: string): readonly TestEvent[] {
    const line = JSON.parse(text) as ReportLogLine;
    if (line.$report_type === "CollectReport") return this.#collected(line);
    if (line.$report_type === "TestReport") return this.#tested(line);
    return line.$report_type === "SessionFinish" ? this.#finished() : [];
  }

  #collected({ nodeid = "", outcome, longrepr, result }: ReportLogLine): readonly TestEvent[] {
    for (const { nodeid: found } of result ?? []) if (found.includes(".py")) this.#found.add(fileOf(found));
    if (outcome !== "failed") return [];
    const failed: TestResult = { title: "", state: "failed", reason: reasonOf(longrepr) };
    return [{ file: this.#path(fileOf(nodeid)), seconds: 0, tests: [failed] }];
  }

  #tested({ nodeid = "", when, outcome, duration = 0, longrepr }: ReportLogLine): readonly TestEvent[] {
    const file = fileOf(nodeid);
    const events: TestEvent[] = this.#saidFiles ? [] : [{ files: this.#found.size }];
    this.#saidFiles = true;
    if (this.#current?.file !== file) {
      events.push(...this.#finished());
      this.#current = { file, seconds: 0, tests: new Map() };
    }
    this.#current.seconds += duration;
    // Setup and teardown count if they skip or fail the test.
    if (when === "call" || outcome !== "passed")
      this.#current.tests.set(nodeid, {
        title: nodeid.slice(file.length + "::".length),
        state: outcome ?? "failed",
        reason: outcome === "passed" ? "" : reasonOf(longrepr),
      });
    return events;
  }

  #finished(): readonly TestEvent[] {
    if (this.#current === undefined) return [];
    const { file, seconds, tests } = this.#current;
    this.#current = undefined;
    return [{ file: this.#path(file), seconds, tests: [...tests.values()] }];
  }

  #path(file: string): string {
    return `${this.#folder}/${file}`;
  }
}

const fileOf = (nodeid: string) => nodeid.split("::", 1)[0] ?? "";

function reasonOf(longrepr: ReportLogLine["longrepr"]): string {
  if (longrepr === undefined || longrepr === null) return "";
  if (typeof longrepr === "string") return firstLine(longrepr);
  if ("reprcrash" in longrepr) return firstLine(longrepr.reprcrash?.message ?? "");
  return "2" in longrepr ? firstLine(longrepr[2]).replace(/^Skipped: /, "") : "";
}

/** Skips empty lines at the beginning. */
export function firstLine(text: string): string {
  return text.trim().split("\n", 1)[0] ?? "";
}
