/** `local:index:PythonEnvironment`: a virtual environment that holds exactly what a lock lists. */
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import type { PythonEnvironmentInputs, PythonEnvironmentOutputs } from "../types.ts";
import { runCommand } from "./commands.ts";
import type { CheckFailure, CheckResult, HandlerContext, PropertyMap, ResourceHandler } from "./contract.ts";
import { exclusively } from "./exclusive.ts";
import { fileSha256, fromRoot, orWhenMissing, projectRoot, removeEmptyUpwards, writeWhole } from "./files.ts";
import { findPython, PYTHON_VERSIONS } from "./python-discovery.ts";
import { ensureUv, makeEnvironment, syncEnvironment } from "./uv.ts";
import {
  checkProperties,
  diffProperties,
  hasUnknown,
  pickInputs,
  projectPath,
  sha256Hex,
  stackContentPath,
} from "./validation.ts";

const shape = {
  directory: stackContentPath,
  requirements: projectPath,
  requirementsSha256: sha256Hex,
  pythonVersion: z.enum(PYTHON_VERSIONS).optional(),
};

/** Written last: an environment without it was left half-made. */
const MARKER = ".engine-room-environment.json";

interface Marker {
  readonly requirementsSha256: string;
  /** The version that was asked for. */
  readonly pythonVersion?: string | undefined;
  readonly version: string;
}

/** Triton starts its Python models by a line of shell text in which paths are not quoted. */
function placeFailures(): CheckFailure[] {
  const root = projectRoot();
  if (/^[A-Za-z0-9_./@%+=:,-]+$/.test(root)) return [];
  const reason = `The project lies in ${JSON.stringify(root)}; Triton's Python models start only from paths of letters, digits and _ . / @ % + = : , - (no spaces). Move the project to such a path.`;
  return [{ property: "directory", reason }];
}

export const pythonEnvironment: ResourceHandler = {
  async check(inputs) {
    const checked = checkProperties(shape, inputs);
    const failures = [...checked.failures, ...placeFailures()];
    return failures.length > 0 ? { ...checked, failures } : checkRequirements(checked);
  },

  async diff(_id, olds, news) {
    // Another Python version is a new environment in the same place: a replacement would delete it under the
    // processes that run from it, and the engine would not start those again.
    return diffProperties(Object.keys(shape), olds, news, {
      replaceOn: ["directory"],
      deleteBeforeReplace: false,
    });
  },

  async create(_name, inputs, context) {
    const wanted = asInputs(inputs);
    try {
      return { id: wanted.directory, outs: await bring(wanted, context) };
    } catch (error) {
      await removeEnvironment(wanted.directory);
      throw error;
    }
  },

  async read(id, state) {
    const recorded = asInputs(state);
    const marker = await readMarker(recorded.directory);
    if (marker === undefined || !(await interpreterRuns(recorded.directory, marker.version)))
      return undefined;
    const found = { ...recorded, requirementsSha256: marker.requirementsSha256 };
    return { id, inputs: pickInputs(shape, { ...found }), outs: outputs(found, marker.version) };
  },

  async update(_id, _olds, news, context) {
    return { outs: await bring(asInputs(news), context) };
  },

  async delete(_id, state) {
    await removeEnvironment(asInputs(state).directory);
  },
};

async function checkRequirements(checked: CheckResult): Promise<CheckResult> {
  if (hasUnknown(checked.inputs)) return checked;
  const { requirements, requirementsSha256 } = asInputs(checked.inputs);
  const reason = await requirementsProblem(requirements, requirementsSha256);
  if (reason === undefined) return checked;
  return { ...checked, failures: [{ property: "requirements", reason }] };
}

async function requirementsProblem(path: string, sha256: string): Promise<string | undefined> {
  const actual = await fileSha256(fromRoot(path));
  if (actual === undefined) return `${path} does not exist; restore it from the repository.`;
  return actual === sha256
    ? undefined
    : `${path} has SHA-256 ${actual} instead of ${sha256}: it changed while the program ran; run it again.`;
}

/** Makes the environment what it should be: nothing to do, a sync in place, or a new one. */
async function bring(wanted: PythonEnvironmentInputs, context: HandlerContext): Promise<PropertyMap> {
  return exclusively(fromRoot(wanted.directory), async () => {
    const marker = await readMarker(wanted.directory);
    const usable =
      marker !== undefined &&
      marker.pythonVersion === wanted.pythonVersion &&
      (await interpreterRuns(wanted.directory, marker.version));
    if (usable && marker.requirementsSha256 === wanted.requirementsSha256)
      return outputs(wanted, marker.version);
    const problem = await requirementsProblem(wanted.requirements, wanted.requirementsSha256);
    if (problem !== undefined) throw new Error(problem);

    const python = await findPython(wanted.pythonVersion);
    const uv = await ensureUv(python, context);
    await rm(fromRoot(wanted.directory, MARKER), { force: true });
    if (!usable) {
      context.report(`making ${wanted.directory} with Python ${python.version}`);
      await makeEnvironment(uv, python, fromRoot(wanted.directory), context);
    }
    const version = usable ? marker.version : python.version;
    await syncEnvironment(uv, fromRoot(interpreter(wanted.directory)), [wanted.requirements], context);
    const made: Marker = {
      requirementsSha256: wanted.requirementsSha256,
      pythonVersion: wanted.pythonVersion,
      version,
    };
    await writeWhole(fromRoot(wanted.directory, MARKER), JSON.stringify(made), 0o644);
    return outputs(wanted, version);
  });
}

function outputs(inputs: PythonEnvironmentInputs, version: string): PropertyMap {
  const [major, minor] = version.split(".");
  const values: PythonEnvironmentOutputs = {
    ...inputs,
    python: interpreter(inputs.directory),
    version,
    sitePackages: `${inputs.directory}/lib/python${major}.${minor}/site-packages`,
  };
  return { ...values };
}

function interpreter(directory: string): string {
  return `${directory}/bin/python`;
}

async function readMarker(directory: string): Promise<Marker | undefined> {
  const text = await readFile(fromRoot(directory, MARKER), "utf8").catch(orWhenMissing(undefined));
  return text === undefined ? undefined : (JSON.parse(text) as Marker);
}

async function interpreterRuns(directory: string, version: string): Promise<boolean> {
  const code = "import platform; print(platform.python_version())";
  const argv = [fromRoot(interpreter(directory)), "-I", "-c", code];
  const result = await runCommand(argv, { cwd: "/", timeoutSeconds: 20 });
  return result.exitCode === 0 && result.stdout.trim() === version;
}

async function removeEnvironment(directory: string): Promise<void> {
  const path = fromRoot(directory);
  await exclusively(path, async () => {
    // Without its marker an environment counts as half-made, so an interrupted removal is never adopted.
    await rm(join(path, MARKER), { force: true });
    await rm(path, { recursive: true, force: true });
    await removeEmptyUpwards(join(path, ".."));
  });
}

function asInputs(state: PropertyMap): PythonEnvironmentInputs {
  return pickInputs(shape, state) as unknown as PythonEnvironmentInputs;
}
