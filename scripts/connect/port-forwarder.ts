/**
 * Keeps programs running that forward ports: `kubectl port-forward` ends when its pod goes, and the next one leads to another
 * pod; a session of Systems Manager ends when nobody used it for some minutes.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { UserError } from "../errors.ts";
import { lastLine } from "../preflight/host-probe.ts";
import type { ForwardCommand } from "./cluster-forwards.ts";

/** A pod that can't be reached at first is an error after this; a machine that is logging in takes seconds. */
const FIRST_TIMEOUT_SECONDS = 30;
/** Between an end and the next start: the first pause, and the longest. */
const PAUSE_SECONDS = { first: 1, longest: 15 } as const;
/** What kubectl gets to end by itself. */
const STOP_SECONDS = 5;

/** The words of a kubectl whose pod is gone; older ones go on listening then. */
const LOST = /lost connection to pod|error forwarding port/i;

/** What each says of a port that leads there from then on: kubectl, and the plug-in of the AWS CLI. */
const FORWARDED = /Forwarding from 127\.0\.0\.1:|^Port \d+ opened for session/gim;

/** How people are told of a command that fails. */
export interface ForwardWords {
  /** @param service - Of the command. */
  readonly what: (service: string) => string;
  readonly fix: string;
}

const SERVICE_WORDS: ForwardWords = {
  what: (service) => `The Service ${service}`,
  fix: "`npm run status` says whether its pods run.",
};

interface PortForwarder {
  /** Ends all of them. */
  stop(): Promise<void>;
}

/**
 * Starts all commands, and returns when every port is forwarded.
 *
 * @param report - Of what is lost, and what is there again; a line each.
 * @param words - @default of Services of a cluster
 * @throws UserError with the program's own last words where one can't be had at all; then nothing runs.
 */
export async function startPortForwards(
  commands: readonly ForwardCommand[],
  report: (line: string) => void,
  words: ForwardWords = SERVICE_WORDS,
): Promise<PortForwarder> {
  const kept = commands.map((command) => new KeptForward(command, report, words));
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
  readonly #words: ForwardWords;
  readonly #stopped = new AbortController();
  #child: ChildProcess | undefined;
  #loop: Promise<void> | undefined;

  constructor(command: ForwardCommand, report: (line: string) => void, words: ForwardWords) {
    this.#command = command;
    this.#report = report;
    this.#words = words;
  }

  async start(): Promise<void> {
    const first = this.#run();
    const timeout = new AbortController();
    const tooLate = sleep(FIRST_TIMEOUT_SECONDS * 1000, "late", { signal: timeout.signal }).catch(() => "");
    const outcome = await Promise.race([
      first.ready.then(() => "ready"),
      first.ended.then((words) => `ended ${words}`),
      tooLate,
    ]);
    timeout.abort();
    if (outcome !== "ready") {
      const words =
        outcome === "late" ? `nothing was forwarded within ${FIRST_TIMEOUT_SECONDS} s` : outcome.slice(6);
      throw new UserError(
        `${this.#words.what(this.#command.service)} can't be forwarded: ${words}\n${this.#words.fix}`,
      );
    }
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

  async #keep(firstEnd: Promise<string>): Promise<void> {
    const { signal } = this.#stopped;
    const { service } = this.#command;
    let words = await firstEnd;
    let pause: number = PAUSE_SECONDS.first;
    while (!signal.aborted) {
      this.#report(`${service}: ${words}; again in ${pause} s.`);
      await sleep(pause * 1000, undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
      const run = this.#run();
      void run.ready.then(() => {
        pause = PAUSE_SECONDS.first;
        this.#report(`${service}: forwarded again.`);
      });
      pause = Math.min(PAUSE_SECONDS.longest, pause * 2);
      words = await run.ended;
    }
  }

  /** `ready` when all ports are forwarded; it never is where the child ends before. `ended` with the child's last words. */
  #run(): { readonly ready: Promise<void>; readonly ended: Promise<string> } {
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
    const ended = new Promise<string>((resolve) => {
      child.on("error", (error) => resolve(error.message));
      child.on("close", (code) => resolve(lastLine(words) || `${program} ended with exit code ${code}`));
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
