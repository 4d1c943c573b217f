/** A file system of a few megabytes, which a test can fill. */
import { spawnSync } from "node:child_process";
import { closeSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "./service-process.ts";

export interface SmallDisk {
  /** Mount point. */
  readonly path: string;
  /** Uses all free space. */
  fill(): void;
  /** Frees the space of `fill`. */
  free(): void;
  remove(): void;
}

const FILL_BYTES = 64 * 1024;

/** Mounts a tmpfs, as root. @throws Error with the output of `mount` when that fails. */
export function smallDisk(mebibytes: number): SmallDisk {
  const folder = temporaryFolder("small-disk");
  const options = ["-t", "tmpfs", "-o", `size=${mebibytes}m,mode=700`, "tmpfs", folder.path];
  const { status, stderr, error } = spawnSync("mount", options, { encoding: "utf8" });
  if (status !== 0) {
    folder.remove();
    throw new Error(`no small file system can be mounted: ${(error?.message ?? stderr).trim()}`);
  }
  const filler = join(folder.path, "filler");
  return {
    path: folder.path,
    fill: () => fill(filler),
    free: () => rmSync(filler, { force: true }),
    remove: () => {
      spawnSync("umount", ["--lazy", folder.path]);
      folder.remove();
    },
  };
}

/** Reason why such a file system can't be mounted; undefined when it can. */
export function smallDiskMissing(): string | undefined {
  try {
    smallDisk(1).remove();
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

function fill(filler: string): void {
  const descriptor = openSync(filler, "a");
  try {
    // Smaller pieces fill the space that is less than a large piece.
    for (const size of [FILL_BYTES, 4096, 1]) writeUntilFull(descriptor, Buffer.alloc(size));
  } finally {
    closeSync(descriptor);
  }
}

function writeUntilFull(descriptor: number, piece: Buffer): void {
  try {
    while (writeSync(descriptor, piece) === piece.length);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
  }
}
