/**
 * What remains of a stack file when what its schema refuses is taken out, so that the mistakes which only a plan can find
 * are reported together with those of the schema.
 */
import type { z } from "zod";
import { nearestName } from "../nearest-name.ts";
import { formatPath } from "../problems.ts";
import { at, flatIssues, knownKeys, type Path } from "./schema-problems.ts";

export interface Remainder<T> {
  readonly config: T;
  /**
   * What was taken out, or replaced by a stand-in, as paths of the stack file. In place of a key that does not exist stands
   * the one that was probably meant.
   */
  readonly dropped: readonly Path[];
  /** Paths of `config` in a text, such as `models[0].name`, as paths of the stack file: entries may have gone. */
  readonly restorePaths: (text: string) => string;
}

/** In place of an entry that was taken out of a list, until the list is closed up. */
const GONE = Symbol("gone");

/** A round takes out at least one value, and mistakes hide each other no deeper than this. */
const MOST_ROUNDS = 20;

/**
 * Takes out value by value what the schema refuses. A required value that is missing takes what holds it along, but for
 * names, which get a stand-in.
 *
 * @returns null where nothing remains that the schema accepts.
 */
export function remainderOf<T>(values: unknown, schema: z.ZodType<T>): Remainder<T> | null {
  const tree = structuredClone(values);
  const dropped: Path[] = [];
  for (let round = 0; round < MOST_ROUNDS; round++) {
    const closed = closeUp(tree);
    const parsed = schema.safeParse(closed.value, { reportInput: true });
    if (parsed.success) return { config: parsed.data, dropped, restorePaths: pathRestorer(closed) };
    for (const { path: closedPath, ...issue } of flatIssues(parsed.error.issues)) {
      if (issue.code === "unrecognized_keys") {
        const known = knownKeys(schema, closedPath, closed.value);
        for (const key of issue.keys) {
          remove(tree, openPath([...closedPath, key], closed));
          const meant = nearestName(key, known);
          if (meant !== undefined) dropped.push(openPath([...closedPath, meant], closed));
        }
        continue;
      }
      const path = openPath(present(closed.value, closedPath), closed);
      if (path.length === 0) return null;
      dropped.push(path);
      if (isNameOfEntry(path)) replace(tree, path, `unnamed-${String(path.at(-2))}`);
      else remove(tree, path);
    }
  }
  return null;
}

/** What is missing can't be taken out, but what lacks it can. */
function present(value: unknown, path: Path): Path {
  if (path.length === 0 || isNameOfEntry(path) || at(value, path) !== undefined) return path;
  return present(value, path.slice(0, -1));
}

function isNameOfEntry(path: Path): boolean {
  return path.at(-1) === "name" && typeof path.at(-2) === "number";
}

function remove(tree: unknown, path: Path): boolean {
  const holder = at(tree, path.slice(0, -1));
  const key = path.at(-1) as PropertyKey;
  if (Array.isArray(holder) && typeof key === "number") holder[key] = GONE;
  else if (typeof holder === "object" && holder !== null) Reflect.deleteProperty(holder, key);
  else return false;
  return true;
}

function replace(tree: unknown, path: Path, value: unknown): boolean {
  const holder = at(tree, path.slice(0, -1));
  return (
    typeof holder === "object" && holder !== null && Reflect.set(holder, path.at(-1) as PropertyKey, value)
  );
}

interface ClosedTree {
  readonly value: unknown;
  /** By the path of a closed list: where its entries stood. */
  readonly places: ReadonlyMap<string, readonly number[]>;
}

function closeUp(tree: unknown): ClosedTree {
  const places = new Map<string, readonly number[]>();
  const close = (value: unknown, path: Path): unknown => {
    if (Array.isArray(value)) {
      const kept = [...value.keys()].filter((index) => value[index] !== GONE);
      places.set(formatPath(path), kept);
      return kept.map((index, place) => close(value[index], [...path, place]));
    }
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, inner]) => [key, close(inner, [...path, key])]),
    );
  };
  return { value: close(tree, []), places };
}

/** A path of the closed tree as one of the tree with its gaps. */
function openPath(path: Path, { places }: ClosedTree): Path {
  return path.map((key, index) =>
    typeof key === "number" ? (places.get(formatPath(path.slice(0, index)))?.[key] ?? key) : key,
  );
}

function pathRestorer(closed: ClosedTree): (text: string) => string {
  return (text) =>
    text.replace(/[A-Za-z][\w.-]*(\[\d+\][\w.-]*)+/g, (found) => {
      const path = [...found.matchAll(/\[(\d+)\]|([^.[\]]+)/g)].map(([, index, key]) =>
        index === undefined ? String(key) : Number(index),
      );
      return found.replace(formatPath(path), formatPath(openPath(path, closed)));
    });
}
