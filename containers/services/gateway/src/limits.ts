/** How many requests wait for Triton at a time, how many wait for their turn, and how long each may take. */
import { requestTimedOut, unavailable } from "./errors.ts";

/** Gives a place back. Calling it again does nothing. */
type Release = () => void;

interface Waiter {
  readonly start: () => void;
}

/** A fixed number of places and a bounded, first-come queue for them. */
export class ConcurrencyLimiter {
  readonly #places: number;
  readonly #queueLength: number;
  /** Insertion order is the queue's order, and leaving from its middle is cheap. */
  readonly #waiting = new Set<Waiter>();
  #taken = 0;

  constructor(places: number, queueLength: number) {
    this.#places = places;
    this.#queueLength = queueLength;
  }

  /** Places in use. */
  get taken(): number {
    return this.#taken;
  }

  /** Requests in the queue. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * Waits for a place.
   * @param signal - Leaves the queue when aborted; the promise then rejects with the signal's reason.
   * @throws ApiError 503 at once when the queue is full.
   */
  acquire(signal: AbortSignal): Promise<Release> {
    if (signal.aborted) return Promise.reject(signal.reason);
    if (this.#taken < this.#places) return Promise.resolve(this.#take());
    if (this.#waiting.size >= this.#queueLength) {
      return Promise.reject(
        unavailable(
          `All ${this.#places} places are taken and ${this.#waiting.size} requests wait; try again in a second.`,
          "overloaded",
          1,
        ),
      );
    }
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#waiting.delete(waiter);
        reject(signal.reason);
      };
      const waiter: Waiter = {
        start: () => {
          signal.removeEventListener("abort", leave);
          resolve(this.#take());
        },
      };
      signal.addEventListener("abort", leave, { once: true });
      this.#waiting.add(waiter);
    });
  }

  #take(): Release {
    this.#taken += 1;
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      this.#taken -= 1;
      const [next] = this.#waiting;
      if (next === undefined) return;
      this.#waiting.delete(next);
      next.start();
    };
  }
}

/** Status of a request whose client left before its answer was complete; the number that proxies log for it. */
export const CLIENT_LEFT_STATUS = 499;

/** The client closed its connection; there is nobody to answer. */
export class ClientGone extends Error {
  override readonly name = "ClientGone";
}

/** One signal for all that can end a request early. Its reason is an ApiError 504 or ClientGone. */
export class Deadline {
  readonly #controller = new AbortController();
  readonly #timer: NodeJS.Timeout;

  constructor(seconds: number) {
    this.#timer = setTimeout(() => this.#controller.abort(requestTimedOut(seconds)), seconds * 1000);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Ends the request because its client left. */
  clientLeft(): void {
    this.clear();
    this.#controller.abort(new ClientGone("the client closed the connection"));
  }

  /** Stops the clock. */
  clear(): void {
    clearTimeout(this.#timer);
  }
}
