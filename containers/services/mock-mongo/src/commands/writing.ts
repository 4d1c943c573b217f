/**
 * insert, update, delete: statement by statement, in transactions of a few milliseconds. A statement that fails leaves the
 * ones before it.
 */
import { type Document, ObjectId } from "bson";
import {
  elementHead,
  elementsOf,
  joinElements,
  MAX_DOCUMENT_BYTES,
  readPlain,
  readTyped,
  write,
} from "../documents.ts";
import { CommandError } from "../errors.ts";
import { type Match, matches, predicate } from "../query.ts";
import type { Collection, Store } from "../store.ts";
import { inTransactions } from "../turns.ts";
import { applyUpdate, upserted } from "../update.ts";
import {
  type Command,
  documentField,
  type Namespace,
  namespaceOf,
  rawListField,
  refuseOptions,
} from "./command.ts";

/** As `hello` announces it. */
export const MAX_WRITE_BATCH = 100_000;
/** Beyond this, errors of a batch come without their message, so that the reply stays small. */
const MAX_ERROR_CHARACTERS = 1024 * 1024;

interface WriteError {
  readonly index: number;
  readonly code: number;
  readonly errmsg: string;
}

export const insert: Command = {
  fields: ["documents", "ordered", "bypassDocumentValidation"],
  run(request, { store }) {
    const { database, collection: name } = namespaceOf(request.body, "insert");
    const given = rawListField(request, "documents");
    refuseBatchSize(given.length);
    return inTransactions(store, insertAll());

    function* insertAll(): Generator<undefined, Document> {
      let n = 0;
      const writeErrors = yield* eachStatement(given, request.body.ordered !== false, (sent) => {
        const { document, bytes } = withId(sent);
        refuseSize(bytes);
        refuseFields(document);
        store.insert(store.ensure(database, name), document, bytes);
        n += 1;
      });
      return { n, ...errors(writeErrors) };
    }
  },
};

/**
 * A document with an `_id`, made where the client sent none, in the first place, where MongoDB puts it; the bytes of
 * all fields stay as they came.
 */
function withId(sent: Uint8Array): { readonly document: Document; readonly bytes: Uint8Array } {
  const document = readPlain(sent);
  const bytes = Buffer.from(sent.buffer, sent.byteOffset, sent.byteLength);
  if (bytes.subarray(ID_NAME_OFFSET, ID_NAME_OFFSET + ID_NAME.length).equals(ID_NAME)) {
    return { document, bytes };
  }
  if (!Object.hasOwn(document, "_id")) {
    const _id = new ObjectId();
    const head = elementHead(BSON_OBJECT_ID, "_id");
    return { document: { _id, ...document }, bytes: joinElements([head, _id.id, bytes.subarray(4, -1)]) };
  }
  const elements = elementsOf(bytes).toSorted((a, b) => Number(b.name === "_id") - Number(a.name === "_id"));
  return { document, bytes: joinElements(elements.map(({ start, end }) => bytes.subarray(start, end))) };
}

const BSON_OBJECT_ID = 7;
const ID_NAME = Buffer.from("_id\0");
/** Behind the length of the document and the type of its first element. */
const ID_NAME_OFFSET = 5;

export const update: Command = {
  fields: ["updates", "ordered", "bypassDocumentValidation"],
  run(request, { store }) {
    const namespace = namespaceOf(request.body, "update");
    const statements = rawListField(request, "updates");
    refuseBatchSize(statements.length);
    return inTransactions(store, updateAll());

    function* updateAll(): Generator<undefined, Document> {
      const total = { n: 0, nModified: 0 };
      const created: Document[] = [];
      const isOrdered = request.body.ordered !== false;
      const writeErrors = yield* eachStatement(statements, isOrdered, function* (bytes, index) {
        const upsertedId = yield* updateStatement(store, namespace, bytes, total);
        if (upsertedId !== undefined) created.push({ index, _id: upsertedId });
      });
      return { ...total, ...(created.length > 0 && { upserted: created }), ...errors(writeErrors) };
    }
  },
};

