/** uv, at one pinned version, in the download cache: it makes Python environments and fills them by hard links. */
import { join } from "node:path";
import { runOrThrow } from "./commands.ts";
import type { HandlerContext } from "./contract.ts";
import { cacheDirectory, exclusively, exists, makeFolder, projectRoot } from "./files.ts";
import type { PythonInterpreter } from "./python-discovery.ts";

/** The version in uv-requirements.txt. */
const UV_VERSION = "0.13.8";

// The first install brings some hundred MiB over whatever line there is.
const INSTALL_TIMEOUT_SECONDS = 1800;

interface WantedEnvironment {
  /** Absolute path. */
  readonly directory: string;
  readonly python: PythonInterpreter;
  /** Paths of locks with a hash for every file. */
  readonly locks: readonly string[];
  /** Keeps the environment that exists, in place of making an empty one first. */
  readonly keep?: boolean;
}

/**
 * Makes an environment hold what locks list and nothing else; installs uv first where the cache has none. From the cache
 * alone where that has everything, so that an unchanged environment needs no network.
 */
export async function installEnvironment(
  { directory, python, locks, keep = false }: WantedEnvironment,
  context: HandlerContext,
): Promise<void> {
  const uv = await ensureUv(python, context);
  if (!keep) {
    const options = ["--quiet", "--no-config", "--no-project", "--clear", "--python", python.executable];
    const purpose = `making the environment ${directory}`;
    await run([uv, "venv", ...options, directory], { purpose, path: directory }, context);
  }
  const options = ["--no-build", "--require-hashes", "--allow-empty-requirements"];
  const sync = [uv, "pip", "sync", ...options, "--python", join(directory, "bin", "python"), ...locks];
  const step = { purpose: `installing ${locks.join(" and ")}`, path: directory };
  const isCached = await run([...sync, "--offline"], step, context).then(
    () => true,
    () => false,
  );
  if (isCached) return;
  context.report(`installing what ${locks.join(" and ")} lists`);
  // What takes time, and not the list of every package that is there afterwards.
  const onLine = (line: string) => {
    if (/^(Resolved|Downloading|Prepared|Installed) /.test(line.trim())) context.report(line.trim());
  };
  await run(sync, { ...step, onLine }, context);
}

/** @returns Path of uv. */
async function ensureUv(python: PythonInterpreter, context: HandlerContext): Promise<string> {
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
      const step = { purpose, path: folder };
      await run([python.executable, "-I", "-m", "venv", temporary], step, context);
      await run([...pip, ...options, "--requirement", lock], step, context);
    });
    return uv;
  });
}

/** Throws one sentence where the program fails. */
async function run(
  argv: readonly string[],
  step: { readonly purpose: string; readonly path: string; readonly onLine?: (line: string) => void },
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
