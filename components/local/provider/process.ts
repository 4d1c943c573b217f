/** `local:index:Process`: a program that supervisord keeps running, ready when its URL answers. */
import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { type HandlerContext, InitializationError, resourceHandler } from "./contract.ts";
import { exclusively, exists, fileBytes, fromRoot, orWhenMissing } from "./files.ts";
import { type Ports, type ProcessInputs, type ProcessOutputs, processInputs, SUPERVISORD } from "./inputs.ts";
import { choosePorts } from "./ports.ts";
import {
  fillPlaceholders,
  logFile,
  readRecord,
  recordDigest,
  recordedNames,
  removeProcessFiles,
  removeSupervisorFiles,
  startCount,
  writeProcess,
} from "./process-files.ts";
import {
  endOrphans,
  type ProgramInfo,
  programInfo,
  shutDownSupervisor,
  startProgram,
  startSupervisor,
  stopProgram,
} from "./supervisor.ts";

export const processHandler = resourceHandler<ProcessInputs, ProcessOutputs>({
  schema: processInputs,
  replaceOn: ["stackDirectory", "name"],
  idOf,

  // A preview of an update of this process then shows no change of the resources that use its ports.
  planned: {
    names: ["ports"],
    from: ["stackDirectory", "name", "requestedPorts"],
    async choose(wanted, olds) {
      const record = await readRecord(wanted.stackDirectory, wanted.name);
      const previous = { ...olds.ports, ...record?.ports };
      const { ports, taken } = await choosePorts(wanted, previous, { running: true });
      const failures = Object.entries(taken).map(([portName, reason]) => ({
        property: z.core.toDotPath(["requestedPorts", portName]),
        reason,
      }));
      return { outputs: { ports }, failures };
    },
  },

  /** Stops the process if it runs, starts it and waits until it is ready. */
  async bring(wanted, { ports: oldPorts = {} }, context) {
    const { stackDirectory, name, python } = wanted;
    if (!(await exists(fromRoot(python))))
      throw new Error(
        `${name}: ${python} does not exist, so the process can't be kept running; create it first.`,
      );
    const previous = (await readRecord(stackDirectory, name))?.ports ?? oldPorts;
    // Before the running process is stopped.
    throwIfTaken(await choosePorts(wanted, previous, { running: true }));
    await stopProgram(wanted);
    const logStartBytes = await fileBytes(fromRoot(logFile(stackDirectory, name)));
    const ports = await start(wanted, previous, context);
    const outs = { ...wanted, ports };
    try {
      await waitUntilReady(wanted, ports, context);
    } catch (error) {
      // Its log and configuration stay; supervisord does not try again.
      await stopProgram(wanted);
      const reason = error instanceof Error ? error.message : String(error);
      throw new InitializationError(await withLog(reason, wanted, logStartBytes), idOf(wanted), outs);
    }
    return outs;
  },

  async find(state) {
    const { ports, ...inputs } = state;
    const { stackDirectory, name, python } = inputs;
    const record = await readRecord(stackDirectory, name);
    if (record?.digest !== recordDigest(inputs, ports) || !(await exists(fromRoot(python)))) return undefined;
    const info = await programInfo(stackDirectory, name);
    // BACKOFF: supervisord will start it again; in FATAL it has given up.
    return ["RUNNING", "STARTING", "BACKOFF"].includes(info?.statename ?? "") ? state : undefined;
  },

  /** The last process stops supervisord, too. */
  async remove(inputs) {
    const { stackDirectory, name } = inputs;
    const answers = await stopProgram(inputs);
    await exclusively("start", async () => {
      // A supervisord that does not answer would start the process again: it is an orphan itself.
      await endOrphans(stackDirectory, answers ? [name] : [name, SUPERVISORD]);
      await removeProcessFiles(stackDirectory, name);
      if ((await recordedNames(stackDirectory)).length > 0) return;
      await shutDownSupervisor(stackDirectory);
      await endOrphans(stackDirectory, [SUPERVISORD]);
      await removeSupervisorFiles(stackDirectory);
    });
  },
});

function idOf({ stackDirectory, name }: ProcessInputs): string {
  return `${stackDirectory}/${name}`;
}

