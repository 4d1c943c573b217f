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

/** Another operation of a Pulumi CLI holds the stack, here or elsewhere. */
export class PulumiLockedError extends UserError {
  override readonly name = "PulumiLockedError";
}

/** Of buckets and folders (`backend/diy/lock.go`), and of Pulumi Cloud (`backend/backenderr`). */
const LOCKED_WORDS = ["the stack is currently locked by", "/common-issues/update-conflicts/"];

/** Whether the CLI refused because another operation holds the stack; its exit code does not say. @param words - Of the CLI. */
export function saysLocked(words: string): boolean {
  return LOCKED_WORDS.some((some) => words.includes(some));
}

/**
 * Removes the locks of processes of this machine that are gone.
 *
 * @param directory - `.pulumi/locks/organization/<project>/<stack>` of the backend.
 * @throws PulumiLockedError where one is left: what goes on may be half done.
 */
export function takeOverLocks(stack: string, directory: string): void {
  if (!existsSync(directory)) return;
  for (const name of readdirSync(directory).filter((entry) => entry.endsWith(".json"))) {
    const file = join(directory, name);
    const { pid, hostname: machine } = JSON.parse(readFileSync(file, "utf8")) as LockContent;
    if (machine !== hostname() || isPulumi(pid)) {
      throw new PulumiLockedError(
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
