/** A real stack for tests: its own name and file, brought up and taken down by the project's own commands. */
import { type ChildProcess, spawn } from "node:child_process";
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { stackStatus } from "../../components/local/provider/supervisor.ts";
import type { StackOutputs } from "../../infra/outputs.ts";
import { projectName, projectRoot } from "../../scripts/program/stack-file.ts";
import { findProgram } from "../../scripts/stack/pulumi-cli.ts";
import { stackPaths } from "../../scripts/stack/stack-paths.ts";
import { outputsOf } from "../../scripts/stack/state.ts";
import { loadState } from "../../scripts/tryout/state.ts";
import { stackFileText } from "./stack-files.ts";

interface CommandResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A stack file that is quick to bring up: the image encoder from its package, whatever hub there may be. */
export function stackConfig(changes: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    platform: "local",
    models: [{ name: "smollm2", model: "smollm2-135m-instruct", contextTokens: 512 }],
    encoders: { visionWeights: "package" },
    ...changes,
  };
}

export class TestStack {
  readonly name: string;
  readonly directory: string;
  readonly #files = mkdtempSync(join(tmpdir(), "engine-room-stack-"));
  readonly #environment: NodeJS.ProcessEnv;

  /** @param environment - For every command. */
  constructor(
    name: string,
    config: Record<string, unknown> = stackConfig(),
    environment: NodeJS.ProcessEnv = {},
  ) {
    this.#environment = environment;
    this.name = `test-${name}-${process.pid}`;
    this.directory = join(projectRoot, ".stacks", this.name);
    this.configure(config);
  }

  /** URL of the Pulumi CLI's state of the stack. */
  get backend(): string {
    return `file://${this.#files}`;
  }

