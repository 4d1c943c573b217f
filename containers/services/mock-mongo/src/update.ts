/**
 * Updates of documents. Values are typed: a number keeps its client's type, and MongoDB's refusals are repeated.
 * mingo's own updates support only JavaScript's numbers, and silently skip values that they can't change.
 * https://www.mongodb.com/docs/manual/reference/operator/update/
 */

import { BSONRegExp, Decimal128, type Document, Double, Int32, Long, MaxKey, MinKey, ObjectId } from "bson";
import { CommandError, isPlainObject, readPlain, readTyped, write } from "./documents.ts";
import { isOperators, predicate } from "./query.ts";
import { compareValues, identityOf, isNumeric, type Numeric, toNumber } from "./values.ts";

// Places in a document: a dotted path, in which a number is an index if there is a list.

/** Maximum length to which a list is filled with null, as in MongoDB. */
const MAX_PADDING = 1_500_000;

function isContainer(value: unknown): value is Document {
  return Array.isArray(value) || isPlainObject(value);
}

/** The parent of a path's last part, and that part; undefined for a path without value. */
function holderOf(document: Document, path: string): [holder: Document, name: string] | undefined {
  const parts = path.split(".");
  const name = parts.pop() ?? "";
  let inner: unknown = document;
  for (const part of parts)
    inner = isContainer(inner) && Object.hasOwn(inner, part) ? inner[part] : undefined;
  return isContainer(inner) && Object.hasOwn(inner, name) ? [inner, name] : undefined;
}

function valueAt(document: Document, path: string): unknown {
  const [holder, name = ""] = holderOf(document, path) ?? [];
  return holder?.[name];
}

/** An element of a list becomes null, so that the others keep their places. */
function removeAt(document: Document, path: string): void {
  const [holder, name = ""] = holderOf(document, path) ?? [];
  if (Array.isArray(holder)) put(holder, name, null);
  else delete holder?.[name];
}

/** @throws CommandError 28 for a path that leads through a value. */
function setAt(document: Document, path: string, value: unknown): void {
  const parts = path.split(".");
  const last = parts.pop() ?? "";
  let inner = document;
  for (const [index, part] of parts.entries()) {
    if (!Object.hasOwn(inner, part)) put(inner, part, {});
    const next: unknown = inner[part];
    const name = parts[index + 1] ?? last;
    const isIndex = /^\d+$/.test(name) && isContainer(next) && Number(name) - next.length <= MAX_PADDING;
    if (!isContainer(next) || (Array.isArray(next) && !isIndex)) {
      const what = Array.isArray(next) ? "an array" : "an element that is neither a document nor an array";
      throw new CommandError(28, `Cannot create field '${name}' in ${what}: the path '${path}'`);
    }
    inner = next;
  }
  put(inner, last, value);
}

function put(container: Document, key: string, value: unknown): void {
  if (Array.isArray(container)) {
    while (container.length < Number(key)) container.push(null);
    container[Number(key)] = value;
    return;
  }
  // Not always by assignment: `__proto__` is a name like any other.
  if (key !== "__proto__") container[key] = value;
  else Object.defineProperty(container, key, { value, writable: true, enumerable: true, configurable: true });
}

/** Returns the new value; undefined for a field that does not exist, before or after. */
type Operator = (before: unknown, operand: unknown, path: string, isInsert: boolean) => unknown;

const OPERATORS: Readonly<Record<string, Operator>> = {
  $set: (_before, operand) => operand,
  $setOnInsert: (before, operand, _path, isInsert) => (isInsert ? operand : before),
  $unset: () => undefined,
  $inc: (before = new Int32(0), operand, path) => sumOf(before, operand, path),
  $min: (before = new MaxKey(), operand) => (compareValues(before, operand) <= 0 ? before : operand),
  $max: (before = new MinKey(), operand) => (compareValues(before, operand) >= 0 ? before : operand),
  $push: (before, operand, path) => [...listOf(before, path), ...eachOf(operand)],
  $addToSet(before, operand, path) {
    const list = [...listOf(before, path)];
    const known = new Set(list.map(identityOf));
    for (const value of eachOf(operand)) {
      if (!known.has(identityOf(value))) list.push(value);
      known.add(identityOf(value));
    }
    return list;
  },
  $pull(before, operand, path) {
    if (before === undefined) return undefined;
    const isPulled = pullTest(operand);
    return listOf(before, path).filter((value) => !isPulled(value));
  },
};

/** 32-bit integers grow into 64-bit ones, and a double makes the sum a double. */
function sumOf(a: unknown, b: unknown, path: string): Numeric {
  if (!isNumeric(a) || !isNumeric(b)) {
    const what = isNumeric(a) ? "a non-numeric argument" : "a value of non-numeric type";
    throw new CommandError(14, `Cannot apply $inc to ${what}: the field '${path}'`);
  }
  if (a instanceof Decimal128 || b instanceof Decimal128) {
    throw new CommandError(238, "$inc of decimals is not supported by this server");
  }
  if (a instanceof Double || b instanceof Double) return new Double(toNumber(a) + toNumber(b));
  const exact = BigInt(String(a)) + BigInt(String(b));
  if (BigInt.asIntN(64, exact) !== exact) {
    throw new CommandError(2, "Failed to apply $inc: the result does not fit into 64 bits");
  }
  const isSmall = a instanceof Int32 && b instanceof Int32 && BigInt.asIntN(32, exact) === exact;
  return isSmall ? new Int32(Number(exact)) : Long.fromBigInt(exact);
}

function listOf(value: unknown, path: string): readonly unknown[] {
  if (value === undefined) return [];
  if (Array.isArray(value)) return value;
  throw new CommandError(2, `The field '${path}' must be an array`);
}

