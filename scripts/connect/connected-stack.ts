/**
 * The endpoints of a stack as they are reached from this machine, and the programs that forward ports. Programs that end are started again:
 * `kubectl port-forward` ends with its pod, a session of Systems Manager after some idle minutes.
 */
import { spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import type { StackOutputs } from "../../infra/outputs.ts";
import type { Endpoints } from "../../infra/plan/endpoints.ts";
import { UserError } from "../errors.ts";
import { operationsOf } from "../platforms/index.ts";
import { lastLine, type ProbeAnswer } from "../preflight/host-probe.ts";
import type { StackReference } from "../program/stack-file.ts";
import { requireOutputs } from "../stack/backend.ts";
import { type ConnectedPart, type ForwardCommand, portClaims } from "./forwards.ts";

/** As shells report a process that Ctrl-C ended. */
const INTERRUPTED_EXIT_CODE = 130;

/**
 * Runs work with the endpoints of a stack. Those in a cluster or on EC2 are forwarded meanwhile: the gateway, and the named parts.
 *
 * @throws UserError if the stack is not up, or its endpoints can't be forwarded.
 */
export async function withEndpoints<T>(
  stack: StackReference,
  parts: readonly ConnectedPart[],
  work: (outputs: StackOutputs) => Promise<T>,
): Promise<T> {
  const known = () => requireOutputs(stack);
  const forwarding = await (await operationsOf(stack)).forwarding(parts);
  if (forwarding === null) return work(await known());
  const outputs = { ...(await forwarding.outputs(known)), endpoints: forwarding.endpoints };
  const report = (line: string) => process.stderr.write(`${line}\n`);
  const forwarder = await startPortForwards(await forwarding.commands(), report);
  // Ctrl-C ends the process and the forwards with it; if the work handles it, only the work's handler runs.
  const interrupt = () => {
    if (process.listenerCount("SIGINT") === 1) process.exit(INTERRUPTED_EXIT_CODE);
  };
  process.on("SIGINT", interrupt).on("SIGTERM", interrupt);
  try {
    return await work(outputs);
  } finally {
    process.off("SIGINT", interrupt).off("SIGTERM", interrupt);
    await forwarder.stop();
  }
}

/**
 * Endpoints for a request that is printed: nothing is forwarded, no cluster or account is asked, and the stack may be down.
 *
 * @throws UserError if it is down, and its ports are chosen when it starts.
 */
export async function printedEndpoints(
  stack: StackReference,
  parts: readonly ConnectedPart[],
): Promise<Endpoints> {
  const say = (line: string) => void process.stderr.write(`${line}\n`);
  const operations = await operationsOf(stack);
  // A port in use may be that of a running `connect`.
  const forwarding = await operations.forwarding(
    parts,
    portClaims(async (port) => port),
  );
  if (forwarding !== null) {
    const connect = ["npx engine-room connect --stack", stack.name, ...parts].join(" ");
    say(`\`${connect}\` opens the printed address; if it prints another, that is right.`);
    return forwarding.endpoints;
  }
  try {
    return (await requireOutputs(stack)).endpoints;
  } catch (error) {
    const planned = operations.plannedEndpoints();
    if (planned === null || !(error instanceof UserError)) throw error;
    say(`${error.message}\nThe printed request has the planned address.`);
    return planned;
  }
}

/** Limit for a pod that can't be reached at first; a machine that is logging in takes seconds. */
const FIRST_TIMEOUT_SECONDS = 30;
/** Between an end and the next start: the first pause, and the longest. */
const PAUSE_SECONDS = { first: 1, longest: 15 } as const;
/** Time for a program to end by itself. */
const STOP_SECONDS = 5;

/** kubectl's words when its pod is gone; older versions keep listening then. */
const LOST = /lost connection to pod|error forwarding port/i;

/** Lines that report a forwarded port: of kubectl, and of the plug-in of the AWS CLI. */
const FORWARDED = /Forwarding from 127\.0\.0\.1:|^Port \d+ opened for session/gim;

interface PortForwarder {
  /** Ends all programs. */
  stop(): Promise<void>;
}

/**
 * Starts all commands, and returns when every port is forwarded.
 *
 * @param report - Gets a line for each forward that is lost, and for each that works again.
 * @throws UserError with the command's failure message if a port can't be forwarded; then nothing runs.
 */
export async function startPortForwards(
  commands: readonly ForwardCommand[],
  report: (line: string) => void,
): Promise<PortForwarder> {
  const stopped = new AbortController();
  const running = new Set<ForwardRun>();
  const start = (command: ForwardCommand) => {
    const run = runForward(command);
    running.add(run);
    void run.ended.then(() => running.delete(run));
    return run;
  };
  const signal = (name: NodeJS.Signals) => {
    for (const run of running) run.signal(name);
  };
  // However this process ends, its children end too.
  const kill = () => signal("SIGTERM");
  process.on("exit", kill);
  const loops: Promise<void>[] = [];
  const stop = async () => {
    stopped.abort();
    signal("SIGTERM");
    const killer = setTimeout(() => signal("SIGKILL"), STOP_SECONDS * 1000);
    await Promise.all([...[...running].map(({ ended }) => ended), ...loops]);
    clearTimeout(killer);
    process.off("exit", kill);
  };
  try {
    await Promise.all(
      commands.map(async (command) => {
        const first = start(command);
        await firstForward(command, first);
        loops.push(keepForward(command, first, { start, report, stopped: stopped.signal }));
      }),
    );
  } catch (error) {
    await stop();
    throw error;
  }
  return { stop };
}

/** @throws UserError if the command ends, or does not forward in time. */
async function firstForward({ failure }: ForwardCommand, { ready, ended }: ForwardRun): Promise<void> {
  const timeout = new AbortController();
  const tooLate: ProbeAnswer = {
    exitCode: 1,
    stdout: "",
    stderr: `nothing was forwarded within ${FIRST_TIMEOUT_SECONDS} s`,
  };
  const late = sleep(FIRST_TIMEOUT_SECONDS * 1000, tooLate, { signal: timeout.signal }).catch(() => tooLate);
  const end = await Promise.race([ready, ended, late]);
  timeout.abort();
  if (end !== undefined) throw new UserError(failure(end));
}

interface Keeping {
  readonly start: (command: ForwardCommand) => ForwardRun;
  readonly report: (line: string) => void;
  readonly stopped: AbortSignal;
}

async function keepForward(
  command: ForwardCommand,
  first: ForwardRun,
  { start, report, stopped }: Keeping,
): Promise<void> {
  const { service } = command;
  let end = await first.ended;
  let pause: number = PAUSE_SECONDS.first;
  while (!stopped.aborted) {
    report(`${service}: ${lastLine(end.stderr)}; again in ${pause} s.`);
    await sleep(pause * 1000, undefined, { signal: stopped }).catch(() => {});
    if (stopped.aborted) return;
    const run = start(command);
    void run.ready.then(() => {
      pause = PAUSE_SECONDS.first;
      report(`${service}: forwarded again.`);
    });
    pause = Math.min(PAUSE_SECONDS.longest, pause * 2);
    end = await run.ended;
  }
}

interface ForwardRun {
  /** Resolves when all ports are forwarded; never if the program ends before. */
  readonly ready: Promise<void>;
  /** With the program's own words. */
  readonly ended: Promise<ProbeAnswer>;
  signal(name: NodeJS.Signals): void;
}

function runForward({ argv: [program = "", ...args], ports }: ForwardCommand): ForwardRun {
  // In its own process group: Ctrl-C is for this process, and the AWS CLI leaves the forwarding to a child process.
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"], detached: true });
  const signal = (name: NodeJS.Signals) => {
    if (child.pid === undefined) return;
    try {
      process.kill(-child.pid, name);
    } catch {
      // All processes of the group have ended.
    }
  };
  let forwarded = 0;
  const ready = new Promise<void>((resolve) => {
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      forwarded += text.match(FORWARDED)?.length ?? 0;
      if (forwarded >= ports) resolve();
    });
  });
  let words = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    words = `${words}${text}`.slice(-2000);
    if (LOST.test(words)) signal("SIGTERM");
  });
  const ended = new Promise<ProbeAnswer>((resolve) => {
    child.on("error", (error) => resolve({ exitCode: null, stdout: "", stderr: error.message }));
    child.on("close", (code) => {
      const stderr = words.trim() || `${program} ended with exit code ${code}`;
      resolve({ exitCode: code ?? 1, stdout: "", stderr });
    });
  });
  return { ready, ended, signal };
}
