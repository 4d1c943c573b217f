/** One way to write a value as JSON, and to name it by its content. */
import { createHash } from "node:crypto";

/** SHA-256 over {@link canonicalJson}, 64 hex digits. */
export function jsonDigest(value: unknown): string {
  return createHash("sha256").update(canonicalJson(value)).digest("hex");
}

/** JSON whose objects have their keys in order of code units, without members that are undefined. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}

/** The first 12 digits of a key, as paths and names carry them. */
export function shortKey(key: string): string {
  return key.slice(0, 12);
}
