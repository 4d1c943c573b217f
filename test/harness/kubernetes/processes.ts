/** Programs that belong to a test: they write to files of its folder, and go with the process that started them. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { dyingWithUs, lastLines } from "../../../components/local/provider/commands.ts";

export class Program {
  readonly name: string;
  readonly #child: ChildProcess;
  readonly #log: string;

  /** @param directory - Its working folder, where its output goes to `<program>.log`. */
  constructor(executable: string, flags: Readonly<Record<string, string>>, directory: string) {
    this.name = basename(executable);
    this.#log = join(directory, `${this.name}.log`);
    const settings = Object.entries(flags).map(([flag, value]) => `--${flag}=${value}`);
    const [program, argv] = dyingWithUs([executable, ...settings]);
    const log = openSync(this.#log, "a");
    try {
      this.#child = spawn(program, argv, { cwd: directory, stdio: ["ignore", log, log] });
    } finally {
      closeSync(log);
    }
    // Without a listener it would be thrown uncaught; the missing pid says the same.
    this.#child.on("error", () => {});
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  get isRunning(): boolean {
    return this.#child.pid !== undefined && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** @throws Error with the end of its log when it has ended. */
  mustRun(): void {
    if (this.isRunning) return;
    const { exitCode, signalCode } = this.#child;
    throw new Error(`${this.name} ended with ${exitCode ?? signalCode}; its log ends with: ${this.logEnd()}`);
  }

  logEnd(): string {
    return lastLines(readFileSync(this.#log, "utf8"), 3);
  }

  /** Returns when it has ended. Its data in memory is not needed. */
  async kill(): Promise<void> {
    if (!this.isRunning) return;
    const ended = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await ended;
  }
}
