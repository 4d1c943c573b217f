/** What scripts ask of a stack's processes, and the last broom. */
import { readdir, rm } from "node:fs/promises";
import { basename } from "node:path";
import { fromRoot, orWhenMissing, removeEmptyUpwards } from "./files.ts";
import { fileBytes } from "./log-tail.ts";
import { endOrphans } from "./orphans.ts";
import { type Ports, readRecord, recordedNames } from "./process-record.ts";
import { type ProgramInfo, type ProgramState, withSupervisor } from "./supervisor-client.ts";
import { launchesFile, logFile } from "./supervisor-layout.ts";

interface ProcessStatus {
  readonly name: string;
  /**
   * As supervisord says, but RUNNING from the first second on, which it calls STARTING for a while. UNSUPERVISED where
   * no supervisord answers, so that nothing restarts the process.
   */
  readonly state: Exclude<ProgramState, "STARTING"> | "UNSUPERVISED";
  /** Absent where it does not run. */
  readonly pid?: number;
  /** Since its last start; absent where it does not run. */
  readonly uptimeSeconds?: number;
  /** How often it was started again since it was configured. */
  readonly restarts: number;
  readonly ports: Ports;
  /** Relative to the project's root. */
  readonly logFile: string;
}

/** All processes of a stack by name; none where there is no such stack. `stack`: its folder, or just its name. */
export async function stackStatus(stack: string): Promise<ProcessStatus[]> {
  const stackDirectory = stackDirectoryOf(stack);
  const names = await recordedNames(stackDirectory);
  const records = new Map(
    await Promise.all(names.map(async (name) => [name, await readRecord(stackDirectory, name)] as const)),
  );
  const python = [...records.values()].find((record) => record !== undefined)?.python;
  if (python === undefined) return [];
  const states = await withSupervisor(stackDirectory, python, async (supervisor) => supervisor?.states());
  const supervised = (states?.pid ?? null) !== null;
  return Promise.all(
    names.map(async (name) => {
      const info = states?.programs.find((program) => program.name === name);
      return {
        name,
        state: info === undefined ? (supervised ? "STOPPED" : "UNSUPERVISED") : stateOf(info),
        ...running(info),
        restarts: Math.max(0, (await fileBytes(launchesFile(stackDirectory, name))) - 1),
        ports: records.get(name)?.ports ?? {},
        logFile: logFile(stackDirectory, name),
      };
    }),
  );
}

function stackDirectoryOf(stack: string): string {
  return `.stacks/${basename(stack)}`;
}

function stateOf({ statename }: ProgramInfo): ProcessStatus["state"] {
  return statename === "STARTING" ? "RUNNING" : statename;
}

function running(info: ProgramInfo | undefined): Pick<ProcessStatus, "pid" | "uptimeSeconds"> {
  if (info === undefined || info.pid === 0) return {};
  return { pid: info.pid, uptimeSeconds: Math.max(0, info.now - info.start) };
}

/**
 * For the end of `down`, when the state holds nothing any more: ends every process of the stack and removes all files
 * of its folder but `keep` (names in the folder). It finds what a killed `up` made without recording it.
 */
export async function sweepStack(stack: string, keep: readonly string[]): Promise<void> {
  const stackDirectory = stackDirectoryOf(stack);
  await endOrphans({ stackDirectory, supervisorPid: null });
  for (const entry of await readdir(fromRoot(stackDirectory)).catch(orWhenMissing([])))
    if (!keep.includes(entry)) await rm(fromRoot(stackDirectory, entry), { recursive: true, force: true });
  await removeEmptyUpwards(fromRoot(stackDirectory));
}