  /** The state file of a Pulumi CLI: the output of `pulumi stack export`. */
  stateFile(): string {
    return readFileSync(join(this.#files, ".pulumi/stacks", projectName(), `${this.name}.json`), "utf8");
  }

  get configFile(): string {
    return join(this.#files, "stack.yaml");
  }

  configure(config: Record<string, unknown>): void {
    writeFileSync(this.configFile, stackFileText(config));
  }

  /**
   * Starts a command and leaves it running. It uses the try-out runner, whatever is on PATH, so that tests are the same
   * everywhere; `environment` may say otherwise.
   */
  spawn(command: string, ...args: string[]): ChildProcess {
    return this.spawnWith({}, command, ...args);
  }

  spawnWith(environment: NodeJS.ProcessEnv, command: string, ...args: string[]): ChildProcess {
    return this.#spawn(environment, command, args);
  }

  run(command: string, ...args: string[]): Promise<CommandResult> {
    return this.runWith({}, command, ...args);
  }

  /** @throws With what was printed, when the exit code is not 0. */
  succeed(command: string, ...args: string[]): Promise<CommandResult> {
    return this.succeedWith({}, command, ...args);
  }

  runWith(environment: NodeJS.ProcessEnv, command: string, ...args: string[]): Promise<CommandResult> {
    return ended(this.#spawn(environment, command, args));
  }

  /** A command of Pulumi's own, by the CLI on PATH. */
  runPulumi(environment: NodeJS.ProcessEnv, command: string, ...args: string[]): Promise<CommandResult> {
    const executable = findProgram("pulumi") ?? "pulumi";
    // `pulumi stack …` has no such option.
    const file = command === "stack" ? [] : ["--config-file", this.configFile];
    const options = ["--stack", this.name, ...file, "--non-interactive"];
    const child = spawn(executable, [command, ...args, ...options], {
      cwd: projectRoot,
      env: {
        ...process.env,
        PATH: `${dirname(executable)}:${process.env.PATH}`,
        PULUMI_BACKEND_URL: this.backend,
        PULUMI_CONFIG_PASSPHRASE: "",
        ...this.#environment,
        ...environment,
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
    return ended(child);
  }

  async succeedWith(
    environment: NodeJS.ProcessEnv,
    command: string,
    ...args: string[]
  ): Promise<CommandResult> {
    const result = await this.runWith(environment, command, ...args);
    if (result.code !== 0)
      throw new Error(`${command} ended with ${result.code}:\n${result.stdout}\n${result.stderr}`);
    return result;
  }

  #spawn(environment: NodeJS.ProcessEnv, command: string, args: readonly string[]): ChildProcess {
    const options = ["--stack", this.name, "--config-file", this.configFile];
    return spawn(process.execPath, ["scripts/cli.mjs", command, ...options, ...args], {
      cwd: projectRoot,
      env: {
        ...process.env,
        ENGINE_ROOM_RUNNER: "tryout",
        PULUMI_BACKEND_URL: this.backend,
        ...this.#environment,
        ...environment,
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
  }

  /** Outputs of a stack of the try-out runner, read without a command. */
  outputs(): StackOutputs {
    const outputs = outputsOf(loadState(stackPaths(this.name).tryoutState).resources);
    if (outputs === undefined) throw new Error(`The stack ${this.name} is not up.`);
    return outputs;
  }

  /** Process ids by service, as supervisord has them. */
  async pids(): Promise<Record<string, number | undefined>> {
    const services = await stackStatus(this.name);
    return Object.fromEntries(services.map(({ name, pid }) => [name, pid]));
  }

  /** States by service, as supervisord has them. */
  async states(): Promise<Record<string, string>> {
    const services = await stackStatus(this.name);
    return Object.fromEntries(services.map(({ name, state }) => [name, state]));
  }

  /** Process ids of every process on this machine that belongs to the stack, by service: its environment says so. */
  processes(): Map<string, number[]> {
    const found = new Map<string, number[]>();
    for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
      const environment = readEnvironment(pid);
      if (environment.get("ENGINE_ROOM_STACK") !== this.directory) continue;
      const service = environment.get("ENGINE_ROOM_PROCESS") ?? "";
      found.set(service, [...(found.get(service) ?? []), Number(pid)]);
    }
    return found;
  }

  /** Number of processes of each program of the stack: `{ supervisord: 1, gateway: 1, encoders: 1, … }`. */
  instances(): Record<string, number> {
    const programs = [...this.processes()].map(([service, pids]) => {
      const servers = pids.filter((pid) => executable(pid).endsWith("/tritonserver"));
      // Triton's models run in processes of their own beside the server; every other program is one.
      return [service, servers.length > 0 ? servers.length : pids.length];
    });
    return Object.fromEntries(programs);
  }

  /** Pid of the stack's supervisord; undefined when it does not run. */
  supervisordPid(): number | undefined {
    const file = join(this.directory, "supervisor", "supervisord.pid");
    return existsSync(file) ? Number(readFileSync(file, "utf8")) : undefined;
  }

  /** @param pid - From `pids` or `supervisordPid`. @throws If the process does not run. */
  kill(pid: number | undefined): void {
    // To `kill`, 0 is the group of the tests themselves.
    if (pid === undefined || pid === 0) throw new Error("The process to kill does not run.");
    process.kill(pid, "SIGKILL");
  }

  async dispose(environment: NodeJS.ProcessEnv = {}): Promise<void> {
    try {
      await this.succeedWith(environment, "down", "--delete-data");
    } finally {
      rmSync(this.#files, { recursive: true, force: true });
      // `pulumi stack init` writes one.
      rmSync(join(projectRoot, `Pulumi.${this.name}.yaml`), { force: true });
    }
  }
}

function ended(child: ChildProcess): Promise<CommandResult> {
  return new Promise((resolve, reject) => {
    let stdout = "";
    let stderr = "";
    child.stdout?.on("data", (data: Buffer) => {
      stdout += data.toString();
    });
    child.stderr?.on("data", (data: Buffer) => {
      stderr += data.toString();
    });
    child.on("error", reject);
    child.on("close", (code) => resolve({ code: code ?? -1, stdout, stderr }));
  });
}

function executable(pid: number): string {
  try {
    return readlinkSync(`/proc/${pid}/exe`);
  } catch {
    return "";
  }
}

function readEnvironment(pid: string): Map<string, string> {
  try {
    const entries = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
    return new Map(
      entries.map((entry) => [entry.slice(0, entry.indexOf("=")), entry.slice(entry.indexOf("=") + 1)]),
    );
  } catch {
    return new Map();
  }
}

/** Asks again and again until it holds. @throws When it does not within the time. */
export async function eventually<T>(ask: () => Promise<T | undefined>, timeoutSeconds = 60): Promise<T> {
  const end = performance.now() + timeoutSeconds * 1000;
  for (;;) {
    const answer = await ask().catch(() => undefined);
    if (answer !== undefined) return answer;
    if (performance.now() > end) throw new Error(`It did not come about within ${timeoutSeconds} s.`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}
