/** How clients share the memory and the time of one process. */

/** Bytes that all connections may hold together. */
export class ByteBudget {
  readonly #limit: number;
  #taken = 0;
  readonly #waiting: { readonly bytes: number; readonly go: () => void }[] = [];

  /** @param limit - In bytes; for `take` at least as many as the largest single request for room. */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Bytes. */
  get taken(): number {
    return this.#taken;
  }

  /** Takes so many bytes where they are free and nobody waits. @returns Whether it did. */
  tryTake(bytes: number): boolean {
    if (this.#waiting.length > 0 || !this.#fits(bytes)) return false;
    this.#taken += bytes;
    return true;
  }

  /** Resolves when so many bytes are free and taken; those who ask first get them first. */
  async take(bytes: number): Promise<void> {
    if (this.tryTake(bytes)) return;
    await new Promise<void>((go) => {
      this.#waiting.push({ bytes, go });
    });
  }

  give(bytes: number): void {
    this.#taken -= bytes;
    for (let next = this.#waiting[0]; next !== undefined && this.#fits(next.bytes); next = this.#waiting[0]) {
      this.#waiting.shift();
      this.#taken += next.bytes;
      next.go();
    }
  }

  #fits(bytes: number): boolean {
    return this.#taken + bytes <= this.#limit;
  }
}

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
