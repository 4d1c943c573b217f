/** Processes of a stack for scripts: their states, and their removal where the state of the stack has none. */
import { readdir, rm } from "node:fs/promises";
import { basename } from "node:path";
import { fromRoot, orWhenMissing, removeEmptyUpwards } from "./files.ts";
import type { Ports } from "./inputs.ts";
import { launchesFile, logFile, readRecord, recordedNames } from "./process-files.ts";
import { fileBytes } from "./readiness.ts";
import { endOrphans, programs } from "./supervisor.ts";

interface ProcessStatus {
  readonly name: string;
  /**
   * As supervisord says, but RUNNING from the first second on, which it calls STARTING for a while. UNSUPERVISED where
   * no supervisord answers, so that nothing restarts the process.
   */
  readonly state: string;
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
  const stackDirectory = `.stacks/${basename(stack)}`;
  const infos = await programs(stackDirectory);
  const stateOf = (state = "STOPPED") => (state === "STARTING" ? "RUNNING" : state);
  return Promise.all(
    (await recordedNames(stackDirectory)).map(async (name) => {
      const info = infos?.find((program) => program.name === name);
      return {
        name,
        state: infos === undefined ? "UNSUPERVISED" : stateOf(info?.statename),
        ...(info === undefined || info.pid === 0
          ? {}
          : { pid: info.pid, uptimeSeconds: Math.max(0, info.now - info.start) }),
        restarts: Math.max(0, (await fileBytes(launchesFile(stackDirectory, name))) - 1),
        ports: (await readRecord(stackDirectory, name))?.ports ?? {},
        logFile: logFile(stackDirectory, name),
      };
    }),
  );
}

/**
 * For the end of `down`, when the state holds nothing any more: ends every process of the stack and removes all files
 * of its folder but `keep` (names in the folder). A killed `up` may have made processes and files that the state does not have.
 */
export async function sweepStack(stack: string, keep: readonly string[]): Promise<void> {
  const stackDirectory = `.stacks/${basename(stack)}`;
  await endOrphans(stackDirectory);
  for (const entry of await readdir(fromRoot(stackDirectory)).catch(orWhenMissing([])))
    if (!keep.includes(entry)) await rm(fromRoot(stackDirectory, entry), { recursive: true, force: true });
  await removeEmptyUpwards(fromRoot(stackDirectory));
}
