/** How many connections there are, how many requests wait for Triton and for their turn, and how long each may take. */
import type { FastifyInstance } from "fastify";
import type { Counter } from "prom-client";
import { ApiError, ClientGone, unavailable } from "./errors.ts";

/** A client that comes back again and again must not fill the log. */
const LOG_SECONDS = 60;

/**
 * Closes every connection beyond `most` at a time before anything of it is read: an answer would need the room that is
 * missing. Each is counted, and the log says so at most once a minute.
 */
export function limitConnections(app: FastifyInstance, most: number, refused: Counter): void {
  let loggedAt = Number.NEGATIVE_INFINITY;
  app.server.maxConnections = most;
  app.server.on("drop", () => {
    refused.inc();
    if (performance.now() - loggedAt < LOG_SECONDS * 1000) return;
    loggedAt = performance.now();
    app.log.warn(
      `connections are refused: ${most} are open, the most that limits.connections allows; raise it, or let clients share connections`,
    );
  });
}

/** Gives a place back. Calling it again does nothing. */
type Release = () => void;

/** A fixed number of places and a bounded, first-come queue for them. */
export class ConcurrencyLimiter {
  readonly #places: number;
  readonly #queueLength: number;
  /** Insertion order is the queue's order, and leaving from its middle is cheap. */
  readonly #waiting = new Set<() => void>();
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
      const message = `All ${this.#places} places are taken and ${this.#waiting.size} requests wait; try again in a second.`;
      return Promise.reject(unavailable(message, "overloaded", 1));
    }
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#waiting.delete(start);
        reject(signal.reason);
      };
      const start = () => {
        signal.removeEventListener("abort", leave);
        resolve(this.#take());
      };
      signal.addEventListener("abort", leave, { once: true });
      this.#waiting.add(start);
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
      next();
    };
  }
}

/** For the last bytes of a refusal that a deadline caused. */
const ANSWER_MARGIN_SECONDS = 1;

/** One signal for all that can end a request early. Its reason is an ApiError 504 or ClientGone. */
export class Deadline {
  readonly #controller = new AbortController();
  #timer: NodeJS.Timeout;

  /** @param cutOff - Called when there still is no whole answer a second after the time is over. */
  constructor(seconds: number, cutOff: () => void = () => undefined) {
    const message = `The request took longer than the ${seconds} s that this gateway allows; ask for fewer tokens or send less at once.`;
    this.#timer = setTimeout(() => {
      this.#timer = setTimeout(cutOff, ANSWER_MARGIN_SECONDS * 1000);
      this.#controller.abort(new ApiError(message, { status: 504, code: "timeout" }));
    }, seconds * 1000);
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

/** What travels with a client's request to every server behind the gateway. */
export interface CallContext {
  /** Sent on as `x-request-id` over HTTP and as `comment` to MongoDB, so that one id finds a request in every log. */
  readonly requestId: string;
  /** Ends the call; its reason is what the caller gets. */
  readonly signal: AbortSignal;
}
