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

  /** Takes so many bytes if they are free and no caller waits. @returns Whether it did. */
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

/** Bytes that are held for clients, with a bound as a sum: beyond it those are dropped that have held theirs for the longest time. */
export class HeldBytes<Holder> {
  readonly #most: number;
  readonly #held = new Map<Holder, { readonly bytes: number; readonly drop: (() => void) | undefined }>();
  #bytes = 0;

  constructor(most: number) {
    this.#most = most;
  }

  /** Bytes. */
  get taken(): number {
    return this.#bytes;
  }

  /**
   * Sets the bytes of a holder; its age stays.
   *
   * @param drop - Frees them; undefined while it does not wait for its client. It may be called at once.
   */
  set(holder: Holder, bytes: number, drop: (() => void) | undefined): void {
    this.#bytes += bytes - (this.#held.get(holder)?.bytes ?? 0);
    this.#held.set(holder, { bytes, drop });
    if (this.#bytes <= this.#most) return;
    for (const [other, held] of [...this.#held]) {
      if (this.#bytes <= this.#most) return;
      if (held.drop === undefined) continue;
      this.delete(other);
      held.drop();
    }
  }

  /** Removes a holder. */
  delete(holder: Holder): void {
    this.#bytes -= this.#held.get(holder)?.bytes ?? 0;
    this.#held.delete(holder);
  }
}

/** Limits the number of connections: a new connection replaces that with the longest idle time. */
export class ConnectionsByUse<Connection extends { destroy(): unknown }> {
  readonly #most: number;
  /** Whether each connection is idle; the least recently used first. */
  readonly #isIdle = new Map<Connection, boolean>();

  constructor(most: number) {
    this.#most = most;
  }

  get size(): number {
    return this.#isIdle.size;
  }

  /** Adds a connection, or sets whether it is idle. When no other is idle, a new connection is closed itself. */
  set(connection: Connection, isIdle: boolean): void {
    this.#isIdle.delete(connection);
    this.#isIdle.set(connection, isIdle);
    if (this.#isIdle.size <= this.#most) return;
    for (const [other, isOtherIdle] of this.#isIdle) {
      if (!isOtherIdle) continue;
      this.delete(other);
      other.destroy();
      return;
    }
  }

  delete(connection: Connection): void {
    this.#isIdle.delete(connection);
  }

  /** All of them, or those that are idle. */
  list(onlyIdle = false): Connection[] {
    return [...this.#isIdle].filter(([, isIdle]) => isIdle || !onlyIdle).map(([connection]) => connection);
  }
}

/** Maximum time of a request in the event loop, or in a transaction, before others get their turn. */
export const TURN_MILLISECONDS = 10;

/** Work by turns. */
export class TimeSlice {
  #turnEnd = performance.now() + TURN_MILLISECONDS;

  /** Lets others run when this turn is over; undefined when it is not. */
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
