/** What differs between two sets of properties, one entry a leaf: the part of a preview that people read. */
import { isDeepStrictEqual } from "node:util";
import { diffLines } from "diff";
import { type Properties, SECRET_SIGNATURE, SIGNATURE_KEY, UNKNOWN_VALUE } from "./marks.ts";

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

/** A leaf that is not the same in two sets of properties. */
export interface LeafDifference {
  /** Names, and indices of lists. */
  readonly keys: PropertyKeys;
  readonly kind: PropertyChange["kind"];
  readonly before: unknown;
  readonly after: unknown;
}

export type PropertyKeys = readonly (string | number)[];

/** Leaves that differ, sorted by path. */
export function propertyChanges(before: Properties, after: Properties): PropertyChange[] {
  return leafDifferences(before, after)
    .map(({ keys, kind, before: was, after: is }) => ({
      path: propertyPath(keys),
      kind,
      ...(kind === "add" ? {} : { before: show(was) }),
      ...(kind === "delete" ? {} : { after: show(is) }),
      ...(kind === "update" && isText(was) && isText(is) ? { lines: changedLines(was, is) } : {}),
    }))
    .toSorted((a, b) => (a.path < b.path ? -1 : 1));
}

/** The same as data, in no order that means anything. A member that is there and undefined counts as absent. */
export function leafDifferences(
  before: unknown,
  after: unknown,
  keys: PropertyKeys = [],
): readonly LeafDifference[] {
  if (isDeepStrictEqual(before, after)) return [];
  if (before === undefined) return [{ keys, kind: "add", before, after }];
  if (after === undefined) return [{ keys, kind: "delete", before, after }];
  if (isContainer(before) && isContainer(after) && Array.isArray(before) === Array.isArray(after)) {
    const names = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...names].flatMap((name) =>
      leafDifferences(before[name], after[name], [...keys, Array.isArray(before) ? Number(name) : name]),
    );
  }
  return [{ keys, kind: "update", before, after }];
}

/** `["command", 3]` as `command[3]`; names that are no plain words stand in quotes. */
export function propertyPath(keys: PropertyKeys): string {
  return keys.reduce<string>((path, key) => {
    if (typeof key === "number") return `${path}[${key}]`;
    const quoted = /^[A-Za-z_][A-Za-z0-9_-]*$/.test(key) ? key : JSON.stringify(key);
    return path === "" ? quoted : `${path}.${quoted}`;
  }, "");
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

const LONGEST_SHOWN = 100;

function show(value: unknown): string {
  return shortJson(value, (inner) =>
    isSecret(inner) ? "[secret]" : inner === UNKNOWN_VALUE ? "[known after up]" : inner,
  );
}

/** JSON in one line of at most 100 characters and `…`. */
export function shortJson(value: unknown, replace: (inner: unknown) => unknown): string {
  const text = JSON.stringify(value, (_key, inner: unknown) => replace(inner)) ?? "null";
  return text.length > LONGEST_SHOWN ? `${text.slice(0, LONGEST_SHOWN)}…` : text;
}
