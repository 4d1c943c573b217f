/**
 * Collections on disk, in one LMDB file. A write is acknowledged after its transaction is on disk; a process that is
 * killed at any moment leaves the last commit. Pages of removed points are used again; the file never gets smaller.
 */
import { statSync } from "node:fs";
import { join } from "node:path";
import { type Database, open, type RootDatabase } from "lmdb";
import type { PointId } from "./points.ts";
import type { Distance } from "./vectors.ts";

/** Vectors of a collection by name; the name is empty where the collection has one vector without a name. */
export type VectorParams = Readonly<Record<string, { readonly size: number; readonly distance: Distance }>>;

export interface StoredCollection {
  readonly id: number;
  readonly name: string;
  readonly vectors: VectorParams;
}

/** A point on disk: its vectors as the bytes of 32-bit floats. */
export interface StoredPoint {
  readonly id: PointId;
  readonly payload: Readonly<Record<string, unknown>>;
  readonly vectors: Readonly<Record<string, Uint8Array>>;
}

type Key = (number | string)[];

/** Points have 1.5 KB and more, of which LMDB puts one on a page of 4 KiB; here nine of 1.6 KB share one. */
const PAGE_BYTES = 16_384;
const LAST_ID = "last collection id";
/** Points removed in one transaction, identifiers read at once. */
const CHUNK = 1000;

/** Within the data directory. */
export const STORE_FILE = "vectors.lmdb";

export class Store {
  readonly #file: string;
  readonly #root: RootDatabase;
  readonly #collections: Database<StoredCollection, string>;
  readonly #points: Database<StoredPoint, Key>;
  readonly #counters: Database<number, string>;
  /** Collections that were deleted and still have points. */
  readonly #deleted: Database<true, number>;

  /** @param directory - Exists. */
  constructor(directory: string) {
    this.#file = join(directory, STORE_FILE);
    this.#root = open({
      path: this.#file,
      // A commit is on disk before it is acknowledged.
      overlappingSync: false,
      pageSize: PAGE_BYTES,
    });
    this.#collections = this.#root.openDB({ name: "collections", encoding: "json" });
    this.#points = this.#root.openDB({ name: "points", encoding: "msgpack" });
    this.#counters = this.#root.openDB({ name: "counters", encoding: "json" });
    this.#deleted = this.#root.openDB({ name: "deleted", encoding: "json" });
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

  /** Size of the file. */
  bytes(): number {
    return statSync(this.#file).size;
  }

  collections(): StoredCollection[] {
    return [...this.#collections.getRange()].map(({ value }) => value);
  }

  *points(collection: StoredCollection): Generator<StoredPoint> {
    const range = { start: [collection.id], end: [collection.id + 1] };
    for (const { value } of this.#points.getRange(range)) yield value;
  }

  /** Identifiers in their order, numbers before UUIDs, from one on: some of them; none at the end. */
  ids(collection: StoredCollection, from: PointId | undefined, isInclusive: boolean): PointId[] {
    const start = from === undefined ? [collection.id] : [collection.id, from];
    const end = [collection.id + 1];
    const keys = this.#points.getKeys({ start, end, exclusiveStart: !isInclusive, limit: CHUNK });
    return [...keys].map((key) => key[1] as PointId);
  }

  /** Within `write`; undefined where there is one of that name. */
  putCollection(name: string, vectors: VectorParams): StoredCollection | undefined {
    if (this.#collections.get(name) !== undefined) return undefined;
    // Never one that was used before: points of a deleted collection may still be there.
    const id = (this.#counters.get(LAST_ID) ?? 0) + 1;
    const collection = { id, name, vectors };
    void this.#counters.put(LAST_ID, id);
    void this.#collections.put(name, collection);
    return collection;
  }

  /** Within `write`: the collection is gone; `purge` frees what it held. */
  removeCollection({ id, name }: StoredCollection): void {
    void this.#deleted.put(id, true);
    void this.#collections.remove(name);
  }

  /** Frees what deleted collections held, also those that a killed process left. */
  async purge(): Promise<void> {
    for (const id of [...this.#deleted.getKeys()]) {
      for (let isDone = false; !isDone; ) isDone = await this.write(() => this.#purgeSome(id));
    }
  }

  #purgeSome(id: number): boolean {
    const keys = [...this.#points.getKeys({ start: [id], end: [id + 1], limit: CHUNK })];
    for (const key of keys) void this.#points.remove(key);
    if (keys.length === CHUNK) return false;
    void this.#deleted.remove(id);
    return true;
  }

  /** Within `write`. */
  putPoint({ id }: StoredCollection, point: StoredPoint): void {
    void this.#points.put([id, point.id], point);
  }

  /** Within `write`. */
  removePoint({ id }: StoredCollection, point: PointId): void {
    void this.#points.remove([id, point]);
  }
}
