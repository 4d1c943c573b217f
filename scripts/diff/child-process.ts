/** Child processes with limits on their time and on what they print. */
import { spawn } from "node:child_process";
import { UserError } from "../errors.ts";

const LARGEST_OUTPUT_BYTES = 64 * 2 ** 20;

interface ProcessOptions {
  readonly cwd: string;
  readonly environment: NodeJS.ProcessEnv;
  readonly timeoutSeconds: number;
}

interface ProcessResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** @throws UserError where it can't be started, takes too long, prints more than 64 MiB, or is killed. */
export function runProcess(
  program: string,
  argv: readonly string[],
  { cwd, environment, timeoutSeconds }: ProcessOptions,
): Promise<ProcessResult> {
  return new Promise((done, reject) => {
    // A group of its own, so that what it starts ends with it.
    const child = spawn(program, argv, {
      cwd,
      env: environment,
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
    const chunks = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
    let bytes = 0;
    let refusal: string | undefined;
    const kill = (reason?: string) => {
      refusal ??= reason;
      try {
        if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
      } catch {
        // It has ended by itself.
      }
    };
    const onExit = () => kill();
    process.once("exit", onExit);
    const timer = setTimeout(
      () => kill(`\`${program}\` took more than ${timeoutSeconds} s and was stopped.`),
      timeoutSeconds * 1000,
    );
    for (const stream of ["stdout", "stderr"] as const)
      child[stream].on("data", (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > LARGEST_OUTPUT_BYTES) kill(`\`${program}\` printed more than 64 MiB and was stopped.`);
        else chunks[stream].push(chunk);
      });
    const settle = () => {
      clearTimeout(timer);
      process.off("exit", onExit);
    };
    child.on("error", (error) => {
      settle();
      reject(new UserError(`\`${program}\` can't be started: ${error.message}.`));
    });
    child.on("close", (exitCode, signal) => {
      settle();
      if (refusal !== undefined || exitCode === null)
        reject(new UserError(refusal ?? `\`${program}\` was ended by ${signal}.`));
      else
        done({
          exitCode,
          stdout: Buffer.concat(chunks.stdout).toString("utf8"),
          stderr: Buffer.concat(chunks.stderr).toString("utf8"),
        });
    });
  });
}
