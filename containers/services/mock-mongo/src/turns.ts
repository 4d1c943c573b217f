/** One thread serves everybody: work of any length gives way to others every few milliseconds. */
import { CommandError } from "./errors.ts";
import type { Store } from "./store.ts";

/** How long one command may hold the event loop, or a transaction, before others get their turn. */
const TURN_MILLISECONDS = 10;

/** Reading by turns. */
export class Patience {
  readonly #end: number;
  #turnEnd: number;

  /** @param maxMilliseconds - The client's `maxTimeMS`; 0 for no limit. */
  constructor(maxMilliseconds = 0) {
    const now = performance.now();
    this.#end = maxMilliseconds === 0 ? Number.POSITIVE_INFINITY : now + maxMilliseconds;
    this.#turnEnd = now + TURN_MILLISECONDS;
  }

  /** Lets others go first where this turn is over; undefined where it is not. @throws CommandError 50 */
  rest(): Promise<void> | undefined {
    const now = performance.now();
    if (now > this.#end) throw new CommandError(50, "operation exceeded time limit");
    if (now < this.#turnEnd) return undefined;
    return new Promise((resolve) => {
      setImmediate(() => {
        this.#turnEnd = performance.now() + TURN_MILLISECONDS;
        resolve();
      });
    });
  }
}

/**
 * Writing by turns: runs work in as many transactions as it takes. Each `yield` is a place where a transaction may end;
 * what was done up to it is on disk whatever becomes of the rest.
 */
export async function inTransactions<T>(store: Store, work: Generator<undefined, T>): Promise<T> {
  for (;;) {
    const step = await store.write(() => {
      const end = performance.now() + TURN_MILLISECONDS;
      let next = work.next();
      while (next.done !== true && performance.now() < end) next = work.next();
      return next;
    });
    if (step.done === true) return step.value;
  }
}
