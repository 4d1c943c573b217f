/** Vectors in memory, and exact nearest-neighbour search over them. */

export const DISTANCES = ["Cosine", "Dot", "Euclid", "Manhattan"] as const;
export type Distance = (typeof DISTANCES)[number];

/*
 * JavaScript computes with 64-bit floats only, and converting a 32-bit float takes longer than multiplying it. So a search
 * by cosine first computes with whole numbers, of which one 64-bit float holds two: coordinates of vectors of length 1 in
 * units of 1 / SCALE, one row's plus UPPER times another's. One multiplication and one addition serve both rows. A product
 * of two vectors is less than UPPER / 2, so that the two sums stay apart, and exact below 2^53. Rounding changes a cosine
 * by `margin` at most; rows that may be among the best are computed from their 32-bit floats.
 */
const SCALE = 7900;
const UPPER = 2 ** 27;
/** Rows of a block: eight pairs, which the processor multiplies at the same time. */
const BLOCK_ROWS = 16;

interface Search {
  readonly query: Float32Array;
  /** At most so many hits. */
  readonly limit: number;
  /** Worse scores are left out. */
  readonly threshold: number | null | undefined;
  /** Whether the search includes a slot. */
  readonly accepts: (slot: number) => boolean;
  /** Order of two slots with the same score. */
  readonly compare: (slotA: number, slotB: number) => number;
}

type Hit = { readonly slot: number; readonly score: number };

/** All vectors of one name in a collection, by slot: a small number that a point keeps while it lives. */
export class VectorTable {
  readonly size: number;
  readonly distance: Distance;
  readonly #vectors: (Float32Array | undefined)[] = [];
  /** For cosine: blocks of rows, of which two are a pair. */
  readonly #pairs: Float64Array[] = [];

  constructor(size: number, distance: Distance) {
    this.size = size;
    this.distance = distance;
  }

  /** Memory of a slot with or without a vector: its part of a pair, and of lists. */
  get slotBytes(): number {
    return 16 + (this.distance === "Cosine" ? this.size * Float32Array.BYTES_PER_ELEMENT : 0);
  }

  /** @param bytes - The vector as 32-bit floats; undefined for none. */
  set(slot: number, bytes: Uint8Array | undefined): void {
    const vector = bytes && new Float32Array(Uint8Array.from(bytes).buffer);
    while (slot > this.#vectors.length) this.#vectors.push(undefined);
    this.#vectors[slot] = vector;
    if (vector !== undefined && this.distance === "Cosine") this.#setPair(slot, vector);
  }

  get(slot: number): Float32Array | undefined {
    return this.#vectors[slot];
  }

  /** The best slots, best first. */
  search({ query, limit, threshold, accepts, compare }: Search): Hit[] {
    const better = this.distance === "Cosine" || this.distance === "Dot" ? 1 : -1;
    const cosines = this.distance === "Cosine" ? this.#approximateCosines(query) : undefined;
    const margin = Math.sqrt(this.size) / SCALE + this.size / (4 * SCALE ** 2) + 1e-6;
    let best: Hit[] = [];
    /** Worse scores don't count: the threshold, or the last of the best so many. */
    let worst = threshold ?? -better * Number.POSITIVE_INFINITY;
    const keepBest = () => {
      best = best.sort((a, b) => better * (b.score - a.score) || compare(a.slot, b.slot)).slice(0, limit);
      worst = best[limit - 1]?.score ?? worst;
    };
    for (let slot = 0; slot < this.#vectors.length; slot++) {
      if (cosines !== undefined && (cosines[slot] as number) + margin < worst) continue;
      const vector = this.#vectors[slot];
      if (vector === undefined) continue;
      const score = scoreOf(this.distance, query, vector);
      if (better * (score - worst) < 0 || !accepts(slot)) continue;
      best.push({ slot, score });
      // Sorted now and then: each hit is looked at a few times, however many there are.
      if (best.length >= 2 * limit) keepBest();
    }
    keepBest();
    return best;
  }

  #setPair(slot: number, vector: Float32Array): void {
    const block = Math.floor(slot / BLOCK_ROWS);
    while (block >= this.#pairs.length) this.#pairs.push(new Float64Array((BLOCK_ROWS / 2) * this.size));
    const pairs = this.#pairs[block] as Float64Array;
    const start = Math.floor((slot % BLOCK_ROWS) / 2) * this.size;
    for (let index = 0; index < this.size; index++) {
      const pair = pairs[start + index] as number;
      const upper = UPPER * Math.round(pair / UPPER);
      const whole = toWhole(vector[index] as number);
      pairs[start + index] = slot % 2 === 0 ? whole + upper : pair - upper + UPPER * whole;
    }
  }

  /** The cosine of each slot, with an error of at most `margin`. */
  #approximateCosines(query: Float32Array): Float64Array {
    const wholeQuery = Float64Array.from(query, toWhole);
    const cosines = new Float64Array(this.#pairs.length * BLOCK_ROWS);
    for (const [block, pairs] of this.#pairs.entries()) {
      for (const [index, sums] of multiplied(wholeQuery, pairs).entries()) {
        const row = block * BLOCK_ROWS + 2 * index;
        const upper = Math.round(sums / UPPER);
        cosines[row] = (sums - UPPER * upper) / SCALE ** 2;
        cosines[row + 1] = upper / SCALE ** 2;
      }
    }
    return cosines;
  }
}

function toWhole(value: number): number {
  return Math.round(value * SCALE);
}

/** The sums of a query's products with each pair of a block. */
function multiplied(query: Float64Array, pairs: Float64Array): number[] {
  const size = query.length;
  let [a, b, c, d, e, f, g, h] = [0, 0, 0, 0, 0, 0, 0, 0];
  for (let index = 0; index < size; index++) {
    const value = query[index] as number;
    a += value * (pairs[index] as number);
    b += value * (pairs[index + size] as number);
    c += value * (pairs[index + 2 * size] as number);
    d += value * (pairs[index + 3 * size] as number);
    e += value * (pairs[index + 4 * size] as number);
    f += value * (pairs[index + 5 * size] as number);
    g += value * (pairs[index + 6 * size] as number);
    h += value * (pairs[index + 7 * size] as number);
  }
  return [a, b, c, d, e, f, g, h];
}

function scoreOf(distance: Distance, query: Float32Array, vector: Float32Array): number {
  const term = TERMS[distance];
  let sum = 0;
  for (let index = 0; index < query.length; index++) {
    sum += term(query[index] as number, vector[index] as number);
  }
  return Math.fround(distance === "Euclid" ? Math.sqrt(sum) : sum);
}

/** The summand of each pair of numbers in the score of two vectors. */
const TERMS: Readonly<Record<Distance, (a: number, b: number) => number>> = {
  // Vectors are normalised when they come in.
  Cosine: (a, b) => a * b,
  Dot: (a, b) => a * b,
  Euclid: (a, b) => (a - b) ** 2,
  Manhattan: (a, b) => Math.abs(a - b),
};

/** A vector as the table holds it: for cosine of length 1, as Qdrant stores it; zeros stay zeros. */
export function prepared(vector: readonly number[], distance: Distance): Float32Array {
  if (distance !== "Cosine") return new Float32Array(vector);
  const length = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
  return new Float32Array(length === 0 ? vector : vector.map((value) => value / length));
}
