/** uv, at one pinned version, in the download cache: it makes environments and fills them by hard links. */
import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { type CommandResult, lastLines, runCommand } from "./commands.ts";
import type { HandlerContext } from "./contract.ts";
import { exclusively } from "./exclusive.ts";
import { cacheDirectory, diskFullError, exists, hasCode, projectRoot, temporaryFolder } from "./files.ts";
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
    if (!(await exists(uv))) await installUv(python, folder, context);
    return uv;
  });
}

async function installUv(python: PythonInterpreter, folder: string, context: HandlerContext): Promise<void> {
  context.report(`installing uv ${UV_VERSION} into the download cache`);
  const temporary = await temporaryFolder(folder);
  try {
    const steps = [
      [python.executable, "-I", "-m", "venv", temporary],
      [
        ...[
          join(temporary, "bin", "python"),
          "-m",
          "pip",
          "install",
          "--quiet",
          "--disable-pip-version-check",
        ],
        ...["--no-deps", "--only-binary", ":all:", "--require-hashes"],
        ...["--requirement", join(import.meta.dirname, "uv-requirements.txt")],
      ],
    ];
    for (const argv of steps) {
      const result = await runCommand(argv, {
        cwd: projectRoot(),
        timeoutSeconds: INSTALL_TIMEOUT_SECONDS,
        signal: context.signal,
      });
      throwIfFailed(result, `installing uv ${UV_VERSION}`, folder);
    }
    // uv is one binary: it works wherever the folder of its environment goes.
    await rename(temporary, folder);
  } catch (error) {
    await rm(temporary, { recursive: true, force: true });
    // Another process was faster.
    if (!hasCode(error, "ENOTEMPTY", "EEXIST")) throw error;
  }
}

/** Makes an empty environment in `directory` (absolute), in place of whatever is there. */
export async function makeEnvironment(
  uv: string,
  python: PythonInterpreter,
  directory: string,
  context: HandlerContext,
): Promise<void> {
  const argv = [
    "venv",
    "--quiet",
    "--no-config",
    "--no-project",
    "--clear",
    "--python",
    python.executable,
    directory,
  ];
  throwIfFailed(await runUv(uv, argv, context), `making the environment ${directory}`, directory);
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
  const sync = [
    "pip",
    "sync",
    "--no-build",
    "--require-hashes",
    "--allow-empty-requirements",
    "--python",
    interpreter,
    ...requirements,
  ];
  const offline = await runUv(uv, [...sync, "--offline"], context);
  if (offline.exitCode === 0) return;
  context.report(`installing what ${requirements.join(" and ")} lists`);
  const online = await runUv(uv, sync, context, (line) => reportProgress(line.trim(), context));
  throwIfFailed(online, `installing ${requirements.join(" and ")}`, interpreter);
}

/** What takes time, and not the list of every package that is there afterwards. */
function reportProgress(line: string, context: HandlerContext): void {
  if (/^(Resolved|Downloading|Prepared|Installed) /.test(line)) context.report(line);
}

async function runUv(
  uv: string,
  args: readonly string[],
  context: HandlerContext,
  onLine?: (line: string) => void,
): Promise<CommandResult> {
  return runCommand([uv, ...args], {
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
    ...(onLine === undefined ? {} : { onLine }),
  });
}

function throwIfFailed(result: CommandResult, what: string, path: string): void {
  if (result.exitCode === 0) return;
  const output = `${result.stdout}\n${result.stderr}`;
  if (/no space left on device|os error 28|disk quota exceeded/i.test(output)) throw diskFullError(path);
  if (result.timedOut)
    throw new Error(
      `${what} did not end within ${INSTALL_TIMEOUT_SECONDS} s; check the network and run it again.`,
    );
  throw new Error(`${what} failed: ${lastLines(output, 8)}`);
}
