/** The two trees of a comparison: a commit, checked out somewhere else while it is needed, and the working tree as it lies. */
import { realpath } from "node:fs/promises";
import { isAbsolute, join, relative } from "node:path";
import { cacheDirectory, temporaryFolder } from "../../components/local/provider/files.ts";
import { UserError } from "../errors.ts";
import { runProcess } from "./child-process.ts";
import { type Installer, linkNodePackages } from "./node-packages.ts";
import { withFolder } from "./temporary-folders.ts";

const GIT_TIMEOUT_SECONDS = 120;

/** A commit in a folder of its own. */
interface BaseTree {
  /** Absolute path of the project in it; null where its packages could not be installed. */
  readonly project: string | null;
  /** Why there is no project, in one sentence. */
  readonly failure: string | null;
}

interface BaseTreeOptions {
  /** Absolute path of the project in the working tree. */
  readonly project: string;
  /** Of {@link commitOf}. */
  readonly commit: string;
  /** @default `npm ci` without scripts */
  readonly install?: Installer;
}

/**
 * Checks the commit out into the project's cache folder, with its own npm packages, and removes it afterwards, also when
 * this process is interrupted. Working tree and index are not touched.
 */
export async function withBaseTree<T>(
  { project, commit, install }: BaseTreeOptions,
  use: (tree: BaseTree) => Promise<T>,
): Promise<T> {
  const prefix = (await git(project, "rev-parse", "--show-prefix")).trim();
  return withFolder(await temporaryFolder(join(cacheDirectory(), "worktrees", "base")), async (folder) => {
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
      return await use({ project: failure === null ? base : null, failure });
    } finally {
      // What Git knows of it where this process is killed goes with its next `worktree prune`.
      await git(project, "worktree", "remove", "--force", folder).catch(() => {});
    }
  });
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
  const { exitCode, stdout, stderr } = await runProcess("git", argv, {
    cwd,
    environment,
    timeoutSeconds: GIT_TIMEOUT_SECONDS,
  });
  if (exitCode !== 0)
    throw new UserError(`\`git ${argv.join(" ")}\` ended with exit code ${exitCode}: ${stderr.trim()}`);
  return stdout;
}
