/** The suites of `npm test`, each with what it needs, and how its results are counted. */
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { imageSource } from "../../infra/plan/docker/image-sources.ts";
import { IMAGE_NAMES } from "../../infra/plan/docker/types.ts";
import { projectRoot } from "../program/stack-file.ts";
import {
  ensureBrowser,
  ensureCheckers,
  ensureContainerEngine,
  ensureSystemPackages,
} from "../setup/system-packages.ts";
import { testPython } from "./test-python.ts";

export interface SuiteResult {
  readonly name: string;
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  readonly seconds: number;
}

type Counts = Pick<SuiteResult, "passed" | "failed" | "skipped">;

interface Suite {
  readonly summary: string;
  /** Whether Python with the packages of the services is needed. */
  readonly needsPython: boolean;
  run(context: SuiteContext): Promise<Counts>;
}

interface SuiteContext {
  /** Interpreter with the packages of the services and of the tests; empty where it is not needed. */
  readonly python: string;
  /** For reports; removed afterwards. */
  readonly directory: string;
  readonly execute: Execute;
}

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

/** Python packages of the project; each has its types and its tests checked from its own folder. */
const PYTHON_PACKAGES = {
  python: ["containers/cpu-models", "containers/encoders"],
  programs: ["containers/container-program", "containers/trtllm"],
} as const;

const DOCKERFILES = IMAGE_NAMES.flatMap((name) => {
  const source = imageSource(name);
  return source.kind === "built" ? [source.dockerfile] : [];
});

export const SUITES: Readonly<Record<SuiteName, Suite>> = {
  check: {
    summary: "types, lint and format of TypeScript and Python, lint of Dockerfiles",
    needsPython: true,
    run: async ({ python, execute }) => {
      const outcomes = [
        await execute(nodeBin("tsc"), ["--noEmit"]),
        await execute(nodeBin("biome"), ["check", "."]),
        await execute(python, ["-m", "ruff", "check", "."]),
        await execute(python, ["-m", "ruff", "format", "--check", "."]),
        await execute(join(dirname(python), "hadolint"), DOCKERFILES),
      ];
      for (const path of Object.values(PYTHON_PACKAGES).flat())
        outcomes.push(await execute(python, ["-m", "mypy", "."], { cwd: join(projectRoot, path) }));
      const failed = outcomes.filter((code) => code !== 0).length;
      return { passed: outcomes.length - failed, failed, skipped: 0 };
    },
  },
  unit: {
    summary: "pure functions, graphs, the try-out runner",
    needsPython: false,
    run: (context) => vitest("unit", context),
  },
  python: {
    summary: "encoders and their builder, model launcher and language model, against a real Triton",
    needsPython: true,
    run: (context) => pytest("python", context),
  },
  programs: {
    summary: "engine builder and Triton's entry point, against stand-ins for what NVIDIA's images start",
    needsPython: true,
    run: (context) => pytest("programs", context),
  },
  services: {
    summary: "gateway, page, databases and the local provider, over their ports",
    needsPython: true,
    run: (context) => vitest("services", context),
  },
  stack: {
    summary: "whole stacks: up, use, kill, mend, down",
    needsPython: true,
    run: (context) => vitest("stack", context),
  },
  aws: {
    summary:
      "what stacks ask AWS for by its own API models, policies linted, calls against a stand-in for it",
    needsPython: false,
    run: (context) => vitest("aws", context),
  },
  docker: {
    summary: "images built and run, by a Docker engine of its own; as root",
    needsPython: false,
    run: (context) => vitest("docker", context),
  },
  cluster: {
    summary: "objects on a Kubernetes API server, scheduler and controllers of its own, built once with Go",
    needsPython: false,
    run: (context) => vitest("cluster", context),
  },
};

/** What `npm test` runs; the others have commands of their own. */
export const DEFAULT_SUITES: readonly SuiteName[] = [
  "check",
  "unit",
  "python",
  "services",
  "programs",
  "stack",
  "aws",
];

/** Suites that run at the same time, in this order: those that mostly wait are put together. */
export const STAGES: readonly (readonly SuiteName[])[] = [
  ["check"],
  ["unit"],
  ["python", "services"],
  ["programs", "stack", "aws"],
  ["docker"],
  ["cluster"],
];

/**
 * Sets up what the suites need.
 *
 * @param install - Whether missing Debian packages may be installed.
 * @returns The interpreter for `runSuite`; empty where no suite needs one.
 */
