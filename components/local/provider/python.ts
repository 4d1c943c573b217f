/**
 * `local:index:PythonEnvironment`: a virtual environment that holds exactly the packages of a lock. Finds an installed CPython
 * of a version with wheels, with venv, and with the library that Triton's stub loads; and makes environments by uv, at one
 * pinned version in the download cache, which fills them by hard links.
 */
import { access, constants, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { runCommand, runOrThrow } from "./commands.ts";
import { type HandlerContext, resourceHandler } from "./contract.ts";
import {
  cacheDirectory,
  exclusively,
  exists,
  fromRoot,
  makeFolder,
  orWhenMissing,
  projectRoot,
  refuseChanged,
  removeEmptyUpwards,
  writeWhole,
} from "./files.ts";
import {
  PYTHON_VERSIONS,
  type PythonEnvironmentInputs,
  type PythonEnvironmentOutputs,
  pythonEnvironmentInputs,
} from "./inputs.ts";

/** Written last: an environment without it is half-made. */
const MARKER = ".engine-room-environment.json";

interface Marker {
  readonly requirementsSha256: string;
  /** The version that was asked for. */
  readonly pythonVersion?: string | undefined;
  /** As in `3.11.2`. */
  readonly version: string;
}

export const pythonEnvironment = resourceHandler<PythonEnvironmentInputs, PythonEnvironmentOutputs>({
  schema: pythonEnvironmentInputs,
  // Another Python version is a new environment in the same place: a replacement would delete it under the
  // processes that run from it, and the engine would not start those again.
  replaceOn: ["directory"],
  idOf: ({ directory }) => directory,

  async bring(wanted, olds, context) {
    try {
      await makeOrSync(wanted, context);
    } catch (error) {
      if (olds.directory === undefined) await removeFolder(wanted.directory);
      throw error;
    }
    return { ...wanted, python: interpreter(wanted.directory) };
  },

  async find(state) {
    const marker = await usableMarker(state.directory);
    return marker && { ...state, requirementsSha256: marker.requirementsSha256 };
  },

  remove: ({ directory }) => removeFolder(directory),
});

/** Does nothing, installs and removes packages in place, or makes a new environment. */
async function makeOrSync(wanted: PythonEnvironmentInputs, context: HandlerContext): Promise<void> {
  const { directory, requirements, requirementsSha256, pythonVersion } = wanted;
  const found = await usableMarker(directory);
  const marker = found?.pythonVersion === pythonVersion ? found : undefined;
  if (marker?.requirementsSha256 === requirementsSha256) return;
  await refuseChanged(requirements, requirementsSha256);
  const python = await findPython(pythonVersion);
  await rm(fromRoot(directory, MARKER), { force: true });
  if (marker === undefined) context.report(`making ${directory} with Python ${python.version}`);
  await installEnvironment(
    { directory: fromRoot(directory), python, locks: [requirements], keep: marker !== undefined },
    context,
  );
  const made: Marker = { requirementsSha256, pythonVersion, version: (marker ?? python).version };
  await writeWhole(fromRoot(directory, MARKER), JSON.stringify(made), 0o644);
}

function interpreter(directory: string): string {
  return `${directory}/bin/python`;
}

/** Undefined if the environment is half-made or its interpreter no longer runs. */
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

interface PythonInterpreter {
  /** Absolute. */
  readonly executable: string;
  /** As in `3.11.2`. */
  readonly version: string;
  /** A missing part, as in ` without venv and ensurepip`; empty if the interpreter is usable. */
  readonly lack: string;
}

/** There is no usable Python: one sentence that ends with the Debian command which helps. */
export class PythonMissingError extends Error {
  /** Names for `apt-get install`. */
  readonly debianPackages: readonly string[];

  constructor(reason: string, debianPackages: readonly string[]) {
    super(`${reason}: apt-get install ${debianPackages.join(" ")}`);
    this.name = "PythonMissingError";
    this.debianPackages = debianPackages;
  }
}

// llama.cpp's wheel computes with libgomp and does not carry it.
const PROBE = `
import ctypes, importlib.util, json, os, platform, sys, sysconfig
def loads(library):
    try:
        ctypes.CDLL(library)
        return True
    except OSError:
        return False
library = f"libpython{sys.version_info.major}.{sys.version_info.minor}.so.1.0"
lack = ""
if platform.python_implementation() != "CPython":
    lack = f" of {platform.python_implementation()}"
elif not all(importlib.util.find_spec(module) for module in ("venv", "ensurepip")):
    lack = " without venv and ensurepip"
elif not (os.path.exists(os.path.join(sysconfig.get_config_var("LIBDIR") or "", library)) or loads(library)):
    lack = f" without {library}"
elif not loads("libgomp.so.1"):
    lack = " on a system without libgomp.so.1"
print(json.dumps({"executable": sys.executable, "version": platform.python_version(), "lack": lack}))
`;

/**
 * A usable interpreter of the newest version that has a name of its own, or that of `wanted` (`3.11`). Looks at `python3.N`, then at `python3`, in the folders of
 * PATH and in /usr/local/bin and /usr/bin; a program is started only if those before it were of no use, as version
 * managers have a script behind each name. Throws a PythonMissingError.
 */
export async function findPython(wanted: string | undefined): Promise<PythonInterpreter> {
  const versions: readonly string[] = wanted === undefined ? PYTHON_VERSIONS : [wanted];
  const folders = new Set([...(process.env.PATH ?? "").split(":"), "/usr/local/bin", "/usr/bin"]);
  const paths = [...versions.map((version) => `python${version}`), "python3"].flatMap((name) =>
    [...folders].filter((folder) => folder.startsWith("/")).map((folder) => join(folder, name)),
  );
  const seen = new Map<string, PythonInterpreter>();
  for (const path of paths) {
    const python = await probe(path);
    if (python === undefined) continue;
    if (versions.includes(minor(python)) && python.lack === "") return python;
    seen.set(python.executable, python);
  }
  throw missing(versions, [...seen.values()]);
}

function missing(versions: readonly string[], seen: readonly PythonInterpreter[]): PythonMissingError {
  const ofVersion = seen.filter((python) => versions.includes(minor(python)));
  const descriptions = (ofVersion.length > 0 ? ofVersion : seen).map(
    ({ executable, version, lack }) => `${executable} is ${version}${lack}`,
  );
  const [newest, only] = [versions[0], versions.length === 1];
  const reason = `The stack needs CPython ${only ? newest : `${versions.at(-1)} to ${newest}`} with venv, its shared library and libgomp, but ${descriptions.join(", ") || "no python3 was found"}`;
  // Without a version: the distribution's python3; the development package depends on the library, whose name has a version.
  const [nearest] = ofVersion;
  const library = nearest === undefined ? "libpython3-dev" : `libpython${minor(nearest)}`;
  const packages = only
    ? [`python${newest}`, `python${newest}-venv`, `libpython${newest}`]
    : ["python3", "python3-venv", library];
  return new PythonMissingError(reason, [...packages, "libgomp1"]);
}

/** Undefined for a missing program, or a program that is not an interpreter. */
async function probe(path: string): Promise<PythonInterpreter | undefined> {
  const result = await access(path, constants.X_OK).then(
    () => runCommand([path, "-I", "-c", PROBE], { cwd: "/", timeoutSeconds: 20 }),
    () => undefined,
  );
  if (result?.exitCode !== 0) return undefined;
  try {
    return JSON.parse(result.stdout) as PythonInterpreter;
  } catch {
    return undefined;
  }
}

/** `3.11` of `3.11.2`. */
function minor({ version }: PythonInterpreter): string {
  return version.split(".").slice(0, 2).join(".");
}

/** The version in uv-requirements.txt. */
const UV_VERSION = "0.13.8";

// The first install downloads some hundred MiB.
const INSTALL_TIMEOUT_SECONDS = 1800;

/** Default registry of each program, and the variables that change it. */
const PIP_REGISTRY = "https://pypi.org, or the index that PIP_INDEX_URL or pip.conf names";
const UV_REGISTRY = "https://pypi.org, or the index that UV_DEFAULT_INDEX or uv.toml names";

interface WantedEnvironment {
  /** Absolute path. */
  readonly directory: string;
  readonly python: Pick<PythonInterpreter, "executable">;
  /** Paths of locks with a hash for every file. */
  readonly locks: readonly string[];
  /** Keeps the existing environment instead of creating an empty environment first. */
  readonly keep?: boolean;
}

/**
 * Gives an environment exactly the packages of locks; installs uv first if the cache lacks it. It needs no network if the cache has
 * all packages.
 */
export async function installEnvironment(
  { directory, python, locks, keep = false }: WantedEnvironment,
  context: HandlerContext,
): Promise<void> {
  const uv = await ensureUv(python, context);
  if (!keep) {
    const options = ["--quiet", "--no-config", "--no-project", "--clear", "--python", python.executable];
    const purpose = `making the environment ${directory}`;
    await run([uv, "venv", ...options, directory], { purpose, paths: [directory] }, context);
  }
  const options = ["--no-build", "--require-hashes", "--allow-empty-requirements"];
  const sync = [uv, "pip", "sync", ...options, "--python", join(directory, "bin", "python"), ...locks];
  const step = {
    purpose: `installing ${locks.join(" and ")}`,
    paths: [directory, cacheDirectory(), tmpdir()],
    registry: UV_REGISTRY,
  };
  const isCached = await run([...sync, "--offline"], step, context).then(
    () => true,
    () => false,
  );
  if (isCached) return;
  context.report(`installing what ${locks.join(" and ")} lists`);
  // The steps that take time, without the list of all packages at the end.
  const onLine = (line: string) => {
    if (/^(Resolved|Downloading|Prepared|Installed) /.test(line.trim())) context.report(line.trim());
  };
  await run(sync, { ...step, onLine }, context);
}

/** @returns Path of uv. */
async function ensureUv(
  { executable }: WantedEnvironment["python"],
  context: HandlerContext,
): Promise<string> {
  const folder = join(cacheDirectory(), `uv-${UV_VERSION}`);
  const uv = join(folder, "bin", "uv");
  return exclusively(folder, async () => {
    if (await exists(uv)) return uv;
    const purpose = `installing uv ${UV_VERSION}`;
    context.report(`${purpose} into the download cache`);
    // uv is one binary: it works wherever the folder of its environment is moved.
    await makeFolder(folder, async (temporary) => {
      const pip = [join(temporary, "bin", "python"), "-m", "pip", "install", "--quiet", "--no-deps"];
      const options = ["--disable-pip-version-check", "--only-binary", ":all:", "--require-hashes"];
      const lock = join(import.meta.dirname, "uv-requirements.txt");
      const step = { purpose, paths: [folder, tmpdir()], registry: PIP_REGISTRY };
      await run([executable, "-I", "-m", "venv", temporary], step, context);
      await run([...pip, ...options, "--requirement", lock], step, context);
    });
    return uv;
  });
}

/** Throws one sentence if the program fails. */
async function run(
  argv: readonly string[],
  step: Pick<Parameters<typeof runOrThrow>[1], "purpose" | "paths" | "registry" | "onLine">,
  { signal }: HandlerContext,
): Promise<void> {
  const environment = {
    ...process.env,
    UV_CACHE_DIR: join(cacheDirectory(), "uv"),
    UV_PYTHON_DOWNLOADS: "never",
    UV_NO_PROGRESS: "1",
    NO_COLOR: "1",
  };
  const timeoutSeconds = INSTALL_TIMEOUT_SECONDS;
  await runOrThrow(argv, { ...step, cwd: projectRoot(), environment, timeoutSeconds, signal });
}
