/**
 * One process at a time on a data directory. The lock is a Unix socket with an abstract name: the kernel frees it with
 * the process that holds it, however that ends, so no stale lock is ever in the way. It holds within one network
 * namespace; containers that share a volume must be kept from it by whoever mounts it.
 */
import { closeSync, existsSync, mkdirSync, openSync, readSync, statSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";

/** Where LMDB's file has what it is known by: MDB_MAGIC in lmdb's mdb.c, behind the header of its first page. */
const MAGIC = Buffer.from([0xde, 0xc0, 0xef, 0xbe]);
const MAGIC_OFFSET = 24;

/**
 * Makes a directory where it is absent, and takes its lock until the process ends.
 *
 * @param file - LMDB's file in it, which is looked at before LMDB does: it ends the process over another one.
 * @returns Whether the lock was free.
 * @throws Error when it can't be used.
 */
export async function claimDirectory(directory: string, file: string): Promise<boolean> {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  if (!(await lock(directory))) return false;
  const path = join(directory, file);
  if (existsSync(path) && !isLmdb(path)) throw new Error(`${file} is no LMDB file`);
  return true;
}

/** A directory is known by its inode, so that no other path to it passes as another directory. */
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
