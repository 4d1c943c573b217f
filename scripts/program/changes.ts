/** What differs between two sets of properties, one entry a leaf: the part of a preview that people read. */
import { isDeepStrictEqual } from "node:util";
import { diffLines } from "diff";
import { type Properties, SECRET_SIGNATURE, SIGNATURE_KEY, UNKNOWN_VALUE } from "../program/monitor.ts";

export interface PropertyChange {
  /** `environment.PATH`, `command[3]`. */
  readonly path: string;
  readonly kind: "add" | "update" | "delete";
  /** As shown; absent for `add`. */
  readonly before?: string;
  /** As shown; absent for `delete`. */
  readonly after?: string;
  /** Of a text of several lines: those that differ, with `- ` or `+ ` before them. */
  readonly lines?: readonly string[];
}

/** Leaves that differ, sorted by path. */
export function propertyChanges(before: Properties, after: Properties): PropertyChange[] {
  return compare("", before, after).toSorted((a, b) => (a.path < b.path ? -1 : 1));
}

function compare(path: string, before: unknown, after: unknown): PropertyChange[] {
  if (isDeepStrictEqual(before, after)) return [];
  if (before === undefined) return [{ path, kind: "add", after: show(after) }];
  if (after === undefined) return [{ path, kind: "delete", before: show(before) }];
  if (isContainer(before) && isContainer(after) && Array.isArray(before) === Array.isArray(after)) {
    const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...keys].flatMap((key) =>
      compare(join(path, key, Array.isArray(before)), before[key], after[key]),
    );
  }
  const lines = isText(before) && isText(after) ? { lines: changedLines(before, after) } : {};
  return [{ path, kind: "update", before: show(before), after: show(after), ...lines }];
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value.includes("\n");
}

const MOST_SHOWN_LINES = 12;

function changedLines(before: string, after: string): string[] {
  const lines = diffLines(before, after).flatMap(({ added, removed, value }) =>
    added || removed
      ? value
          .trimEnd()
          .split("\n")
          .map((line) => `${added ? "+" : "-"} ${line}`)
      : [],
  );
  const more = lines.length - MOST_SHOWN_LINES;
  return more > 0 ? [...lines.slice(0, MOST_SHOWN_LINES), `… ${more} more lines`] : lines;
}

function isContainer(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !isSecret(value);
}

export function isSecret(value: unknown): boolean {
  return (
    typeof value === "object" && value !== null && (value as Properties)[SIGNATURE_KEY] === SECRET_SIGNATURE
  );
}

function join(path: string, key: string, inList: boolean): string {
  if (inList) return `${path}[${key}]`;
  const quoted = /^[A-Za-z_][A-Za-z0-9_-]*$/.test(key) ? key : JSON.stringify(key);
  return path === "" ? quoted : `${path}.${quoted}`;
}

const LONGEST_SHOWN = 100;

function show(value: unknown): string {
  const text =
    JSON.stringify(value, (_key, inner: unknown) =>
      isSecret(inner) ? "[secret]" : inner === UNKNOWN_VALUE ? "[known after up]" : inner,
    ) ?? "null";
  return text.length > LONGEST_SHOWN ? `${text.slice(0, LONGEST_SHOWN)}…` : text;
}
