/** Starts the Pulumi CLI for one stack. */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { UserError } from "../errors.ts";
import { projectRoot } from "../program/stack-file.ts";
import { pulumiEnvironment } from "./pulumi-environment.ts";
import { PulumiLockedError, saysLocked } from "./pulumi-lock.ts";

export interface CommandResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  /** @default false: an exit code that is not 0 is an error */
  readonly allowFailure?: boolean;
  /** Whether the command is one about the stack. @default true */
  readonly select?: boolean;
  /** @default the project's root */
  readonly cwd?: string;
  /** Where the CLI's own words go; undefined shows them only when it fails. @default process.stderr */
  readonly output?: NodeJS.WritableStream | undefined;
  /** Lines of the CLI's errors with these words are not shown. */
  readonly hiding?: string;
}

export class PulumiCli {
  readonly #executable: string;
  readonly #stack: string;
  readonly #stateUrl: string;

  /**
   * @param executable - Path of the CLI.
   * @param stack - Its name.
   */
  constructor(executable: string, stack: string, stateUrl: string) {
    this.#executable = executable;
    this.#stack = stack;
    this.#stateUrl = stateUrl;
  }

  /** @throws UserError with how it ended, where that is not allowed; PulumiLockedError where another one has the stack. */
  run(command: readonly string[], options: RunOptions = {}): Promise<CommandResult> {
    const { allowFailure = false, select = true, cwd = projectRoot, hiding } = options;
    const output = "output" in options ? options.output : process.stderr;
    const args = [...command, "--non-interactive", ...(select ? ["--stack", this.#stack] : [])];
    return new Promise((resolve, reject) => {
      const child = spawn(this.#executable, args, {
        cwd,
        env: pulumiEnvironment(this.#stateUrl),
        stdio: ["ignore", "pipe", "pipe"],
      });
      // Ctrl-C reaches both: the CLI ends what it is doing and writes its state, and until then the stack is locked.
      const interrupted = () => {};
      const terminated = () => child.kill("SIGTERM");
      process.on("SIGINT", interrupted).on("SIGTERM", terminated);
      // A letter of several bytes may come in two parts.
      const parts: Buffer[] = [];
      let stderr = "";
      child.stdout.on("data", (data: Buffer) => {
        parts.push(data);
        output?.write(data);
      });
      createInterface({ input: child.stderr }).on("line", (line) => {
        stderr += `${line}\n`;
        if (hiding === undefined || !line.includes(hiding)) output?.write(`${line}\n`);
      });
      child.on("error", reject);
      child.on("close", (code) => {
        process.off("SIGINT", interrupted).off("SIGTERM", terminated);
        const stdout = Buffer.concat(parts).toString();
        if (code === 0 || allowFailure) return resolve({ code: code ?? 1, stdout, stderr });
        const words = output === undefined ? `\n${stdout}${stderr}` : "";
        const sentence = `\`pulumi ${command.join(" ")}\` ended with exit code ${code}.${words}`;
        reject(saysLocked(stdout + stderr) ? new PulumiLockedError(sentence) : new UserError(sentence));
      });
    });
  }
}
