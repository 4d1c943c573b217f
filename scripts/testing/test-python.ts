/** The Python that tests use: the packages of the services, and clients and linters beside them. */
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { cacheDirectory } from "../../components/local/provider/files.ts";
import { findPython } from "../../components/local/provider/python-discovery.ts";
import { ensureUv, makeEnvironment, syncEnvironment } from "../../components/local/provider/uv.ts";
import { projectRoot } from "../program/stack-file.ts";

const LOCKS = ["requirements.lock", "requirements-test.lock"].map((name) =>
  join(projectRoot, "containers/cpu-models", name),
);

/** Absolute path of the interpreter; makes the environment in the download cache where the locks have changed. */
export async function testPython(): Promise<string> {
  const interpreter = await findPython(undefined);
  const hash = createHash("sha256").update(interpreter.executable).update(interpreter.version);
  for (const lock of LOCKS) hash.update(readFileSync(lock));
  const directory = join(cacheDirectory(), `test-python-${hash.digest("hex").slice(0, 16)}`);
  const python = join(directory, "bin", "python");
  const complete = join(directory, ".complete");
  if (existsSync(complete)) return python;
  const started = performance.now();
  const context = { report: (line: string) => void process.stderr.write(`  ${line}\n`) };
  const uv = await ensureUv(interpreter, context);
  await makeEnvironment(uv, interpreter, directory, context);
  await syncEnvironment(uv, python, LOCKS, context);
  // Last, so that an environment that was interrupted is made again.
  writeFileSync(complete, "");
  process.stderr.write(
    `Python packages of the tests are ready in ${((performance.now() - started) / 1000).toFixed(1)} s\n`,
  );
  return python;
}
