/**
 * Processes that a stack left behind. Every program carries two variables, so they are found by what they are, not by
 * a recorded pid: a supervisord that was killed leaves its programs running, and nothing may run twice.
 */
import { readdir, readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { fromRoot, hasCode } from "./files.ts";

/** Absolute stack folder. */
export const STACK_VARIABLE = "ENGINE_ROOM_STACK";
/** Name of the process; `supervisord` for supervisord itself. */
export const PROCESS_VARIABLE = "ENGINE_ROOM_PROCESS";

export const SUPERVISORD = "supervisord";

// Of a program that supervisord no longer stops for us.
const TERM_TIMEOUT_SECONDS = 15;
const KILL_TIMEOUT_SECONDS = 5;
const POLL_MILLISECONDS = 50;

interface MarkedProcess {
  readonly pid: number;
  readonly parentPid: number;
  readonly name: string;
}

interface OrphanSelection {
  readonly stackDirectory: string;
  /** Of the supervisord that answers: what descends from it is no orphan. */
  readonly supervisorPid: number | null;
  /** All of the stack where it is absent. */
  readonly names?: readonly string[];
}

/** Ends them with SIGTERM, then SIGKILL, and waits until they are gone. Returns how many there were. */
export async function endOrphans(selection: OrphanSelection): Promise<number> {
  const found = await findOrphans(selection);
  if (found.length === 0) return 0;
  // supervisord first: it would start the others again.
  const supervisors = found.filter((process) => process.name === SUPERVISORD);
  signalAll(supervisors.length > 0 ? supervisors : found, "SIGTERM");
  if (supervisors.length > 0) {
    await waitForEnd({ ...selection, names: [SUPERVISORD] }, TERM_TIMEOUT_SECONDS);
    signalAll(await findOrphans({ ...selection, names: [SUPERVISORD] }), "SIGKILL");
    signalAll(await findOrphans(selection), "SIGTERM");
  }
  if (await waitForEnd(selection, TERM_TIMEOUT_SECONDS)) return found.length;
  signalAll(await findOrphans(selection), "SIGKILL");
  if (await waitForEnd(selection, KILL_TIMEOUT_SECONDS)) return found.length;
  const left = (await findOrphans(selection)).map((process) => `${process.name} (pid ${process.pid})`);
  throw new Error(
    `${left.join(", ")} of ${selection.stackDirectory} cannot be ended; end it and run it again.`,
  );
}

async function findOrphans(selection: OrphanSelection): Promise<MarkedProcess[]> {
  const { parents, marked } = await scan(fromRoot(selection.stackDirectory));
  return marked.filter(
    ({ pid, name }) =>
      (selection.names === undefined || selection.names.includes(name)) &&
      !descendsFrom(pid, selection.supervisorPid, parents),
  );
}

function descendsFrom(pid: number, ancestor: number | null, parents: ReadonlyMap<number, number>): boolean {
  for (
    let current: number | undefined = pid;
    current !== undefined && current > 1;
    current = parents.get(current)
  )
    if (current === ancestor) return true;
  return false;
}

async function scan(stack: string): Promise<{ parents: Map<number, number>; marked: MarkedProcess[] }> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
  const parents = new Map<number, number>();
  const marked: MarkedProcess[] = [];
  const look = async (pid: number) => {
    const [status, environment] = await Promise.all([readProc(pid, "stat"), readProc(pid, "environ")]);
    // The program's name stands in parentheses and may hold anything.
    const parentPid = Number(status.slice(status.lastIndexOf(")") + 2).split(" ")[1]);
    parents.set(pid, parentPid);
    const variables = environment.split("\0");
    if (!variables.includes(`${STACK_VARIABLE}=${stack}`)) return;
    const name = variables.find((variable) => variable.startsWith(`${PROCESS_VARIABLE}=`));
    if (name !== undefined) marked.push({ pid, parentPid, name: name.slice(PROCESS_VARIABLE.length + 1) });
  };
  await Promise.all(pids.map(look));
  return { parents, marked };
}

/** Empty for a process that is gone, has ended, or belongs to somebody else. */
async function readProc(pid: number, file: string): Promise<string> {
  return readFile(`/proc/${pid}/${file}`, "utf8").catch((error: unknown) => {
    if (hasCode(error, "ENOENT", "ESRCH", "EACCES", "EPERM")) return "";
    throw error;
  });
}

function signalAll(processes: readonly MarkedProcess[], signal: NodeJS.Signals): void {
  for (const { pid } of processes)
    try {
      process.kill(pid, signal);
    } catch (error) {
      if (!hasCode(error, "ESRCH")) throw error;
    }
}

async function waitForEnd(selection: OrphanSelection, timeoutSeconds: number): Promise<boolean> {
  const end = performance.now() + timeoutSeconds * 1000;
  while ((await findOrphans(selection)).length > 0) {
    if (performance.now() > end) return false;
    await sleep(POLL_MILLISECONDS);
  }
  return true;
}
