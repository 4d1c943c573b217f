/** The suites of `npm test`, with their requirements and commands. */
import { spawn } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { IMAGE_NAMES, imageSources } from "../../infra/plan/docker/images.ts";
import { projectRoot } from "../program/stack-file.ts";
import { ensureSystemPackages, installTestPrograms } from "../setup/system-packages.ts";
import { type FileResult, LineReader, PytestLog, type TestEvent } from "./events.ts";
import { testPython } from "./python.ts";

export interface SuiteResult {
  readonly name: SuiteName;
  readonly seconds: number;
  readonly files: readonly FileResult[];
  /** All output of its runners. */
  readonly output: string;
}

interface Suite {
  readonly summary: string;
  /** Whether Python with the packages of the services is needed. */
  readonly needsPython: boolean;
  /** Whether it needs the whole machine: no other suite runs at the same time. */
  readonly isExclusive?: true;
  run(context: SuiteContext): Promise<void>;
}

interface SuiteContext {
  /** Interpreter with the packages of the services and of the tests; empty if it is not needed. */
  readonly python: string;
  /** For reports; removed afterwards. */
  readonly directory: string;
  readonly execute: Execute;
  readonly report: (event: TestEvent) => void;
}

/** @returns The exit code. */
type Execute = (
  command: string,
  args: readonly string[],
  options?: { readonly cwd?: string; readonly env?: NodeJS.ProcessEnv },
) => Promise<number>;

export type SuiteName =
  | "check"
  | "unit"
  | "python"
  | "programs"
  | "services"
  | "stack"
  | "aws"
  | "docker"
  | "cluster";

/** Without npx, which takes as long to start as some suites to run. */
const nodeBin = (name: string) => join(projectRoot, "node_modules/.bin", name);

/** The project's Python package, in which pytest runs, and its folders of tests by suite. */
const PYTHON_PACKAGE = "containers/python";
const PYTHON_TESTS = {
  python: ["tests/cpu_models", "tests/encoder_builder"],
  programs: ["tests/shared", "tests/engine_builder", "tests/triton_entrypoint"],
} as const;

const DOCKERFILES = IMAGE_NAMES.flatMap((name) => {
  const source = imageSources[name];
  return source.kind === "built" ? [source.dockerfile] : [];
});

/** Exit code if a program can't be started, as in shells. */
const NOT_STARTED = 127;

/** Exit code of a check that this machine can't run, as in Automake. */
export const SKIPPED = 77;

/** Interval at which the results of a running suite are read. */
const READ_EVERY_MS = 100;

/** In the order of their start: those that mostly wait come first. */
export const SUITES: Readonly<Record<SuiteName, Suite>> = {
  stack: {
    summary: "whole stacks: up, use, kill, repair, down; commands in processes of their own",
    needsPython: true,
    run: (context) => vitest("stack", context),
  },
  services: {
    summary: "gateway, page, databases and the local provider, over their ports",
    needsPython: true,
    run: (context) => vitest("services", context),
  },
  python: {
    summary: "encoders and their builder, the entry point and the language model, against a real Triton",
    needsPython: true,
    run: (context) => pytest("python", context),
  },
  programs: {
    summary:
      "engine builder and Triton's entry point, with Open MPI, against stand-ins for what else NVIDIA's images start",
    needsPython: true,
    run: (context) => pytest("programs", context),
  },
  unit: {
    summary: "pure functions, graphs, the try-out runner",
    needsPython: false,
    run: (context) => vitest("unit", context),
  },
  check: {
    summary: "types, lint and format of TypeScript and Python, lint of Dockerfiles, workflows and texts",
    needsPython: true,
    run: check,
  },
  aws: {
    summary:
      "requests of stacks to AWS, checked by AWS's API models; policies linted; calls against a stand-in for AWS",
    needsPython: false,
    run: (context) => vitest("aws", context),
  },
  docker: {
    summary: "images built and run, by a Docker engine of its own; as root",
    needsPython: false,
    isExclusive: true,
    run: (context) => vitest("docker", context),
  },
  cluster: {
    summary: "objects on a Kubernetes API server, scheduler and controllers of its own, built once with Go",
    needsPython: false,
    isExclusive: true,
    run: (context) => vitest("cluster", context),
  },
};

