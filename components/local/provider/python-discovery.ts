/** Finds an installed CPython that can serve: a version with wheels, venv, and the library that Triton's stub loads. */
import { access, constants } from "node:fs/promises";
import { join } from "node:path";
import { runCommand } from "./commands.ts";

/** Newest first. 3.13 is out: the lock's NumPy 1 has no wheel for it, and Triton's stub cannot use NumPy 2. */
export const PYTHON_VERSIONS = ["3.12", "3.11", "3.10"] as const;

/** OpenMP's runtime, the Debian package. */
const LIBGOMP = "libgomp1";

export interface PythonInterpreter {
  /** Absolute. */
  readonly executable: string;
  /** As in `3.11.2`. */
  readonly version: string;
}

/** No installed Python can serve: one sentence that ends with the Debian command which helps. */
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
  readonly implementation: string;
  readonly venv: boolean;
  readonly libpython: string;
  readonly libpythonFound: boolean;
  /** llama.cpp's wheel computes with it and does not carry it. */
  readonly libgompFound: boolean;
}

const PROBE = `
import ctypes, importlib.util, json, os, platform, sys, sysconfig
def loads(library):
    try:
        ctypes.CDLL(library)
        return True
    except OSError:
        return False
name = f"libpython{sys.version_info.major}.{sys.version_info.minor}.so.1.0"
beside = os.path.exists(os.path.join(sysconfig.get_config_var("LIBDIR") or "", name))
print(json.dumps({
    "executable": sys.executable, "version": platform.python_version(),
    "implementation": platform.python_implementation(),
    "venv": all(importlib.util.find_spec(m) is not None for m in ("venv", "ensurepip")),
    "libpython": name, "libpythonFound": beside or loads(name), "libgompFound": loads("libgomp.so.1"),
}))
`;

/**
 * The newest usable interpreter, or the one of `wanted` (`3.11`). Looks at `python3.N`, then at `python3`, in the folders of
 * PATH and in /usr/bin and /usr/local/bin; a name is started only where those before it were of no use, as version managers
 * have a script behind each. Throws a PythonMissingError.
 */
export async function findPython(wanted: string | undefined): Promise<PythonInterpreter> {
  const versions: readonly string[] = wanted === undefined ? PYTHON_VERSIONS : [wanted];
  const probes: Probe[] = [];
  for (const name of [...versions.map((version) => `python${version}`), "python3"]) {
    const found = await probeAll(await executables(name));
    const [best] = found
      .filter((probe) => versions.includes(minor(probe.version)) && complaint(probe) === undefined)
      .toSorted((a, b) => minorNumber(b) - minorNumber(a));
    if (best !== undefined) return { executable: best.executable, version: best.version };
    probes.push(
      ...found.filter(({ executable }) => !probes.some((probe) => probe.executable === executable)),
    );
  }
  const ofVersion = probes.filter((probe) => versions.includes(minor(probe.version)));
  throw missing(versions, probes, ofVersion);
}

function missing(
  versions: readonly string[],
  probes: readonly Probe[],
  ofVersion: readonly Probe[],
): PythonMissingError {
  const wanted = `CPython ${versions.length === 1 ? versions[0] : `${versions.at(-1)} to ${versions[0]}`} with venv, its shared library and libgomp`;
  const seen = (ofVersion.length > 0 ? ofVersion : probes).map(
    (probe) => `${probe.executable} is ${probe.version}${complaint(probe) ?? ""}`,
  );
  const found = seen.length === 0 ? "no python3 was found" : seen.join(", ");
  const reason = `The stack needs ${wanted}, but ${found}`;
  return new PythonMissingError(reason, debianPackages(versions, ofVersion[0]));
}

/** @param nearest - An interpreter of a right version which lacks something. */
function debianPackages(versions: readonly string[], nearest: Probe | undefined): string[] {
  const [only] = versions.length === 1 ? versions : [];
  if (only !== undefined) return [`python${only}`, `python${only}-venv`, `libpython${only}`, LIBGOMP];
  // Whatever Python the distribution calls python3; the development package is the one that knows its library's name.
  const library = nearest === undefined ? "libpython3-dev" : `libpython${minor(nearest.version)}`;
  return ["python3", "python3-venv", library, LIBGOMP];
}

/** What an interpreter of a right version lacks; undefined where it lacks nothing. */
function complaint(probe: Probe): string | undefined {
  if (probe.implementation !== "CPython") return ` of ${probe.implementation}`;
  if (!probe.venv) return " without venv and ensurepip";
  if (!probe.libpythonFound) return ` without ${probe.libpython}`;
  return probe.libgompFound ? undefined : " on a system without libgomp.so.1";
}

/** Absolute paths of a name, in the order of PATH. */
async function executables(name: string): Promise<string[]> {
  const folders = new Set([...(process.env.PATH ?? "").split(":"), "/usr/local/bin", "/usr/bin"]);
  const paths = [...folders].filter((folder) => folder.startsWith("/")).map((folder) => join(folder, name));
  const there = await Promise.all(
    paths.map((path) =>
      access(path, constants.X_OK).then(
        () => true,
        () => false,
      ),
    ),
  );
  return paths.filter((_, index) => there[index]);
}

/** In the order of `paths`, each interpreter once; what does not answer is no interpreter. */
async function probeAll(paths: readonly string[]): Promise<Probe[]> {
  const probes = await Promise.all(paths.map(probe));
  const byExecutable = new Map<string, Probe>();
  for (const found of probes)
    if (found !== undefined && !byExecutable.has(found.executable)) byExecutable.set(found.executable, found);
  return [...byExecutable.values()];
}

async function probe(path: string): Promise<Probe | undefined> {
  const result = await runCommand([path, "-I", "-c", PROBE], { cwd: "/", timeoutSeconds: 20 });
  if (result.exitCode !== 0) return undefined;
  try {
    return JSON.parse(result.stdout) as Probe;
  } catch {
    return undefined;
  }
}

function minor(version: string): string {
  return version.split(".").slice(0, 2).join(".");
}

function minorNumber(probe: Probe): number {
  return Number(probe.version.split(".")[1]);
}
