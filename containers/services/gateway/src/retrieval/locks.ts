/** Locks by key, within this process. */

/** Gives the keys back. Calling it again does nothing. */
type Unlock = () => void;

/** Who asked first for a key has it first. Several keys are asked for at once, so that no two callers wait for each other. */
export class KeyedLocks {
  /** Settles when the last of those who asked for the key has given it back. */
  readonly #tails = new Map<string, Promise<void>>();

  /** Whether somebody has the key, or waits for it. */
  isTaken(key: string): boolean {
    return this.#tails.has(key);
  }

  /**
   * Waits for all keys.
   * @param signal - Ends the wait; the promise then rejects with its reason.
   */
  async lock(keys: readonly string[], signal: AbortSignal): Promise<Unlock> {
    const before = keys.flatMap((key) => this.#tails.get(key) ?? []);
    const { promise: released, resolve: unlock } = deferred();
    const tail = Promise.all([...before, released]).then(() => {
      for (const key of keys) if (this.#tails.get(key) === tail) this.#tails.delete(key);
    });
    for (const key of keys) this.#tails.set(key, tail);
    try {
      await abortable(Promise.all(before), signal);
    } catch (error) {
      unlock();
      throw error;
    }
    return unlock;
  }
}

function deferred(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve: () => void = () => undefined;
  const promise = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

async function abortable(promise: Promise<unknown>, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  let stop: () => void = () => undefined;
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
  });
  try {
    await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