export const SUITE_NAMES = Object.keys(SUITES) as readonly SuiteName[];

/** Suites of `npm test`; the others have their own commands. */
export const DEFAULT_SUITES = SUITE_NAMES.filter((name) => SUITES[name].isExclusive !== true);

/**
 * Sets up what the suites need.
 *
 * @param install - Whether missing Debian packages may be installed.
 * @returns The interpreter for `runSuites`; empty if no suite needs one.
 */
export async function prepareSuites(names: readonly SuiteName[], install: boolean): Promise<string> {
  if (install) for (const name of names) installTestPrograms(name);
  if (!names.some((name) => SUITES[name].needsPython)) return "";
  await ensureSystemPackages({ install });
  return testPython();
}

interface SuitesRun {
  /** From `prepareSuites`. */
  readonly python: string;
  onEvent(suite: SuiteName, event: TestEvent): void;
  onEnd(result: SuiteResult): void;
}

/** Runs suites side by side, in the order of SUITES; those that take the whole machine come last, one after the other. */
export async function runSuites(names: readonly SuiteName[], run: SuitesRun): Promise<void> {
  const chosen = SUITE_NAMES.filter((name) => names.includes(name));
  const runOne = async (name: SuiteName) => run.onEnd(await runSuite(name, run));
  const shared = chosen.filter((name) => SUITES[name].isExclusive !== true);
  // Suites wait for processes and time-outs: one more than the number of cores keeps the cores busy.
  await sideBySide(shared, availableParallelism() + 1, runOne);
  for (const name of chosen) if (SUITES[name].isExclusive === true) await runOne(name);
}

async function runSuite(name: SuiteName, { python, onEvent }: SuitesRun): Promise<SuiteResult> {
  const started = performance.now();
  const directory = mkdtempSync(join(tmpdir(), "engine-room-test-"));
  // Some tests start programs as another user.
  chmodSync(directory, 0o755);
  const files: FileResult[] = [];
  const output: Buffer[] = [];
  const report = (event: TestEvent) => {
    if ("file" in event) files.push(event);
    onEvent(name, event);
  };
  try {
    // Files of killed processes are removed with the run. A container engine's folder has mounts: it removes it itself.
    const env = SUITES[name].isExclusive === true ? {} : { TMPDIR: directory };
    const execute = executor((data) => output.push(data), env);
    await SUITES[name].run({ python, directory, execute, report });
    const seconds = (performance.now() - started) / 1000;
    return { name, seconds, files, output: Buffer.concat(output).toString("utf8") };
  } finally {
    rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
  }
}

/**
 * Checks side by side, the slowest first. Types are checked again only if something has changed since the last run.
 */
async function check({ python, execute, report }: SuiteContext): Promise<void> {
  const checks: readonly (readonly [command: string, args: readonly string[]])[] = [
    // Version 7, in a third of the time; the SDK supports at most version 5 of the package `typescript`.
    [join(projectRoot, "node_modules/typescript-7/bin/tsc"), []],
    [nodeBin("biome"), ["check", "."]],
    [python, ["-m", "mypy"]],
    [python, ["-m", "ruff", "check", "."]],
    [python, ["-m", "ruff", "format", "--check", "."]],
    [join(dirname(python), "hadolint"), DOCKERFILES],
    [join(dirname(python), "zizmor"), ["--offline", "--no-progress", ".github"]],
    [nodeBin("tsx"), ["test/prose/lint.ts", python]],
  ];
  report({ files: checks.length });
  await sideBySide(checks, availableParallelism(), async ([command, args]) => {
    const started = performance.now();
    const code = await execute(command, args);
    const file = (command === python ? args.slice(1) : [basename(command), ...args.slice(0, 1)]).join(" ");
    const reason =
      code === 0 ? "" : code === SKIPPED ? "no Go that can build it" : `ended with exit code ${code}`;
    const state = code === 0 ? "passed" : code === SKIPPED ? "skipped" : "failed";
    const seconds = (performance.now() - started) / 1000;
    report({ file, seconds, tests: [{ title: "", state, reason }] });
  });
}