/** Chooses ports and starts; one process of the project at a time, so that each sees the ports of those before it. */
async function start(wanted: ProcessInputs, previous: Ports, context: HandlerContext): Promise<Ports> {
  const { stackDirectory, name, python } = wanted;
  return exclusively("start", async () => {
    // A supervisord that another process has started since has started this process again with its old ports.
    const runs = await stopProgram(wanted);
    // A new supervisord starts all configured programs: no process of the stack may run then.
    const ended = await endOrphans(stackDirectory, runs ? [name] : undefined);
    if (ended > 0) context.report(`ended ${ended} process(es) that an earlier supervisord had left`);
    const ports = throwIfTaken(await choosePorts(wanted, previous, { running: false }));
    await writeProcess(wanted, ports);
    await (runs ? startProgram(stackDirectory, name) : startSupervisor(stackDirectory, python));
    return ports;
  });
}

function throwIfTaken({ ports, taken }: Awaited<ReturnType<typeof choosePorts>>): Ports {
  const [reason] = Object.values(taken);
  if (reason !== undefined) throw new Error(reason);
  return ports;
}

const POLL_MILLISECONDS = 100;
const REQUEST_TIMEOUT_MILLISECONDS = 3000;
const REPORT_EVERY_SECONDS = 10;
/** Two restarts repair a port that was in use for a moment; a third failure has another reason. */
const MOST_FAILED_STARTS = 3;

/** Ends when the URL answers 200. Throws one sentence, without the log, if it won't or does not in time. */
async function waitUntilReady(
  { stackDirectory, name, ready }: ProcessInputs,
  ports: Ports,
  { report, signal }: HandlerContext,
): Promise<void> {
  const url = fillPlaceholders(ready.url, ports);
  const begin = performance.now();
  let nextReportSeconds = REPORT_EVERY_SECONDS;
  for (;;) {
    const status = await fetch(url, {
      redirect: "manual",
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MILLISECONDS),
    })
      .then(async (response) => {
        await response.body?.cancel();
        return response.status;
      })
      .catch(() => undefined);
    const info = await programInfo(stackDirectory, name);
    const failure = startFailure(info, await startCount(stackDirectory, name));
    if (failure !== undefined) throw new Error(`${name} ${failure}`);
    if (status === 200 && (info?.statename === "STARTING" || info?.statename === "RUNNING")) return;

    const seconds = (performance.now() - begin) / 1000;
    if (seconds > ready.timeoutSeconds)
      throw new Error(
        `${name} was not ready within ${ready.timeoutSeconds} s: ${url} ${status === undefined ? "did not answer" : `answered ${status}`}`,
      );
    if (seconds > nextReportSeconds) {
      report(`waiting for ${url}`);
      nextReportSeconds += REPORT_EVERY_SECONDS;
    }
    await sleep(POLL_MILLISECONDS, undefined, { ...(signal && { signal }) });
  }
}

/** The failure of a start by supervisord's state of the program; undefined as long as it may succeed. */
export function startFailure(
  info: Pick<ProgramInfo, "statename" | "spawnerr"> | undefined,
  starts: number,
): string | undefined {
  switch (info?.statename) {
    case "FATAL":
      return `could not be started (${info.spawnerr})`;
    case "BACKOFF":
      return starts >= MOST_FAILED_STARTS ? `ended ${starts} times while it started` : undefined;
    case "STARTING":
    case "RUNNING":
    case "EXITED":
      return starts > MOST_FAILED_STARTS ? `ended ${starts - 1} times while it started` : undefined;
    default:
      return `was stopped while it started (${info?.statename ?? "supervisord no longer has it"})`;
  }
}

const QUOTED_LINES = 8;
const LONGEST_LINE = 300;
const FAILURE_WORDS = /\b(error|exception|traceback|failed|fatal)\b/i;

/**
 * The reason with lines of the process's log after `fromByte`: the last lines about a failure, or the last lines. A failing server often
 * prints a screen of tables after the reason.
 */
async function withLog(
  reason: string,
  { stackDirectory, name }: ProcessInputs,
  fromByte: number,
): Promise<string> {
  const log = logFile(stackDirectory, name);
  const bytes = await readFile(fromRoot(log)).catch(orWhenMissing(Buffer.alloc(0)));
  // A shorter log was rotated since.
  const text = bytes.subarray(bytes.length < fromByte ? 0 : fromByte).toString();
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  if (lines.length === 0) return `${reason}; its log ${log} is empty.`;
  const telling = lines.filter((line) => FAILURE_WORDS.test(line));
  const quoted = (telling.length > 0 ? telling : lines)
    .slice(-QUOTED_LINES)
    .map((line) => (line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)}…` : line));
  return `${reason}; its log ${log} says:\n${quoted.join("\n")}`;
}
