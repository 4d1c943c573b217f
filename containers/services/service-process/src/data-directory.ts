/**
 * One process at a time on a data directory. The lock is a Unix socket with an abstract name: the kernel frees it with
 * the process that holds it, however that ends, so that a lock is never stale. It works within one network namespace:
 * containers must not share a data volume.
 */
import { closeSync, existsSync, mkdirSync, openSync, readSync, statSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { StartError } from "./process.ts";

/** Signature of LMDB's file: MDB_MAGIC in lmdb's mdb.c, behind the header of its first page. */
const MAGIC = Buffer.from([0xde, 0xc0, 0xef, 0xbe]);
const MAGIC_OFFSET = 24;

/**
 * Makes a directory if it is absent, takes its lock until the process ends, and opens the store in it.
 *
 * @param directory - Value of `--data`.
 * @param file - The store's LMDB file, checked first: LMDB would end the process over another kind of file.
 * @throws StartError when another process has the directory, or when it can't be opened.
 */
export async function openStore<T>(
  directory: string,
  file: string,
  Store: new (directory: string) => T,
): Promise<T> {
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    if (await lock(directory)) {
      const path = join(directory, file);
      if (existsSync(path) && !isLmdb(path)) throw new Error(`${file} is not an LMDB file`);
      outliveFailedCommits();
      return new Store(directory);
    }
  } catch (error) {
    throw new StartError(
      `The data in ${directory} can't be opened: ${(error as Error).message}; choose another directory with --data.`,
    );
  }
  throw new StartError(
    `Another process uses the data in ${directory}; stop it, or choose another directory with --data.`,
  );
}

/**
 * A failed commit, as on a full disk, is reported to its writers. Internal promises of the package lmdb, which nothing
 * can await, fail with it; Node would end the process for them.
 */
function outliveFailedCommits(): void {
  process.on("unhandledRejection", (error) => {
    // Any other error still ends the process.
    if (!isOfFailedCommit(error)) throw error;
  });
}

/** Only LMDB's error has a number as its code; the package's error has a promise of it. */
function isOfFailedCommit(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return "commitError" in error || ("code" in error && typeof error.code === "number");
}

/**
 * Takes the lock until the process ends. A directory is known by its inode, so that no other path to it passes as another
 * directory.
 *
 * @returns Whether it was free.
 */
function lock(directory: string): Promise<boolean> {
  const { dev, ino } = statSync(directory, { bigint: true });
  const server = createServer((socket) => socket.destroy());
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EADDRINUSE") resolve(false);
      else reject(error);
    });
    server.listen(`\0engine-room-data-${dev}-${ino}`, () => {
      server.unref();
      resolve(true);
    });
  });
}

/** Also of an empty file, which a process leaves that was killed while it made it. */
function isLmdb(path: string): boolean {
  const found = Buffer.alloc(MAGIC.length);
  const descriptor = openSync(path, "r");
  try {
    const length = readSync(descriptor, found, 0, found.length, MAGIC_OFFSET);
    return found.equals(MAGIC) || (length === 0 && statSync(path).size === 0);
  } finally {
    closeSync(descriptor);
  }
}