export async function prepareSuites(names: readonly SuiteName[], install: boolean): Promise<string> {
  if (names.includes("docker")) ensureContainerEngine({ install });
  if (names.includes("unit")) ensureCheckers({ install });
  if (!names.some((name) => SUITES[name].needsPython)) return "";
  await ensureSystemPackages({ install });
  if (names.includes("services")) ensureBrowser({ install });
  return testPython();
}

/** @param alone - Whether it is the only one that runs, so that its output can be shown as it comes. */
export async function runSuite(name: SuiteName, python: string, alone: boolean): Promise<SuiteResult> {
  const started = performance.now();
  const title = `\n== ${name}: ${SUITES[name].summary}\n`;
  const output: Buffer[] = [];
  if (alone) process.stdout.write(title);
  const directory = mkdtempSync(join(tmpdir(), "engine-room-test-"));
  try {
    const execute = executor(alone ? undefined : (data) => output.push(data));
    const counts = await SUITES[name].run({ python, directory, execute });
    return { name, ...counts, seconds: (performance.now() - started) / 1000 };
  } finally {
    if (!alone) process.stdout.write(Buffer.concat([Buffer.from(title), ...output]));
    rmSync(directory, { recursive: true, force: true });
  }
}

async function vitest(project: string, { directory, execute, python }: SuiteContext): Promise<Counts> {
  const report = join(directory, "vitest.json");
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${report}`];
  const env = { ...process.env, ENGINE_ROOM_TEST_PYTHON: python };
  return countVitest(
    report,
    await execute(nodeBin("vitest"), ["run", "--project", project, ...reporters], { env }),
  );
}

async function pytest(
  packages: keyof typeof PYTHON_PACKAGES,
  { python, directory, execute }: SuiteContext,
): Promise<Counts> {
  const counts: Counts[] = [];
  for (const path of PYTHON_PACKAGES[packages]) {
    const report = join(directory, `pytest-${basename(path)}.xml`);
    const cwd = join(projectRoot, path);
    const code = await execute(python, ["-m", "pytest", "-q", `--junitxml=${report}`], { cwd });
    counts.push(countJunit(report, code));
  }
  return sum(counts);
}

function sum(counts: readonly Counts[]): Counts {
  const total = (key: keyof Counts) => counts.reduce((all, one) => all + one[key], 0);
  return { passed: total("passed"), failed: total("failed"), skipped: total("skipped") };
}

/** A report that is missing, or that counts no failure though the runner failed, is one failure. */
function countVitest(report: string, code: number): Counts {
  const read = readReport(report);
  if (read === undefined) return { passed: 0, failed: 1, skipped: 0 };
  const { numPassedTests, numFailedTests, numPendingTests } = JSON.parse(read) as Record<string, number>;
  return atLeastOneFailure(
    { passed: numPassedTests ?? 0, failed: numFailedTests ?? 0, skipped: numPendingTests ?? 0 },
    code,
  );
}

function countJunit(report: string, code: number): Counts {
  const read = readReport(report);
  const suite = /<testsuite [^>]*>/.exec(read ?? "")?.[0];
  if (suite === undefined) return { passed: 0, failed: 1, skipped: 0 };
  const attribute = (name: string) => Number(new RegExp(` ${name}="(\\d+)"`).exec(suite)?.[1] ?? 0);
  const failed = attribute("failures") + attribute("errors");
  const skipped = attribute("skipped");
  return atLeastOneFailure({ passed: attribute("tests") - failed - skipped, failed, skipped }, code);
}

function atLeastOneFailure(counts: Counts, code: number): Counts {
  return code !== 0 && counts.failed === 0 ? { ...counts, failed: 1 } : counts;
}

function readReport(report: string): string | undefined {
  try {
    return readFileSync(report, "utf8");
  } catch {
    return undefined;
  }
}

/** @param collect - Takes what is printed; without it, it is shown as it comes. */
function executor(collect: ((data: Buffer) => void) | undefined): Execute {
  const out = collect === undefined ? "inherit" : "pipe";
  return (command, args, options = {}) =>
    new Promise((resolve, reject) => {
      const child = spawn(command, args, { cwd: projectRoot, stdio: ["ignore", out, out], ...options });
      child.stdout?.on("data", (data: Buffer) => collect?.(data));
      child.stderr?.on("data", (data: Buffer) => collect?.(data));
      child.on("error", reject);
      child.on("close", (code) => resolve(code ?? 1));
    });
}
