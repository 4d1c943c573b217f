/** Writes images.lock.json. */
import { renameSync, writeFileSync } from "node:fs";
import { imageLockFile, readImageLock } from "../../infra/image-inputs.ts";
import type { LockEntry } from "../../infra/plan/docker/images.ts";

/** Puts one entry into the lock file, sorted; whoever reads meanwhile sees the old file or the new one. */
export function lockImage(key: string, entry: LockEntry, file: string = imageLockFile()): void {
  const { images } = readImageLock(file);
  const sorted = Object.entries({ ...images, [key]: entry }).sort(([a], [b]) => (a < b ? -1 : 1));
  const next = `${file}.${process.pid}.tmp`;
  writeFileSync(next, `${JSON.stringify({ version: 1, images: Object.fromEntries(sorted) }, null, 2)}\n`);
  renameSync(next, file);
}
