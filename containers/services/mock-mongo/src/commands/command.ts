/** Context and common checks of all commands. */

import { TimeSlice } from "@engine-room/service-process";
import type { Document } from "bson";
import type { Cursors, Rest } from "../cursors.ts";
import { CommandError, countField, documentField } from "../documents.ts";
import { type Collection, namespaceOf, type Store, type Target } from "../store.ts";
import type { Reply } from "../wire.ts";

export interface CommandContext {
  readonly store: Store;
  readonly cursors: Cursors;
}

export interface Command {
  /** Its fields; any other is refused, so that none is silently ignored. Undefined: any are accepted. */
  readonly fields: readonly string[] | undefined;
  readonly run: (body: Document, context: CommandContext) => Reply | Promise<Reply>;
}

/** A command is the first key of its document. */
export function commandName(body: Document): string {
  return Object.keys(body)[0] ?? "";
}

/** Fields that drivers add to any command, without effect here. */
const GENERIC_FIELDS = [
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
];

/** Reads return documents that are on disk and never rolled back. */
const READ_CONCERNS: readonly unknown[] = ["local", "available", "majority", "linearizable"];

/** As a standalone mongod, which has no transactions and no second member. @throws CommandError 2, 20 or 40415 */
export function refuseFields(body: Document, known: readonly string[]): void {
  if ("txnNumber" in body || "startTransaction" in body) {
    throw new CommandError(20, "Transaction numbers are only allowed on a replica set member or mongos");
  }
  const { w } = documentField(body, "writeConcern", {});
  if (typeof w === "number" && w > 1) {
    throw new CommandError(2, "cannot use 'w' > 1 when a host is not replicated");
  }
  const { level = "local" } = documentField(body, "readConcern", {});
  if (!READ_CONCERNS.includes(level)) {
    throw new CommandError(2, `The read concern '${String(level)}' is not supported by this server`);
  }
  const name = commandName(body);
  refuseUnknown(name, body, [name, ...known, ...GENERIC_FIELDS]);
}

/**
 * Options that are not known, and not false.
 *
 * @param name - Name of their parent.
 * @throws CommandError 40415
 */
export function refuseUnknown(name: string, options: Document, known: readonly string[]): void {
  const unknown = Object.keys(options).find((key) => options[key] !== false && !known.includes(key));
  if (unknown === undefined) return;
  throw new CommandError(
    40415,
    `BSON field '${name}.${unknown}' is an unknown field: this server does not support it.`,
  );
}

/** MongoDB's limits of names, in bytes; those of database and collection together have 255. */
const MAX_DATABASE_BYTES = 63;
const MAX_COLLECTION_BYTES = 190;

/** The collection that is a command's value. @throws CommandError 73 */
export function targetOf(body: Document): Target {
  const database = databaseOf(body);
  const name: unknown = body[commandName(body)];
  const isName = typeof name === "string" && /^[^$\0]+$/.test(name);
  if (isName && Buffer.byteLength(name) <= MAX_COLLECTION_BYTES) return { database, name };
  throw new CommandError(73, `Invalid namespace specified '${database}.${String(name)}'`);
}

/** @throws CommandError 73 */
export function databaseOf({ $db: name }: Document): string {
  const isName = typeof name === "string" && /^[^/\\. "$*<>:|?\0]+$/.test(name);
  if (isName && Buffer.byteLength(name) <= MAX_DATABASE_BYTES) return name;
  throw new CommandError(73, `Invalid database name: '${String(name)}'`);
}

/** @throws CommandError 26 when there is no such collection. */
export function existing(store: Store, target: Target): Collection {
  const collection = store.find(target);
  if (collection !== undefined) return collection;
  throw new CommandError(26, `ns does not exist: ${namespaceOf(target)}`);
}

/** Reading by turns, until the time is over that the client gives a read. */
export function restOf(body: Document): Rest {
  const end = performance.now() + (countField(body, "maxTimeMS", 0) || Number.POSITIVE_INFINITY);
  const slice = new TimeSlice();
  return () => {
    if (performance.now() > end) throw new CommandError(50, "operation exceeded time limit");
    return slice.rest();
  };
}
