/**
 * Collections in one LMDB file. A write is acknowledged after its transaction is on disk; LMDB never overwrites a page
 * that a committed transaction needs, so a process that is killed at any moment leaves the last commit, and nothing
 * has to be repaired. Pages of removed documents are used again; the file never gets smaller.
 */

import { statSync } from "node:fs";
import { join } from "node:path";
import { TURN_MILLISECONDS } from "@engine-room/service-process";
import type { Document } from "bson";
import { type Database, open, type RootDatabase } from "lmdb";
import { CommandError, readPlain } from "./documents.ts";
import { identityOf } from "./values.ts";

/** An index that a client asked for. It is kept to be listed: queries don't read it. */
export interface IndexSpec {
  readonly name: string;
  /** Field path to 1 or -1. */
  readonly key: Readonly<Record<string, number>>;
}

/** A collection by its names; it may be absent. */
export interface Target {
  readonly database: string;
  readonly name: string;
}

/** The record of a collection, beside its documents. */
export interface Collection extends Target {
  readonly id: number;
  /** Without `_id_`, which every collection has. */
  readonly indexes: readonly IndexSpec[];
}

/** A document that is stored, or computed from stored documents. */
export class Row {
  readonly bytes: Uint8Array;
  /** Its place in the order of insertion; 0 for a computed document. */
  readonly sequence: number;
  #document: Document | undefined;

  constructor(bytes: Uint8Array, sequence = 0) {
    this.bytes = bytes;
    this.sequence = sequence;
  }

  /** Its plain values. */
  get document(): Document {
    this.#document ??= readPlain(this.bytes);
    return this.#document;
  }
}

type Key = (number | string)[];

/** Places of documents that are read at a time. */
const CHUNK_PLACES = 64;
/** Keys removed between two places where a transaction may end. */
const PURGED_KEYS = 256;
/** Maximum characters of a value in a message. */
const MAX_SHOWN_CHARACTERS = 200;

/** Within the data directory. */
export const STORE_FILE = "documents.lmdb";

export class Store {
  readonly #file: string;
  readonly #root: RootDatabase;
  readonly #collections: Database<Collection, Key>;
  readonly #documents: Database<Uint8Array, Key>;
  /** Identity of an `_id` to the document's sequence. */
  readonly #ids: Database<number, Key>;
  readonly #counters: Database<number, Key>;
  /** Collections that were dropped and still have documents. */
  readonly #dropped: Database<true, number>;

  /** @param directory - Exists. */
  constructor(directory: string) {
    this.#file = join(directory, STORE_FILE);
    // A commit is on disk before it is acknowledged.
    this.#root = open({ path: this.#file, overlappingSync: false });
    this.#collections = this.#root.openDB({ name: "collections", encoding: "json" });
    this.#documents = this.#root.openDB({ name: "documents", encoding: "binary" });
    this.#ids = this.#root.openDB({ name: "unique", encoding: "json" });
    this.#counters = this.#root.openDB({ name: "counters", encoding: "json" });
    this.#dropped = this.#root.openDB({ name: "dropped", encoding: "json" });
  }

  /**
   * Runs `change` in a transaction with others that wait, and resolves when it is on disk. LMDB keeps what was put
   * before an error, so `change` has to check before it puts.
   */
  async write<T>(change: () => T): Promise<T> {
    return this.#root.transaction(change);
  }

  /**
   * Writing by turns: runs work in as many transactions as it takes. Each `yield` is a place where a transaction may end;
   * what was done up to it is on disk whatever becomes of the rest.
   */
  async writeByTurns<T>(work: Generator<undefined, T>): Promise<T> {
    for (;;) {
      const step = await this.write(() => {
        const end = performance.now() + TURN_MILLISECONDS;
        let next = work.next();
        while (next.done !== true && performance.now() < end) next = work.next();
        return next;
      });
      if (step.done === true) return step.value;
    }
  }

  close(): Promise<void> {
    return this.#root.close();
  }

  find({ database, name }: Target): Collection | undefined {
    return this.#collections.get([database, name]);
  }