async function vitest(project: string, { directory, execute, python, report }: SuiteContext): Promise<void> {
  const path = join(directory, "events");
  const reporter = join(projectRoot, "scripts/testing/vitest-reporter.ts");
  const args = ["run", "--project", project, "--reporter=default", `--reporter=${reporter}`];
  const env = { ENGINE_ROOM_TEST_PYTHON: python, ENGINE_ROOM_TEST_EVENTS: path };
  const run = execute(nodeBin("vitest"), args, { env });
  await follow(
    run,
    path,
    (line) => [JSON.parse(line) as TestEvent],
    (event) => report(event),
  );
}

/** Settings of numpy's BLAS: other suites have the other cores, and its threads wait for one another by spinning. */
const ONE_THREAD = { OPENBLAS_NUM_THREADS: "1", OMP_NUM_THREADS: "1" };

async function pytest(
  suite: keyof typeof PYTHON_TESTS,
  { python, directory, execute, report }: SuiteContext,
): Promise<void> {
  const path = join(directory, `${suite}.jsonl`);
  const log = new PytestLog(PYTHON_PACKAGE);
  const options = { cwd: join(projectRoot, PYTHON_PACKAGE), env: ONE_THREAD };
  const args = ["-m", "pytest", "-q", `--report-log=${path}`, ...PYTHON_TESTS[suite]];
  await follow(execute(python, args, options), path, (line) => log.events(line), report);
}

/** Reports what a run writes to a file until it ends; a run that fails without saying where is a failure of its own. */
async function follow(
  run: Promise<number>,
  path: string,
  eventsOf: (line: string) => readonly TestEvent[],
  report: (event: TestEvent) => void,
): Promise<void> {
  const reader = new LineReader(path);
  let results = 0;
  let hasFailed = false;
  const read = () => {
    for (const event of reader.read().flatMap(eventsOf)) {
      if ("file" in event) {
        results += event.tests.length;
        hasFailed ||= event.tests.some(({ state }) => state === "failed");
      }
      report(event);
    }
  };
  const timer = setInterval(read, READ_EVERY_MS);
  const code = await run.finally(() => clearInterval(timer));
  read();
  if (hasFailed || (code === 0 && results > 0)) return;
  const reason = code === 0 ? "the runner found no tests" : `the runner ended with exit code ${code}`;
  report({ file: basename(path), seconds: 0, tests: [{ title: "", state: "failed", reason }] });
}

/** @param runEnv - Variables for all processes that it starts, in addition to this process's. */
function executor(collect: (data: Buffer) => void, runEnv: NodeJS.ProcessEnv): Execute {
  return (command, args, { cwd = projectRoot, env = {} } = {}) =>
    new Promise((resolve) => {
      const child = spawn(command, args, {
        cwd,
        env: { ...process.env, ...runEnv, ...env },
        stdio: ["ignore", "pipe", "pipe"],
      });
      child.stdout.on("data", collect);
      child.stderr.on("data", collect);
      child.on("error", (error) => {
        collect(Buffer.from(`${error.message}\n`));
        resolve(NOT_STARTED);
      });
      child.on("close", (code) => resolve(code ?? 1));
    });
}

/** Processes the items in their order, with limited concurrency. */
async function sideBySide<T>(
  items: readonly T[],
  most: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const waiting = [...items];
  const worker = async () => {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: most }, worker));
}
