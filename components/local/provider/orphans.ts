/**
 * Processes that a stack left behind. Every program carries two variables, so that no recorded pid is needed: a
 * supervisord that was killed leaves its programs running, and none may run twice.
 */
import { readdir, readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { fromRoot, hasCode } from "./files.ts";
import { SUPERVISORD } from "./inputs.ts";

const POLL_MILLISECONDS = 50;

/** One signal after the other, and how long each may take. */
const SIGNALS = [
  ["SIGTERM", 15],
  ["SIGKILL", 5],
] as const;

/** Variables of a process of a stack; `name` is `supervisord` for supervisord itself. */
export function markOf(stackDirectory: string, name: string): Readonly<Record<string, string>> {
  return { ENGINE_ROOM_STACK: fromRoot(stackDirectory), ENGINE_ROOM_PROCESS: name };
}

interface MarkedProcess {
  readonly pid: number;
  readonly name: string;
}

/**
 * Ends processes of a stack that no supervisord stops, and waits until they are gone.
 *
 * @param names - All processes of the stack where it is absent.
 * @returns How many there were.
 */
export async function endOrphans(stackDirectory: string, names?: readonly string[]): Promise<number> {
  let left = await findMarked(stackDirectory, names);
  const count = left.length;
  for (const [signal, seconds] of SIGNALS) {
    const end = performance.now() + seconds * 1000;
    const signalled = new Set<number>();
    while (left.length > 0 && performance.now() < end) {
      for (const { pid } of left.filter((process) => !signalled.has(process.pid))) {
        sendSignal(pid, signal);
        signalled.add(pid);
      }
      await sleep(POLL_MILLISECONDS);
      left = await findMarked(stackDirectory, names);
    }
  }
  if (left.length === 0) return count;
  const who = left.map(({ pid, name }) => `${name} (pid ${pid})`).join(", ");
  throw new Error(`${who} of ${stackDirectory} cannot be ended; end it and run it again.`);
}

/** supervisord first: it would start the others again. */
async function findMarked(
  stackDirectory: string,
  names: readonly string[] | undefined,
): Promise<MarkedProcess[]> {
  const pids = (await readdir("/proc")).filter((entry) => /^\d+$/.test(entry)).map(Number);
  const { ENGINE_ROOM_STACK: stack } = markOf(stackDirectory, "");
  const processes = await Promise.all(
    pids.map(async (pid) => {
      const variables = (await environmentOf(pid)).split("\0");
      if (!variables.includes(`ENGINE_ROOM_STACK=${stack}`)) return [];
      const name = variables.find((variable) => variable.startsWith("ENGINE_ROOM_PROCESS="))?.split("=")[1];
      return name === undefined || names?.includes(name) === false ? [] : [{ pid, name }];
    }),
  );
  return processes.flat().toSorted((a, b) => Number(b.name === SUPERVISORD) - Number(a.name === SUPERVISORD));
}

/** Empty for a process that is gone, has ended, or belongs to another user. */
async function environmentOf(pid: number): Promise<string> {
  return readFile(`/proc/${pid}/environ`, "utf8").catch((error: unknown) => {
    if (hasCode(error, "ENOENT", "ESRCH", "EACCES", "EPERM")) return "";
    throw error;
  });
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!hasCode(error, "ESRCH")) throw error;
  }
}
