/** `local:index:PythonEnvironment`: a virtual environment that holds exactly what a lock lists. */
import { readFile, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { runCommand } from "./commands.ts";
import { type HandlerContext, hasUnknown, resourceHandler } from "./contract.ts";
import { fromRoot, orWhenMissing, removeEmptyUpwards, sourceProblem, writeWhole } from "./files.ts";
import {
  type PythonEnvironmentInputs,
  type PythonEnvironmentOutputs,
  pythonEnvironmentInputs,
} from "./inputs.ts";
import { findPython, installEnvironment } from "./python.ts";

/** Written last: an environment without it is half-made. */
const MARKER = ".engine-room-environment.json";

interface Marker {
  readonly requirementsSha256: string;
  /** The version that was asked for. */
  readonly pythonVersion?: string | undefined;
  readonly version: string;
}

export const pythonEnvironment = resourceHandler<PythonEnvironmentInputs, PythonEnvironmentOutputs>({
  schema: pythonEnvironmentInputs,
  // Another Python version is a new environment in the same place: a replacement would delete it under the
  // processes that run from it, and the engine would not start those again.
  replaceOn: ["directory"],
  deleteBeforeReplace: false,
  idOf: ({ directory }) => directory,

  async examine(inputs) {
    if (hasUnknown(inputs)) return { failures: [] };
    const { requirements, requirementsSha256 } = inputs as unknown as PythonEnvironmentInputs;
    const reason = await sourceProblem(requirements, requirementsSha256);
    return { failures: reason === undefined ? [] : [{ property: "requirements", reason }] };
  },

  /** Nothing to do, a sync in place, or a new environment. */
  async bring(wanted, olds, context) {
    try {
      return outputs(wanted, await makeOrSync(wanted, context));
    } catch (error) {
      if (olds.directory === undefined) await removeFolder(wanted.directory);
      throw error;
    }
  },

  async find(state) {
    const marker = await usableMarker(state.directory);
    return marker && outputs({ ...state, requirementsSha256: marker.requirementsSha256 }, marker.version);
  },

  remove: ({ directory }) => removeFolder(directory),
});

/** @returns The version of the environment's Python. */
async function makeOrSync(wanted: PythonEnvironmentInputs, context: HandlerContext): Promise<string> {
  const { directory, requirements, requirementsSha256, pythonVersion } = wanted;
  const marker = await usableMarker(directory);
  const usable = marker !== undefined && marker.pythonVersion === pythonVersion;
  if (usable && marker.requirementsSha256 === requirementsSha256) return marker.version;
  const problem = await sourceProblem(requirements, requirementsSha256);
  if (problem !== undefined) throw new Error(problem);

  const python = await findPython(pythonVersion);
  await rm(fromRoot(directory, MARKER), { force: true });
  if (!usable) context.report(`making ${directory} with Python ${python.version}`);
  await installEnvironment(
    { directory: fromRoot(directory), python, locks: [requirements], keep: usable },
    context,
  );
  const version = usable ? marker.version : python.version;
  const made: Marker = { requirementsSha256, pythonVersion, version };
  await writeWhole(fromRoot(directory, MARKER), JSON.stringify(made), 0o644);
  return version;
}

function outputs(inputs: PythonEnvironmentInputs, version: string): PythonEnvironmentOutputs {
  const [major, minor] = version.split(".");
  const { directory } = inputs;
  const sitePackages = `${directory}/lib/python${major}.${minor}/site-packages`;
  return { ...inputs, python: interpreter(directory), version, sitePackages };
}

function interpreter(directory: string): string {
  return `${directory}/bin/python`;
}

/** Undefined where the environment is half-made or its interpreter no longer runs. */
async function usableMarker(directory: string): Promise<Marker | undefined> {
  const text = await readFile(fromRoot(directory, MARKER), "utf8").catch(orWhenMissing(undefined));
  if (text === undefined) return undefined;
  const marker = JSON.parse(text) as Marker;
  const code = "import platform; print(platform.python_version())";
  const argv = [fromRoot(interpreter(directory)), "-I", "-c", code];
  const result = await runCommand(argv, { cwd: "/", timeoutSeconds: 20 });
  return result.exitCode === 0 && result.stdout.trim() === marker.version ? marker : undefined;
}

async function removeFolder(directory: string): Promise<void> {
  const path = fromRoot(directory);
  // First: an environment whose removal was interrupted is never adopted.
  await rm(join(path, MARKER), { force: true });
  await rm(path, { recursive: true, force: true });
  await removeEmptyUpwards(dirname(path));
}
