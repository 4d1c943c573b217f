/** A server that a benchmark starts for itself on free ports of this machine, and stops. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";

interface ServerSpec {
  /** For messages. */
  readonly name: string;
  readonly command: readonly [program: string, ...args: string[]];
  /** By default this process's, like the environment. */
  readonly directory?: string;
  readonly environment?: NodeJS.ProcessEnv;
  /** File of its output; by default this process's output. */
  readonly log?: string;
  /** Answers with 2xx when it is ready. */
  readonly readyUrl: string;
  readonly readySeconds: number;
}

export interface BenchServer {
  readonly pid: number;
  /** Sends SIGTERM, and waits for the end. */
  stop(): Promise<void>;
}

const ATTEMPT_MILLISECONDS = 50;
/** End of the log in the error message of a server that ended. */
const LOG_TAIL_CHARACTERS = 2000;

/** Starts a server and waits until it is ready. @throws Error when it ends before, or is not ready in time; it is stopped then. */
export async function startServer(spec: ServerSpec): Promise<BenchServer> {
  const [program, ...args] = spec.command;
  const output = spec.log === undefined ? "inherit" : openSync(spec.log, "w");
  const server = spawn(program, args, {
    stdio: ["ignore", output, output],
    cwd: spec.directory,
    env: spec.environment,
  });
  if (output !== "inherit") closeSync(output);
  try {
    await ready(server, spec);
    return { pid: server.pid ?? 0, stop: () => stop(server) };
  } catch (error) {
    await stop(server);
    throw error;
  }
}

async function ready(server: ChildProcess, { name, log, readyUrl, readySeconds }: ServerSpec): Promise<void> {
  let failure: Error | undefined;
  server.on("error", (error) => {
    failure = error;
  });
  const end = performance.now() + readySeconds * 1000;
  while (performance.now() < end) {
    const reason = failure?.message ?? server.exitCode ?? server.signalCode;
    if (reason !== null) {
      const lines =
        log === undefined
          ? "; its lines above say why."
          : `:\n${readFileSync(log, "utf8").slice(-LOG_TAIL_CHARACTERS)}`;
      throw new Error(`${name} ended (${reason}) before it was ready${lines}`);
    }
    const answered = await fetch(readyUrl).then(
      (response) => response.ok,
      () => false,
    );
    if (answered) return;
    await new Promise((resolve) => setTimeout(resolve, ATTEMPT_MILLISECONDS));
  }
  throw new Error(`${name} was not ready after ${readySeconds} s.`);
}

async function stop(server: ChildProcess): Promise<void> {
  if (server.pid === undefined || server.exitCode !== null || server.signalCode !== null) return;
  const closed = once(server, "close");
  server.kill("SIGTERM");
  await closed;
}
