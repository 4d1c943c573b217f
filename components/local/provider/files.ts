/** Files and folders: paths, atomic writes, hashes, removal of empty folders. */
import { createHash } from "node:crypto";
import { createReadStream, realpathSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readdir, rename, rm, rmdir, stat, statfs, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { pipeline } from "node:stream/promises";

/** Absolute path of the project. ENGINE_ROOM_ROOT replaces the folder of this code. */
export function projectRoot(): string {
  return realpathSync(process.env.ENGINE_ROOM_ROOT ?? resolve(import.meta.dirname, "../../.."));
}

export function fromRoot(...path: readonly string[]): string {
  return join(projectRoot(), ...path);
}

/** supervisord reads its files by a pattern, and PATH separates folders by colons. */
export function isUsableRoot(path: string): boolean {
  return !/[*?[\]:\n]/.test(path);
}

export const UNUSABLE_ROOT = {
  why: "supervisord and PATH do not accept a path with * ? [ ] : or a line break.",
  fix: "Move the project to a path without these characters.",
} as const;

/** Wheels, built artifacts and uv, which survive `down`. ENGINE_ROOM_CACHE_DIR, else below XDG_CACHE_HOME or ~/.cache. */
export function cacheDirectory(): string {
  const given = process.env.ENGINE_ROOM_CACHE_DIR || undefined;
  return resolve(given ?? join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "engine-room"));
}

/**
 * A new folder `<path>.<pid>-…`, to be filled and then renamed to `path`. Those of killed processes are removed.
 */
export async function temporaryFolder(path: string): Promise<string> {
  await mkdir(dirname(path), { recursive: true });
  for (const entry of await readdir(dirname(path))) {
    const pid = entry.startsWith(`${basename(path)}.`)
      ? Number.parseInt(entry.slice(basename(path).length + 1), 10)
      : NaN;
    if (Number.isInteger(pid) && !(await exists(`/proc/${pid}`)))
      await rm(join(dirname(path), entry), { recursive: true, force: true });
  }
  return mkdtemp(`${path}.${process.pid}-`);
}

/** Lets `make` fill a temporary folder and renames it to `path`, unless another process has made that in the meantime. */
export async function makeFolder(path: string, make: (temporary: string) => Promise<void>): Promise<void> {
  const fail = async (error: unknown) => {
    throw await explainFileError(error, path);
  };
  const temporary = await temporaryFolder(path).catch(fail);
  try {
    await make(temporary).catch(fail);
    await rename(temporary, path).catch((error: unknown) => {
      if (!hasCode(error, "ENOTEMPTY", "EEXIST")) throw error;
    });
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
}

/** Writes `content` so that a reader, or a kill, sees either the old or the new file. */
export async function writeWhole(path: string, content: string, mode: number): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await replaceWhole(path, async (temporary) => {
    await writeFile(temporary, content, { mode });
    await chmod(temporary, mode);
  });
}

let temporaryFiles = 0;

/** Lets `make` fill a temporary file beside `path` and renames it there. */
export async function replaceWhole(path: string, make: (temporary: string) => Promise<void>): Promise<void> {
  temporaryFiles += 1;
  const temporary = `${path}.${process.pid}-${temporaryFiles}.tmp`;
  try {
    await make(temporary);
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { recursive: true, force: true });
    throw await explainFileError(error, path);
  }
}

/** SHA-256 of a file's bytes, hex; undefined if there is no such file. */
export async function fileSha256(path: string): Promise<string | undefined> {
  const hash = createHash("sha256");
  const read = pipeline(createReadStream(path), hash).then(() => hash.digest("hex"));
  return read.catch(orWhenMissing(undefined));
}

