/** HTTP client of a Triton server: connections, time-outs, and errors for clients of the gateway. */
import { AnswerError } from "@engine-room/triton-requests";
import { type Dispatcher, Pool } from "undici";
import { ApiError, invalidRequest, unavailable, upstreamFailed } from "../errors.ts";
import type { CallContext } from "../limits.ts";

/** A Triton on the same network answers a SYN within milliseconds; two seconds mean that its machine is gone. */
const CONNECT_TIMEOUT_MS = 2000;
/** Loading a model takes seconds to minutes, so a sooner retry would only add load. */
const RETRY_AFTER_SECONDS = 5;
/** Every answer frees a place of a full queue. */
const BUSY_RETRY_AFTER_SECONDS = 1;
/**
 * A request that found no server is answered at once, so that a look at every few seconds would miss it. Its model stays
 * wanted for a while: for as long as its client was told to wait, and for several looks at least.
 */
const LEAST_WANTED_SECONDS = 90;
/** Maximum characters of Triton's error text in a message. */
const LONGEST_ERROR_CHARACTERS = 500;

/** Kinds of failure, as in the metrics. */
type UpstreamErrorKind = "unavailable" | "not_ready" | "busy" | "refused" | "failed" | "broken";

export interface TritonClientOptions {
  /** Name for logs, metrics and messages: `encoders`, or the model's. */
  readonly name: string;
  /** `http://host:port`. */
  readonly origin: string;
  /** Called with every failure except a client's disconnect. */
  readonly onError: (upstream: string, kind: UpstreamErrorKind) => void;
  /** From no server to one that answers, if the server may be unavailable for a reason. Absent: {@link RETRY_AFTER_SECONDS}. */
  readonly coldStartSeconds?: number | undefined;
}

interface TritonRequest extends CallContext {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Buffer;
  /**
   * Whether a request whose connection broke before any byte of an answer is sent once more. True only if a second
   * run costs little and changes nothing: a kept-alive connection may be closed by Triton just as it is used.
   */
  readonly isIdempotent: boolean;
}

/** One Triton server. */
export class TritonClient {
  readonly name: string;
  readonly #options: TritonClientOptions;
  readonly #pool: Pool;
  #waiting = 0;
  #wantedUntilMs = 0;

  constructor(options: TritonClientOptions) {
    this.name = options.name;
    this.#options = options;
    // Answers may take as long as limits.requestSeconds: the request's signal is the only clock.
    this.#pool = new Pool(options.origin, {
      connect: { timeout: CONNECT_TIMEOUT_MS },
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  }

  /** Requests that wait for the first byte of an answer, and one while a server that was missed is wanted. */
  get pending(): number {
    return this.#waiting + (performance.now() < this.#wantedUntilMs ? 1 : 0);
  }

  /**
   * Sends a POST and waits for the head of its answer.
   * @returns An answer with status 200, its body unread.
   * @throws ApiError 503 when Triton or the model is unavailable, 400 for refused input, 502 when Triton fails.
   */
  async post(request: TritonRequest): Promise<Dispatcher.ResponseData> {
    const response = await this.#send(request);
    if (response.statusCode === 200) return response;
    const text = await response.body.text().catch((error: unknown) => {
      throw this.failure(error, request.signal);
    });
    throw this.#answerError(response.statusCode, tritonMessage(text));
  }

  /** An error in the middle of an answer, or of sending, as the client gets it. */
  failure(error: unknown, signal: AbortSignal): Error {
    if (signal.aborted) return signal.reason as Error;
    if (error instanceof ApiError) return error;
    // Triton reports it inside an answer whose status was 200.
    if (error instanceof AnswerError) return this.#answerError(500, tritonMessage(error.message));
    this.#options.onError(this.name, "broken");
    return upstreamFailed(
      `The Triton server of ${this.name} failed during its answer; try again.`,
      "upstream_broken",
      error,
    );
  }

  /** Closes all connections once their requests are answered. */
  close(): Promise<void> {
    return this.#pool.close();
  }

  async #send(request: TritonRequest): Promise<Dispatcher.ResponseData> {
    const { path, body, signal, isIdempotent } = request;
    const headers = { ...request.headers, "x-request-id": request.requestId };
    const attempt = () => this.#pool.request({ path, method: "POST", headers, body, signal });
    const { onError, coldStartSeconds = RETRY_AFTER_SECONDS } = this.#options;
    this.#waiting += 1;
    try {
      return await attempt().catch((error: unknown) => {
        if (isIdempotent && !signal.aborted && isBrokenConnection(error)) return attempt();
        throw error;
      });
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      onError(this.name, "unavailable");
      const wantedMs = Math.max(LEAST_WANTED_SECONDS, coldStartSeconds) * 1000;
      this.#wantedUntilMs = Math.max(this.#wantedUntilMs, performance.now() + wantedMs);
      const message = `The Triton server of ${this.name} can't be reached; it may be starting. Try again in ${coldStartSeconds} s.`;
      throw unavailable(message, "upstream_unavailable", coldStartSeconds, error);
    } finally {
      this.#waiting -= 1;
    }
  }

  #answerError(status: number, message: string): ApiError {
    const kind = answeredErrorKind(status, message);
    this.#options.onError(this.name, kind);
    const server = `The Triton server of ${this.name}`;
    switch (kind) {
      case "not_ready":
        return unavailable(
          `${server} answers, but its model is not ready. Try again in ${RETRY_AFTER_SECONDS} s.`,
          "model_not_ready",
          RETRY_AFTER_SECONDS,
        );
      case "busy":
        return unavailable(`${server} is busy: ${message}`, "upstream_busy", BUSY_RETRY_AFTER_SECONDS);
      case "refused":
        return invalidRequest(`The model rejected the input: ${message}`, undefined, "refused_by_model");
      case "failed":
        // Triton's text about its own failure may hold paths of its machine: it goes to the log, not to the client.
        return upstreamFailed(
          `${server} failed on this request; the gateway's log has its error.`,
          "upstream_failed",
          new Error(`Triton answered ${status}: ${message}`),
        );
    }
  }
}

/** Whether an open connection broke, as a kept-alive connection may just when it is used. */
export function isBrokenConnection(error: unknown): boolean {
  const { code = "" } = error as { readonly code?: string };
  return ["UND_ERR_SOCKET", "ECONNRESET", "EPIPE"].includes(code);
}

/** Kind of Triton's error, by message before status: /generate of Triton 2.51 answers all errors of models with 400. */
export function answeredErrorKind(
  status: number,
  message: string,
): Exclude<UpstreamErrorKind, "unavailable" | "broken"> {
  if (/unknown model|not at ready state|no available versions|stub process.*not healthy/i.test(message))
    return "not_ready";
  if (/exceeds maximum queue size|try again later/i.test(message)) return "busy";
  if (/^failed to process the request|^the request failed|cuda error|out of memory/i.test(message))
    return "failed";
  if (status === 404) return "not_ready";
  if (status === 503) return "busy";
  return status >= 400 && status < 500 ? "refused" : "failed";
}

/** Triton's errors are `{"error": "..."}`, and of /generate_stream one such event; anything else is shown as it is. */
export function tritonMessage(body: string): string {
  let message = body;
  try {
    message = String(JSON.parse(body.replace(/^data: /, "")).error ?? body);
  } catch {
    // Not a JSON object: shown as it is.
  }
  return message.slice(0, LONGEST_ERROR_CHARACTERS);
}
