/** One thread serves everybody: work of any length gives way to others every few milliseconds. */

/** How long one request may hold the event loop, or a transaction, before others get their turn. */
export const TURN_MILLISECONDS = 10;

/** Work by turns. */
export class Patience {
  #turnEnd = performance.now() + TURN_MILLISECONDS;

  /** Lets others go first where this turn is over; undefined where it is not. */
  rest(): Promise<void> | undefined {
    if (performance.now() < this.#turnEnd) return undefined;
    return new Promise((resolve) => {
      setImmediate(() => {
        this.#turnEnd = performance.now() + TURN_MILLISECONDS;
        resolve();
      });
    });
  }
}
