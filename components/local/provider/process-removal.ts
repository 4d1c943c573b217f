/** Takes a process away with everything that was written for it; the last one takes supervisord along. */
import { readdir, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { ProcessInputs } from "../types.ts";
import { exclusively } from "./exclusive.ts";
import { exists, fromRoot, orWhenMissing, removeEmptyUpwards } from "./files.ts";
import { endOrphans, SUPERVISORD } from "./orphans.ts";
import { recordedNames } from "./process-record.ts";
import { withSupervisor } from "./supervisor-client.ts";
import { launchesFile, logFile, recordFile, supervisorLayout } from "./supervisor-layout.ts";

/** Repeatable. Works without the interpreter, too: then supervisord ends with all of its processes. */
export async function removeProcess(
  target: Pick<ProcessInputs, "stackDirectory" | "name" | "python">,
): Promise<void> {
  const { stackDirectory, name, python } = target;
  const supervisorPid = await withSupervisor(stackDirectory, python, async (supervisor) => {
    if (supervisor === undefined) return null;
    await supervisor.stop(name);
    return exclusively("start", async () => {
      await supervisor.remove(name);
      return (await supervisor.states()).pid;
    });
  });
  await exclusively("start", async () => {
    // Where no supervisord answers, one that still runs is itself left behind and would start the process again.
    const names = supervisorPid === null ? [name, SUPERVISORD] : [name];
    await endOrphans({ stackDirectory, supervisorPid, names });
    await removeFiles(stackDirectory, name);
  });
}

async function removeFiles(stackDirectory: string, name: string): Promise<void> {
  const layout = supervisorLayout(stackDirectory);
  const log = fromRoot(logFile(stackDirectory, name));
  const isLogOfProcess = (entry: string) =>
    entry.startsWith(basename(log)) && /^(\.\d+)?$/.test(entry.slice(basename(log).length));
  for (const entry of await readdir(dirname(log)).catch(orWhenMissing([])))
    if (isLogOfProcess(entry)) await rm(join(dirname(log), entry), { force: true });
  await rm(fromRoot(layout.processes, name), { recursive: true, force: true });
  await removeEmptyUpwards(fromRoot(layout.processes));
  await rm(fromRoot(layout.programConfigurations, `${name}.conf`), { force: true });
  await rm(recordFile(stackDirectory, name), { force: true });
  await rm(launchesFile(stackDirectory, name), { force: true });
  if ((await recordedNames(stackDirectory)).length > 0) return;
  await rm(fromRoot(layout.supervisor), { recursive: true, force: true });
  // Only now: supervisord refuses to start a process whose log folder does not exist.
  if (await exists(fromRoot(layout.logs))) await removeEmptyUpwards(fromRoot(layout.logs));
  await removeEmptyUpwards(fromRoot(stackDirectory));
}
