/** Puts messages together from what a socket delivers, copying each byte once at most. */
import { messageLength } from "./wire.ts";

export class MessageReader {
  #chunks: Buffer[] = [];
  #bytes = 0;
  #expected: number | undefined;

  add(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
  }

  /** Whether there are bytes of a message that is not whole. */
  get isWithinMessage(): boolean {
    return this.#bytes > 0;
  }

  /** Length of the message that has begun; undefined while that is not known. @throws WireError */
  get expectedBytes(): number | undefined {
    if (this.#expected === undefined && this.#bytes >= 4) {
      let [head = Buffer.alloc(0)] = this.#chunks;
      if (head.length < 4) {
        head = Buffer.concat(this.#chunks);
        this.#chunks = [head];
      }
      this.#expected = messageLength(head);
    }
    return this.#expected;
  }

  /** The next whole message. @throws WireError */
  take(): Buffer | undefined {
    const expected = this.expectedBytes;
    if (expected === undefined || this.#bytes < expected) return undefined;
    const [first = Buffer.alloc(0)] = this.#chunks;
    const all = this.#chunks.length === 1 ? first : Buffer.concat(this.#chunks);
    this.#chunks = all.length > expected ? [all.subarray(expected)] : [];
    this.#bytes -= expected;
    this.#expected = undefined;
    return all.subarray(0, expected);
  }
}
