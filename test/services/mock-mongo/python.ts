/** Python with the packages of a lock, for the official clients of PyPI. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { findPython } from "../../../components/local/provider/python-discovery.ts";
import { lockedPython } from "../../../scripts/testing/locked-python.ts";

/** Why there is none; undefined where there is one. */
export async function pythonMissing(): Promise<string | undefined> {
  try {
    await findPython(undefined);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/** Runs a script with the packages of a lock beside it. @returns All that it printed. */
export async function runPython(
  folder: string,
  script: string,
  env: Readonly<Record<string, string>>,
): Promise<{ readonly status: number | null; readonly output: string }> {
  const python = await lockedPython([join(folder, "requirements.lock")], () => undefined);
  const { status, stdout, stderr } = spawnSync(python, [join(folder, script)], {
    encoding: "utf8",
    env: { ...process.env, ...env },
    timeout: 100_000,
  });
  return { status, output: `${stdout}${stderr}` };
}
