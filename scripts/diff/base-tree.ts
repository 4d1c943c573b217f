/** The commit that a working tree is compared with, checked out elsewhere while it is needed, with its own npm packages. */
import { execFile } from "node:child_process";
import { mkdir, readdir, readFile, readlink, rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import {
  cacheDirectory,
  exists,
  orWhenMissing,
  temporaryFolder,
} from "../../components/local/provider/files.ts";
import { UserError } from "../errors.ts";

const GIT_TIMEOUT_SECONDS = 120;
const INSTALL_TIMEOUT_SECONDS = 600;
const LARGEST_OUTPUT_BYTES = 64 * 2 ** 20;

interface ProcessOptions {
  readonly cwd: string;
  readonly environment: NodeJS.ProcessEnv;
  readonly timeoutSeconds: number;
}

interface ProcessResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** @throws UserError where it can't be started, takes too long, prints more than 64 MiB, or is killed. */
export function runProcess(
  program: string,
  argv: readonly string[],
  { cwd, environment: env, timeoutSeconds }: ProcessOptions,
): Promise<ProcessResult> {
  const options = {
    cwd,
    env,
    timeout: timeoutSeconds * 1000,
    killSignal: "SIGKILL",
    maxBuffer: LARGEST_OUTPUT_BYTES,
  } as const;
  return new Promise((done, reject) => {
    execFile(program, argv, options, (error, stdout, stderr) => {
      if (error === null) done({ exitCode: 0, stdout, stderr });
      else if (typeof error.code === "number") done({ exitCode: error.code, stdout, stderr });
      else if (error.code === "ERR_CHILD_PROCESS_STDIO_MAXBUFFER")
        reject(new UserError(`\`${program}\` printed more than 64 MiB and was stopped.`));
      else if (error.killed)
        reject(new UserError(`\`${program}\` took more than ${timeoutSeconds} s and was stopped.`));
      else reject(new UserError(`\`${program}\` failed: ${error.code ?? error.signal ?? error.message}.`));
    });
  });
}

/** A commit in a folder of its own. */
interface BaseTree {
  /** Absolute path of an empty folder for what is made of the two trees. */
  readonly scratch: string;
  /** Absolute path of the project in it; null where its packages could not be installed. */
  readonly project: string | null;
  /** Why there is no project, in one sentence. */
  readonly failure: string | null;
}

/**
 * Checks the commit out below the project's cache folder and removes it afterwards; what an interrupted run leaves there is
 * removed by the next one. Working tree and index are not touched.
 *
 * @param project - Absolute path of the project in the working tree.
 * @param commit - Of {@link commitOf}.
 */
export async function withBaseTree<T>(
  project: string,
  commit: string,
  use: (tree: BaseTree) => Promise<T>,
): Promise<T> {
  const prefix = (await git(project, "rev-parse", "--show-prefix")).trim();
  const folder = await temporaryFolder(join(cacheDirectory(), "worktrees", "base"));
  const [checkout, scratch] = [join(folder, "tree"), join(folder, "scratch")];
  try {
    await mkdir(scratch);
    // Hooks are programs of whoever cloned, and expect a person at work.
    const withoutHooks = ["-c", "core.hooksPath=/dev/null"];
    await git(
      project,
      ...withoutHooks,
      "worktree",
      "add",
      "--quiet",
      "--detach",
      "--force",
      checkout,
      commit,
    );
    const base = join(checkout, prefix);
    const failure = await providePackages(base, project).then(() => null, failureOf);
    return await use({ scratch, project: failure === null ? base : null, failure });
  } finally {
    await rm(folder, { recursive: true, force: true });
    await git(project, "worktree", "prune").catch(() => {});
  }
}

function failureOf(error: unknown): string {
  if (error instanceof UserError) return error.message;
  throw error;
}

/**
 * Gives a checkout its `node_modules`: links to those of the working tree where it has them by the same lock file, else `npm ci`
 * without any package's scripts, which takes what npm's own cache has from there.
 *
 * @param current - The project in the working tree.
 * @throws UserError where there is no lock file, or it can't be installed.
 */
export async function providePackages(checkout: string, current: string): Promise<void> {
  const lockOf = (folder: string) =>
    readFile(join(folder, "package-lock.json"), "utf8").catch(orWhenMissing(undefined));
  const lock = await lockOf(checkout);
  if (lock === undefined) throw new UserError("It has no package-lock.json.");
  const hasPackages = await exists(join(current, "node_modules"));
  if (!hasPackages || lock !== (await lockOf(current))) return npmCi(checkout);
  const { packages = {} } = JSON.parse(lock) as { readonly packages?: Readonly<Record<string, unknown>> };
  // Members of the workspace have packages of their own beside them.
  for (const member of Object.keys(packages).filter((path) => !path.split("/").includes("node_modules")))
    await linkPackages(join(current, member, "node_modules"), join(checkout, member, "node_modules"));
}

async function linkPackages(from: string, to: string): Promise<void> {
  const entries = await readdir(from, { withFileTypes: true }).catch(orWhenMissing([]));
  if (entries.length > 0) await mkdir(to, { recursive: true });
  for (const entry of entries) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    // Members of the workspace are relative links, so that each tree has its own.
    if (entry.isSymbolicLink()) await symlink(await readlink(source), target);
    else if (entry.name.startsWith("@")) await linkPackages(source, target);
    // Others with a dot are caches of tools, and what npm and we note about the folder.
    else if (!entry.name.startsWith(".") || entry.name === ".bin") await symlink(source, target);
  }
}

async function npmCi(folder: string): Promise<void> {
  process.stderr.write("Installing npm packages of the base's lock file …\n");
  const options = ["--ignore-scripts", "--include=dev", "--prefer-offline", "--no-audit", "--no-fund"];
  const { exitCode, stderr } = await runProcess(
    "npm",
    ["ci", ...options, "--loglevel=error", "--color=false", "--prefix", folder],
    { cwd: folder, environment: process.env, timeoutSeconds: INSTALL_TIMEOUT_SECONDS },
  );
  if (exitCode === 0) return;
  process.stderr.write(stderr);
  // The rest of what npm prints has other folders, addresses and times on each machine.
  const code = /^npm (?:error|ERR!) code (\S+)$/m.exec(stderr)?.[1] ?? "no code of an error";
  throw new UserError(
    `\`npm ci\` of its lock file ended with exit code ${exitCode}: ${code}; its own output says more.`,
  );
}

/**
 * @param ref - What Git takes for a commit: `origin/main`.
 * @throws UserError where Git has no such commit.
 */
export async function commitOf(project: string, ref: string): Promise<string> {
  try {
    return (
      await git(project, "rev-parse", "--verify", "--quiet", "--end-of-options", `${ref}^{commit}`)
    ).trim();
  } catch {
    throw new UserError(
      `Git has no commit ${JSON.stringify(ref)} here; fetch it (\`git fetch origin\`, in full where the clone is shallow) or name another one with --base.`,
    );
  }
}

async function git(cwd: string, ...argv: readonly string[]): Promise<string> {
  // A hook that calls this has Git's own variables, which would point every command at the caller's index.
  const environment = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !name.startsWith("GIT_")),
  );
  const options = { cwd, environment, timeoutSeconds: GIT_TIMEOUT_SECONDS };
  const { exitCode, stdout, stderr } = await runProcess("git", argv, options);
  if (exitCode !== 0)
    throw new UserError(`\`git ${argv.join(" ")}\` ended with exit code ${exitCode}: ${stderr.trim()}`);
  return stdout;
}
