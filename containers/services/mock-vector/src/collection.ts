/** One collection in memory: vectors in tables, payloads beside them, every change on disk first. */
import { Patience } from "@engine-room/service-process";
import { RequestError } from "./errors.ts";
import type { Accepts, Payload } from "./filter.ts";
import type { PointId, PointInput } from "./points.ts";
import type { Store, StoredCollection, StoredPoint } from "./store.ts";
import { prepared, VectorTable } from "./vectors.ts";

/** A point as answers hold it. */
export interface LivePoint {
  readonly id: PointId;
  readonly payload: Payload;
}

export interface ScoredPoint extends LivePoint {
  readonly score: number;
}

interface SearchRequest {
  readonly query: readonly number[];
  /** Empty for the vector without a name. */
  readonly using: string;
  readonly limit: number;
  readonly accepts: Accepts | undefined;
  readonly threshold: number | undefined;
}

/** The name of a collection's only vector, where it has no name. */
export const UNNAMED = "";

const POINTS_PER_REMOVAL = 1000;
/** A search is tried so often beside writes that change its hits, and then once without letting others in. */
const PATIENT_SEARCHES = 3;

export class Collection {
  readonly stored: StoredCollection;
  readonly #store: Store;
  readonly #tables: ReadonlyMap<string, VectorTable>;
  readonly #capacity: number;
  readonly #slots = new Map<PointId, number>();
  readonly #points: (LivePoint | undefined)[] = [];
  readonly #free: number[] = [];
  #isDeleted = false;