function eachOf(operand: unknown): readonly unknown[] {
  if (!isOperators(operand)) return [operand];
  const unknown = Object.keys(operand).find((key) => key !== "$each");
  if (unknown !== undefined) {
    throw new CommandError(2, `The modifier ${unknown} is not supported by this server; use $each`);
  }
  if (Array.isArray(operand.$each)) return operand.$each;
  throw new CommandError(14, "The argument to $each must be an array");
}

/** Selects the values that `$pull` removes: equal values, values under a condition, or documents that match a filter. */
function pullTest(operand: unknown): (value: unknown) => boolean {
  const isPattern = operand instanceof BSONRegExp;
  if (!isPlainObject(operand) && !isPattern) return (value) => identityOf(value) === identityOf(operand);
  const wrap = (value: unknown) => (isPattern || isOperators(operand) ? { v: value } : value);
  const plain = (value: unknown) => readPlain(write(wrap(value) as Document));
  const test = predicate(plain(operand));
  return (value) => isPlainObject(wrap(value)) && test(plain(value));
}

const CHANGED_ID = "Performing an update would modify the immutable field '_id'";

/** An update that has been read: a replacement, or operators such as `$set`. */
export interface Update {
  /** @returns The new document; undefined when nothing changes. @throws CommandError 66 when `_id` does. */
  apply(before: Uint8Array): Uint8Array | undefined;
  /** The document that an upsert inserts: what the filter says to be equal, then the change. @param filter - Typed. */
  insert(filter: Document): Document;
}

/**
 * @param change - Typed.
 * @throws CommandError 2, 9, 40 and 238 for an update that can't be read; what it returns throws what operators throw.
 */
export function readUpdate(change: unknown, isMulti: boolean): Update {
  if (Array.isArray(change)) {
    throw new CommandError(238, "Updates with a pipeline are not supported by this server");
  }
  if (!isPlainObject(change)) throw new CommandError(9, "Update argument must be an object");
  const fields: Document = change;
  const hasOperators = isOperators(change);
  if (hasOperators) refuseWrongOperators(change);
  else if (isMulti) {
    throw new CommandError(9, "multi update is not supported for replacement-style update");
  }
  const changed = (document: Document, isInsert: boolean) => {
    if (!hasOperators) return { ...("_id" in document && { _id: document._id }), ...fields };
    for (const [name, operands] of Object.entries(fields)) operate(document, name, operands, isInsert);
    return document;
  };
  return {
    apply(before) {
      const document = readTyped(before);
      const id = identityOf(document._id);
      const after = changed(document, false);
      if (!("_id" in after) || identityOf(after._id) !== id) {
        throw new CommandError(66, CHANGED_ID);
      }
      const bytes = write(after);
      return Buffer.compare(bytes, before) === 0 ? undefined : bytes;
    },
    insert(filter) {
      const base: Document = {};
      for (const [path, value] of equalities(filter)) setAt(base, path, value);
      const isGiven = "_id" in base;
      const id = identityOf(base._id);
      const { _id = new ObjectId(), ...rest } = changed(base, true);
      if (isGiven && identityOf(_id) !== id) throw new CommandError(66, CHANGED_ID);
      return { _id, ...rest };
    },
  };
}

function operate(document: Document, name: string, fields: Document, isInsert: boolean): void {
  for (const [path, operand] of Object.entries(fields)) {
    const before = valueAt(document, path);
    const after = OPERATORS[name]?.(before, operand, path, isInsert);
    if (after === undefined) removeAt(document, path);
    else setAt(document, path, after);
  }
}

/** `a: 1`, `a: { $eq: 1 }` and `$and` of these. */
function equalities(filter: Document): [path: string, value: unknown][] {
  return Object.entries(filter).flatMap<[string, unknown]>(([path, condition]) => {
    if (path === "$and" && Array.isArray(condition)) return condition.flatMap((part) => equalities(part));
    if (path.startsWith("$") || condition instanceof BSONRegExp) return [];
    if (!isOperators(condition)) return [[path, condition]];
    return "$eq" in condition ? [[path, condition.$eq]] : [];
  });
}

function refuseWrongOperators(change: Document): void {
  const paths: string[] = [];
  for (const [name, fields] of Object.entries(change)) {
    if (!name.startsWith("$")) {
      throw new CommandError(9, "An update holds either operators or fields, not both");
    }
    if (!Object.hasOwn(OPERATORS, name)) {
      throw new CommandError(9, `Unknown modifier: ${name}; there are ${Object.keys(OPERATORS).join(", ")}`);
    }
    if (!isPlainObject(fields)) {
      throw new CommandError(9, `Modifiers operate on fields, but ${name} holds no document`);
    }
    paths.push(...Object.keys(fields));
  }
  for (const path of paths) {
    const parts = path.split(".");
    if (parts.includes("")) throw new CommandError(2, `The update path '${path}' has an empty field name`);
    if (parts.some((part) => part.startsWith("$"))) {
      throw new CommandError(238, `The positional path '${path}' is not supported by this server`);
    }
  }
  // Two operators can't write to the same place, nor one within what another writes: such paths are neighbours here.
  const ends = paths.map((path) => `${path.replaceAll(".", "\0")}\0`).sort();
  const conflict = ends.find((end, index) => index > 0 && end.startsWith(ends[index - 1] ?? ""));
  if (conflict !== undefined) {
    const path = conflict.slice(0, -1).replaceAll("\0", ".");
    throw new CommandError(40, `Updating the path '${path}' would create a conflict at '${path}'`);
  }
}
