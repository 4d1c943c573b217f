/** One after another within this process: the engine creates resources in parallel. */

const tails = new Map<string, Promise<unknown>>();

/** Runs `action` when every earlier one with the same key has ended, well or not. */
export async function exclusively<T>(key: string, action: () => Promise<T>): Promise<T> {
  const before = tails.get(key) ?? Promise.resolve();
  const run = before.then(action, action);
  const tail = run.catch(() => undefined);
  tails.set(key, tail);
  try {
    return await run;
  } finally {
    if (tails.get(key) === tail) tails.delete(key);
  }
}
