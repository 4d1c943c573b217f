/**
 * Collections: on disk in one LMDB file, and in memory, where they are searched. A write is acknowledged after its
 * commit to the disk; a process that is killed at any moment leaves the last commit. Pages of removed points are reused;
 * the file never gets smaller.
 */
import { randomInt } from "node:crypto";
import { statSync } from "node:fs";
import { join } from "node:path";
import { open, type RootDatabase, type Database as Table } from "lmdb";
import { pointBytesOf } from "./limits.ts";
import {
  type Accepts,
  type Payload,
  type PointId,
  type PointInput,
  RequestError,
  type VectorParams,
} from "./requests.ts";
import { prepared, VectorTable } from "./vectors.ts";

interface StoredCollection {
  /** Random, so that it is unique. */
  readonly id: number;
  readonly name: string;
  readonly vectors: VectorParams;
}

/** A point on disk: its vectors as the bytes of 32-bit floats. */
interface StoredPoint {
  readonly id: PointId;
  readonly payload: Payload;
  readonly vectors: Readonly<Record<string, Uint8Array>>;
}

/** A point as answers hold it. */
export interface Point {
  readonly id: PointId;
  readonly payload: Payload;
}

/** A point that a query found. */
export interface ScoredPoint extends Point {
  readonly score: number;
}

/** Identifier of a collection, and of a point of it: numbers come before UUIDs. */
type Key = [number, PointId];
type Points = Table<StoredPoint, Key>;

/** Within the data directory. */
export const STORE_FILE = "vectors.lmdb";
/** Points have 1.5 KB and more, of which LMDB puts one on a page of 4 KiB; here nine of 1.6 KB share one. */
const PAGE_BYTES = 16_384;

/** Memory of an empty collection, roughly; without room for it none is created. */
const COLLECTION_BYTES = 4096;
/** Objects of a point beside its vectors and payload: its places in maps and lists. */
const POINT_BYTES = 512;
/** Objects of a vector beside its numbers. */
const VECTOR_BYTES = 256;

/** Memory of the points of all collections, in bytes. */
class PointMemory {
  readonly #mostBytes: number;
  bytes = 0;

  constructor(mostBytes: number) {
    this.#mostBytes = mostBytes;
  }

  /** @throws RequestError 500, as Qdrant if it has no space left. */
  take(bytes: number): void {
    if (this.bytes + bytes > this.#mostBytes) {
      throw new RequestError(
        500,
        `Service internal error: Out of memory: points take ${this.bytes} bytes, these would take ${bytes} more, and ${this.#mostBytes} are allowed, half of the memory; delete points or collections, or give the database more memory`,
      );
    }
    this.bytes += bytes;
  }

  give(bytes: number): void {
    this.bytes -= bytes;
  }
}

export class Database {
  readonly #file: string;
  readonly #root: RootDatabase;
  readonly #stored: Table<StoredCollection, string>;
  readonly #points: Points;
  readonly #memory: PointMemory;
  /** By name. */
  readonly collections = new Map<string, Collection>();

