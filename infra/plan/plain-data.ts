/** Data without promises and outputs: as a type, as JSON in one way, and named by its content. */
import { createHash } from "node:crypto";
import type { OutputInstance } from "@pulumi/pulumi";

/** Arguments of Pulumi's providers as data. */
export type Plain<T> = T extends Promise<unknown> | OutputInstance<unknown>
  ? never
  : T extends readonly (infer Item)[]
    ? Plain<Item>[]
    : T extends object
      ? { readonly [Key in keyof T]: Plain<T[Key]> }
      : T;

/** SHA-256 over {@link canonicalJson}, 64 hex digits. */
export function jsonDigest(value: unknown): string {
  return createHash("sha256").update(canonicalJson(value)).digest("hex");
}

/** The first 12 digits of a digest, as paths and names carry them. */
export function shortKey(key: string): string {
  return key.slice(0, 12);
}

/** JSON whose objects have their keys in order of code units, without members that are undefined. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner) ? sortedByKey({ ...inner }) : inner,
  );
}

/** In order of code units. */
export function sortedByKey<T>(record: Readonly<Record<string, T>>): Record<string, T> {
  return Object.fromEntries(Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1)));
}