/** Counts in `total`. @returns The `_id` of the document that was inserted, if one was. */
function* updateStatement(
  store: Store,
  namespace: Namespace,
  bytes: Uint8Array,
  total: { n: number; nModified: number },
): Generator<undefined, unknown> {
  const statement = readPlain(bytes);
  refuseOptions(statement, ["collation", "arrayFilters", "sort", "c"]);
  const filter = documentField(statement, "q");
  const { q: typedFilter, u: change } = readTyped(bytes);
  let isFound = false;
  for (const found of currentMatches(store, namespace, filter)) {
    if (found === undefined) {
      yield;
      continue;
    }
    const { collection, match } = found;
    const changed = applyUpdate(match.bytes, change, statement.multi === true);
    if (changed !== undefined) {
      refuseSize(changed);
      store.replace(collection, match, changed);
      total.nModified += 1;
    }
    isFound = true;
    total.n += 1;
    if (statement.multi !== true) break;
  }
  if (isFound || statement.upsert !== true) return undefined;
  const document = upserted(typedFilter, change);
  const inserted = write(document);
  refuseSize(inserted);
  const plain = readPlain(inserted);
  refuseFields(plain);
  store.insert(store.ensure(namespace.database, namespace.collection), plain, inserted);
  total.n += 1;
  return document._id;
}

export const deleteCommand: Command = {
  fields: ["deletes", "ordered"],
  run(request, { store }) {
    const namespace = namespaceOf(request.body, "delete");
    const statements = rawListField(request, "deletes");
    refuseBatchSize(statements.length);
    return inTransactions(store, deleteAll());

    function* deleteAll(): Generator<undefined, Document> {
      let n = 0;
      const isOrdered = request.body.ordered !== false;
      const writeErrors = yield* eachStatement(statements, isOrdered, function* (bytes) {
        const statement = readPlain(bytes);
        refuseOptions(statement, ["collation"]);
        if (statement.limit !== 0 && statement.limit !== 1) {
          throw new CommandError(
            9,
            `The limit field in delete objects must be 0 or 1. Got ${String(statement.limit)}`,
          );
        }
        const filter = documentField(statement, "q");
        for (const found of currentMatches(store, namespace, filter)) {
          if (found === undefined) {
            yield;
            continue;
          }
          store.remove(found.collection, found.match);
          n += 1;
          if (statement.limit === 1) break;
        }
      });
      return { n, ...errors(writeErrors) };
    }
  },
};

/**
 * Matches with their collection as it is at that moment, and undefined where the transaction may end; they end where
 * somebody drops the collection meanwhile.
 */
function* currentMatches(
  store: Store,
  { database, collection: name }: Namespace,
  filter: Document,
): Generator<{ readonly collection: Collection; readonly match: Match } | undefined, void> {
  const first = store.find(database, name);
  // A filter that can't be read is an error on an empty collection as well.
  const test = predicate(filter);
  if (first === undefined) return;
  let collection = first;
  for (const match of matches(store, collection, filter, test)) {
    if (match !== undefined) {
      yield { collection, match };
      continue;
    }
    yield undefined;
    const now = store.find(database, name);
    if (now?.id !== first.id) return;
    collection = now;
  }
}

/** Runs statements in order; the first error ends an ordered batch. */
function* eachStatement<T>(
  statements: readonly T[],
  isOrdered: boolean,
  run: (statement: T, index: number) => Generator<undefined, void> | void,
): Generator<undefined, WriteError[]> {
  const found: WriteError[] = [];
  let characters = 0;
  for (const [index, statement] of statements.entries()) {
    try {
      const work = run(statement, index);
      if (work !== undefined) yield* work;
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      characters += error.message.length;
      const isShown = characters <= MAX_ERROR_CHARACTERS;
      found.push({
        index,
        code: error.code,
        errmsg: isShown ? error.message : "",
        ...(isShown && error.details),
      });
      if (isOrdered) break;
    }
    yield;
  }
  return found;
}

function errors(writeErrors: readonly WriteError[]): Document {
  return writeErrors.length === 0 ? {} : { writeErrors };
}

function refuseBatchSize(length: number): void {
  if (length < 1 || length > MAX_WRITE_BATCH) {
    throw new CommandError(
      2,
      `Write batch sizes must be between 1 and ${MAX_WRITE_BATCH}. Got ${length} operations.`,
    );
  }
}

function refuseSize(bytes: Uint8Array): void {
  if (bytes.length <= MAX_DOCUMENT_BYTES) return;
  throw new CommandError(
    10334,
    `object to insert too large. size in bytes: ${bytes.length}, max size: ${MAX_DOCUMENT_BYTES}`,
  );
}

function refuseFields(document: Document): void {
  const dollar = Object.keys(document).find((key) => key.startsWith("$"));
  if (dollar !== undefined) {
    throw new CommandError(
      52,
      `The dollar ($) prefixed field '${dollar}' in '${dollar}' is not valid for storage.`,
    );
  }
  const { _id: id } = document;
  if (Array.isArray(id) || id instanceof RegExp || id === undefined) {
    const type = Array.isArray(id) ? "array" : id === undefined ? "undefined" : "regex";
    throw new CommandError(53, `The '_id' value cannot be of type ${type}`);
  }
}
