/** Python with the packages of a lock, for the official clients of PyPI. */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { cacheDirectory } from "../../../components/local/provider/files.ts";
import { findPython, type PythonInterpreter } from "../../../components/local/provider/python-discovery.ts";
import { ensureUv, makeEnvironment, syncEnvironment } from "../../../components/local/provider/uv.ts";

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
  const python = await environmentOf(join(folder, "requirements.lock"), await findPython(undefined));
  const { status, stdout, stderr } = spawnSync(python, [join(folder, script)], {
    encoding: "utf8",
    env: { ...process.env, ...env },
    timeout: 100_000,
  });
  return { status, output: `${stdout}${stderr}` };
}

/** Made once for each lock and interpreter, in the download cache. */
async function environmentOf(lock: string, interpreter: PythonInterpreter): Promise<string> {
  const hash = createHash("sha256")
    .update(`${interpreter.executable} ${interpreter.version}`)
    .update(readFileSync(lock))
    .digest("hex");
  const directory = join(cacheDirectory(), `test-python-${hash.slice(0, 16)}`);
  const python = join(directory, "bin", "python");
  const complete = join(directory, ".complete");
  if (existsSync(complete)) return python;
  const context = { report: () => undefined };
  const uv = await ensureUv(interpreter, context);
  await makeEnvironment(uv, interpreter, directory, context);
  await syncEnvironment(uv, python, [lock], context);
  // Last, so that an environment that was interrupted is made again.
  writeFileSync(complete, "");
  return python;
}
