/** Hashes of the project's own files, so that a change of a program is seen like a change of configuration. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const projectRoot = fileURLToPath(new URL("../", import.meta.url));

/** SHA-256 of a file, 64 hexadecimal digits. @param path - Relative to the project's root. */
export function fileSha256(path: string): string {
  return createHash("sha256")
    .update(readFileSync(projectRoot + path))
    .digest("hex");
}

/** By paths and pattern: a process sees the sources as they were when it first looked, in all that it plans of them. */
const known = new Map<string, string>();

/**
 * SHA-256 over paths and contents of all files below some folders or of single files, whatever the order on disk.
 *
 * @param accept - Which files count, by their path.
 */
export function sourcesSha256(paths: readonly string[], accept: RegExp): string {
  const key = JSON.stringify([paths, String(accept)]);
  const found = known.get(key) ?? readSources(paths, accept);
  known.set(key, found);
  return found;
}

function readSources(paths: readonly string[], accept: RegExp): string {
  const hash = createHash("sha256");
  for (const path of paths
    .flatMap(listFiles)
    .filter((file) => accept.test(file))
    .toSorted()) {
    hash.update(`${path}\0${fileSha256(path)}\n`);
  }
  return hash.digest("hex");
}

const NOT_SOURCES = new Set(["node_modules", "__pycache__"]);

function listFiles(path: string): string[] {
  let entries: ReturnType<typeof readEntries>;
  try {
    entries = readEntries(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOTDIR") return [path];
    throw error;
  }
  return entries.flatMap((entry) => {
    if (NOT_SOURCES.has(entry.name)) return [];
    const child = `${path}/${entry.name}`;
    return entry.isDirectory() ? listFiles(child) : [child];
  });
}

function readEntries(path: string) {
  return readdirSync(projectRoot + path, { withFileTypes: true });
}
