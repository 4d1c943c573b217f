/** What a database must hold after it was killed: what it acknowledged, and what it was asked for then or not. */
import { isDeepStrictEqual } from "node:util";

export class Acknowledged<T> {
  readonly #known = new Map<string, T | undefined>();
  /** Writes that were sent and not acknowledged, by key. */
  readonly #pending = new Map<string, T | undefined>();

  /** Writes that were acknowledged so far. */
  writes = 0;

  /** The value that a key has; undefined for none. */
  get(key: string): T | undefined {
    return this.#known.get(key);
  }

  /** Keys that were ever written. */
  keys(): string[] {
    return [...this.#known.keys()];
  }

  /** A write of keys, until it is acknowledged or the database is gone. */
  async during(changes: ReadonlyMap<string, T | undefined>, write: () => Promise<unknown>): Promise<void> {
    for (const [key, value] of changes) this.#pending.set(key, value);
    await write();
    this.writes += 1;
    for (const [key, value] of changes) {
      this.#known.set(key, value);
      this.#pending.delete(key);
    }
  }

  /** What is wrong with a content, a sentence each; what is right in it is known from here on. */
  problems(content: ReadonlyMap<string, T>): string[] {
    const keys = new Set([...this.#known.keys(), ...this.#pending.keys(), ...content.keys()]);
    const wrong = [...keys].filter((key) => {
      const allowed = [this.#known.get(key), ...(this.#pending.has(key) ? [this.#pending.get(key)] : [])];
      return !allowed.some((value) => isDeepStrictEqual(value, content.get(key)));
    });
    const problems = wrong.map(
      (key) =>
        `${key} is ${JSON.stringify(content.get(key))}, acknowledged was ${JSON.stringify(this.#known.get(key))}`,
    );
    for (const key of keys) this.#known.set(key, content.get(key));
    this.#pending.clear();
    return problems;
  }
}
