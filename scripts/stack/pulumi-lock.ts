/**
 * Locks of the Pulumi CLI's file backend: a file for each operation, which a CLI that was killed leaves behind. Who asks
 * here holds the lock of the stack (lock.ts), so a file whose process is gone belongs to nobody.
 */
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { UserError } from "../errors.ts";

/** As `backend/diy/lock.go` of pulumi/pulumi writes it. */
interface LockContent {
  readonly pid: number;
  readonly hostname: string;
}

/**
 * Removes the locks of processes of this machine that are gone.
 *
 * @param directory - `.pulumi/locks/organization/<project>/<stack>` of the backend.
 * @throws UserError where one is left: what goes on may be half done.
 */
export function takeOverLocks(stack: string, directory: string): void {
  if (!existsSync(directory)) return;
  for (const name of readdirSync(directory).filter((entry) => entry.endsWith(".json"))) {
    const file = join(directory, name);
    const { pid, hostname: machine } = JSON.parse(readFileSync(file, "utf8")) as LockContent;
    if (machine !== hostname() || isPulumi(pid)) {
      throw new UserError(
        `The stack ${stack} is locked by the Pulumi CLI (process ${pid} of ${machine}). Wait until it ends, and try again; if it is gone for good, delete ${file}.`,
      );
    }
    // Beside it lies what the library of the backend notes of each file.
    for (const one of [file, `${file}.attrs`]) rmSync(one, { force: true });
  }
}

/** A process of that number may be another one by now, which only Linux tells. */
function isPulumi(pid: number): boolean {
  try {
    if (process.platform === "linux") return readFileSync(`/proc/${pid}/comm`, "utf8").trim() === "pulumi";
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
