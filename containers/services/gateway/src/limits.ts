/** How many connections there are, how many requests wait for Triton and for their turn, how long each may take, and what waits for readers. */
import type { ServerResponse } from "node:http";
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

/** For a refusal that a deadline caused to be made. */
const ANSWER_MARGIN_SECONDS = 1;

/** A client that reads its answer more slowly, beyond `limits.readSeconds`, is cut off. */
const LEAST_BYTES_READ_PER_SECOND = 16 * 1024;

/** One signal for all that can end a request early. Its reason is an ApiError 504 or ClientGone. */
export class Deadline {
  readonly #controller = new AbortController();
  readonly #cutOff: () => void;
  #timer: NodeJS.Timeout;
  #isOver = false;

  /** @param cutOff - Called when there still is no answer a second after the time is over, or when it is read too slowly. */
  constructor(seconds: number, cutOff: () => void = () => undefined) {
    this.#cutOff = cutOff;
    const message = `The request took longer than the ${seconds} s that this gateway allows; ask for fewer tokens or send less at once.`;
    this.#timer = setTimeout(() => {
      this.#timer = setTimeout(cutOff, ANSWER_MARGIN_SECONDS * 1000);
      this.#controller.abort(new ApiError(message, { status: 504, code: "timeout" }));
    }, seconds * 1000);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /**
   * The answer is made: its reader has `readSeconds`, and a second for each 16 KiB.
   * @param bytes - That are not read yet.
   */
  answered(bytes: number, readSeconds: number): void {
    if (this.#isOver) return;
    clearTimeout(this.#timer);
    const seconds = readSeconds + bytes / LEAST_BYTES_READ_PER_SECOND;
    this.#timer = setTimeout(this.#cutOff, seconds * 1000);
  }

  /** Ends the request because its client left. */
  clientLeft(): void {
    this.clear();
    this.#controller.abort(new ClientGone("the client closed the connection"));
  }

  /** Whether the last byte is read, or the client has left. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Stops the clock. */
  clear(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
  }
}

/**
 * Bytes of answers that are made and not read. They have a bound as a sum: beyond it the connection is closed whose reader
 * has been behind for the longest time, so that readers who are slow cost those nothing who are not.
 */
export class UnreadAnswers {
  readonly #mostBytes: number;
  /** In the order in which their readers fell behind. */
  readonly #behind = new Map<ServerResponse, { bytes: number; readonly cutOff: () => void }>();
  #bytes = 0;

  constructor(mostBytes: number) {
    this.#mostBytes = mostBytes;
  }

  /** Of all answers together. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * @param bytes - That this answer's reader has still to read; 0: all is read.
   * @param cutOff - Closes its connection.
   */
  set(answer: ServerResponse, bytes: number, cutOff: () => void): void {
    const known = this.#behind.get(answer);
    this.#bytes += bytes - (known?.bytes ?? 0);
    if (bytes === 0) this.#behind.delete(answer);
    else if (known !== undefined) known.bytes = bytes;
    else this.#behind.set(answer, { bytes, cutOff });
    for (const [other, { bytes: held, cutOff: end }] of this.#behind) {
      if (this.#bytes <= this.#mostBytes) return;
      this.#behind.delete(other);
      this.#bytes -= held;
      end();
    }
  }
}

/** What travels with a client's request to every server behind the gateway. */
export interface CallContext {
  /** Sent on as `x-request-id` over HTTP and as `comment` to MongoDB, so that one id finds a request in every log. */
  readonly requestId: string;
  /** Ends the call; its reason is what the caller gets. */
  readonly signal: AbortSignal;
}
