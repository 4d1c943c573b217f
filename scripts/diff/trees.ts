/** The two trees of a comparison: a commit, checked out somewhere else while it is needed, and the working tree as it lies. */
import { rmSync } from "node:fs";
import { realpath, rm } from "node:fs/promises";
import { constants } from "node:os";
import { isAbsolute, join, relative } from "node:path";
import { cacheDirectory, temporaryFolder } from "../../components/local/provider/files.ts";
import { UserError } from "../errors.ts";
import { runProcess } from "./child-process.ts";
import { type Installer, linkNodePackages } from "./node-packages.ts";

const GIT_TIMEOUT_SECONDS = 120;

/** A commit in a folder of its own. */
interface BaseTree {
  readonly commit: string;
  /** Absolute path of the project in it; null where its packages could not be installed. */
  readonly project: string | null;
  /** Why there is no project, in one sentence. */
  readonly failure: string | null;
}

interface BaseTreeOptions {
  /** Absolute path of the project in the working tree. */
  readonly project: string;
  /** What Git takes for a commit: `origin/main`. */
  readonly ref: string;
  /** @default `npm ci` without scripts */
  readonly install?: Installer;
}

/**
 * Checks the commit out into the project's cache folder, with its own npm packages, and removes it afterwards, also when
 * this process is interrupted. Working tree and index are not touched.
 *
 * @throws UserError where Git has no such commit.
 */
export async function withBaseTree<T>(
  { project, ref, install }: BaseTreeOptions,
  use: (tree: BaseTree) => Promise<T>,
): Promise<T> {
  const commit = await commitOf(project, ref);
  const prefix = (await git(project, "rev-parse", "--show-prefix")).trim();
  const folder = await temporaryFolder(join(cacheDirectory(), "worktrees", "base"));
  const release = removeOnExit(folder);
  try {
    // Hooks are programs of whoever cloned, and expect a person at work.
    await git(
      project,
      "-c",
      "core.hooksPath=/dev/null",
      "worktree",
      "add",
      "--quiet",
      "--detach",
      "--force",
      folder,
      commit,
    );
    const base = join(folder, prefix);
    const failure = await linkNodePackages(base, project, install).then(() => null, failureOf);
    return await use({ commit, project: failure === null ? base : null, failure });
  } finally {
    await git(project, "worktree", "remove", "--force", folder).catch(() => {});
    await rm(folder, { recursive: true, force: true });
    release();
  }
}

function failureOf(error: unknown): string {
  if (error instanceof UserError) return error.message;
  throw error;
}

/** Where the file of a stack is in the base: beside that of the working tree, or itself where it lies outside. */
export async function baseFile(file: string, project: string, base: string): Promise<string> {
  const root = await realpath(project);
  const path = relative(root, await realpath(file).catch(() => file));
  return path.startsWith("..") || isAbsolute(path) ? file : join(base, path);
}

async function commitOf(project: string, ref: string): Promise<string> {
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
  const { exitCode, stdout, stderr } = await runProcess("git", argv, {
    cwd,
    environment,
    timeoutSeconds: GIT_TIMEOUT_SECONDS,
  });
  if (exitCode !== 0)
    throw new UserError(`\`git ${argv.join(" ")}\` ended with exit code ${exitCode}: ${stderr.trim()}`);
  return stdout;
}

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Removes a folder also where this process is told to end. What Git knows of it goes with its next `worktree prune`. */
function removeOnExit(folder: string): () => void {
  const remove = () => rmSync(folder, { recursive: true, force: true });
  const end = (signal: (typeof SIGNALS)[number]) => process.exit(128 + constants.signals[signal]);
  process.once("exit", remove);
  for (const signal of SIGNALS) process.once(signal, end);
  return () => {
    process.off("exit", remove);
    for (const signal of SIGNALS) process.off(signal, end);
  };
}
