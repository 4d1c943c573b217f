/** Where the documents of a cursor come from. */
import type { Patience } from "@engine-room/service-process";
import type { Projector } from "./projection.ts";
import type { Match } from "./query.ts";
import type { Collection, Store } from "./store.ts";

/** Documents one after the other, as BSON; undefined at the end. */
export interface Source {
  /** What it keeps in memory between two batches. */
  readonly heldBytes: number;
  next(patience: Patience): Promise<Uint8Array | undefined>;
}

/** Documents that are there already. */
export class ListSource implements Source {
  readonly heldBytes: number;
  readonly #documents: readonly Uint8Array[];
  #index = 0;

  constructor(documents: readonly Uint8Array[]) {
    this.#documents = documents;
    this.heldBytes = documents.reduce((sum, { length }) => sum + length, 0);
  }

  async next(): Promise<Uint8Array | undefined> {
    return this.#documents[this.#index++];
  }
}

/** Matches in the order of insertion, found when they are asked for. */
export class ScanSource implements Source {
  readonly heldBytes = 0;
  readonly #found: Generator<Match | undefined, void>;
  readonly #project: Projector;
  #toSkip: number;
  #left: number;

  /** @param limit - At most so many; infinite for all. */
  constructor(found: Generator<Match | undefined, void>, project: Projector, skip: number, limit: number) {
    this.#found = found;
    this.#project = project;
    this.#toSkip = skip;
    this.#left = limit;
  }

  async next(patience: Patience): Promise<Uint8Array | undefined> {
    while (this.#left > 0) {
      const { value: match, done } = this.#found.next();
      if (done === true) return undefined;
      if (match === undefined) await patience.rest();
      else if (this.#toSkip > 0) this.#toSkip -= 1;
      else {
        this.#left -= 1;
        return this.#project(match.bytes);
      }
    }
    return undefined;
  }
}

/** Bytes of a number in a list. */
const SEQUENCE_BYTES = 8;

/** Documents in an order that is known; one that was removed meanwhile is left out. */
export class SequenceSource implements Source {
  readonly heldBytes: number;
  readonly #store: Store;
  readonly #collection: Collection;
  readonly #sequences: Float64Array;
  readonly #project: Projector;
  #index = 0;

  constructor(store: Store, collection: Collection, sequences: Float64Array, project: Projector) {
    this.#store = store;
    this.#collection = collection;
    this.#sequences = sequences;
    this.#project = project;
    this.heldBytes = sequences.length * SEQUENCE_BYTES;
  }

  async next(patience: Patience): Promise<Uint8Array | undefined> {
    for (;;) {
      const sequence = this.#sequences[this.#index];
      if (sequence === undefined) return undefined;
      this.#index += 1;
      await patience.rest();
      const bytes = this.#store.read(this.#collection, sequence);
      if (bytes !== undefined) return this.#project(bytes);
    }
  }
}
