/** Vectors in memory, and exact nearest-neighbour search over them. */
import type { Patience } from "@engine-room/service-process";
import { BestHits, type Hit, type TieBreak } from "./best-hits.ts";
import { type Dots, instantiate, MAX_PAGES, PAGE_BYTES, ROW_ALIGNMENT_BYTES } from "./kernel.ts";

export const DISTANCES = ["Cosine", "Dot", "Euclid", "Manhattan"] as const;
export type Distance = (typeof DISTANCES)[number];

const FLOAT_BYTES = 4;
/** Vectors scored between two looks at the clock. */
const STRIDE = 2048;
/** A table grows by this much memory at a time, or by a quarter of what it has. */
const GROWTH_BYTES = 4 * 1024 * 1024;

interface Search {
  readonly query: Float32Array;
  /** At most so many hits. */
  readonly count: number;
  /** Which slots count at all; undefined for all. */
  readonly accepts: ((slot: number) => boolean) | undefined;
  /** Worse scores are left out. */
  readonly threshold: number | undefined;
  readonly tieBreak: TieBreak;
  /** Lets others have their turn during the search; slots may change then. Undefined: nobody has. */
  readonly patience: Patience | undefined;
}

/**
 * All vectors of one name in a collection, by slot: a small number that a point keeps while it lives. They lie in one
 * memory of WebAssembly, of at most 4 GiB, behind room for a query and for scores.
 */
export class VectorTable {
  readonly size: number;
  readonly distance: Distance;
  /** Slots that fit into its memory. */
  readonly capacity: number;
  readonly #rowBytes: number;
  readonly #rowsStart: number;
  readonly #memory: WebAssembly.Memory;
  readonly #dots: Dots;
  /** How often each slot was written. */
  #versions = new Uint32Array(0);
  #isPresent = new Uint8Array(0);
  #slots = 0;

  constructor(size: number, distance: Distance) {
    this.size = size;
    this.distance = distance;
    this.#rowBytes = Math.ceil((size * FLOAT_BYTES) / ROW_ALIGNMENT_BYTES) * ROW_ALIGNMENT_BYTES;
    this.#rowsStart = this.#rowBytes + STRIDE * FLOAT_BYTES;
    this.capacity = Math.floor((MAX_PAGES * PAGE_BYTES - this.#rowsStart) / this.#rowBytes);
    const initial = Math.ceil(this.#rowsStart / PAGE_BYTES);
    this.#memory = new WebAssembly.Memory({ initial, maximum: MAX_PAGES });
    this.#dots = instantiate(this.#memory);
  }

  /** @param bytes - The vector as 32-bit floats. */
  set(slot: number, bytes: Uint8Array): void {
    if (slot >= this.#slots) this.#grow(slot + 1);
    new Uint8Array(this.#memory.buffer, this.#rowAt(slot), bytes.length).set(bytes);
    this.#isPresent[slot] = 1;
    this.#versions[slot] = this.versionOf(slot) + 1;
  }

  remove(slot: number): void {
    if (slot >= this.#slots || this.#isPresent[slot] === 0) return;
    this.#isPresent[slot] = 0;
    this.#versions[slot] = this.versionOf(slot) + 1;
  }

  /** Changes whenever the slot does. */
  versionOf(slot: number): number {
    return this.#versions[slot] ?? 0;
  }

  /** A copy. */
  get(slot: number): Float32Array | undefined {
    if (this.#isPresent[slot] !== 1) return undefined;
    return new Float32Array(this.#memory.buffer, this.#rowAt(slot), this.size).slice();
  }

  /** The best slots, best first. */
  async search({ query, count, accepts, threshold, tieBreak, patience }: Search): Promise<Hit[]> {
    const isSmaller = isSmallerBetter(this.distance);
    const best = new BestHits(count, isSmaller, tieBreak);
    for (let start = 0; start < this.#slots; start += STRIDE) {
      const scores = this.#scores(query, start, Math.min(STRIDE, this.#slots - start));
      // A plain loop: an iterator over as many scores takes half as long as computing them.
      for (let index = 0; index < scores.length; index++) {
        const slot = start + index;
        const score = scores[index] as number;
        if (this.#isPresent[slot] !== 1) continue;
        if (threshold !== undefined && (isSmaller ? score > threshold : score < threshold)) continue;
        if (!best.wants(slot, score) || accepts?.(slot) === false) continue;
        best.add({ slot, score, version: this.versionOf(slot) });
      }
      await patience?.rest();
    }
    return best.sorted();
  }

  /** Scores of rows from a slot on. They are good until the next call. */
  #scores(query: Float32Array, start: number, rows: number): Float32Array {
    const scores = new Float32Array(this.#memory.buffer, this.#rowBytes, rows);
    if (this.distance === "Euclid" || this.distance === "Manhattan") {
      const measure = DISTANCE_FUNCTIONS[this.distance];
      const values = new Float32Array(this.#memory.buffer);
      for (let row = 0; row < rows; row++) {
        scores[row] = measure(query, values, this.#rowAt(start + row) / FLOAT_BYTES);
      }
      return scores;
    }
    // Each time, since others may have searched meanwhile. Vectors are normalised when they come in, so that the dot
    // product is the cosine.
    new Float32Array(this.#memory.buffer, 0, this.size).set(query);
    this.#dots(0, this.#rowAt(start), this.#rowBytes, rows, this.#rowBytes);
    return scores;
  }

  #rowAt(slot: number): number {
    return this.#rowsStart + slot * this.#rowBytes;
  }

  #grow(slots: number): void {
    const have = this.#memory.buffer.byteLength;
    const needed = this.#rowAt(slots);
    if (needed > have) {
      const wanted = Math.min(needed + Math.max(GROWTH_BYTES, have / 4), MAX_PAGES * PAGE_BYTES);
      this.#memory.grow(Math.ceil((wanted - have) / PAGE_BYTES));
    }
    if (slots > this.#isPresent.length) {
      const length = Math.max(slots, 2 * this.#isPresent.length, STRIDE);
      this.#isPresent = enlarged(this.#isPresent, new Uint8Array(length));
      this.#versions = enlarged(this.#versions, new Uint32Array(length));
    }
    this.#slots = slots;
  }
}

function enlarged<T extends Uint8Array | Uint32Array>(from: T, to: T): T {
  to.set(from);
  return to;
}

function isSmallerBetter(distance: Distance): boolean {
  return distance === "Euclid" || distance === "Manhattan";
}

type Measure = (query: Float32Array, values: Float32Array, offset: number) => number;

const DISTANCE_FUNCTIONS: Readonly<Record<"Euclid" | "Manhattan", Measure>> = {
  Euclid(query, values, offset) {
    let sum = 0;
    for (let index = 0; index < query.length; index++) {
      const difference = (query[index] as number) - (values[offset + index] as number);
      sum += difference * difference;
    }
    return Math.sqrt(sum);
  },
  Manhattan(query, values, offset) {
    let sum = 0;
    for (let index = 0; index < query.length; index++) {
      sum += Math.abs((query[index] as number) - (values[offset + index] as number));
    }
    return sum;
  },
};

/** A vector as the table holds it: for cosine of length 1, as Qdrant stores it; one of zeros stays that. */
export function prepared(vector: readonly number[], distance: Distance): Float32Array {
  const values = new Float32Array(vector);
  if (distance !== "Cosine") return values;
  let squares = 0;
  for (const value of vector) squares += value * value;
  if (squares === 0) return values;
  const length = Math.sqrt(squares);
  for (let index = 0; index < vector.length; index++) values[index] = (vector[index] as number) / length;
  return values;
}
