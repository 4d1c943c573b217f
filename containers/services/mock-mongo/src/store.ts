/**
 * Collections in one LMDB file. A write is acknowledged after its transaction is on disk; LMDB never overwrites a page
 * that a committed transaction needs, so a process that is killed at any moment leaves the last commit, and nothing
 * has to be repaired. Pages of removed documents are used again; the file never gets smaller.
 */
import { statSync } from "node:fs";
import { join } from "node:path";
import type { Document } from "bson";
import { type Database, open, type RootDatabase } from "lmdb";
import { readPlain } from "./documents.ts";
import { identityOf } from "./identity.ts";
import { duplicateKey, entriesOf, ID_INDEX, type IndexEntry, type IndexSpec } from "./indexes.ts";
import { inTransactions } from "./turns.ts";

/** What is kept of a collection beside its documents. */
export interface Collection {
  readonly id: number;
  readonly database: string;
  readonly name: string;
  readonly uuid: string;
  /** Without `_id_`, which every collection has. */
  readonly indexes: readonly IndexSpec[];
}

/** A document with its place in the order of insertion. */
export interface StoredDocument {
  readonly sequence: number;
  readonly bytes: Uint8Array;
}

type Key = (number | string)[];

/** A chunk of a scan ends with whichever comes first. */
const CHUNK_DOCUMENTS = 64;
const CHUNK_BYTES = 1024 * 1024;
/** Keys removed between two places where a transaction may end. */
const PURGED_KEYS = 256;

/** Within the data directory. */
export const STORE_FILE = "documents.lmdb";

export class Store {
  readonly #file: string;
  readonly #root: RootDatabase;
  readonly #collections: Database<Collection, Key>;
  readonly #documents: Database<Uint8Array, Key>;
  /** Identity of indexed values to the document's sequence. */
  readonly #unique: Database<number, Key>;
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
    this.#unique = this.#root.openDB({ name: "unique", encoding: "json" });
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

  close(): Promise<void> {
    return this.#root.close();
  }

  find(database: string, name: string): Collection | undefined {
    return this.#collections.get([database, name]);
  }

  /** All collections, or those of a database, sorted by name. */
  list(database?: string): Collection[] {
    const found: Collection[] = [];
    for (const { value } of this.#collections.getRange(database === undefined ? {} : { start: [database] })) {
      if (database !== undefined && value.database !== database) break;
      found.push(value);
    }
    return found;
  }

  /** Within `write`: the collection, made when it is absent. */
  ensure(database: string, name: string): Collection {
    const found = this.find(database, name);
    if (found !== undefined) return found;
    const collection: Collection = {
      id: this.#next(["collection"]),
      database,
      name,
      uuid: globalThis.crypto.randomUUID(),
      indexes: [],
    };
    void this.#collections.put([database, name], collection);
    return collection;
  }

  /** Within `write`: the collection is gone; `purge` frees what it held. */
  drop(collection: Collection): void {
    void this.#dropped.put(collection.id, true);
    void this.#collections.remove([collection.database, collection.name]);
  }

