/**
 * The update operators, on typed values: a number keeps the type that its client gave it, and what MongoDB refuses is
 * refused. https://www.mongodb.com/docs/manual/reference/operator/update/
 */
import { type Document, Double, Int32, Long } from "bson";
import { isPlainObject, readPlain, write } from "./documents.ts";
import { CommandError } from "./errors.ts";
import { identityOf } from "./identity.ts";
import { compareValues, isNumeric, toNumber } from "./order.ts";
import { isOperators, predicate } from "./query.ts";
import { readOrder, Sorter } from "./sorting.ts";
import { Place } from "./update-paths.ts";

/** Changes a document; `operand` is what the operator holds for that path. */
type Operator = (document: Document, path: string, operand: unknown) => void;

export const UPDATE_OPERATORS: Readonly<Record<string, Operator>> = {
  $set: (document, path, operand) => new Place(document, path).set(operand),

  $unset: (document, path) => new Place(document, path).remove(),

  $inc: (document, path, operand) => arithmetic(document, path, operand, "$inc"),

  $mul: (document, path, operand) => arithmetic(document, path, operand, "$mul"),

  $min: (document, path, operand) => replaceIf(document, path, operand, (order) => order < 0),

  $max: (document, path, operand) => replaceIf(document, path, operand, (order) => order > 0),

  $rename(document, path, operand) {
    if (typeof operand !== "string" || operand === "") {
      throw new CommandError(2, `The 'to' field for $rename must be a string: ${path}`);
    }
    const from = new Place(document, path);
    if (!from.exists) return;
    const value = from.value;
    from.remove();
    new Place(document, operand).set(value);
  },

  $currentDate(document, path, operand) {
    const isDate = operand === true || (isPlainObject(operand) && operand.$type === "date");
    if (!isDate) throw new CommandError(2, `$currentDate for ${path} must be true or { $type: 'date' }`);
    new Place(document, path).set(new Date());
  },

  $push(document, path, operand) {
    const place = new Place(document, path);
    const list = listAt(place);
    const { values, position, slice, sort } = readPush(operand);
    const at = position === undefined || position > list.length ? list.length : position;
    const start = at < 0 ? Math.max(0, list.length + at) : at;
    let changed = [...list.slice(0, start), ...values, ...list.slice(start)];
    if (sort !== undefined) changed = sorted(changed, sort);
    if (slice !== undefined) changed = slice < 0 ? changed.slice(slice) : changed.slice(0, slice);
    place.set(changed);
  },

  $addToSet(document, path, operand) {
    const place = new Place(document, path);
    const list = listAt(place);
    const known = new Set(list.map(identityOf));
    const added = eachOf(operand).filter((value) => {
      const identity = identityOf(value);
      return known.has(identity) ? false : known.add(identity);
    });
    if (added.length > 0 || !place.exists) place.set([...list, ...added]);
  },

  $pull(document, path, operand) {
    const place = new Place(document, path);
    if (!place.exists) return;
    const isPulled = pullTest(operand);
    place.set(listAt(place).filter((value) => !isPulled(value)));
  },

  $pullAll(document, path, operand) {
    if (!Array.isArray(operand)) throw new CommandError(2, "$pullAll requires an array argument");
    const place = new Place(document, path);
    if (!place.exists) return;
    const pulled = new Set(operand.map(identityOf));
    place.set(listAt(place).filter((value) => !pulled.has(identityOf(value))));
  },

  $pop(document, path, operand) {
    const direction = isNumeric(operand) ? toNumber(operand) : 0;
    if (direction !== 1 && direction !== -1) {
      throw new CommandError(9, `$pop expects 1 or -1 for ${path}`);
    }
    const place = new Place(document, path);
    if (!place.exists) return;
    const list = listAt(place);
    place.set(direction === 1 ? list.slice(0, -1) : list.slice(1));
  },
};

function arithmetic(document: Document, path: string, operand: unknown, name: "$inc" | "$mul"): void {
  const place = new Place(document, path);
  const verb = name === "$inc" ? "increment" : "multiply";
  if (!isNumeric(operand)) throw new CommandError(14, `Cannot ${verb} with non-numeric argument: {${path}}`);
  const before = place.exists ? place.value : name === "$inc" ? operand : zeroLike(operand);
  if (!isNumeric(before)) {
    throw new CommandError(14, `Cannot apply ${name} to a value of non-numeric type: the field '${path}'`);
  }
  if (place.exists) place.set(compute(before, operand, name));
  else place.set(before);
}

type Numeric = Extract<Parameters<typeof toNumber>[0], unknown>;

