/** Waits until a started program answers, and notices when it never will. */
import { setTimeout as sleep } from "node:timers/promises";
import type { HandlerContext } from "./contract.ts";
import { fileBytes } from "./log-tail.ts";
import type { ProgramInfo, SupervisorClient } from "./supervisor-client.ts";
import { launchesFile } from "./supervisor-layout.ts";

const POLL_MILLISECONDS = 100;
const REQUEST_TIMEOUT_MILLISECONDS = 3000;
const REPORT_EVERY_SECONDS = 10;
/** Two restarts may mend a port that was taken for a moment; what fails three times does not mend itself. */
const MOST_FAILED_STARTS = 3;

interface ReadinessTarget {
  readonly stackDirectory: string;
  readonly name: string;
  /** Without placeholders. */
  readonly url: string;
  readonly timeoutSeconds: number;
}

/** Ends when the URL answers 200. Throws one sentence, without the log, where it won't or does not in time. */
export async function waitUntilReady(
  target: ReadinessTarget,
  supervisor: SupervisorClient,
  context: HandlerContext,
): Promise<void> {
  const begin = performance.now();
  let nextReportSeconds = REPORT_EVERY_SECONDS;
  for (;;) {
    const answer = await probe(target.url);
    const info = (await supervisor.states()).programs.find((program) => program.name === target.name);
    const launches = await fileBytes(launchesFile(target.stackDirectory, target.name));
    const failure = startFailure(info, launches);
    if (failure !== undefined) throw new Error(`${target.name} ${failure}`);
    if (answer === "200" && isAlive(info)) return;

    const seconds = (performance.now() - begin) / 1000;
    if (seconds > target.timeoutSeconds)
      throw new Error(
        `${target.name} was not ready within ${target.timeoutSeconds} s: ${target.url} ${answer === undefined ? "did not answer" : `answered ${answer}`}`,
      );
    if (seconds > nextReportSeconds) {
      context.report(`waiting for ${target.url}`);
      nextReportSeconds += REPORT_EVERY_SECONDS;
    }
    await sleep(POLL_MILLISECONDS, undefined, { ...(context.signal && { signal: context.signal }) });
  }
}

/** What supervisord's state says about a program that should be starting; undefined as long as there is hope. */
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

function isAlive(info: ProgramInfo | undefined): boolean {
  return info?.statename === "STARTING" || info?.statename === "RUNNING";
}

/** The status as text; undefined where nothing answers. */
async function probe(url: string): Promise<string | undefined> {
  try {
    const response = await fetch(url, {
      redirect: "manual",
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MILLISECONDS),
    });
    await response.body?.cancel();
    return String(response.status);
  } catch {
    return undefined;
  }
}
