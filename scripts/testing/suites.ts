/** The suites of `npm test`, each with what it needs and how it is run. */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { imageSource } from "../../infra/plan/docker/image-sources.ts";
import { IMAGE_NAMES } from "../../infra/plan/docker/types.ts";
import { projectRoot } from "../program/stack-file.ts";
import {
  ensureBrowser,
  ensureCheckers,
  ensureContainerEngine,
  ensureOpenMpi,
  ensureSystemPackages,
} from "../setup/system-packages.ts";
import { type Counts, countJunit, countVitest, sumCounts } from "./reports.ts";
import { testPython } from "./test-python.ts";

export interface SuiteResult extends Counts {
  readonly name: string;
  readonly seconds: number;
}

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
      const checks: [command: string, args: readonly string[], cwd?: string][] = [
        [nodeBin("tsc"), ["--noEmit"]],
        [nodeBin("biome"), ["check", "."]],
        [python, ["-m", "ruff", "check", "."]],
        [python, ["-m", "ruff", "format", "--check", "."]],
        [join(dirname(python), "hadolint"), DOCKERFILES],
        ...Object.values(PYTHON_PACKAGES)
          .flat()
          .map((path): [string, string[], string] => [python, ["-m", "mypy", "."], join(projectRoot, path)]),
      ];
      const failures: string[] = [];
      for (const [checker, args, cwd = projectRoot] of checks)
        if ((await execute(checker, args, { cwd })) !== 0)
          failures.push([basename(checker), ...args.slice(0, 3)].join(" "));
      const failed = failures.length;
      return { passed: checks.length - failed, failed, skipped: 0, failures };
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
    summary:
      "engine builder and Triton's entry point, with Open MPI, against stand-ins for what else NVIDIA's images start",
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
  if (names.includes("programs")) ensureOpenMpi({ install });
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
    projectRoot,
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
  return sumCounts(counts);
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
