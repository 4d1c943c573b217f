/** Hashes of the project's own files, so that a change of a program is seen like a change of configuration. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
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
  const found = known.get(key);
  if (found !== undefined) return found;
  const hash = createHash("sha256");
  const files = paths.flatMap(listFiles).filter((file) => accept.test(file));
  for (const path of files.toSorted()) hash.update(`${path}\0${fileSha256(path)}\n`);
  const digest = hash.digest("hex");
  known.set(key, digest);
  return digest;
}

const NOT_SOURCES = new Set(["node_modules", "__pycache__"]);

function listFiles(path: string): string[] {
  if (!statSync(projectRoot + path).isDirectory()) return [path];
  const names = readdirSync(projectRoot + path).filter((name) => !NOT_SOURCES.has(name));
  return names.flatMap((name) => listFiles(`${path}/${name}`));
}
