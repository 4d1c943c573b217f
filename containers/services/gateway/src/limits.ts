/** Limits of connections, of running and queued requests, and of their time and memory. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { FastifyInstance } from "fastify";
import type { Counter } from "prom-client";
import { ApiError, ClientGone, unavailable } from "./errors.ts";

/** A client that comes back again and again must not fill the log. */
const LOG_SECONDS = 60;

/**
 * Limits the number of connections. Another connection replaces the connection that has been idle, or has sent only a part
 * of a request's head, for the longest time; when all have requests, the new connection is closed. Closed connections are
 * counted, and logged at most once a minute.
 */
export function limitConnections({ server, log }: FastifyInstance, most: number, dropped: Counter): void {
  /** Requests of each open connection that are being answered. */
  const requests = new Map<Socket, number>();
  /** Connections without any, in the order in which they were last used. */
  const idle = new Set<Socket>();
  let loggedAt = Number.NEGATIVE_INFINITY;

  const forget = (socket: Socket) => {
    requests.delete(socket);
    idle.delete(socket);
  };
  const drop = (socket: Socket) => {
    forget(socket);
    socket.destroy();
    dropped.inc();
    if (performance.now() - loggedAt < LOG_SECONDS * 1000) return;
    loggedAt = performance.now();
    log.warn(
      `connection limit reached: idle connections are closed because ${most} are open; raise limits.connections, or let clients reuse connections`,
    );
  };
  server.on("connection", (socket: Socket) => {
    requests.set(socket, 0);
    idle.add(socket);
    socket.once("close", () => forget(socket));
    const [longestIdle = socket] = idle;
    if (requests.size > most) drop(longestIdle);
  });
  server.on("request", ({ socket }: IncomingMessage, answer: ServerResponse) => {
    const count = (change: number) => {
      const running = requests.get(socket);
      if (running === undefined) return;
      requests.set(socket, running + change);
      if (running + change === 0) idle.add(socket);
      else idle.delete(socket);
    };
    count(1);
    answer.once("close", () => count(-1));
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
      const message = `Overloaded: ${this.#places} requests are running and ${this.#waiting.size} are queued; try again in a second.`;
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

/** Seconds after the deadline for sending its error. */
const ANSWER_MARGIN_SECONDS = 1;

/** A client that reads its answer more slowly, beyond `limits.readSeconds`, is cut off. */
const LEAST_BYTES_READ_PER_SECOND = 16 * 1024;

/** One signal for all that can end a request early. Its reason is an ApiError 504 or ClientGone. */
export class Deadline {
  readonly #controller = new AbortController();
  readonly #abort: () => void;
  #timer: NodeJS.Timeout;
  #isOver = false;

  /** @param abort - Called when the answer has not begun a second after the limit, or is read too slowly. */
  constructor(seconds: number, abort: () => void = () => undefined) {
    this.#abort = abort;
    const message = `The request exceeded its time limit of ${seconds} s; ask for fewer tokens or send less at once.`;
    this.#timer = setTimeout(() => {
      this.#timer = setTimeout(abort, ANSWER_MARGIN_SECONDS * 1000);
      this.#controller.abort(new ApiError(message, { status: 504, code: "timeout" }));
    }, seconds * 1000);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /**
   * The answer is made: its reader has `readSeconds`, and a second for each 16 KiB.
   * @param bytes - Bytes that are not read yet.
   */
  answered(bytes: number, readSeconds: number): void {
    if (this.#isOver) return;
    clearTimeout(this.#timer);
    const seconds = readSeconds + bytes / LEAST_BYTES_READ_PER_SECOND;
    this.#timer = setTimeout(this.#abort, seconds * 1000);
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

  /** Stops the timer. */
  clear(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
  }
}

/** A request's objects of Node, Fastify and its clock, in addition to its bytes; measured over 10,000: 9 KiB each. */
const REQUEST_BYTES = 16 * 1024;

/** Maximum share of the memory for requests that are being answered; the rest is for clients that send or read. */
export const ANSWERING_SHARE = 0.75;

interface Held {
  readonly bytes: number;
  /** Ends the request; undefined while it does not wait for its client. */
  readonly abort: (() => void) | undefined;
}

/**
 * Bytes of all requests and answers, from the first byte of a body until the last of the answer is read. Beyond the
 * limit, requests end whose clients have been sending or reading for the longest time: slow clients don't affect others.
 */
export class RequestMemory {
  readonly #mostBytes: number;
  readonly #held = new Map<ServerResponse, Held>();
  /** Requests that wait for their clients, the longest wait first. */
  readonly #waiting = new Set<ServerResponse>();
  #bytes = 0;
  /** Bytes of requests that do not wait for their clients. */
  #answeringBytes = 0;

  constructor(mostBytes: number) {
    this.#mostBytes = mostBytes;
  }

  /** Bytes of all requests and answers. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Its client is sending the request, or reading the answer.
   * @param bytes - Bytes received so far, or not read yet.
   * @param abort - Ends the request when room is needed.
   */
  waitsForClient(answer: ServerResponse, bytes: number, abort: () => void): void {
    this.#set(answer, { bytes: bytes + REQUEST_BYTES, abort });
  }

  /**
   * It does not wait for its client: the gateway makes the answer, and no request is ended for another one then.
   * @param bytes - By default those that it had.
   */
  isAnswered(answer: ServerResponse, bytes?: number): void {
    const known = this.#held.get(answer)?.bytes ?? REQUEST_BYTES;
    this.#set(answer, { bytes: bytes === undefined ? known : bytes + REQUEST_BYTES, abort: undefined });
  }

  /**
   * The gateway needs more for the answer while it makes it.
   * @throws ApiError 503 when there is no room.
   */
  add(answer: ServerResponse, bytes: number): void {
    const held = this.#held.get(answer);
    if (held === undefined) return;
    this.#set(answer, { ...held, bytes: held.bytes + bytes });
    this.checkAnswering();
  }

  /** @throws ApiError 503 when the requests that are being answered take more than their share. */
  checkAnswering(): void {
    if (this.#answeringBytes > ANSWERING_SHARE * this.#mostBytes) throw this.refusal();
  }

  /** The request has ended. */
  delete(answer: ServerResponse): void {
    const held = this.#held.get(answer);
    if (held === undefined) return;
    this.#held.delete(answer);
    this.#waiting.delete(answer);
    this.#bytes -= held.bytes;
    if (held.abort === undefined) this.#answeringBytes -= held.bytes;
  }

  /** Error of a request that exceeds the memory for requests. */
  refusal(): ApiError {
    const message = `Overloaded: other requests use the ${this.#mostBytes} bytes of memory for requests; try again in a second.`;
    return unavailable(message, "overloaded", 1);
  }

  #set(answer: ServerResponse, held: Held): void {
    const keepsTurn = this.#waiting.has(answer) && held.abort !== undefined;
    if (keepsTurn) this.#bytes -= this.#held.get(answer)?.bytes ?? 0;
    else this.delete(answer);
    this.#held.set(answer, held);
    this.#bytes += held.bytes;
    if (held.abort === undefined) this.#answeringBytes += held.bytes;
    else this.#waiting.add(answer);
    for (const oldest of this.#waiting) {
      if (this.#bytes <= this.#mostBytes) return;
      const abort = this.#held.get(oldest)?.abort;
      this.delete(oldest);
      abort?.();
    }
  }
}

/** Context of a client's request in calls of the servers behind the gateway. */
export interface CallContext {
  /** Sent on as `x-request-id` over HTTP and as `comment` to MongoDB, so that one id finds a request in every log. */
  readonly requestId: string;
  /** Ends the call with its reason. */
  readonly signal: AbortSignal;
  /**
   * Counts bytes that are kept until the answer is complete; absent for the gateway's own tasks.
   * @throws ApiError 503 when there is no room for them.
   */
  readonly hold?: (bytes: number) => void;
}