  /** Reads all points into memory, however many. @param directory - Exists. @param mostBytes - Limit of points. */
  constructor(directory: string, mostBytes = pointBytesOf()) {
    this.#memory = new PointMemory(mostBytes);
    this.#file = join(directory, STORE_FILE);
    // A commit is on disk before it is acknowledged.
    this.#root = open({ path: this.#file, overlappingSync: false, pageSize: PAGE_BYTES });
    this.#stored = this.#root.openDB({ name: "collections", encoding: "json" });
    this.#points = this.#root.openDB({ name: "points", encoding: "msgpack" });
    for (const { value } of this.#stored.getRange()) {
      this.collections.set(value.name, new Collection(this.#points, value, this.#memory));
    }
  }

  close(): Promise<void> {
    return this.#root.close();
  }

  /** Memory of all points. */
  memoryBytes(): number {
    return this.#memory.bytes;
  }

  /** Size of the file. */
  bytes(): number {
    return statSync(this.#file).size;
  }

  /** @throws RequestError 404 */
  get(name: string): Collection {
    const collection = this.collections.get(name);
    if (collection === undefined) throw notFound(name);
    return collection;
  }

  /** @throws RequestError 409 when there is one of that name. */
  async create(name: string, vectors: VectorParams): Promise<void> {
    this.#memory.take(COLLECTION_BYTES);
    this.#memory.give(COLLECTION_BYTES);
    // The transaction lets only one of two simultaneous requests through.
    const stored = { id: randomInt(2 ** 47), name, vectors };
    const isNew = await this.#root.transaction(() => {
      if (this.#stored.get(name) !== undefined) return false;
      void this.#stored.put(name, stored);
      return true;
    });
    if (!isNew) throw new RequestError(409, `Wrong input: Collection \`${name}\` already exists!`);
    this.collections.set(name, new Collection(this.#points, stored, this.#memory));
  }

  /** @returns Whether there was one. */
  async delete(name: string): Promise<boolean> {
    const collection = this.collections.get(name);
    if (collection === undefined) return false;
    this.collections.delete(name);
    await collection.delete(() => void this.#stored.remove(name));
    return true;
  }
}

/** The points of a collection, each in a slot of the tables of its vectors. */
export class Collection {
  readonly stored: StoredCollection;
  readonly #onDisk: Points;
  /** Keys of all points. */
  readonly #range: { readonly start: Key; readonly end: Key };
  readonly #tables: ReadonlyMap<string, VectorTable>;
  readonly #slots = new Map<PointId, number>();
  readonly #points: (Point | undefined)[] = [];
  readonly #free: number[] = [];
  readonly #memory: PointMemory;
  /** Bytes of its `#points`, by slot. */
  readonly #bytes: number[] = [];
  /** Bytes of a slot, with or without a point. */
  readonly #slotBytes: number;
  #isDeleted = false;

  constructor(points: Points, stored: StoredCollection, memory: PointMemory) {
    this.stored = stored;
    this.#memory = memory;
    this.#onDisk = points;
    const vectors = Object.entries(stored.vectors);
    this.#tables = new Map(
      vectors.map(([name, { size, distance }]) => [name, new VectorTable(size, distance)]),
    );
    this.#slotBytes = [...this.#tables.values()].reduce((sum, { slotBytes }) => sum + slotBytes, 0);
    this.#range = { start: startOf(stored.id), end: startOf(stored.id + 1) };
    for (const { value } of points.getRange(this.#range)) {
      const bytes = bytesOf(value);
      // Stored points are always loaded; the limit refuses later writes.
      memory.bytes += bytes + this.#slotBytes;
      this.#place(value, bytes);
    }
  }

  get size(): number {
    return this.#slots.size;
  }

  /** Adds points, or replaces those with the same id. @throws RequestError; nothing is changed then. */
  async upsert(points: readonly PointInput[]): Promise<void> {
    const stored = points.map(({ id, vector, payload }) => {
      const vectors = Object.entries(vector).map(([name, values]) => {
        const { buffer } = prepared(values, this.#table(name, values.length).distance);
        return [name, new Uint8Array(buffer as ArrayBuffer)];
      });
      return { id, payload: payload ?? {}, vectors: Object.fromEntries(vectors) };
    });
    const sizes = stored.map(bytesOf);
    const reserved = sizes.reduce((sum, bytes) => sum + bytes + this.#slotBytes, 0);
    this.#memory.take(reserved);
    try {
      await this.#change(() => {
        for (const point of stored) void this.#onDisk.put([this.stored.id, point.id], point);
      });
      if (this.#isDeleted) throw notFound(this.stored.name);
    } catch (error) {
      this.#memory.give(reserved);
      throw error;
    }
    for (const [index, point] of stored.entries()) this.#place(point, sizes[index] as number);
  }

  async remove(ids: readonly PointId[]): Promise<void> {
    await this.#change(() => {
      for (const id of ids) void this.#onDisk.remove([this.stored.id, id]);
    });
    for (const id of ids) this.#clear(id);
  }

  /** Removes all points from the disk, and what `removeCollection` removes, in one transaction. */
  async delete(removeCollection: () => void): Promise<void> {
    await this.#change(() => {
      // Writes that come later are refused.
      this.#isDeleted = true;
      for (const key of this.#onDisk.getKeys(this.#range)) void this.#onDisk.remove(key);
      removeCollection();
    });
    const bytes = this.#bytes.reduce((sum, one) => sum + one + this.#slotBytes, 0);
    this.#memory.give(bytes);
  }

  get(id: PointId): Point | undefined {
    return this.#points[this.#slots.get(id) ?? -1];
  }

  /** A point's vectors by name, as they are stored: of length 1 if the distance is cosine. */
  vectorsOf(id: PointId): Readonly<Record<string, readonly number[]>> {
    const slot = this.#slots.get(id) ?? -1;
    return Object.fromEntries(
      [...this.#tables].flatMap(([name, table]) => {
        const vector = table.get(slot);
        return vector === undefined ? [] : [[name, [...vector]]];
      }),
    );
  }

  /** Points that a filter accepts by id, numbers first, then UUIDs, as Qdrant scrolls; from one on. */
  page(from: PointId | undefined, limit: number, accepts: Accepts): Point[] {
    const start: Key = from === undefined ? this.#range.start : [this.stored.id, from];
    const found: Point[] = [];
    for (const [, id] of this.#onDisk.getKeys({ ...this.#range, start })) {
      const point = this.get(id);
      if (point !== undefined && accepts(id, point.payload)) found.push(point);
      if (found.length === limit) break;
    }
    return found;
  }

  /** Identifiers of the points that a filter accepts, in no order. */
  matching(accepts: Accepts): PointId[] {
    return this.#points.flatMap((point) =>
      point !== undefined && accepts(point.id, point.payload) ? [point.id] : [],
    );
  }

  /** The nearest points; at equal scores the lesser id first. @throws RequestError 400 */
  search({ query, using, limit, threshold, accepts }: Search): ScoredPoint[] {
    const table = this.#table(using, query.length);
    // A slot with a vector has a point.
    const pointIn = (slot: number) => this.#points[slot] as Point;
    const hits = table.search({
      query: prepared(query, table.distance),
      limit,
      threshold,
      accepts: (slot) => accepts(pointIn(slot).id, pointIn(slot).payload),
      compare: (slotA, slotB) => compareIds(pointIn(slotA).id, pointIn(slotB).id),
    });
    return hits.map(({ slot, score }) => ({ ...pointIn(slot), score }));
  }

  async #change(change: () => void): Promise<void> {
    const isDone = await this.#onDisk.transaction(() => {
      // LMDB keeps what was put before an error, so that this is the first thing.
      if (this.#isDeleted) return false;
      change();
      return true;
    });
    if (!isDone) throw notFound(this.stored.name);
  }

  /** @throws RequestError 400 for an unknown name, or another length of its vectors. */
  #table(name: string, length: number): VectorTable {
    const table = this.#tables.get(name);
    if (table?.size === length) return table;
    const [wanted, ...names] = [name, ...this.#tables.keys()].map((one) => one || "(without a name)");
    throw new RequestError(
      400,
      table === undefined
        ? `Wrong input: Not existing vector name error: ${wanted}; there are ${names.join(", ")}`
        : `Wrong input: Vector dimension error: expected dim: ${table.size}, got ${length}`,
    );
  }

  /** @param bytes - Bytes of the point, reserved together with a slot's. */
  #place({ id, payload, vectors }: StoredPoint, bytes: number): void {
    const slot = this.#slots.get(id) ?? this.#free.pop() ?? this.#points.length;
    // Frees the replaced point, and the slot reserved for the new point.
    const before = this.#bytes[slot];
    if (before !== undefined) this.#memory.give(before + this.#slotBytes);
    this.#bytes[slot] = bytes;
    this.#slots.set(id, slot);
    this.#points[slot] = { id, payload };
    for (const [name, table] of this.#tables) table.set(slot, vectors[name]);
  }

  #clear(id: PointId): void {
    const slot = this.#slots.get(id);
    if (slot === undefined) return;
    this.#slots.delete(id);
    this.#points[slot] = undefined;
    this.#memory.give(this.#bytes[slot] ?? 0);
    this.#bytes[slot] = 0;
    for (const table of this.#tables.values()) table.set(slot, undefined);
    this.#free.push(slot);
  }
}

interface Search {
  readonly query: readonly number[];
  /** Name of the vector that is compared. */
  readonly using: string;
  readonly limit: number;
  /** Worse scores are left out. */
  readonly threshold: number | null | undefined;
  readonly accepts: Accepts;
}

/** Memory of a point without its slots, rounded up. */
function bytesOf({ vectors, payload }: StoredPoint): number {
  const ofVectors = Object.values(vectors).reduce((sum, { length }) => sum + VECTOR_BYTES + length, 0);
  return POINT_BYTES + ofVectors + valueBytes(payload);
}

function valueBytes(value: unknown): number {
  if (typeof value === "string") return 32 + 2 * value.length;
  if (typeof value !== "object" || value === null) return 16;
  return Object.entries(value).reduce(
    (sum, [key, inner]) => sum + 32 + 2 * key.length + valueBytes(inner),
    64,
  );
}

/** Before the keys of all points of a collection. */
function startOf(id: number): Key {
  return [id] as unknown as Key;
}

function notFound(name: string): RequestError {
  return new RequestError(404, `Not found: Collection \`${name}\` doesn't exist!`);
}

function compareIds(a: PointId, b: PointId): number {
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return a < b ? -1 : 1;
}
