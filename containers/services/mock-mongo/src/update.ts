/** What an update makes of a document. */
import { BSONRegExp, type Document, ObjectId } from "bson";
import { isPlainObject, readTyped, write } from "./documents.ts";
import { CommandError } from "./errors.ts";
import { identityOf } from "./identity.ts";
import { isOperators } from "./query.ts";
import { UPDATE_OPERATORS } from "./update-operators.ts";

/** Operators of an update in its order; undefined for a replacement. */
type Operators = readonly (readonly [name: string, fields: Document])[] | undefined;

/**
 * @param change - Typed: a replacement, or operators such as `$set`.
 * @returns The new document; undefined when nothing changes.
 * @throws CommandError 9 for an update that can't be read, 66 for one that changes `_id`, and what the operators throw.
 */
export function applyUpdate(before: Uint8Array, change: unknown, isMulti: boolean): Uint8Array | undefined {
  const operators = readChange(change);
  if (operators === undefined && isMulti) {
    throw new CommandError(9, "multi update is not supported for replacement-style update");
  }
  const document = readTyped(before);
  const id: unknown = document._id;
  const after = operators === undefined ? { _id: id, ...(change as Document) } : document;
  for (const [name, fields] of operators ?? []) if (name !== "$setOnInsert") operate(name, fields, after);
  if (!Object.hasOwn(after, "_id") || identityOf(after._id) !== identityOf(id)) {
    throw new CommandError(
      66,
      "Performing an update on the path '_id' would modify the immutable field '_id'",
    );
  }
  const bytes = write(after);
  return Buffer.compare(bytes, before) === 0 ? undefined : bytes;
}

/**
 * The document that an upsert inserts: what the filter says to be equal, then the change.
 *
 * @param filter - Typed, as `change` is.
 */
export function upserted(filter: Document, change: unknown): Document {
  const operators = readChange(change);
  const base = equalities(filter);
  if (operators === undefined) {
    return withId({ ...(Object.hasOwn(base, "_id") && { _id: base._id }), ...(change as Document) });
  }
  for (const [name, fields] of operators) operate(name === "$setOnInsert" ? "$set" : name, fields, base);
  return withId(base);
}

function withId(document: Document): Document {
  return { _id: Object.hasOwn(document, "_id") ? document._id : new ObjectId(), ...document };
}

function operate(name: string, fields: Document, document: Document): void {
  for (const [path, operand] of Object.entries(fields)) UPDATE_OPERATORS[name]?.(document, path, operand);
}

/** @throws CommandError 9, 40, 238 */
function readChange(change: unknown): Operators {
  if (Array.isArray(change)) {
    throw new CommandError(238, "Updates with a pipeline are not supported by this server");
  }
  if (!isPlainObject(change)) throw new CommandError(9, "Update argument must be an object");
  const names = Object.keys(change);
  const operators = names.filter((name) => name.startsWith("$"));
  if (operators.length === 0) return undefined;
  if (operators.length < names.length) {
    throw new CommandError(9, "An update holds either operators or fields, not both");
  }
  for (const name of names) {
    if (name !== "$setOnInsert" && !Object.hasOwn(UPDATE_OPERATORS, name)) {
      throw new CommandError(
        9,
        `Unknown modifier: ${name}; there are ${Object.keys(UPDATE_OPERATORS).join(", ")}`,
      );
    }
    if (!isPlainObject(change[name])) {
      throw new CommandError(
        9,
        `Modifiers operate on fields but ${name} holds something else than a document`,
      );
    }
  }
  refuseConflicts(change);
  return Object.entries(change) as [string, Document][];
}

/** Two operators can't write to the same place, nor one within what another writes. @throws CommandError 40 */
function refuseConflicts(operators: Document): void {
  const paths = Object.entries(operators).flatMap(([name, fields]) => {
    const targets = name === "$rename" ? Object.values(fields as Document).map(String) : [];
    return [...Object.keys(fields as Document), ...targets];
  });
  const taken = new Set<string>();
  const inner = new Set<string>();
  for (const path of paths) {
    const parts = path.split(".");
    const ways = parts.map((_part, index) => parts.slice(0, index + 1).join("."));
    if (inner.has(path) || ways.some((way) => taken.has(way))) {
      throw new CommandError(40, `Updating the path '${path}' would create a conflict at '${path}'`);
    }
    taken.add(path);
    for (const way of ways) inner.add(way);
  }
}

/** `a: 1`, `a: { $eq: 1 }` and `$and` of these, with dotted paths as nested documents. */
function equalities(filter: Document): Document {
  const document: Document = {};
  for (const [path, value] of equalPaths(filter)) operate("$set", { [path]: value }, document);
  return document;
}

function equalPaths(filter: Document): [path: string, value: unknown][] {
  return Object.entries(filter).flatMap<[string, unknown]>(([path, condition]) => {
    if (path === "$and" && Array.isArray(condition)) return condition.flatMap((part) => equalPaths(part));
    if (path.startsWith("$")) return [];
    if (isOperators(condition)) return "$eq" in condition ? [[path, condition.$eq]] : [];
    const isPattern = condition instanceof RegExp || condition instanceof BSONRegExp;
    return isPattern ? [] : [[path, condition]];
  });
}