  /** Frees what dropped collections held, also those that a killed process left. */
  async purge(): Promise<void> {
    for (const id of [...this.#dropped.getKeys()]) await inTransactions(this, this.#purgeOne(id));
  }

  *#purgeOne(id: number): Generator<undefined, void> {
    for (const table of [this.#documents, this.#unique, this.#counters]) {
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

  /** The next documents in the order of insertion; none at the end. */
  chunk(collection: Collection, after: number): StoredDocument[] {
    const found: StoredDocument[] = [];
    let bytes = 0;
    const range = { start: [collection.id, after + 1], end: [collection.id + 1], limit: CHUNK_DOCUMENTS };
    for (const { key, value } of this.#documents.getRange(range)) {
      found.push({ sequence: key[1] as number, bytes: value });
      bytes += value.length;
      if (bytes > CHUNK_BYTES) break;
    }
    return found;
  }

  read(collection: Collection, sequence: number): Uint8Array | undefined {
    return this.#documents.get([collection.id, sequence]);
  }

  /** Place of the document whose `_id` this is, plain or typed. */
  sequenceOf(collection: Collection, id: unknown): number | undefined {
    return this.#unique.get([collection.id, ID_INDEX.name, identityOf(id)]);
  }

  /**
   * Within `write`: adds a document.
   *
   * @param document - Its plain values.
   * @throws CommandError 11000 when it breaks a unique index; nothing is changed then.
   */
  insert(collection: Collection, document: Document, bytes: Uint8Array): void {
    const entries = this.#entries(collection, document);
    for (const entry of entries) this.#refuseTaken(collection, entry, undefined);
    const sequence = this.#next([collection.id, "sequence"]);
    void this.#documents.put([collection.id, sequence], bytes);
    for (const entry of entries) void this.#unique.put(keyOf(collection, entry), sequence);
    this.#add(collection, 1);
  }

  /** Within `write`: puts another document in a document's place; `_id` must be the same. @throws CommandError 11000 */
  replace(collection: Collection, stored: StoredDocument, bytes: Uint8Array): void {
    const indexes = uniqueIndexes(collection);
    if (indexes.length > 0) {
      const before = entriesOfAll(indexes, readPlain(stored.bytes));
      const after = entriesOfAll(indexes, readPlain(bytes));
      for (const entry of after) this.#refuseTaken(collection, entry, stored.sequence);
      for (const entry of before) void this.#unique.remove(keyOf(collection, entry));
      for (const entry of after) void this.#unique.put(keyOf(collection, entry), stored.sequence);
    }
    void this.#documents.put([collection.id, stored.sequence], bytes);
  }

  /** Within `write`. */
  remove(collection: Collection, stored: StoredDocument): void {
    for (const entry of this.#entries(collection, readPlain(stored.bytes))) {
      void this.#unique.remove(keyOf(collection, entry));
    }
    void this.#documents.remove([collection.id, stored.sequence]);
    this.#add(collection, -1);
  }

  /** Within `write`. @throws CommandError 11000 when documents that are there break a unique index. */
  setIndexes(collection: Collection, indexes: readonly IndexSpec[]): void {
    const known = new Set(collection.indexes.map(({ name }) => name));
    const added = indexes.filter(({ name, unique }) => unique && !known.has(name));
    const keys = this.#keysOfNew(collection, added);
    for (const [key, sequence] of keys) void this.#unique.put(key, sequence);
    const kept = new Set(indexes.map(({ name }) => name));
    for (const { name } of collection.indexes.filter((index) => !kept.has(index.name))) {
      for (const key of this.#keysNamed(collection, name)) void this.#unique.remove(key);
    }
    void this.#collections.put([collection.database, collection.name], { ...collection, indexes });
  }

  #keysOfNew(collection: Collection, added: readonly IndexSpec[]): Map<Key, number> {
    const keys = new Map<Key, number>();
    const holders = new Map<string, number>();
    for (let last = 0; added.length > 0; ) {
      const chunk = this.chunk(collection, last);
      if (chunk.length === 0) break;
      for (const { sequence, bytes } of chunk) {
        last = sequence;
        const document = readPlain(bytes);
        for (const entry of added.flatMap((index) => entriesOf(index, document))) {
          const text = JSON.stringify([entry.index.name, entry.identity]);
          if (holders.has(text)) throw duplicateKey(`${collection.database}.${collection.name}`, entry);
          holders.set(text, sequence);
          keys.set(keyOf(collection, entry), sequence);
        }
      }
    }
    return keys;
  }

  #keysNamed(collection: Collection, index: string): Key[] {
    const found: Key[] = [];
    for (const key of this.#unique.getKeys({ start: [collection.id, index], end: [collection.id + 1] })) {
      if (key[1] !== index) break;
      found.push(key);
    }
    return found;
  }

  /** `_id_` first. */
  #entries(collection: Collection, document: Document): IndexEntry[] {
    return entriesOfAll([ID_INDEX, ...uniqueIndexes(collection)], document);
  }

  #refuseTaken(collection: Collection, entry: IndexEntry, own: number | undefined): void {
    const holder = this.#unique.get(keyOf(collection, entry));
    if (holder !== undefined && holder !== own) {
      throw duplicateKey(`${collection.database}.${collection.name}`, entry);
    }
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

/** Without `_id_`. */
function uniqueIndexes({ indexes }: Collection): IndexSpec[] {
  return indexes.filter(({ unique }) => unique);
}

function entriesOfAll(indexes: readonly IndexSpec[], document: Document): IndexEntry[] {
  return indexes.flatMap((index) => entriesOf(index, document));
}

function keyOf(collection: Collection, { index, identity }: IndexEntry): Key {
  return [collection.id, index.name, identity];
}
