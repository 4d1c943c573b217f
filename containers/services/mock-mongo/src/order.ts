/**
 * MongoDB's order of values: https://www.mongodb.com/docs/manual/reference/bson-type-comparison-order/
 * It takes plain and typed values. A decimal is compared as the double next to it.
 */
import {
  Binary,
  BSONRegExp,
  BSONSymbol,
  Decimal128,
  Double,
  Int32,
  Long,
  MaxKey,
  MinKey,
  ObjectId,
  Timestamp,
} from "bson";

/** A sort key of a field whose list is empty: before null. */
export const NOTHING = Symbol("nothing");

/** Types in their order; values of one type are compared, of two types the types. */
export function typeRank(value: unknown): number {
  if (value === NOTHING) return 1;
  if (value === undefined || value === null) return 2;
  if (isNumeric(value)) return 3;
  if (typeof value === "string" || value instanceof BSONSymbol) return 4;
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

/** Numbers of BSON and of JavaScript. A timestamp is none, though its class derives from that of 64-bit integers. */
export function isNumeric(value: unknown): value is number | Int32 | Double | Long | Decimal128 {
  return (
    typeof value === "number" ||
    value instanceof Int32 ||
    value instanceof Double ||
    (value instanceof Long && !(value instanceof Timestamp)) ||
    value instanceof Decimal128
  );
}

/** The number next to it that JavaScript has. */
export function toNumber(value: number | Int32 | Double | Long | Decimal128): number {
  return typeof value === "number" ? value : Number(value.toString());
}

/** Less than, equal to or more than 0, as for `Array.sort`. */
export function compareValues(a: unknown, b: unknown): number {
  const rank = typeRank(a);
  const difference = rank - typeRank(b);
  if (difference !== 0) return difference;
  if (isNumeric(a) && isNumeric(b)) return compareNumbers(a, b);
  if (rank === 4) return compareStrings(String(a), String(b));
  if (Array.isArray(a) && Array.isArray(b)) return compareLists(a, b, compareValues);
  if (a instanceof Binary && b instanceof Binary) {
    const order = a.length() - b.length() || a.sub_type - b.sub_type;
    return order || Buffer.compare(a.value(), b.value());
  }
  if (a instanceof ObjectId && b instanceof ObjectId) return Buffer.compare(a.id, b.id);
  if (a instanceof Timestamp && b instanceof Timestamp) return a.compare(b);
  if (rank === 9 || rank === 10) return Number(a) - Number(b);
  if (rank === 12) return compareStrings(String(a), String(b));
  if (rank === 5)
    return compareLists(Object.entries(a as object), Object.entries(b as object), compareFields);
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

type Numeric = number | Int32 | Double | Long | Decimal128;

function compareNumbers(a: Numeric, b: Numeric): number {
  if (a instanceof Long && b instanceof Long) return a.compare(b);
  const [x, y] = [toNumber(a), toNumber(b)];
  if (Number.isNaN(x) || Number.isNaN(y)) return Number(Number.isNaN(y)) - Number(Number.isNaN(x));
  return x < y ? -1 : x > y ? 1 : 0;
}

/** By code points, as the bytes of UTF-8 are ordered; JavaScript's own order is by halves of surrogate pairs. */
function compareStrings(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let index = 0; index < length; index++) {
    const [x, y] = [a.charCodeAt(index), b.charCodeAt(index)];
    if (x !== y) return surrogatesLast(x) - surrogatesLast(y);
  }
  return a.length - b.length;
}

function surrogatesLast(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit >= 0xe000 ? unit - 0x800 : unit + 0x2000;
}
