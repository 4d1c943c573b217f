/** Sorting documents by what their sort keys are, holding the keys and not the documents. */
import { calculateObjectSize, type Document } from "bson";
import { CommandError } from "./errors.ts";
import { compareValues } from "./order.ts";
import { sortKey } from "./paths.ts";

/** MongoDB's limit of a sort in memory. */
const MAX_SORT_BYTES = 100 * 1024 * 1024;

type Order = readonly (readonly [path: string, direction: 1 | -1])[];

/** @throws CommandError 2 */
export function readOrder(sort: Document): Order {
  return Object.entries(sort).map(([path, direction]) => {
    if (direction !== 1 && direction !== -1) {
      throw new CommandError(2, `$sort key ordering of '${path}' must be 1 (ascending) or -1 (descending)`);
    }
    return [path, direction];
  });
}

/** Takes items in any number, and gives them in order; equal ones as they came. */
export class Sorter<T> {
  readonly #order: Order;
  readonly #wanted: number;
  #rows: { readonly keys: readonly unknown[]; readonly place: number; readonly item: T }[] = [];
  #places = 0;
  #bytes = 0;

  /** @param wanted - Only so many of the first are needed; infinite for all. */
  constructor(order: Order, wanted: number) {
    this.#order = order;
    this.#wanted = wanted;
  }

  /**
   * @param natural - What `$natural` orders by.
   * @throws CommandError 292 when the keys take too much memory.
   */
  add(item: T, document: Document, natural: number): void {
    const keys = this.#order.map(([path, direction]) =>
      path === "$natural" ? natural : sortKey(document, path, direction),
    );
    this.#bytes += sizeOf(keys);
    if (this.#bytes > MAX_SORT_BYTES) {
      throw new CommandError(
        292,
        `Sort exceeded memory limit of ${MAX_SORT_BYTES} bytes; sort fewer documents, or give a limit`,
      );
    }
    this.#rows.push({ keys, place: this.#places++, item });
    // Twice as many as are needed, so that each sort that cuts off has cut off as much as it kept.
    if (this.#rows.length > 2 * this.#wanted + 1024) this.#cut();
  }

  sorted(): T[] {
    this.#cut();
    return this.#rows.map(({ item }) => item);
  }

  #cut(): void {
    this.#rows.sort((a, b) => {
      for (const [index, [, direction]] of this.#order.entries()) {
        const order = compareValues(a.keys[index], b.keys[index]);
        if (order !== 0) return direction * order;
      }
      return a.place - b.place;
    });
    if (this.#rows.length <= this.#wanted) return;
    this.#rows.length = this.#wanted;
    this.#bytes = this.#rows.reduce((sum, { keys }) => sum + sizeOf(keys), 0);
  }
}

const SMALL_VALUE_BYTES = 16;

function sizeOf(keys: readonly unknown[]): number {
  return keys.reduce<number>((sum, key) => {
    if (typeof key === "string") return sum + SMALL_VALUE_BYTES + 2 * key.length;
    const isSmall = typeof key !== "object" || key === null || key instanceof Date;
    return sum + (isSmall ? SMALL_VALUE_BYTES : calculateObjectSize({ key }));
  }, SMALL_VALUE_BYTES);
}
