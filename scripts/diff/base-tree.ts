/**
 * Checks out the commit that a working tree is compared with, elsewhere and only while it is needed, with its own npm
 * packages.
 */
import { type ExecException, execFile } from "node:child_process";
import { mkdir, readdir, readFile, readlink, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { cacheDirectory, orWhenMissing, temporaryFolder } from "../../components/local/provider/files.ts";
import { UserError } from "../errors.ts";

const GIT_TIMEOUT_SECONDS = 120;
const INSTALL_TIMEOUT_SECONDS = 600;
const LARGEST_OUTPUT_BYTES = 64 * 2 ** 20;

interface ProcessOptions {
  readonly cwd: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly timeoutSeconds: number;
}

/** @returns Output of the program. @throws UserError with its error, if it fails or takes too long. */
export async function outputOf(
  program: string,
  argv: readonly string[],
  { timeoutSeconds, ...options }: ProcessOptions,
): Promise<string> {
  const limits = { timeout: timeoutSeconds * 1000, maxBuffer: LARGEST_OUTPUT_BYTES };
  try {
    const run = promisify(execFile);
    return (await run(program, argv, { killSignal: "SIGKILL", ...limits, ...options })).stdout;
  } catch (error) {
    const { killed, message, stderr = "" } = error as ExecException;
    // Node also kills the program then.
    if ((error as NodeJS.ErrnoException).code === "ERR_CHILD_PROCESS_STDIO_MAXBUFFER")
      throw new UserError(
        `\`${program}\` printed more than ${LARGEST_OUTPUT_BYTES / 2 ** 20} MiB and was stopped.`,
      );
    if (killed) throw new UserError(`\`${program}\` took more than ${timeoutSeconds} s and was stopped.`);
    // Node prints a stack trace below an error's message.
    const lines = stderr.split("\n").filter((line) => line.trim() !== "");
    const own = lines.findLast((line) => /^(\w*Error\b.*|fatal): /.test(line)) ?? lines.at(-1) ?? message;
    throw new UserError(`\`${program}\` failed: ${own.trim()}`, { cause: error });
  }
}

/** A commit in its own folder. */
interface BaseTree {
  /** Absolute path of an empty folder for output of the two trees. */
  readonly scratch: string;
  /** Absolute path of the project in it; without its program, of only the stack's file. */
  readonly project: string;
  /** Absolute path of the project whose program is that of the commit. */
  readonly program: string;
  /** Why it has no packages, in one sentence. */
  readonly failure: string | null;
}

/**
 * Creates two paths below the project's cache folder, `scratch` as an empty folder; the next run removes those of an
 * interrupted run.
 */
async function withFolders<T>(use: (checkout: string, scratch: string) => Promise<T>): Promise<T> {
  const folder = await temporaryFolder(join(cacheDirectory(), "worktrees", "base"));
  const scratch = join(folder, "scratch");
  try {
    await mkdir(scratch);
    return await use(join(folder, "tree"), scratch);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/**
 * Checks the commit out and removes it afterwards. Working tree and index are not touched.
 *
 * @param project - Absolute path of the project in the working tree.
 * @param commit - From {@link commitOf}.
 */
export async function withBaseTree<T>(
  project: string,
  commit: string,
  use: (tree: BaseTree) => Promise<T>,
): Promise<T> {
  const prefix = (await git(project, "rev-parse", "--show-prefix")).trim();
  return withFolders(async (checkout, scratch) => {
    // Hooks are programs of the person who cloned, and expect a person at work.
    const add = ["-c", "core.hooksPath=/dev/null", "worktree", "add", "--quiet", "--detach", "--force"];
    await git(project, ...add, checkout, commit);
    const base = join(checkout, prefix);
    const failure = await providePackages(base, project).then(
      () => null,
      (error: unknown) => {
        if (error instanceof UserError) return error.message;
        throw error;
      },
    );
    return use({ scratch, project: base, program: base, failure });
  }).finally(() => git(project, "worktree", "prune").catch(() => {}));
}

/** Files without an effect on the program. */
const NO_PROGRAM = /^((docs|test|\.github)\/|examples\/[^/]+\.yaml$|[^/]+\.md$|Pulumi\.[^/]+\.yaml$)/;

/** Whether the commit has the working tree's program and packages: nothing differs but stack files, documents and tests. */
async function isSameProgram(project: string, commit: string): Promise<boolean> {
  const paths = await Promise.all([
    // The index stays unchanged.
    git(
      project,
      "--no-optional-locks",
      "diff",
      "--name-only",
      "--no-renames",
      "--no-ext-diff",
      "--relative",
      "-z",
      commit,
      "--",
    ),
    git(project, "ls-files", "--others", "--exclude-standard", "-z"),
  ]);
  return paths
    .join("\0")
    .split("\0")
    .every((path) => path === "" || NO_PROGRAM.test(path));
}

/**
 * Does the same as {@link withBaseTree}, in a third of the time if the commit has the working tree's program: then
 * only its stack file is checked out.
 *
 * @param file - Stack file, relative to the project.
 */
export async function withBase<T>(
  project: string,
  commit: string,
  file: string,
  use: (tree: BaseTree) => Promise<T>,
): Promise<T> {
  if (!(await isSameProgram(project, commit))) return withBaseTree(project, commit, use);
  const mode = (await git(project, "ls-tree", commit, "--", file)).slice(0, 6);
  // A link points to another file.
  if (mode !== "" && !mode.startsWith("100")) return withBaseTree(project, commit, use);
  return withFolders(async (base, scratch) => {
    await mkdir(dirname(join(base, file)), { recursive: true });
    if (mode !== "")
      await writeFile(join(base, file), await git(project, "cat-file", "--filters", `${commit}:./${file}`));
    return use({ scratch, project: base, program: project, failure: null });
  });
}

/**
 * Gives a checkout its `node_modules`: links to those of the working tree if it has them by the same lock file, else
 * `npm ci` without any package's scripts, which uses npm's own cache.
 *
 * @param current - The project in the working tree.
 * @throws UserError if they can't be installed.
 */
export async function providePackages(checkout: string, current: string): Promise<void> {
  const [lock, own] = await Promise.all(
    [checkout, current].map((folder) =>
      readFile(join(folder, "package-lock.json"), "utf8").catch(orWhenMissing("")),
    ),
  );
  if (lock === own && (await linkPackages(join(current, "node_modules"), join(checkout, "node_modules")))) {
    for (const member of membersWithPackages(lock ?? ""))
      await linkPackages(join(current, member, "node_modules"), join(checkout, member, "node_modules"));
    return;
  }
  process.stderr.write("Installing npm packages of the base's lock file …\n");
  const options = ["--ignore-scripts", "--include=dev", "--prefer-offline", "--no-audit", "--no-fund"];
  const argv = ["ci", ...options, "--loglevel=error", "--color=false", "--prefix", checkout];
  await outputOf("npm", argv, { cwd: checkout, timeoutSeconds: INSTALL_TIMEOUT_SECONDS }).catch(
    (error: Error) => {
      process.stderr.write(`${(error.cause as ExecException | undefined)?.stderr ?? error.message}\n`);
      // npm's output has other folders, addresses and times on each machine.
      throw new UserError("`npm ci` of its lock file failed; its output gives the reason.");
    },
  );
}

/** Members of the workspace with packages of their own, in other versions than the project's: `containers/services/gateway`. */
function membersWithPackages(lock: string): ReadonlySet<string> {
  type Lock = { readonly packages?: Readonly<Record<string, unknown>> };
  const { packages = {} } = (lock === "" ? {} : JSON.parse(lock)) as Lock;
  return new Set(
    Object.keys(packages).flatMap((path) => /^((?!node_modules\/).+?)\/node_modules\//.exec(path)?.[1] ?? []),
  );
}

/** @returns Whether there are any. */
async function linkPackages(from: string, to: string): Promise<boolean> {
  const entries = await readdir(from, { withFileTypes: true }).catch(orWhenMissing([]));
  if (entries.length > 0) await mkdir(to, { recursive: true });
  for (const entry of entries) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    // Members of the workspace are relative links, so that each tree has its own.
    if (entry.isSymbolicLink()) await symlink(await readlink(source), target);
    else if (entry.name.startsWith("@")) await linkPackages(source, target);
    // Other names with a dot are caches of tools, and notes of npm and this program about the folder.
    else if (!entry.name.startsWith(".")) await symlink(source, target);
  }
  return entries.length > 0;
}

/**
 * @param ref - Commit in any form of Git: `origin/main`.
 * @throws UserError if Git has no such commit.
 */
export async function commitOf(project: string, ref: string): Promise<string> {
  const argv = ["rev-parse", "--verify", "--quiet", "--end-of-options", `${ref}^{commit}`];
  const commit = await git(project, ...argv).catch(() => {
    throw new UserError(
      `Git has no commit ${JSON.stringify(ref)} here; fetch it (\`git fetch origin\`, in full if the clone is shallow) or name another commit with --base.`,
    );
  });
  return commit.trim();
}

function git(cwd: string, ...argv: readonly string[]): Promise<string> {
  // A hook that calls this has Git's own variables, which would point every command at the caller's index.
  const own = Object.entries(process.env).filter(([name]) => !name.startsWith("GIT_"));
  return outputOf("git", argv, { cwd, env: Object.fromEntries(own), timeoutSeconds: GIT_TIMEOUT_SECONDS });
}