/** Throws one sentence if a project's file (path from the root) does not have the SHA-256 that the program has seen. */
export async function refuseChanged(path: string, sha256: string): Promise<void> {
  const actual = await fileSha256(fromRoot(path));
  if (actual === undefined) throw new Error(`${path} does not exist; restore it from the repository.`);
  if (actual !== sha256)
    throw new Error(
      `${path} has SHA-256 ${actual} instead of ${sha256}: it changed while the program ran; run the command again.`,
    );
}

/** Paths of all files below `directory`, relative, sorted; none if it does not exist. */
export async function listFiles(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true }).catch(orWhenMissing([]));
  return entries
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name).slice(directory.length + 1))
    .toSorted();
}

/** Removes `path` and its parents below the project's root as long as they are empty. */
export async function removeEmptyUpwards(path: string): Promise<void> {
  const root = projectRoot();
  try {
    for (let current = path; current.startsWith(`${root}/`); current = dirname(current))
      await rmdir(current).catch(orWhenMissing(undefined));
  } catch (error) {
    if (!hasCode(error, "ENOTEMPTY")) throw error;
  }
}

/** Size in bytes; 0 if there is no such file. */
export async function fileBytes(path: string): Promise<number> {
  return (await stat(path).catch(orWhenMissing(undefined)))?.size ?? 0;
}

export async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(orWhenMissing(undefined))) !== undefined;
}

export function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  return codes.includes(String((error as NodeJS.ErrnoException | null)?.code));
}

/** For `catch`: `value` if the file is missing, the error itself otherwise. */
export function orWhenMissing<T>(value: T): (error: unknown) => T {
  return (error) => {
    if (hasCode(error, "ENOENT", "ENOTDIR")) return value;
    throw error;
  };
}

/** The same error, or one plain sentence if the reason is a disk that is full or can't be written. */
async function explainFileError(error: unknown, path: string): Promise<unknown> {
  if (hasCode(error, "ENOSPC", "EDQUOT")) return diskFullError([path]);
  if (!hasCode(error, "EACCES", "EPERM", "EROFS")) return error;
  return new Error(
    `${path} can't be written (${(error as NodeJS.ErrnoException).code}); make it writable for this user, or set ENGINE_ROOM_CACHE_DIR, if it is the download cache, to a folder that is.`,
  );
}

/**
 * One sentence about the fullest of the file systems that were written to: a program seldom says on which it failed.
 *
 * @param paths - In them, or in the nearest folders above them that exist.
 */
export async function diskFullError(paths: readonly string[]): Promise<Error> {
  const spaces = await Promise.all(
    paths.map(async (path) => {
      const { bavail, bsize, files, ffree } = await statfs(await nearestFolder(path));
      return { path, freeMB: (bavail * bsize) / 1e6, freeFiles: files > 0 ? ffree : null };
    }),
  );
  const rank = ({ freeMB, freeFiles }: (typeof spaces)[number]) =>
    Math.min(freeMB, (freeFiles ?? Infinity) / 100);
  const [fullest] = spaces.toSorted((a, b) => rank(a) - rank(b));
  const { path = "", freeMB = 0, freeFiles = null } = fullest ?? {};
  const inodes = freeFiles === null ? "" : ` and ${freeFiles} inodes`;
  const otherwise = path.startsWith(cacheDirectory())
    ? ", or set ENGINE_ROOM_CACHE_DIR to a folder on a larger disk"
    : "";
  return new Error(
    `The disk of ${path} was full; it has ${freeMB.toFixed(0)} MB${inodes} free now. Free more there${otherwise}, and run the command again.`,
  );
}

async function nearestFolder(path: string): Promise<string> {
  let folder = path;
  while (!(await exists(folder))) folder = dirname(folder);
  return folder;
}

const tails = new Map<string, Promise<unknown>>();

/** Runs `action` when every earlier action of this Node process with the same key has ended, well or not. */
export function exclusively<T>(key: string, action: () => Promise<T>): Promise<T> {
  const run = (tails.get(key) ?? Promise.resolve()).then(action);
  tails.set(
    key,
    run.catch(() => undefined),
  );
  return run;
}
