/** The suites of `npm test`, each with what it needs, and how its results are counted. */
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { projectRoot } from "../program/stack-file.ts";
import { ensureSystemPackages } from "../setup/system-packages.ts";
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
  run(context: { readonly python: string; readonly directory: string }): Promise<Counts>;
}

export type SuiteName = "check" | "unit" | "python" | "services" | "stack";

const cpuModels = join(projectRoot, "containers/cpu-models");

export const SUITES: Readonly<Record<SuiteName, Suite>> = {
  check: {
    summary: "types, lint and format of TypeScript and Python",
    needsPython: true,
    run: async ({ python }) => {
      const outcomes = [
        await execute("npx", ["tsc", "--noEmit"]),
        await execute("npx", ["biome", "check", "."]),
        await execute(python, ["-m", "ruff", "check", "."]),
        await execute(python, ["-m", "ruff", "format", "--check", "."]),
        await execute(python, ["-m", "mypy", "."], { cwd: cpuModels }),
      ];
      const failed = outcomes.filter((code) => code !== 0).length;
      return { passed: outcomes.length - failed, failed, skipped: 0 };
    },
  },
  unit: {
    summary: "pure functions, graphs, the try-out runner; under 30 s",
    needsPython: false,
    run: ({ directory }) => vitest("unit", directory, {}),
  },
  python: {
    summary: "encoders, model launcher and language model, against a real Triton",
    needsPython: true,
    run: async ({ python, directory }) => {
      const report = join(directory, "pytest.xml");
      const code = await execute(python, ["-m", "pytest", "-q", `--junitxml=${report}`], { cwd: cpuModels });
      return countJunit(report, code);
    },
  },
  services: {
    summary: "the gateway and the local provider, over their ports",
    needsPython: true,
    run: ({ directory, python }) => vitest("services", directory, { ENGINE_ROOM_TEST_PYTHON: python }),
  },
  stack: {
    summary: "whole stacks: up, use, kill, mend, down",
    needsPython: true,
    run: ({ directory, python }) => vitest("stack", directory, { ENGINE_ROOM_TEST_PYTHON: python }),
  },
};

/** @param install - Whether missing Debian packages may be installed. */
export async function runSuite(name: SuiteName, install: boolean): Promise<SuiteResult> {
  const suite = SUITES[name];
  const started = performance.now();
  process.stdout.write(`\n== ${name}: ${suite.summary}\n`);
  if (suite.needsPython) await ensureSystemPackages({ install });
  const python = suite.needsPython ? await testPython() : "";
  const directory = mkdtempSync(join(tmpdir(), "engine-room-test-"));
  try {
    const counts = await suite.run({ python, directory });
    return { name, ...counts, seconds: (performance.now() - started) / 1000 };
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

async function vitest(project: string, directory: string, environment: NodeJS.ProcessEnv): Promise<Counts> {
  const report = join(directory, "vitest.json");
  const args = [
    "vitest",
    "run",
    "--project",
    project,
    "--reporter=default",
    "--reporter=json",
    `--outputFile.json=${report}`,
  ];
  const code = await execute("npx", args, { env: { ...process.env, ...environment } });
  return countVitest(report, code);
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

function execute(
  command: string,
  args: readonly string[],
  options: { cwd?: string; env?: NodeJS.ProcessEnv } = {},
): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd: projectRoot,
      stdio: ["ignore", "inherit", "inherit"],
      ...options,
    });
    child.on("error", reject);
    child.on("close", (code) => resolve(code ?? 1));
  });
}
