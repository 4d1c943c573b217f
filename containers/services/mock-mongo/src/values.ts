/**
 * Values of BSON: MongoDB's order of them, which of them are the same, and those at a path. Plain and typed values are
 * taken alike. https://www.mongodb.com/docs/manual/reference/bson-type-comparison-order/
 */

import { hash } from "node:crypto";
import {
  Binary,
  BSONRegExp,
  Decimal128,
  Double,
  Int32,
  Long,
  MaxKey,
  MinKey,
  ObjectId,
  serialize,
  Timestamp,
} from "bson";
import { isPlainObject } from "./documents.ts";

/** Numbers of BSON and of JavaScript. */
export type Numeric = number | Int32 | Double | Long | Decimal128;

/** A timestamp is not a number, though its class derives from that of 64-bit integers. */
export function isNumeric(value: unknown): value is Numeric {
  return (
    typeof value === "number" ||
    value instanceof Int32 ||
    value instanceof Double ||
    (value instanceof Long && !(value instanceof Timestamp)) ||
    value instanceof Decimal128
  );
}

/** The nearest number that JavaScript has. */
export function toNumber(value: Numeric): number {
  return typeof value === "number" ? value : Number(value.toString());
}

/** Types in their order; values of one type are compared, of two types the types. */
export function typeRank(value: unknown): number {
  if (value === undefined) return 1;
  if (value === null) return 2;
  if (isNumeric(value)) return 3;
  if (typeof value === "string") return 4;
  if (Array.isArray(value)) return 6;
  if (value instanceof Binary) return 7;
  if (value instanceof ObjectId) return 8;
  if (typeof value === "boolean") return 9;
  if (value instanceof Date) return 10;
  if (value instanceof Timestamp) return 11;
  if (value instanceof RegExp || value instanceof BSONRegExp) return 12;
  if (value instanceof MinKey) return 0;
  if (value instanceof MaxKey) return 127;
  return 5;
}

/** Less than, equal to or more than 0, as for `Array.sort`. A decimal is compared as the double next to it. */
export function compareValues(a: unknown, b: unknown): number {
  const rank = typeRank(a);
  const difference = rank - typeRank(b);
  if (difference !== 0) return difference;
  if (isNumeric(a) && isNumeric(b)) return compareNumbers(a, b);
  if (Array.isArray(a) && Array.isArray(b)) return compareLists(a, b, compareValues);
  if (a instanceof Binary && b instanceof Binary) {
    const order = a.length() - b.length() || a.sub_type - b.sub_type;
    return order || Buffer.compare(a.value(), b.value());
  }
  if (a instanceof ObjectId && b instanceof ObjectId) return Buffer.compare(a.id, b.id);
  if (a instanceof Timestamp && b instanceof Timestamp) return a.compare(b);
  if (rank === 9 || rank === 10) return Number(a) - Number(b);
  if (rank === 4 || rank === 12) return compareStrings(String(a), String(b));
  if (rank === 5) {
    return compareLists(Object.entries(a as object), Object.entries(b as object), compareFields);
  }
  return 0;
}

type Field = [name: string, value: unknown];

/** Types first, then names, then values. */
function compareFields([nameA, a]: Field, [nameB, b]: Field): number {
  return typeRank(a) - typeRank(b) || compareStrings(nameA, nameB) || compareValues(a, b);
}

function compareLists<T>(a: readonly T[], b: readonly T[], compare: (a: T, b: T) => number): number {
  for (let index = 0; index < a.length && index < b.length; index++) {
    const order = compare(a[index] as T, b[index] as T);
    if (order !== 0) return order;
  }
  return a.length - b.length;
}

function compareNumbers(a: Numeric, b: Numeric): number {
  if (a instanceof Long && b instanceof Long) return a.compare(b);
  const [x, y] = [toNumber(a), toNumber(b)];
  if (Number.isNaN(x) || Number.isNaN(y)) return Number(Number.isNaN(y)) - Number(Number.isNaN(x));
  return x < y ? -1 : x > y ? 1 : 0;
}

/** JavaScript orders text by UTF-16, MongoDB by UTF-8: they differ from the surrogates on. */
const FROM_SURROGATES = /[\ud800-\uffff]/;

function compareStrings(a: string, b: string): number {
  if (FROM_SURROGATES.test(a) || FROM_SURROGATES.test(b)) {
    return Buffer.compare(Buffer.from(a), Buffer.from(b));
  }
  return a < b ? -1 : Number(a > b);
}

/** Equal values, equal text: 1, 1.0 and NumberLong(1) are the same; the order of keys in a document counts. */
export function identityOf(value: unknown): string {
  return hash("sha256", serialize({ v: normalize(value) }), "base64url");
}

function normalize(value: unknown): unknown {
  if (isNumeric(value)) {
    const number = toNumber(value);
    if ((value instanceof Long || value instanceof Decimal128) && !Number.isSafeInteger(number)) return value;
    // -0 and 0 are the same.
    return number === 0 ? 0 : number;
  }
  if (value === undefined) return null;
  if (Array.isArray(value)) return value.map(normalize);
  if (!isPlainObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, normalize(inner)]));
}

/**
 * Values at `a.b.c`. A list on the way stands for each of its elements: several values are found then, none if there is
 * nothing. A list at the end is one value.
 */
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

/**
 * A document's value for sorting: of a list, the least element in ascending order, the greatest in descending; of an
 * empty list undefined, which comes before null.
 */
export function sortKey(value: unknown, path: string, direction: 1 | -1): unknown {
  const found = valuesAt(value, path);
  const leaves = found.flatMap((one) => (Array.isArray(one) ? one : [one]));
  if (leaves.length === 0) return found.length === 0 ? null : undefined;
  return leaves.reduce((best, one) => (direction * compareValues(one, best) < 0 ? one : best));
}