function zeroLike(operand: Numeric): Numeric {
  if (operand instanceof Long) return Long.ZERO;
  return operand instanceof Double ? new Double(0) : new Int32(0);
}

/** 32-bit integers grow into 64-bit ones, and a double makes the result a double. */
function compute(a: Numeric, b: Numeric, name: "$inc" | "$mul"): Numeric {
  const [x, y] = [toNumber(a), toNumber(b)];
  if (a instanceof Double || b instanceof Double) return new Double(name === "$inc" ? x + y : x * y);
  if (!isInteger(a) || !isInteger(b)) {
    throw new CommandError(238, `${name} of decimals is not supported by this server`);
  }
  const exact = name === "$inc" ? toBigInt(a) + toBigInt(b) : toBigInt(a) * toBigInt(b);
  if (BigInt.asIntN(64, exact) !== exact) {
    throw new CommandError(2, `Failed to apply ${name}: the result does not fit into 64 bits`);
  }
  const fits = BigInt.asIntN(32, exact) === exact;
  return fits && a instanceof Int32 && b instanceof Int32 ? new Int32(Number(exact)) : Long.fromBigInt(exact);
}

function isInteger(value: Numeric): value is Int32 | Long {
  return value instanceof Int32 || value instanceof Long;
}

function toBigInt(value: Int32 | Long): bigint {
  return value instanceof Long ? value.toBigInt() : BigInt(value.valueOf());
}

function replaceIf(
  document: Document,
  path: string,
  operand: unknown,
  isWanted: (order: number) => boolean,
): void {
  const place = new Place(document, path);
  if (!place.exists || isWanted(compareValues(operand, place.value))) place.set(operand);
}

/** The list at a place; empty where there is nothing. @throws CommandError 2 */
function listAt(place: Place): readonly unknown[] {
  if (!place.exists) return [];
  if (Array.isArray(place.value)) return place.value;
  throw new CommandError(2, `The field '${place.path}' must be an array`);
}

function eachOf(operand: unknown): readonly unknown[] {
  if (!isPlainObject(operand) || !("$each" in operand)) return [operand];
  if (Array.isArray(operand.$each)) return operand.$each;
  throw new CommandError(14, "The argument to $each must be an array");
}

interface Push {
  readonly values: readonly unknown[];
  readonly position: number | undefined;
  readonly slice: number | undefined;
  readonly sort: unknown;
}

const PUSH_MODIFIERS = ["$each", "$position", "$slice", "$sort"];

function readPush(operand: unknown): Push {
  if (!isPlainObject(operand) || !("$each" in operand)) {
    return { values: [operand], position: undefined, slice: undefined, sort: undefined };
  }
  const unknown = Object.keys(operand).find((key) => !PUSH_MODIFIERS.includes(key));
  if (unknown !== undefined) throw new CommandError(2, `Unrecognized clause in $push: ${unknown}`);
  return {
    values: eachOf(operand),
    position: wholeNumber("$position", operand.$position),
    slice: wholeNumber("$slice", operand.$slice),
    sort: operand.$sort,
  };
}

function wholeNumber(name: string, value: unknown): number | undefined {
  if (value === undefined) return undefined;
  const number = isNumeric(value) ? toNumber(value) : Number.NaN;
  if (!Number.isInteger(number)) throw new CommandError(2, `The value for ${name} must be an integer`);
  return number;
}

/** By the elements themselves for 1 and -1, else by their fields. */
function sorted(values: readonly unknown[], sort: unknown): unknown[] {
  const isWhole = isNumeric(sort);
  const order = isWhole ? { v: toNumber(sort) } : readPlain(write(isPlainObject(sort) ? sort : { sort }));
  const sorter = new Sorter<unknown>(readOrder(order), Number.POSITIVE_INFINITY);
  for (const [index, value] of values.entries()) {
    sorter.add(value, isWhole ? { v: value } : isPlainObject(value) ? value : {}, index);
  }
  return sorter.sorted();
}

/** What `$pull` takes out: values that are equal, that satisfy a condition, or documents that match a filter. */
function pullTest(operand: unknown): (value: unknown) => boolean {
  if (!isPlainObject(operand)) {
    const identity = identityOf(operand);
    return (value) => identityOf(value) === identity;
  }
  const isCondition = isOperators(operand);
  const test = predicate(readPlain(write(isCondition ? { v: operand } : operand)));
  return (value) => {
    if (!isCondition) return isPlainObject(value) && test(readPlain(write(value)));
    return test(readPlain(write({ v: value })));
  };
}
