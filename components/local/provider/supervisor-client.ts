/** Talks to a stack's supervisord through supervisor_control.py, which uses supervisor's own client code. */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { dyingWithUs } from "./commands.ts";
import { exists, fromRoot, projectRoot } from "./files.ts";

/** States of http://supervisord.org/subprocess.html#process-states. */
export type ProgramState =
  | "STOPPED"
  | "STARTING"
  | "RUNNING"
  | "BACKOFF"
  | "STOPPING"
  | "EXITED"
  | "FATAL"
  | "UNKNOWN";

/** The parts used here of what supervisor's getAllProcessInfo answers; times are seconds since 1970. */
export interface ProgramInfo {
  readonly name: string;
  readonly statename: ProgramState;
  /** 0 where it does not run. */
  readonly pid: number;
  readonly start: number;
  readonly now: number;
  readonly spawnerr: string;
}

interface SupervisorStates {
  /** Null where no supervisord answers. */
  readonly pid: number | null;
  readonly programs: readonly ProgramInfo[];
}

interface Waiting {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** One helper process; requests are answered in their order. `close` ends it. */
export class SupervisorClient {
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly #waiting: Waiting[] = [];
  #complaint = "";
  #ended = false;

  /** Undefined where the interpreter does not exist, so that nothing can be controlled through it. */
  static async open(stackDirectory: string, python: string): Promise<SupervisorClient | undefined> {
    const interpreter = fromRoot(python);
    return (await exists(interpreter)) ? new SupervisorClient(stackDirectory, interpreter) : undefined;
  }

  private constructor(stackDirectory: string, interpreter: string) {
    const helper = join(import.meta.dirname, "supervisor_control.py");
    const [program, args] = dyingWithUs([interpreter, "-I", helper, stackDirectory]);
    // A group of its own: Ctrl-C must not end it in the middle of a change.
    this.#child = spawn(program, args, {
      cwd: projectRoot(),
      stdio: ["pipe", "pipe", "pipe"],
      detached: true,
    });
    createInterface({ input: this.#child.stdout }).on("line", (line) => this.#answer(line));
    this.#child.stderr.on("data", (data: Buffer) => {
      this.#complaint = (this.#complaint + data.toString()).slice(-1000);
    });
    this.#child.stdin.on("error", () => undefined);
    this.#child.once("error", (error) => this.#end(error.message));
    this.#child.once("close", () => this.#end(this.#complaint.trim().split("\n").at(-1) ?? ""));
  }

  /** (Re)starts a program as its written configuration says; starts supervisord where none answers. */
  async apply(name: string): Promise<void> {
    await this.#request({ op: "apply", name });
  }

  /** Stops a program and waits for its end; its files stay. */
  async stop(name: string): Promise<void> {
    await this.#request({ op: "stop", name });
  }

  /** Stops a program and removes its configuration; supervisord and its folder go with the last one. */
  async remove(name: string): Promise<void> {
    await this.#request({ op: "remove", name });
  }

  async states(): Promise<SupervisorStates> {
    return (await this.#request({ op: "states" })) as SupervisorStates;
  }

  async close(): Promise<void> {
    if (this.#ended) return;
    const closed = new Promise((resolve) => this.#child.once("close", resolve));
    this.#child.stdin.end();
    await closed;
  }

  async #request(request: { op: string; name?: string }): Promise<unknown> {
    if (this.#ended) throw this.#failure();
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#child.stdin.write(`${JSON.stringify(request)}\n`);
    });
  }

  #answer(line: string): void {
    const reply = JSON.parse(line) as { ok: true; result: unknown } | { ok: false; error: string };
    const waiting = this.#waiting.shift();
    if (reply.ok) waiting?.resolve(reply.result);
    else waiting?.reject(new Error(reply.error));
  }

  #end(complaint: string): void {
    this.#ended = true;
    this.#complaint = complaint;
    for (const waiting of this.#waiting.splice(0)) waiting.reject(this.#failure());
  }

  #failure(): Error {
    return new Error(
      `The control program of supervisord ended: ${this.#complaint || "no reason was given"}.`,
    );
  }
}

/** Opens a client for the time of `action`. */
export async function withSupervisor<T>(
  stackDirectory: string,
  python: string,
  action: (supervisor: SupervisorClient | undefined) => Promise<T>,
): Promise<T> {
  const client = await SupervisorClient.open(stackDirectory, python);
  try {
    return await action(client);
  } finally {
    await client?.close();
  }
}
