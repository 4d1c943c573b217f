/** Python environments for tests: one for each set of locked packages and each interpreter. */

import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { cacheDirectory } from "../../components/local/provider/files.ts";
import { findPython, installEnvironment } from "../../components/local/provider/python.ts";
import { projectRoot } from "../program/stack-file.ts";

/**
 * @param locks - Absolute paths of files of pinned and hashed packages.
 * @param report - Gets a line for each step that takes time; none if the download cache has the environment.
 * @returns Absolute path of the interpreter. @throws PythonMissingError
 */
export async function lockedPython(
  locks: readonly string[],
  report: (line: string) => void,
): Promise<string> {
  const interpreter = await findPython(undefined);
  const hash = createHash("sha256").update(interpreter.executable).update(interpreter.version);
  for (const lock of locks) hash.update(readFileSync(lock));
  const directory = join(cacheDirectory(), `test-python-${hash.digest("hex").slice(0, 16)}`);
  const python = join(directory, "bin", "python");
  const complete = join(directory, ".complete");
  if (existsSync(complete)) return python;
  const started = performance.now();
  await installEnvironment({ directory, python: interpreter, locks }, { report });
  // Last, so that an interrupted environment is created again.
  writeFileSync(complete, "");
  report(`Python packages are ready in ${((performance.now() - started) / 1000).toFixed(1)} s`);
  return python;
}

const LOCKS = ["requirements.lock", "requirements-test.lock"].map((name) =>
  join(projectRoot, "containers/cpu-models", name),
);

/** Absolute path of the interpreter; creates the environment in the download cache if the locks have changed. */
export function testPython(): Promise<string> {
  return lockedPython(LOCKS, (line) => void process.stderr.write(`  ${line}\n`));
}
