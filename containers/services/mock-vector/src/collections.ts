/** All collections, by name. */
import { Collection, notFound } from "./collection.ts";
import { RequestError } from "./errors.ts";
import type { Store, VectorParams } from "./store.ts";

/** Each vector of a collection has a memory of its own. */
const MAX_COLLECTIONS = 1000;

export class Collections {
  readonly #store: Store;
  readonly #byName: Map<string, Collection>;

  /** Reads everything into memory. */
  constructor(store: Store) {
    this.#store = store;
    this.#byName = new Map(store.collections().map((stored) => [stored.name, new Collection(store, stored)]));
  }

  names(): string[] {
    return [...this.#byName.keys()].sort();
  }

  /** @throws RequestError 404 */
  get(name: string): Collection {
    const collection = this.#byName.get(name);
    if (collection === undefined) throw notFound(name);
    return collection;
  }

  has(name: string): boolean {
    return this.#byName.has(name);
  }

  /** @throws RequestError 409 when there is one of that name. */
  async create(name: string, vectors: VectorParams): Promise<void> {
    if (this.#byName.size >= MAX_COLLECTIONS) {
      throw new RequestError(
        400,
        `There are ${MAX_COLLECTIONS} collections, the most that are allowed; delete one`,
      );
    }
    // Of two requests at the same time the transaction lets one through.
    const stored = await this.#store.write(() => this.#store.putCollection(name, vectors));
    if (stored === undefined) {
      throw new RequestError(409, `Wrong input: Collection \`${name}\` already exists!`);
    }
    this.#byName.set(name, new Collection(this.#store, stored));
  }

  /** @returns Whether there was one. */
  async remove(name: string): Promise<boolean> {
    const collection = this.#byName.get(name);
    if (collection === undefined) return false;
    this.#byName.delete(name);
    await collection.delete();
    return true;
  }

  counts(): { readonly collections: number; readonly points: number } {
    const all = [...this.#byName.values()];
    return { collections: all.length, points: all.reduce((sum, { size }) => sum + size, 0) };
  }
}
