/**
 * insert, update, delete: statement by statement, in transactions of a few milliseconds. Statements before a failed
 * statement stay.
 */

import { type Document, ObjectId } from "bson";
import {
  CommandError,
  documentField,
  elementsIn,
  joinElements,
  listField,
  MAX_DOCUMENT_BYTES,
  pick,
  readPlain,
  readTyped,
  write,
} from "../documents.ts";
import { isOperators, matches } from "../query.ts";
import type { Collection, Row, Store, Target } from "../store.ts";
import { readUpdate } from "../update.ts";
import { type Command, refuseUnknown, targetOf } from "./command.ts";

/** As `hello` announces it. */
export const MAX_WRITE_BATCH = 100_000;
/** Beyond this, errors of a batch come without their message, so that the reply stays small. */
const MAX_ERROR_MESSAGES = 5000;

/** Changes of a command so far. */
interface Totals {
  n: number;
  nModified?: number;
  upserted?: Document[];
}

/**
 * Runs one statement.
 *
 * @param bytes - As the client wrote it.
 * @param index - Its place in the batch.
 */
type Statement = (
  store: Store,
  target: Target,
  bytes: Uint8Array,
  totals: Totals,
  index: number,
) => Generator<undefined, void> | void;

/** A command that runs statements in order; the first error ends an ordered batch. */
function batch(list: string, start: Readonly<Totals>, run: Statement): Command {
  return {
    fields: [list, "ordered", "bypassDocumentValidation"],
    run(body, { store }) {
      const target = targetOf(body);
      const statements = listField(body, list);
      if (statements.length < 1 || statements.length > MAX_WRITE_BATCH) {
        throw new CommandError(
          2,
          `Write batch sizes must be between 1 and ${MAX_WRITE_BATCH}. Got ${statements.length} operations.`,
        );
      }
      if (!statements.every((one) => one instanceof Uint8Array)) {
        throw new CommandError(14, `BSON field '${list}' is the wrong type, expected an array of objects`);
      }
      return store.writeByTurns(runAll(store, target, statements, body.ordered !== false));
    },
  };

  function* runAll(
    store: Store,
    target: Target,
    statements: readonly Uint8Array[],
    isOrdered: boolean,
  ): Generator<undefined, Document> {
    const totals = { ...start };
    const writeErrors: Document[] = [];
    for (const [index, bytes] of statements.entries()) {
      try {
        const work = run(store, target, bytes, totals, index);
        if (work !== undefined) yield* work;
      } catch (error) {
        if (!(error instanceof CommandError)) throw error;
        const { code, message, details } = error;
        const isShown = writeErrors.length < MAX_ERROR_MESSAGES;
        writeErrors.push({ index, code, errmsg: isShown ? message : "", ...(isShown && details) });
        if (isOrdered) break;
      }
      yield;
    }
    return writeErrors.length === 0 ? totals : { ...totals, writeErrors };
  }
}

const insert = batch("documents", { n: 0 }, (store, target, sent, totals) => {
  let document = readPlain(sent);
  let id: Uint8Array = pick(sent, (name) => name === "_id").subarray(4, -1);
  if (id.length === 0) {
    document = { _id: new ObjectId(), ...document };
    id = elementsIn({ _id: document._id });
  }
  // MongoDB puts it in the first place.
  const bytes = joinElements([id, pick(sent, (name) => name !== "_id").subarray(4, -1)]);
  insertOne(store, target, document, bytes);
  totals.n += 1;
});

/** @param document - Its plain values. */
function insertOne(store: Store, target: Target, document: Document, bytes: Uint8Array): void {
  refuseSize(bytes);
  const dollar = Object.keys(document).find((key) => key.startsWith("$"));
  if (dollar !== undefined) {
    throw new CommandError(52, `The dollar ($) prefixed field '${dollar}' is not valid for storage.`);
  }
  const { _id: id } = document;
  if (Array.isArray(id) || id instanceof RegExp || id === undefined) {
    const type = Array.isArray(id) ? "array" : id === undefined ? "undefined" : "regex";
    throw new CommandError(53, `The '_id' value cannot be of type ${type}`);
  }
  if (isOperators(id)) throw new CommandError(52, "A field of the _id must not begin with a dollar ($).");
  store.insert(store.ensure(target), id, bytes);
}

function refuseSize(bytes: Uint8Array): void {
  if (bytes.length <= MAX_DOCUMENT_BYTES) return;
  throw new CommandError(
    10334,
    `object to insert too large. size in bytes: ${bytes.length}, max size: ${MAX_DOCUMENT_BYTES}`,
  );
}

/** Changes the first stored document that matches, or all of them. @returns How many. */
function* changeMatches(
  store: Store,
  target: Target,
  statement: Document,
  isMulti: boolean,
  change: (collection: Collection, row: Row) => void,
): Generator<undefined, number> {
  const collection = store.find(target);
  let n = 0;
  for (const row of matches(store, collection, documentField(statement, "q"))) {
    if (row === undefined || collection === undefined) {
      yield;
      continue;
    }
    change(collection, row);
    n += 1;
    if (!isMulti) break;
  }
  return n;
}

const update = batch("updates", { n: 0, nModified: 0 }, function* (store, target, bytes, totals, index) {
  const statement = readPlain(bytes);
  refuseUnknown("update.updates", statement, ["q", "u", "multi", "upsert", "hint"]);
  const isMulti = statement.multi === true;
  const { q: filter, u } = readTyped(bytes);
  const change = readUpdate(u, isMulti);
  const n = yield* changeMatches(store, target, statement, isMulti, (collection, row) => {
    const changed = change.apply(row.bytes);
    if (changed === undefined) return;
    refuseSize(changed);
    store.replace(collection, row, changed);
    totals.nModified = (totals.nModified ?? 0) + 1;
  });
  totals.n += n;
  if (n > 0 || statement.upsert !== true) return;
  const document = change.insert(filter);
  const inserted = write(document);
  insertOne(store, target, readPlain(inserted), inserted);
  totals.n += 1;
  totals.upserted ??= [];
  totals.upserted.push({ index, _id: document._id });
});

const remove = batch("deletes", { n: 0 }, function* (store, target, bytes, totals) {
  const statement = readPlain(bytes);
  refuseUnknown("delete.deletes", statement, ["q", "limit", "hint"]);
  const { limit } = statement;
  if (limit !== 0 && limit !== 1) {
    throw new CommandError(9, `The limit field in delete objects must be 0 or 1. Got ${String(limit)}`);
  }
  totals.n += yield* changeMatches(store, target, statement, limit === 0, (collection, row) =>
    store.remove(collection, row),
  );
});

export const WRITING: Readonly<Record<string, Command>> = { insert, update, delete: remove };
