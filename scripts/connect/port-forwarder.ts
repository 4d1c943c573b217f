/**
 * Keeps programs running that forward ports: `kubectl port-forward` ends when its pod goes, and the next one leads to another
 * pod; a session of Systems Manager ends when nobody used it for some minutes.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { UserError } from "../errors.ts";
import { lastLine, type ProbeAnswer } from "../preflight/host-probe.ts";

/** A pod that can't be reached at first is an error after this; a machine that is logging in takes seconds. */
const FIRST_TIMEOUT_SECONDS = 30;
const TOO_LATE: ProbeAnswer = {
  exitCode: 1,
  stdout: "",
  stderr: `nothing was forwarded within ${FIRST_TIMEOUT_SECONDS} s`,
};
/** Between an end and the next start: the first pause, and the longest. */
const PAUSE_SECONDS = { first: 1, longest: 15 } as const;
/** What kubectl gets to end by itself. */
const STOP_SECONDS = 5;

/** The words of a kubectl whose pod is gone; older ones go on listening then. */
const LOST = /lost connection to pod|error forwarding port/i;

/** What each says of a port that leads there from then on: kubectl, and the plug-in of the AWS CLI. */
const FORWARDED = /Forwarding from 127\.0\.0\.1:|^Port \d+ opened for session/gim;

/** One program that forwards: all ports of one Service, or one port of a machine. */
export interface ForwardCommand {
  /** Name in messages: `gateway`, `llava`. */
  readonly service: string;
  readonly argv: readonly string[];
  /** How many ports it says to forward, a line each. */
  readonly ports: number;
}

/** Message about a command that fails. @param service - Of the command. @param end - How it ended. */
export type ForwardFailure = (service: string, end: ProbeAnswer) => string;

interface PortForwarder {
  /** Ends all of them. */
  stop(): Promise<void>;
}

/**
 * Starts all commands, and returns when every port is forwarded.
 *
 * @param report - Of what is lost, and what is there again; a line each.
 * @throws UserError with the failure's sentence where one can't be had at all; then nothing runs.
 */
export async function startPortForwards(
  commands: readonly ForwardCommand[],
  report: (line: string) => void,
  failure: ForwardFailure,
): Promise<PortForwarder> {
  const kept = commands.map((command) => new KeptForward(command, report, failure));
  // Whatever ends this process: no child goes on listening.
  const kill = () => {
    for (const one of kept) one.kill();
  };
  process.on("exit", kill);
  const stop = async () => {
    await Promise.all(kept.map((one) => one.stop()));
    process.off("exit", kill);
  };
  try {
    await Promise.all(kept.map((one) => one.start()));
  } catch (error) {
    await stop();
    throw error;
  }
  return { stop };
}

class KeptForward {
  readonly #command: ForwardCommand;
  readonly #report: (line: string) => void;
  readonly #failure: ForwardFailure;
  readonly #stopped = new AbortController();
  #child: ChildProcess | undefined;
  #loop: Promise<void> | undefined;

  constructor(command: ForwardCommand, report: (line: string) => void, failure: ForwardFailure) {
    this.#command = command;
    this.#report = report;
    this.#failure = failure;
  }

  async start(): Promise<void> {
    const first = this.#run();
    const timeout = new AbortController();
    const tooLate = sleep(FIRST_TIMEOUT_SECONDS * 1000, TOO_LATE, { signal: timeout.signal }).catch(
      () => TOO_LATE,
    );
    const end = await Promise.race([first.ready, first.ended, tooLate]);
    timeout.abort();
    if (end !== undefined) throw new UserError(this.#failure(this.#command.service, end));
    this.#loop = this.#keep(first.ended);
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    const child = this.#child;
    if (child !== undefined && child.exitCode === null && child.signalCode === null) {
      const ended = once(child, "exit");
      signalGroup(child, "SIGTERM");
      const killer = setTimeout(() => signalGroup(child, "SIGKILL"), STOP_SECONDS * 1000);
      await ended;
      clearTimeout(killer);
    }
    await this.#loop;
  }

  kill(): void {
    if (this.#child !== undefined) signalGroup(this.#child, "SIGTERM");
  }

  async #keep(firstEnd: Promise<ProbeAnswer>): Promise<void> {
    const { signal } = this.#stopped;
    const { service } = this.#command;
    let end = await firstEnd;
    let pause: number = PAUSE_SECONDS.first;
    while (!signal.aborted) {
      this.#report(`${service}: ${lastLine(end.stderr)}; again in ${pause} s.`);
      await sleep(pause * 1000, undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
      const run = this.#run();
      void run.ready.then(() => {
        pause = PAUSE_SECONDS.first;
        this.#report(`${service}: forwarded again.`);
      });
      pause = Math.min(PAUSE_SECONDS.longest, pause * 2);
      end = await run.ended;
    }
  }

  /** `ready` when all ports are forwarded; it never is where the child ends before. `ended` with the child's own words. */
  #run(): { readonly ready: Promise<void>; readonly ended: Promise<ProbeAnswer> } {
    const [program = "", ...args] = this.#command.argv;
    // Ctrl-C is for us, who end it in order.
    const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"], detached: true });
    this.#child = child;
    let forwarded = 0;
    const ready = new Promise<void>((resolve) => {
      child.stdout.setEncoding("utf8").on("data", (text: string) => {
        forwarded += text.match(FORWARDED)?.length ?? 0;
        if (forwarded >= this.#command.ports) resolve();
      });
    });
    let words = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      words = `${words}${text}`.slice(-2000);
      if (LOST.test(words)) signalGroup(child, "SIGTERM");
    });
    const ended = new Promise<ProbeAnswer>((resolve) => {
      child.on("error", (error) => resolve({ exitCode: null, stdout: "", stderr: error.message }));
      child.on("close", (code) =>
        resolve({
          exitCode: code ?? 1,
          stdout: "",
          stderr: words.trim() || `${program} ended with exit code ${code}`,
        }),
      );
    });
    return { ready, ended };
  }
}

/** The child and what it started: the AWS CLI leaves the forwarding to a program of its own. */
function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch {
    // All of them have ended.
  }
}
