/** Replies that clients have asked for and don't read. */
export class UnsentReplies {
  readonly #limitBytes: number;
  readonly #byDrop = new Map<() => void, number>();
  #bytes = 0;

  /** @param limitBytes - Of all connections together. */
  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Counts a reply until `remove`. Where there are too many bytes, those who have not read for the longest time lose
   * their connection.
   *
   * @param drop - Closes the connection; it also names the reply.
   */
  add(drop: () => void, bytes: number): void {
    this.#byDrop.set(drop, bytes);
    this.#bytes += bytes;
    for (const oldest of [...this.#byDrop.keys()]) {
      if (this.#bytes <= this.#limitBytes) return;
      this.remove(oldest);
      oldest();
    }
  }

  remove(drop: () => void): void {
    this.#bytes -= this.#byDrop.get(drop) ?? 0;
    this.#byDrop.delete(drop);
  }
}
