/** What every command gets, and checks that they share. */
import type { Document } from "bson";
import type { Cursors } from "../cursors.ts";
import { isPlainObject } from "../documents.ts";
import { CommandError } from "../errors.ts";
import type { Reply } from "../reply.ts";
import type { Collection, Store } from "../store.ts";
import { TimedPatience } from "../turns.ts";
import type { Request } from "../wire.ts";

export interface CommandContext {
  readonly store: Store;
  readonly cursors: Cursors;
  readonly connectionId: number;
}

export interface Command {
  /** Fields that it reads; any other is refused, so that nothing is silently left undone. Undefined: it takes any. */
  readonly fields: readonly string[] | undefined;
  readonly run: (request: Request, context: CommandContext) => Reply | Promise<Reply>;
}

/** Fields that drivers add to any command, and that change nothing here. */
const GENERIC_FIELDS = new Set([
  "$db",
  "$readPreference",
  "$clusterTime",
  "lsid",
  "comment",
  "maxTimeMS",
  "readConcern",
  "writeConcern",
  "apiVersion",
  "apiStrict",
  "apiDeprecationErrors",
]);

/** Fields of transactions: this server has none, as a standalone mongod. */
const TRANSACTION_FIELDS = ["txnNumber", "startTransaction", "autocommit"];

/** @throws CommandError 2, 20 or 40415. */
export function refuseUnknownFields(name: string, { body, lists }: Request, known: readonly string[]): void {
  for (const field of [...Object.keys(body), ...lists.keys()]) {
    if (TRANSACTION_FIELDS.includes(field)) {
      throw new CommandError(20, "Transaction numbers are only allowed on a replica set member or mongos");
    }
    if (field !== name && !GENERIC_FIELDS.has(field) && !known.includes(field)) {
      throw new CommandError(
        40415,
        `BSON field '${name}.${field}' is an unknown field: this server does not support it.`,
      );
    }
  }
  refuseReplication(body);
}

/** As a standalone mongod: there is no second member that could acknowledge a write. @throws CommandError 2 */
function refuseReplication({ writeConcern }: Document): void {
  const wanted: unknown = isPlainObject(writeConcern) ? writeConcern.w : undefined;
  if (typeof wanted === "number" && wanted > 1) {
    throw new CommandError(2, "cannot use 'w' > 1 when a host is not replicated");
  }
}

export interface Namespace {
  readonly database: string;
  readonly collection: string;
}

/** MongoDB allows 255 bytes for the names of database and collection together. */
const MAX_COLLECTION_NAME_BYTES = 190;

/** Database and collection of a command whose value is a collection's name. @throws CommandError 73 */
export function namespaceOf(body: Document, name: string): Namespace {
  const collection: unknown = body[name];
  if (
    typeof collection !== "string" ||
    !/^[^$\0]+$/.test(collection) ||
    Buffer.byteLength(collection) > MAX_COLLECTION_NAME_BYTES
  ) {
    throw new CommandError(73, `Invalid namespace specified '${databaseOf(body)}.${String(collection)}'`);
  }
  return { database: databaseOf(body), collection };
}

const MAX_DATABASE_NAME_BYTES = 63;

/** @throws CommandError 73 */
export function databaseOf(body: Document): string {
  const database: unknown = body.$db;
  const isName = typeof database === "string" && /^[^/\\. "$*<>:|?\0]+$/.test(database);
  if (!isName || Buffer.byteLength(database) > MAX_DATABASE_NAME_BYTES) {
    throw new CommandError(73, `Invalid database name: '${String(database)}'`);
  }
  return database;
}

export function findCollection(
  context: CommandContext,
  body: Document,
  name: string,
): Collection | undefined {
  const { database, collection } = namespaceOf(body, name);
  return context.store.find(database, collection);
}

/** A field that must be a document. @throws CommandError 14 */
export function documentField(body: Document, path: string, fallback?: Document): Document {
  const value: unknown = body[path] ?? fallback;
  if (isPlainObject(value)) return value;
  throw new CommandError(14, `BSON field '${path}' is the wrong type, expected type 'object'`);
}

/** A field that must be a list. @throws CommandError 14 */
export function listField(body: Document, path: string): readonly unknown[] {
  const value: unknown = body[path];
  if (!Array.isArray(value)) {
    throw new CommandError(14, `BSON field '${path}' is the wrong type, expected type 'array'`);
  }
  return value;
}

/** The documents of `documents`, `updates` or `deletes`, each as BSON. @throws CommandError 14 */
export function rawListField({ body, lists }: Request, path: string): readonly Uint8Array[] {
  const list = lists.get(path);
  if (list !== undefined) return list;
  if (listField(body, path).length === 0) return [];
  throw new CommandError(14, `BSON field '${path}' is the wrong type, expected an array of objects`);
}

/** A field that must be a whole number of 0 or more. @throws CommandError 2 */
export function countField(body: Document, path: string, fallback: number): number {
  const value: unknown = body[path] ?? fallback;
  const number = Number(value);
  if (typeof value === "boolean" || !Number.isInteger(number) || number < 0) {
    throw new CommandError(
      2,
      `BSON field '${path}' value must be a whole number >= 0, actual value '${String(value)}'`,
    );
  }
  return number;
}

/** Options that would change a result and are not supported. @throws CommandError 238 */
export function refuseOptions(body: Document, options: readonly string[]): void {
  const given = options.find((option) => body[option] !== undefined && body[option] !== false);
  if (given !== undefined)
    throw new CommandError(238, `The option '${given}' is not supported by this server`);
}

/** Time that the client gives a read. */
export function patienceOf(body: Document): TimedPatience {
  return new TimedPatience(countField(body, "maxTimeMS", 0));
}
