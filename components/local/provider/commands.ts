/** Running other programs: bounded in time and output, and never outliving this process. */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { diskFullError } from "./files.ts";

interface CommandOptions {
  readonly cwd: string;
  readonly environment?: NodeJS.ProcessEnv;
  readonly timeoutSeconds: number;
  /** Called with each line of either stream. */
  readonly onLine?: (line: string) => void;
  readonly signal?: AbortSignal | undefined;
}

export interface CommandResult {
  /** Null if a signal ended it. */
  readonly exitCode: number | null;
  readonly stdout: string;
  /** The last lines of standard error, most recent last. */
  readonly stderr: string;
  readonly timedOut: boolean;
}

const KEPT_LINES = 200;

/** The kernel kills the program when this process ends, so that a repeated run never meets the first run's. */
export function dyingWithUs(argv: readonly string[]): readonly [string, readonly string[]] {
  return ["setpriv", ["--pdeathsig", "KILL", "--", ...argv]];
}

/** Runs `argv` to its end. Throws only if it cannot be started or `signal` is aborted. */
export async function runCommand(argv: readonly string[], options: CommandOptions): Promise<CommandResult> {
  options.signal?.throwIfAborted();
  const [program, args] = dyingWithUs(argv);
  const child = spawn(program, args, {
    cwd: options.cwd,
    env: options.environment ?? process.env,
    // A group of its own: a time-out also ends the programs that it has started.
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const killGroup = () => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
    } catch {
      // It has ended in the meantime.
    }
  };
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    killGroup();
  }, options.timeoutSeconds * 1000);
  options.signal?.addEventListener("abort", killGroup, { once: true });
  const kept = { stdout: [] as string[], stderr: [] as string[] };
  for (const name of ["stdout", "stderr"] as const)
    createInterface({ input: child[name] }).on("line", (line) => {
      kept[name].push(line);
      if (kept[name].length > KEPT_LINES) kept[name].shift();
      options.onLine?.(line);
    });
  try {
    const exitCode = await new Promise<number | null>((resolve, reject) => {
      child.once("error", reject);
      child.once("close", resolve);
    });
    options.signal?.throwIfAborted();
    return { exitCode, stdout: kept.stdout.join("\n"), stderr: kept.stderr.join("\n"), timedOut };
  } finally {
    clearTimeout(timer);
    options.signal?.removeEventListener("abort", killGroup);
  }
}

/**
 * Runs `argv` to its end, and throws one sentence if it fails.
 *
 * @param purpose - As in `installing uv`.
 * @param paths - Where it writes, for the sentence about a full disk.
 * @param registry - Where it downloads from, and the variables by which another address is given.
 */
export async function runOrThrow(
  argv: readonly string[],
  {
    purpose,
    paths,
    registry,
    ...options
  }: CommandOptions & {
    readonly purpose: string;
    readonly paths: readonly string[];
    readonly registry?: string;
  },
): Promise<void> {
  const { exitCode, stdout, stderr, timedOut } = await runCommand(argv, options);
  if (exitCode === 0) return;
  const output = `${stdout}\n${stderr}`;
  if (/no space left on device|os error 28|disk quota exceeded/i.test(output))
    throw await diskFullError(paths);
  if (timedOut)
    throw new Error(
      `${purpose} did not end within ${options.timeoutSeconds} s; check the network and run the command again.`,
    );
  const failure = registry === undefined ? undefined : connectionFailure(output);
  if (failure !== undefined)
    throw new Error(
      `${purpose} failed: ${failure}. It downloads from ${registry}; check the network, and run the command again.`,
    );
  throw new Error(`${purpose} failed: ${lastLines(stderr || stdout, 8)}`);
}

/** Messages of clients when a registry does not answer, from the most to the least specific. */
const CONNECTION_FAILURES: readonly (readonly [RegExp, string])[] = [
  [/connection refused/i, "the connection was refused"],
  [
    /name or service not known|dns error|failed to lookup address|temporary failure in name resolution/i,
    "its name was not found",
  ],
  [/certificate|tls handshake/i, "its TLS certificate was not accepted"],
  [/timed? ?out/i, "it did not answer in time"],
  [
    /network is unreachable|no route to host|connection reset|error sending request|newconnectionerror/i,
    "it can't be reached",
  ],
  // Only output of a quiet pip without an answer.
  [/\(from versions: none\)/, "it does not answer, or lacks the package"],
];

/** Returns the failure with the host, if the program names it; undefined for another reason. */
function connectionFailure(output: string): string | undefined {
  const [, words] = CONNECTION_FAILURES.find(([pattern]) => pattern.test(output)) ?? [];
  if (words === undefined) return undefined;
  const host =
    /https?:\/\/(?:[^/@\s`'"]*@)?([^/\s`'"]+)/.exec(output)?.[1] ?? /host='([^']+)'/.exec(output)?.[1];
  return `${host === undefined ? "the registry" : `the registry ${host}`} can't be used: ${words}`;
}

/** The end of a program's output as one line for an error message. */
export function lastLines(text: string, count: number): string {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")
    .slice(-count)
    .join(" | ");
}