  /** Reads all points into memory. */
  constructor(store: Store, stored: StoredCollection) {
    this.#store = store;
    this.stored = stored;
    this.#tables = new Map(
      Object.entries(stored.vectors).map(([name, { size, distance }]) => [
        name,
        new VectorTable(size, distance),
      ]),
    );
    this.#capacity = Math.min(...[...this.#tables.values()].map(({ capacity }) => capacity));
    for (const point of store.points(stored)) this.#place(point);
  }

  get size(): number {
    return this.#slots.size;
  }

  /** Adds points, or puts them in the place of those with the same id. @throws RequestError; nothing is changed then. */
  async upsert(points: readonly PointInput[]): Promise<void> {
    const stored = points.map((point) => this.#prepare(point));
    if (this.size + points.length > this.#capacity) {
      throw new RequestError(
        400,
        `Wrong input: the collection has ${this.size} points and holds ${this.#capacity} of its size of vectors; delete some, or use another collection`,
      );
    }
    await this.#change(() => {
      for (const point of stored) this.#store.putPoint(this.stored, point);
    });
    for (const point of stored) this.#place(point);
  }

  /** In transactions of some points each, so that others get their turn. */
  async remove(ids: readonly PointId[]): Promise<void> {
    for (let start = 0; start < ids.length; start += POINTS_PER_REMOVAL) {
      const some = ids.slice(start, start + POINTS_PER_REMOVAL);
      await this.#change(() => {
        for (const id of some) this.#store.removePoint(this.stored, id);
      });
      for (const id of some) this.#clear(id);
    }
  }

  /** The collection is gone from disk; writes that come after it are refused. */
  async delete(): Promise<void> {
    this.#isDeleted = true;
    await this.#store.write(() => this.#store.removeCollection(this.stored));
    await this.#store.purge();
  }

  get(id: PointId): LivePoint | undefined {
    const slot = this.#slots.get(id);
    return slot === undefined ? undefined : this.#points[slot];
  }

  /** A point's vectors by name, as they are stored: of length 1 where the distance is cosine. */
  vectors(id: PointId): Readonly<Record<string, readonly number[]>> {
    const slot = this.#slots.get(id);
    if (slot === undefined) return {};
    return Object.fromEntries(
      [...this.#tables].flatMap(([name, table]) => {
        const vector = table.get(slot);
        return vector === undefined ? [] : [[name, [...vector]]];
      }),
    );
  }

  /** Points by id, numbers first, then UUIDs, as Qdrant scrolls: those that a filter accepts. */
  async page(
    from: PointId | undefined,
    limit: number,
    accepts: Accepts | undefined,
    patience = new Patience(),
  ): Promise<LivePoint[]> {
    const found: LivePoint[] = [];
    let isInclusive = true;
    for (let last = from; found.length < limit; isInclusive = false) {
      const ids = this.#store.ids(this.stored, last, isInclusive);
      if (ids.length === 0) break;
      for (const id of ids) {
        const point = this.get(id);
        if (point !== undefined && (accepts?.(id, point.payload) ?? true)) found.push(point);
      }
      last = ids.at(-1);
      await patience.rest();
    }
    return found.slice(0, limit);
  }

  /** Identifiers of the points that a filter accepts, in no order. */
  async matching(accepts: Accepts): Promise<PointId[]> {
    const found: PointId[] = [];
    const patience = new Patience();
    for (let slot = 0; slot < this.#points.length; slot++) {
      const point = this.#points[slot];
      if (point !== undefined && accepts(point.id, point.payload)) found.push(point.id);
      if (slot % 1024 === 0) await patience.rest();
    }
    return found;
  }

  /** The nearest points; of equal scores the one with the lesser id. @throws RequestError 400 */
  async search(
    { query, using, limit, accepts, threshold }: SearchRequest,
    patience: Patience,
  ): Promise<ScoredPoint[]> {
    const table = this.#table(using);
    const vector = prepared(this.#checked(using, query), table.distance);
    const search = {
      query: vector,
      count: limit,
      accepts: accepts === undefined ? undefined : (slot: number) => this.#accepts(slot, accepts),
      threshold,
      tieBreak: (a: number, b: number) => compareIds(this.#points[a]?.id ?? 0, this.#points[b]?.id ?? 0),
    };
    for (let attempt = 1; ; attempt++) {
      const hits = await table.search({
        ...search,
        patience: attempt <= PATIENT_SEARCHES ? patience : undefined,
      });
      // Others had their turn, and may have put another point where a hit was.
      if (hits.some(({ slot, version }) => table.versionOf(slot) !== version)) continue;
      return hits.flatMap(({ slot, score }) => {
        const point = this.#points[slot];
        return point === undefined ? [] : [{ ...point, score }];
      });
    }
  }

  #accepts(slot: number, accepts: Accepts): boolean {
    const point = this.#points[slot];
    return point !== undefined && accepts(point.id, point.payload);
  }

  async #change(change: () => void): Promise<void> {
    const isDone = await this.#store.write(() => {
      if (this.#isDeleted) return false;
      change();
      return true;
    });
    if (!isDone) throw notFound(this.stored.name);
  }

  #prepare({ id, vector, payload }: PointInput): StoredPoint {
    const named = Array.isArray(vector) ? { [UNNAMED]: vector } : vector;
    return {
      id,
      payload: payload ?? {},
      vectors: Object.fromEntries(
        Object.entries(named).map(([name, values]) => {
          const { distance } = this.#table(name);
          const { buffer } = prepared(this.#checked(name, values), distance);
          return [name, new Uint8Array(buffer as ArrayBuffer)];
        }),
      ),
    };
  }

  #table(name: string): VectorTable {
    const table = this.#tables.get(name);
    if (table !== undefined) return table;
    const names = [...this.#tables.keys()].map((one) => (one === UNNAMED ? "(without a name)" : one));
    throw new RequestError(
      400,
      `Wrong input: Not existing vector name error: ${name === UNNAMED ? "(without a name)" : name}; there are ${names.join(", ")}`,
    );
  }

  #checked(name: string, values: readonly number[]): readonly number[] {
    const { size } = this.#table(name);
    if (values.length === size) return values;
    throw new RequestError(
      400,
      `Wrong input: Vector dimension error: expected dim: ${size}, got ${values.length}`,
    );
  }

  #place(point: StoredPoint): void {
    this.#clear(point.id);
    const slot = this.#free.pop() ?? this.#points.length;
    this.#slots.set(point.id, slot);
    this.#points[slot] = { id: point.id, payload: point.payload };
    for (const [name, bytes] of Object.entries(point.vectors)) this.#tables.get(name)?.set(slot, bytes);
  }

  #clear(id: PointId): void {
    const slot = this.#slots.get(id);
    if (slot === undefined) return;
    for (const table of this.#tables.values()) table.remove(slot);
    this.#points[slot] = undefined;
    this.#slots.delete(id);
    this.#free.push(slot);
  }
}

export function notFound(name: string): RequestError {
  return new RequestError(404, `Not found: Collection \`${name}\` doesn't exist!`);
}

function compareIds(a: PointId, b: PointId): number {
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return a < b ? -1 : a > b ? 1 : 0;
}
