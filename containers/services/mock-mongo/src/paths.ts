/** Values at dotted paths. A list on the way stands for each of its elements, as in MongoDB's queries and indexes. */
import { compareValues, NOTHING } from "./order.ts";

/** Values at `a.b.c`: several where a list is on the way, none where there is nothing. A list at the end is one value. */
export function valuesAt(value: unknown, path: string): unknown[] {
  let found = [value];
  for (const part of path.split(".")) found = found.flatMap((one) => step(one, part));
  return found;
}

function step(value: unknown, part: string): unknown[] {
  if (typeof value !== "object" || value === null) return [];
  if (!Array.isArray(value)) return ownValue(value, part);
  const byIndex = /^\d+$/.test(part) ? ownValue(value, part) : [];
  return [...byIndex, ...value.flatMap((one) => (Array.isArray(one) ? [] : step(one, part)))];
}

function ownValue(value: object, key: string): unknown[] {
  return Object.hasOwn(value, key) ? [(value as Record<string, unknown>)[key]] : [];
}

/** Whether a list is on the way to, or at the end of, a path. */
export function hasList(value: unknown, path: string): boolean {
  const parts = path.split(".");
  return parts.some((_part, index) =>
    valuesAt(value, parts.slice(0, index + 1).join(".")).some((one) => Array.isArray(one)),
  );
}

/** Values at a path with lists taken apart; null where there is nothing, as an index has it. */
export function leavesAt(value: unknown, path: string): unknown[] {
  const found = valuesAt(value, path);
  if (found.length === 0) return [null];
  return found.flatMap((one) => (Array.isArray(one) && one.length > 0 ? one : [one]));
}

/** What a document is sorted by: of a list, its least element for an ascending order and its greatest for a descending. */
export function sortKey(value: unknown, path: string, direction: 1 | -1): unknown {
  const found = valuesAt(value, path);
  const leaves = found.flatMap((one) => (Array.isArray(one) ? one : [one]));
  if (leaves.length === 0) return found.length === 0 ? null : NOTHING;
  return leaves.reduce((best, one) => (direction * compareValues(one, best) < 0 ? one : best));
}
