/** Differences of two sets of properties, one entry a leaf: the part of a preview that people read. */
import { isDeepStrictEqual } from "node:util";
import { diffLines } from "diff";
import { type Properties, SECRET_SIGNATURE, SIGNATURE_KEY, UNKNOWN_VALUE } from "./serialized.ts";

export interface PropertyChange {
  /** `environment.PATH`, `command[3]`. */
  readonly path: string;
  readonly kind: "add" | "update" | "delete";
  /** As shown; absent for `add`. */
  readonly before?: string;
  /** As shown; absent for `delete`. */
  readonly after?: string;
  /** Lines of a text that differ, with `- ` or `+ ` before them. */
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

/** An element of a list by its name, independent of its position. */
interface NamedElement {
  readonly element: string;
  /** Position after the change; of a deleted element, before it. */
  readonly index: number;
}

export type PropertyKeys = readonly (string | number | NamedElement)[];

/** Names of the elements of the list at some keys; undefined when elements are known by position. */
type ElementNames = (keys: PropertyKeys, list: readonly unknown[]) => readonly string[] | undefined;

/** Leaves that differ, sorted by path. */
export function propertyChanges(before: Properties, after: Properties): PropertyChange[] {
  return leafDifferences(before, after)
    .map(({ keys, kind, before: was, after: is }) => ({
      path: propertyPath(keys),
      kind,
      ...(kind === "add" ? {} : { before: show(was) }),
      ...(kind === "delete" ? {} : { after: show(is) }),
      ...(kind === "update" && isText(was) && isText(is) ? { lines: shownLines(was, is) } : {}),
    }))
    .toSorted((a, b) => (a.path < b.path ? -1 : 1));
}

/**
 * Compares values as data; the order of the result is arbitrary. An undefined member counts as absent.
 *
 * @param names - Lists with names are compared by the names of their elements, and their order is a separate leaf.
 */
export function leafDifferences(
  before: unknown,
  after: unknown,
  names: ElementNames = () => undefined,
  keys: PropertyKeys = [],
): readonly LeafDifference[] {
  if (isDeepStrictEqual(before, after)) return [];
  if (before === undefined) return [{ keys, kind: "add", before, after }];
  if (after === undefined) return [{ keys, kind: "delete", before, after }];
  if (Array.isArray(before) && Array.isArray(after)) {
    const [was, is] = [names(keys, before), names(keys, after)];
    if (was !== undefined && is !== undefined)
      return elementDifferences(
        { elements: before, names: was },
        { elements: after, names: is },
        names,
        keys,
      );
  }
  if (isContainer(before) && isContainer(after) && Array.isArray(before) === Array.isArray(after)) {
    const members = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...members].flatMap((name) =>
      leafDifferences(before[name], after[name], names, [
        ...keys,
        Array.isArray(before) ? Number(name) : name,
      ]),
    );
  }
  return [{ keys, kind: "update", before, after }];
}

interface NamedList {
  readonly elements: readonly unknown[];
  readonly names: readonly string[];
}

function elementDifferences(
  before: NamedList,
  after: NamedList,
  names: ElementNames,
  keys: PropertyKeys,
): readonly LeafDifference[] {
  const all = [...new Set([...after.names, ...before.names])];
  const differences = all.flatMap((element) => {
    const [was, is] = [before.names.indexOf(element), after.names.indexOf(element)];
    const place = { element, index: is === -1 ? was : is };
    return leafDifferences(before.elements[was], after.elements[is], names, [...keys, place]);
  });
  const [left, right] = [
    before.names.filter((name) => after.names.includes(name)),
    after.names.filter((name) => before.names.includes(name)),
  ];
  if (isDeepStrictEqual(left, right)) return differences;
  return [...differences, { keys, kind: "update", before: left, after: right }];
}

/** `["command", 3]` as `command[3]`, elements by name as `env[PORT]`; names other than plain words are in quotes. */
export function propertyPath(keys: PropertyKeys): string {
  return keys.reduce<string>((path, key) => {
    if (typeof key === "number") return `${path}[${key}]`;
    if (typeof key === "object")
      return `${path}[${/^[A-Za-z_][\w.-]*$/.test(key.element) ? key.element : JSON.stringify(key.element)}]`;
    const quoted = /^[A-Za-z_][A-Za-z0-9_-]*$/.test(key) ? key : JSON.stringify(key);
    return path === "" ? quoted : `${path}.${quoted}`;
  }, "");
}

/** Whether a value is a text of several lines. */
export function isText(value: unknown): value is string {
  return typeof value === "string" && value.includes("\n");
}

const MOST_SHOWN_LINES = 12;

function shownLines(before: string, after: string): readonly string[] {
  const lines = changedLines(before, after);
  const more = lines.length - MOST_SHOWN_LINES;
  return more > 0 ? [...lines.slice(0, MOST_SHOWN_LINES), `… ${more} more lines`] : lines;
}

/** Lines that differ, with `- ` or `+ ` before them. */
export function changedLines(before: string, after: string): readonly string[] {
  return diffLines(before, after).flatMap(({ added, removed, value }) =>
    added || removed
      ? value
          .trimEnd()
          .split("\n")
          .map((line) => `${added ? "+" : "-"} ${line}`)
      : [],
  );
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
