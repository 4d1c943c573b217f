import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Processes that are killed with this one may write for a moment longer. */
const REMOVE = 'cat; rm -rf -- "$1" || { sleep 1; rm -rf -- "$1"; }';

/** A new folder that is removed when this process ends, even when killed: its remover waits for the end of a pipe. */
export class ScratchFolder {
  readonly path: string;
  readonly #remover: ChildProcess;

  constructor(prefix: string) {
    this.path = mkdtempSync(join(tmpdir(), prefix));
    this.#remover = spawn("sh", ["-c", REMOVE, "sh", this.path], {
      cwd: "/",
      // A group of its own, so that Ctrl-C does not reach it.
      detached: true,
      stdio: ["pipe", "ignore", "ignore"],
    });
    this.#remover.unref();
  }

  async remove(): Promise<void> {
    const ended = once(this.#remover, "exit");
    this.#remover.ref();
    this.#remover.stdin?.end();
    await ended;
  }
}
