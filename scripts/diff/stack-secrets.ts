/** Secrets of stack files, to be compared and kept out of what is shown. */
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import {
  CONFIG_NAMESPACE,
  formatPath,
  isSecure,
  pathParts,
  SECRET_PATHS,
  valueAt,
} from "../../infra/problems.ts";
import { SECRET_PLACEHOLDER } from "../program/serialized.ts";
import type { StackReference } from "../program/stack-file.ts";
import type { SecretChange } from "./types.ts";

/** By path, such as `hub.token`: the ciphertext, or the plain text of what only the schema takes for a secret. */
export type StackSecrets = ReadonlyMap<string, string>;

/** None where the file can't be read, which whoever renders it explains. */
export function stackSecrets({ configFile }: StackReference): StackSecrets {
  let config: Readonly<Record<string, unknown>>;
  try {
    config = (parse(readFileSync(configFile, "utf8")) as { config?: typeof config } | null)?.config ?? {};
  } catch {
    return new Map();
  }
  // Keys of other namespaces keep theirs.
  const values = Object.fromEntries(
    Object.entries(config).map(([key, value]) => [key.replace(`${CONFIG_NAMESPACE}:`, ""), value]),
  );
  const plain = SECRET_PATHS.flatMap((path): [string, string][] => {
    const value = valueAt(values, pathParts(path));
    return typeof value === "string" ? [[path, value]] : [];
  });
  return new Map([...encrypted(values), ...plain]);
}

function encrypted(value: unknown, path: readonly (string | number)[] = []): [string, string][] {
  if (isSecure(value)) return [[formatPath(path), value.secure]];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) =>
    encrypted(inner, [...path, Array.isArray(value) ? Number(key) : key]),
  );
}

/** Paths at which two stack files have other secrets; encrypting the same value again makes another one. */
export function changedSecrets(before: StackSecrets, after: StackSecrets): readonly SecretChange[] {
  return [...new Set([...before.keys(), ...after.keys()])]
    .filter((path) => before.get(path) !== after.get(path))
    .toSorted()
    .map((path) => ({
      path,
      kind: !before.has(path) ? "add" : after.has(path) ? "update" : "delete",
    }));
}

/** Shorter ones are no secrets, and would cut words of every sentence. */
const SHORTEST_REDACTED = 4;

/** A text of a program, such as the message of a failure, without the secrets. */
export function redacted(text: string, secrets: Iterable<string>): string {
  return [...secrets]
    .filter((secret) => secret.length >= SHORTEST_REDACTED)
    .toSorted((a, b) => b.length - a.length)
    .reduce((shown, secret) => shown.replaceAll(secret, SECRET_PLACEHOLDER), text);
}
