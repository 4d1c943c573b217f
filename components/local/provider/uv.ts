/** uv, at one pinned version, in the download cache: it makes environments and fills them by hard links. */
import { join } from "node:path";
import { lastLines, runCommand } from "./commands.ts";
import type { HandlerContext } from "./contract.ts";
import { cacheDirectory, diskFullError, exclusively, exists, makeFolder, projectRoot } from "./files.ts";
import type { PythonInterpreter } from "./python-discovery.ts";

/** The version in uv-requirements.txt. */
const UV_VERSION = "0.13.8";

// The first install brings some hundred MiB over whatever line there is.
const INSTALL_TIMEOUT_SECONDS = 1800;

/** Path of uv; installs it first where the cache has none. */
export async function ensureUv(python: PythonInterpreter, context: HandlerContext): Promise<string> {
  const folder = join(cacheDirectory(), `uv-${UV_VERSION}`);
  const uv = join(folder, "bin", "uv");
  return exclusively(folder, async () => {
    if (await exists(uv)) return uv;
    context.report(`installing uv ${UV_VERSION} into the download cache`);
    // uv is one binary: it works wherever the folder of its environment is moved.
    await makeFolder(folder, async (temporary) => {
      const pip = [join(temporary, "bin", "python"), "-m", "pip", "install", "--quiet"];
      const options = [
        "--disable-pip-version-check",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--require-hashes",
      ];
      const lock = join(import.meta.dirname, "uv-requirements.txt");
      const install = (argv: readonly string[]) =>
        run(argv, { purpose: `installing uv ${UV_VERSION}`, path: folder, context });
      await install([python.executable, "-I", "-m", "venv", temporary]);
      await install([...pip, ...options, "--requirement", lock]);
    });
    return uv;
  });
}

/** Makes an empty environment in `directory` (absolute), in place of whatever is there. */
export async function makeEnvironment(
  uv: string,
  python: PythonInterpreter,
  directory: string,
  context: HandlerContext,
): Promise<void> {
  const options = ["--quiet", "--no-config", "--no-project", "--clear", "--python", python.executable];
  const purpose = `making the environment ${directory}`;
  await run([uv, "venv", ...options, directory], { purpose, path: directory, context });
}

/**
 * Makes the environment hold what the locks (paths) list and nothing else. From the cache alone where that has
 * everything, so that an unchanged environment needs no network.
 */
export async function syncEnvironment(
  uv: string,
  interpreter: string,
  requirements: readonly string[],
  context: HandlerContext,
): Promise<void> {
  const options = ["--no-build", "--require-hashes", "--allow-empty-requirements", "--python", interpreter];
  const sync = [uv, "pip", "sync", ...options, ...requirements];
  const purpose = `installing ${requirements.join(" and ")}`;
  const step = { purpose, path: interpreter, context };
  if (
    await run([...sync, "--offline"], step).then(
      () => true,
      () => false,
    )
  )
    return;
  context.report(`installing what ${requirements.join(" and ")} lists`);
  await run(sync, {
    ...step,
    // What takes time, and not the list of every package that is there afterwards.
    onLine: (line) => {
      if (/^(Resolved|Downloading|Prepared|Installed) /.test(line.trim())) context.report(line.trim());
    },
  });
}

interface Step {
  /** As in `installing uv`, for errors. */
  readonly purpose: string;
  /** Where it writes. */
  readonly path: string;
  readonly context: HandlerContext;
  readonly onLine?: (line: string) => void;
}

/** Throws one sentence where the program fails. */
async function run(argv: readonly string[], { purpose, path, context, onLine }: Step): Promise<void> {
  const result = await runCommand(argv, {
    cwd: projectRoot(),
    environment: {
      ...process.env,
      UV_CACHE_DIR: join(cacheDirectory(), "uv"),
      UV_PYTHON_DOWNLOADS: "never",
      UV_NO_PROGRESS: "1",
      NO_COLOR: "1",
    },
    timeoutSeconds: INSTALL_TIMEOUT_SECONDS,
    signal: context.signal,
    ...(onLine && { onLine }),
  });
  if (result.exitCode === 0) return;
  const output = `${result.stdout}\n${result.stderr}`;
  if (/no space left on device|os error 28|disk quota exceeded/i.test(output)) throw diskFullError(path);
  if (result.timedOut)
    throw new Error(
      `${purpose} did not end within ${INSTALL_TIMEOUT_SECONDS} s; check the network and run it again.`,
    );
  throw new Error(`${purpose} failed: ${lastLines(output, 8)}`);
}
