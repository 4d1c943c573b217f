/** The best so many hits of a search: a heap with the worst of them on top. */

export interface Hit {
  readonly slot: number;
  readonly score: number;
  /** What `VectorTable.versionOf` said when it was scored. */
  readonly version: number;
}

/** Which of two slots comes first where scores are equal: negative for the first of them. */
export type TieBreak = (slotA: number, slotB: number) => number;

export class BestHits {
  readonly #count: number;
  readonly #sign: number;
  readonly #tieBreak: TieBreak;
  readonly #heap: Hit[] = [];

  /** @param isSmallerBetter - Whether scores are distances. */
  constructor(count: number, isSmallerBetter: boolean, tieBreak: TieBreak) {
    this.#count = count;
    this.#sign = isSmallerBetter ? -1 : 1;
    this.#tieBreak = tieBreak;
  }

  /** Whether a hit would be among the best as far as they are known. */
  wants(slot: number, score: number): boolean {
    const worst = this.#heap[0];
    if (worst === undefined || this.#heap.length < this.#count) return true;
    return this.#isWorse(worst, { slot, score });
  }

  /** Adds a hit that is wanted. */
  add(hit: Hit): void {
    const heap = this.#heap;
    if (heap.length < this.#count) {
      heap.push(hit);
      this.#rise(heap.length - 1);
    } else {
      heap[0] = hit;
      this.#sink();
    }
  }

  /** Best first. */
  sorted(): Hit[] {
    return this.#heap.toSorted((a, b) => (this.#isWorse(a, b) ? 1 : -1));
  }

  #isWorse(a: Pick<Hit, "slot" | "score">, b: Pick<Hit, "slot" | "score">): boolean {
    if (a.score === b.score) return this.#tieBreak(a.slot, b.slot) > 0;
    return this.#sign * a.score < this.#sign * b.score;
  }

  #rise(from: number): void {
    for (let index = from; index > 0; ) {
      const parent = (index - 1) >> 1;
      if (!this.#isWorse(this.#at(index), this.#at(parent))) return;
      this.#swap(index, parent);
      index = parent;
    }
  }

  #sink(): void {
    for (let index = 0; ; ) {
      let worst = index;
      for (const child of [2 * index + 1, 2 * index + 2]) {
        if (child < this.#heap.length && this.#isWorse(this.#at(child), this.#at(worst))) worst = child;
      }
      if (worst === index) return;
      this.#swap(index, worst);
      index = worst;
    }
  }

  #at(index: number): Hit {
    return this.#heap[index] as Hit;
  }

  #swap(a: number, b: number): void {
    const held = this.#at(a);
    this.#heap[a] = this.#at(b);
    this.#heap[b] = held;
  }
}
