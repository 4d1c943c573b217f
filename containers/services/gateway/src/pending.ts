/** Which models somebody waits for: what starts the server of a model that has none. */

/**
 * A request that found no server is answered at once, so that a look at every few seconds would miss it. Its model stays
 * wanted for a while: for as long as its client was told to wait, and for several looks at least.
 */
const LEAST_WANTED_SECONDS = 90;

interface Pending {
  requests: number;
  /** On the clock, in milliseconds. */
  wantedUntil: number;
}

/** Requests that wait for the first byte of a model's answer, by model. */
export class PendingRequests {
  readonly #models = new Map<string, Pending>();
  readonly #now: () => number;

  /** @param now - Milliseconds on a clock that never goes back. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Counts a model from now on, be it with none. */
  add(model: string): void {
    this.#models.set(model, { requests: 0, wantedUntil: 0 });
  }

  /** A request is on its way. @returns What ends it; to be called once. */
  begin(model: string): () => void {
    const pending = this.#models.get(model);
    if (pending === undefined) return () => undefined;
    pending.requests += 1;
    return () => {
      pending.requests -= 1;
    };
  }

  /** A request found no server. @param retrySeconds - When its client was told to come back. */
  missed(model: string, retrySeconds: number): void {
    const pending = this.#models.get(model);
    if (pending === undefined) return;
    const seconds = Math.max(LEAST_WANTED_SECONDS, retrySeconds);
    pending.wantedUntil = Math.max(pending.wantedUntil, this.#now() + seconds * 1000);
  }

  /** By model: those that wait, and one where somebody was sent away not long ago. */
  get counts(): ReadonlyMap<string, number> {
    const now = this.#now();
    return new Map(
      [...this.#models].map(([model, { requests, wantedUntil }]) => [
        model,
        requests + (now < wantedUntil ? 1 : 0),
      ]),
    );
  }
}
