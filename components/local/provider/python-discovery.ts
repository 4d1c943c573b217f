/** Finds an installed CPython of a version with wheels, with venv, and with the library that Triton's stub loads. */
import { access, constants } from "node:fs/promises";
import { join } from "node:path";
import { runCommand } from "./commands.ts";
import { PYTHON_VERSIONS } from "./inputs.ts";

export interface PythonInterpreter {
  /** Absolute. */
  readonly executable: string;
  /** As in `3.11.2`. */
  readonly version: string;
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

interface Probe extends PythonInterpreter {
  /** What it lacks, as in ` without venv and ensurepip`; empty where it can serve. */
  readonly lack: string;
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
 * The newest usable interpreter, or that of `wanted` (`3.11`). Looks at `python3.N`, then at `python3`, in the folders of
 * PATH and in /usr/local/bin and /usr/bin; a name is started only where those before it were of no use, as version managers
 * have a script behind each. Throws a PythonMissingError.
 */
export async function findPython(wanted: string | undefined): Promise<PythonInterpreter> {
  const versions: readonly string[] = wanted === undefined ? PYTHON_VERSIONS : [wanted];
  const probes = new Map<string, Probe>();
  for (const name of [...versions.map((version) => `python${version}`), "python3"]) {
    const found = (await Promise.all((await executables(name)).map(probe))).filter(
      (probed) => probed !== undefined,
    );
    for (const version of versions) {
      const usable = found.find((probed) => minor(probed) === version && probed.lack === "");
      if (usable !== undefined) return { executable: usable.executable, version: usable.version };
    }
    for (const probed of found) probes.set(probed.executable, probed);
  }
  throw missing(versions, [...probes.values()]);
}

function missing(versions: readonly string[], probes: readonly Probe[]): PythonMissingError {
  const ofVersion = probes.filter((probed) => versions.includes(minor(probed)));
  const seen = (ofVersion.length > 0 ? ofVersion : probes).map(
    (probed) => `${probed.executable} is ${probed.version}${probed.lack}`,
  );
  const [newest, only] = [versions[0], versions.length === 1];
  const reason = `The stack needs CPython ${only ? newest : `${versions.at(-1)} to ${newest}`} with venv, its shared library and libgomp, but ${seen.join(", ") || "no python3 was found"}`;
  // Without a version: what the distribution calls python3; the development package knows its library's name.
  const [nearest] = ofVersion;
  const library = nearest === undefined ? "libpython3-dev" : `libpython${minor(nearest)}`;
  const packages = only
    ? [`python${newest}`, `python${newest}-venv`, `libpython${newest}`]
    : ["python3", "python3-venv", library];
  return new PythonMissingError(reason, [...packages, "libgomp1"]);
}

/** Absolute paths of a name, in the order of PATH. */
async function executables(name: string): Promise<string[]> {
  const folders = new Set([...(process.env.PATH ?? "").split(":"), "/usr/local/bin", "/usr/bin"]);
  const paths = [...folders].filter((folder) => folder.startsWith("/")).map((folder) => join(folder, name));
  const checks = await Promise.allSettled(paths.map((path) => access(path, constants.X_OK)));
  return paths.filter((_, index) => checks[index]?.status === "fulfilled");
}

/** Undefined where the program does not answer as an interpreter. */
async function probe(path: string): Promise<Probe | undefined> {
  const result = await runCommand([path, "-I", "-c", PROBE], { cwd: "/", timeoutSeconds: 20 });
  if (result.exitCode !== 0) return undefined;
  try {
    return JSON.parse(result.stdout) as Probe;
  } catch {
    return undefined;
  }
}

/** `3.11` of `3.11.2`. */
function minor({ version }: Probe): string {
  return version.split(".").slice(0, 2).join(".");
}
