/** One thread serves everybody: reads and writes of any length give way to others. */
import { Patience, TURN_MILLISECONDS } from "@engine-room/service-process";
import { CommandError } from "./errors.ts";

/** What runs a function in a transaction of its own. */
interface Transactions {
  write<T>(work: () => T): Promise<T>;
}

/** Reading by turns until the client's time is over. */
export class TimedPatience extends Patience {
  readonly #end: number;

  /** @param maxMilliseconds - The client's `maxTimeMS`; 0 for no limit. */
  constructor(maxMilliseconds: number) {
    super();
    this.#end = maxMilliseconds === 0 ? Number.POSITIVE_INFINITY : performance.now() + maxMilliseconds;
  }

  /** @throws CommandError 50 when the time is over. */
  override rest(): Promise<void> | undefined {
    if (performance.now() > this.#end) throw new CommandError(50, "operation exceeded time limit");
    return super.rest();
  }
}

/**
 * Writing by turns: runs work in as many transactions as it takes. Each `yield` is a place where a transaction may end;
 * what was done up to it is on disk whatever becomes of the rest.
 */
export async function inTransactions<T>(store: Transactions, work: Generator<undefined, T>): Promise<T> {
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