  /** All collections, or those of a database, sorted by name. */
  list(database?: string): Collection[] {
    const all = [...this.#collections.getRange({})].map(({ value }) => value);
    return all.filter((collection) => database === undefined || collection.database === database);
  }

  /** Within `write`: the collection, created when absent. */
  ensure({ database, name }: Target): Collection {
    const found = this.find({ database, name });
    if (found !== undefined) return found;
    const collection = { id: this.#next(["collection"]), database, name, indexes: [] };
    void this.#collections.put([database, name], collection);
    return collection;
  }

  /** Within `write`. */
  setIndexes(collection: Collection, indexes: readonly IndexSpec[]): void {
    void this.#collections.put([collection.database, collection.name], { ...collection, indexes });
  }

  /** Within `write`: removes the collection; `purge` frees its documents. */
  drop(collection: Collection): void {
    void this.#dropped.put(collection.id, true);
    void this.#collections.remove([collection.database, collection.name]);
  }

  /** Frees the documents of dropped collections, also those that a killed process left. */
  async purge(): Promise<void> {
    for (const id of [...this.#dropped.getKeys()]) await this.writeByTurns(this.#purgeOne(id));
  }

  *#purgeOne(id: number): Generator<undefined, void> {
    for (const table of [this.#documents, this.#ids, this.#counters]) {
      for (;;) {
        const keys = [...table.getKeys({ start: [id], end: [id + 1], limit: PURGED_KEYS })];
        for (const key of keys) void table.remove(key);
        if (keys.length < PURGED_KEYS) break;
        yield;
      }
    }
    void this.#dropped.remove(id);
  }

  count(collection: Collection): number {
    return this.#counters.get([collection.id, "count"]) ?? 0;
  }

  /** Size of the file, and documents of all collections. */
  totals(): { readonly bytes: number; readonly documents: number } {
    const documents = this.list().reduce((sum, collection) => sum + this.count(collection), 0);
    return { bytes: statSync(this.#file).size, documents };
  }

  /**
   * Places of documents in the order of insertion, also of some that are removed meanwhile.
   *
   * @param ids - Only of those with these `_id`s; undefined for all.
   */
  *places(collection: Collection, ids: readonly unknown[] | undefined): Generator<number, void> {
    if (ids !== undefined) {
      const found = ids.flatMap((id) => this.#ids.get(idKey(collection, id)) ?? []);
      yield* [...new Set(found)].sort((a, b) => a - b);
      return;
    }
    for (let chunk = this.#after(collection, 0); chunk.length > 0; ) {
      yield* chunk;
      chunk = this.#after(collection, chunk.at(-1) ?? 0);
    }
  }

  #after(collection: Collection, last: number): number[] {
    const range = { start: [collection.id, last + 1], end: [collection.id + 1], limit: CHUNK_PLACES };
    return [...this.#documents.getKeys(range)].map((key) => key[1] as number);
  }

  /** A document's bytes, which the next read overwrites; undefined when it is deleted. */
  read(collection: Collection, sequence: number): Uint8Array | undefined {
    const bytes = this.#documents.getBinaryFast([collection.id, sequence]);
    return bytes?.subarray(0, bytes.length);
  }

  /**
   * Within `write`: adds a document.
   *
   * @throws CommandError 11000 when another one has its `_id`; nothing is changed then.
   */
  insert(collection: Collection, id: unknown, bytes: Uint8Array): void {
    const key = idKey(collection, id);
    if (this.#ids.get(key) !== undefined) {
      const shown = (JSON.stringify(id) ?? "null").slice(0, MAX_SHOWN_CHARACTERS);
      throw new CommandError(
        11000,
        `E11000 duplicate key error collection: ${namespaceOf(collection)} index: _id_ dup key: { _id: ${shown} }`,
        { keyPattern: { _id: 1 }, keyValue: { _id: id } },
      );
    }
    const sequence = this.#next([collection.id, "sequence"]);
    void this.#documents.put([collection.id, sequence], bytes);
    void this.#ids.put(key, sequence);
    this.#add(collection, 1);
  }

  /** Within `write`: replaces a document by one with the same `_id`. */
  replace(collection: Collection, { sequence }: Row, bytes: Uint8Array): void {
    void this.#documents.put([collection.id, sequence], bytes);
  }

  /** Within `write`. */
  remove(collection: Collection, { sequence, document }: Row): void {
    void this.#ids.remove(idKey(collection, document._id));
    void this.#documents.remove([collection.id, sequence]);
    this.#add(collection, -1);
  }

  #next(key: Key): number {
    const value = (this.#counters.get(key) ?? 0) + 1;
    void this.#counters.put(key, value);
    return value;
  }

  #add(collection: Collection, change: number): void {
    void this.#counters.put([collection.id, "count"], this.count(collection) + change);
  }
}

/** `database.name` */
export function namespaceOf({ database, name }: Target): string {
  return `${database}.${name}`;
}

function idKey(collection: Collection, id: unknown): Key {
  return [collection.id, "_id_", identityOf(id)];
}
