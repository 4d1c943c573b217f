/** The Python of the tests of `test/aws`: AWS's models of its APIs, a stand-in for them, and a linter of policies. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { lockedPython } from "../../../scripts/testing/python.ts";

const LOCK = join(import.meta.dirname, "requirements.lock");

/** Tools that read some MB of definitions for each call. */
const TIMEOUT_MILLISECONDS = 100_000;

/** Absolute path of the interpreter. @param report - @default says nothing */
export function awsPython(report: (line: string) => void = () => {}): Promise<string> {
  return lockedPython([LOCK], report);
}

/**
 * Runs a script of this folder.
 *
 * @param input - Goes to its standard input as JSON. @returns Its output, parsed as JSON.
 * @throws Error with the end of its error output when it fails.
 */
export async function askPython(script: string, input: unknown): Promise<unknown> {
  const { status, stdout, stderr, error } = spawnSync(
    await awsPython(),
    ["-I", join(import.meta.dirname, script)],
    { encoding: "utf8", input: JSON.stringify(input), timeout: TIMEOUT_MILLISECONDS, maxBuffer: 1 << 28 },
  );
  if (error !== undefined) throw error;
  if (status !== 0)
    throw new Error(`${script} ended with ${status}: ${stderr.trim().split("\n").slice(-3).join(" | ")}`);
  return JSON.parse(stdout);
}
