/** Waits until a started program answers, notices when it never will, and quotes its log. */
import { readFile, stat } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import type { HandlerContext } from "./contract.ts";
import { fromRoot, orWhenMissing } from "./files.ts";
import type { Ports, ProcessInputs } from "./inputs.ts";
import { fillPlaceholders, launchesFile, logFile } from "./process-files.ts";
import { type ProgramInfo, programs } from "./supervisor.ts";

const POLL_MILLISECONDS = 100;
const REQUEST_TIMEOUT_MILLISECONDS = 3000;
const REPORT_EVERY_SECONDS = 10;
/** Two restarts repair a port that was taken for a moment; a third failure has another reason. */
const MOST_FAILED_STARTS = 3;

/** Ends when the URL answers 200. Throws one sentence, without the log, where it won't or does not in time. */
export async function waitUntilReady(
  { stackDirectory, name, ready }: ProcessInputs,
  ports: Ports,
  context: HandlerContext,
): Promise<void> {
  const url = fillPlaceholders(ready.url, ports);
  const begin = performance.now();
  let nextReportSeconds = REPORT_EVERY_SECONDS;
  for (;;) {
    const status = await probe(url);
    const info = (await programs(stackDirectory))?.find((program) => program.name === name);
    const failure = startFailure(info, await fileBytes(launchesFile(stackDirectory, name)));
    if (failure !== undefined) throw new Error(`${name} ${failure}`);
    if (status === 200 && (info?.statename === "STARTING" || info?.statename === "RUNNING")) return;

    const seconds = (performance.now() - begin) / 1000;
    if (seconds > ready.timeoutSeconds)
      throw new Error(
        `${name} was not ready within ${ready.timeoutSeconds} s: ${url} ${status === undefined ? "did not answer" : `answered ${status}`}`,
      );
    if (seconds > nextReportSeconds) {
      context.report(`waiting for ${url}`);
      nextReportSeconds += REPORT_EVERY_SECONDS;
    }
    await sleep(POLL_MILLISECONDS, undefined, { ...(context.signal && { signal: context.signal }) });
  }
}

/** The failure of a start by supervisord's state of the program; undefined as long as it may succeed. */
export function startFailure(
  info: Pick<ProgramInfo, "statename" | "spawnerr"> | undefined,
  launches: number,
): string | undefined {
  switch (info?.statename) {
    case "FATAL":
      return `could not be started (${info.spawnerr})`;
    case "BACKOFF":
      return launches >= MOST_FAILED_STARTS ? `ended ${launches} times while it started` : undefined;
    case "STARTING":
    case "RUNNING":
    case "EXITED":
      return launches > MOST_FAILED_STARTS ? `ended ${launches - 1} times while it started` : undefined;
    default:
      return `was stopped while it started (${info?.statename ?? "supervisord no longer knows it"})`;
  }
}

/** The status; undefined where nothing answers. */
async function probe(url: string): Promise<number | undefined> {
  try {
    const response = await fetch(url, {
      redirect: "manual",
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MILLISECONDS),
    });
    await response.body?.cancel();
    return response.status;
  } catch {
    return undefined;
  }
}

const QUOTED_LINES = 8;
const LONGEST_LINE = 300;
const FAILURE_WORDS = /\b(error|exception|traceback|failed|fatal)\b/i;

/** Size in bytes; 0 where there is no such file. */
export async function fileBytes(path: string): Promise<number> {
  return (await stat(path).catch(orWhenMissing(undefined)))?.size ?? 0;
}

/**
 * The reason with lines of the process's log behind `fromByte`: the last that speak of a failure, else the last. A server
 * that gives up often prints a screen of tables after the reason.
 */
export async function withLog(
  reason: string,
  { stackDirectory, name }: ProcessInputs,
  fromByte: number,
): Promise<string> {
  const log = logFile(stackDirectory, name);
  const bytes = await readFile(fromRoot(log)).catch(orWhenMissing(Buffer.alloc(0)));
  // It was rotated since where it is shorter.
  const text = bytes.subarray(bytes.length < fromByte ? 0 : fromByte).toString();
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  if (lines.length === 0) return `${reason}; its log ${log} is empty.`;
  const telling = lines.filter((line) => FAILURE_WORDS.test(line));
  const quoted = (telling.length > 0 ? telling : lines)
    .slice(-QUOTED_LINES)
    .map((line) => (line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)}…` : line));
  return `${reason}; its log ${log} says:\n${quoted.join("\n")}`;
}
