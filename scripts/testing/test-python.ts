/** The Python that tests use: the packages of the services, and clients and linters beside them. */
import { join } from "node:path";
import { projectRoot } from "../program/stack-file.ts";
import { lockedPython } from "./locked-python.ts";

const LOCKS = ["requirements.lock", "requirements-test.lock"].map((name) =>
  join(projectRoot, "containers/cpu-models", name),
);

/** Absolute path of the interpreter; makes the environment in the download cache where the locks have changed. */
export function testPython(): Promise<string> {
  return lockedPython(LOCKS, (line) => void process.stderr.write(`  ${line}\n`));
}
