/** HTTP to one Triton server: connections, time-outs, and what each way to fail means for a client of the gateway. */
import type { TritonRequest as HttpRequest } from "@engine-room/triton-requests";
import { type Dispatcher, Pool } from "undici";
import type { CallContext } from "../call-context.ts";
import { ApiError, unavailable } from "../errors.ts";
import type { PendingRequests } from "../pending.ts";

/** A Triton on the same network answers a SYN within milliseconds; two seconds mean that its machine is gone. */
const CONNECT_TIMEOUT_MS = 2000;
const READY_TIMEOUT_MS = 2000;
/** Loading a model takes seconds to minutes, so a sooner retry would only add load. */
const RETRY_AFTER_SECONDS = 5;
/** A full queue moves with every answer. */
const BUSY_RETRY_AFTER_SECONDS = 1;
/** How much of Triton's own error text is passed on. */
const LONGEST_ERROR_CHARACTERS = 500;

/** Kinds of failure, as they are counted. */
type UpstreamErrorKind = "away" | "not_ready" | "busy" | "refused" | "failed" | "broken";

export interface TritonClientOptions {
  /** Name for logs, metrics and messages: `encoders`, or the model's. */
  readonly name: string;
  /** `http://host:port`. */
  readonly origin: string;
  /** Told of every failure that is not the client's own leaving. */
  readonly onError: (upstream: string, kind: UpstreamErrorKind) => void;
  /** Told of every request until its answer begins. */
  readonly pending: PendingRequests;
  /** From no server to one that answers, where the server may be away for a reason. Absent: {@link RETRY_AFTER_SECONDS}. */
  readonly coldStartSeconds?: number | undefined;
}

interface TritonRequest extends HttpRequest, CallContext {
  /**
   * Whether a request whose connection broke before any byte of an answer is sent once more. True only where a second
   * run costs little and changes nothing: a kept-alive connection may be closed by Triton just as it is used.
   */
  readonly isIdempotent: boolean;
}

/** One Triton server. */
export class TritonClient {
  readonly name: string;
  readonly #pool: Pool;
  readonly #onError: TritonClientOptions["onError"];
  readonly #pending: PendingRequests;
  readonly #startSeconds: number;

  constructor({ name, origin, onError, pending, coldStartSeconds }: TritonClientOptions) {
    this.name = name;
    this.#onError = onError;
    this.#pending = pending;
    this.#startSeconds = coldStartSeconds ?? RETRY_AFTER_SECONDS;
    // Answers may take as long as limits.requestSeconds: the request's signal is the only clock.
    this.#pool = new Pool(origin, {
      connect: { timeout: CONNECT_TIMEOUT_MS },
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  }

  /**
   * Sends a POST and waits for the head of its answer.
   * @returns An answer with status 200, its body unread.
   * @throws ApiError 503 when Triton is away or the model not loaded, 400 when Triton refuses the input, 502 when it fails.
   */
  async post(request: TritonRequest): Promise<Dispatcher.ResponseData> {
    const response = await this.#send(request);
    if (response.statusCode === 200) return response;
    const text = await response.body.text().catch((error: unknown) => {
      throw this.failure(error, request.signal);
    });
    throw this.#answerError(response.statusCode, text);
  }

  /** An error in the middle of an answer, or of sending, as the client gets it. */
  failure(error: unknown, signal: AbortSignal): Error {
    if (signal.aborted) return signal.reason as Error;
    if (error instanceof ApiError) return error;
    this.#onError(this.name, "broken");
    return new ApiError(`The Triton server of ${this.name} broke off its answer; try again.`, {
      status: 502,
      type: "upstream_error",
      code: "upstream_broken",
      cause: error,
    });
  }

  /** An error that Triton reports inside a stream whose status was 200. */
  streamedError(message: string): ApiError {
    return this.#answerError(500, JSON.stringify({ error: message }));
  }

  /** Whether a model is loaded and takes requests; a reason when not. */
  async readiness(
    model: string,
  ): Promise<{ readonly isReady: true } | { readonly isReady: false; readonly reason: string }> {
    try {
      const response = await this.#pool.request({
        path: `/v2/models/${model}/ready`,
        method: "GET",
        signal: AbortSignal.timeout(READY_TIMEOUT_MS),
      });
      await response.body.dump();
      if (response.statusCode === 200) return { isReady: true };
      return { isReady: false, reason: `Triton answers, and its model ${model} is not ready` };
    } catch (error) {
      return { isReady: false, reason: `Triton does not answer (${shortReason(error)})` };
    }
  }

  /** Closes all connections once their requests are answered. */
  close(): Promise<void> {
    return this.#pool.close();
  }

  async #send(request: TritonRequest): Promise<Dispatcher.ResponseData> {
    const { path, body, signal, isIdempotent } = request;
    const headers = { ...request.headers, "x-request-id": request.requestId };
    const attempt = () => this.#pool.request({ path, method: "POST", headers, body, signal });
    const end = this.#pending.begin(this.name);
    try {
      return await attempt().catch((error: unknown) => {
        if (isIdempotent && !signal.aborted && isBrokenConnection(error)) return attempt();
        throw error;
      });
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      this.#onError(this.name, "away");
      this.#pending.missed(this.name, this.#startSeconds);
      throw new ApiError(
        `The Triton server of ${this.name} can't be reached; it may be starting. Try again in ${this.#startSeconds} s.`,
        {
          status: 503,
          type: "service_unavailable",
          code: "upstream_unavailable",
          retryAfterSeconds: this.#startSeconds,
          cause: error,
        },
      );
    } finally {
      end();
    }
  }

  #answerError(status: number, body: string): ApiError {
    const message = tritonMessage(body);
    const kind = answeredErrorKind(status, message);
    this.#onError(this.name, kind);
    return ANSWERS[kind](this.name, message, status);
  }
}

/** What Triton's own words mean. They come first, because /generate of Triton 2.51 gives 400 for every error of a model. */
const MEANINGS: readonly { readonly pattern: RegExp; readonly kind: AnsweredErrorKind }[] = [
  {
    pattern: /unknown model|not at ready state|no available versions|stub process.*not healthy/i,
    kind: "not_ready",
  },
  { pattern: /exceeds maximum queue size|try again later/i, kind: "busy" },
  { pattern: /^failed to process the request|^the request failed|cuda error|out of memory/i, kind: "failed" },
];

/** What an error answer of Triton means. */
export function answeredErrorKind(status: number, message: string): AnsweredErrorKind {
  const known = MEANINGS.find(({ pattern }) => pattern.test(message));
  if (known) return known.kind;
  if (status === 404) return "not_ready";
  if (status === 503) return "busy";
  return status >= 400 && status < 500 ? "refused" : "failed";
}

type AnsweredErrorKind = Exclude<UpstreamErrorKind, "away" | "broken">;

/** What a client is told for each of them. */
const ANSWERS: Readonly<
  Record<AnsweredErrorKind, (name: string, message: string, status: number) => ApiError>
> = {
  not_ready: (name) =>
    unavailable(
      `The Triton server of ${name} answers, but its model is not ready. Try again in ${RETRY_AFTER_SECONDS} s.`,
      "model_not_ready",
      RETRY_AFTER_SECONDS,
    ),
  busy: (name, message) =>
    unavailable(
      `The Triton server of ${name} takes no more for the moment: ${message}`,
      "upstream_busy",
      BUSY_RETRY_AFTER_SECONDS,
    ),
  refused: (_name, message) =>
    new ApiError(`The model refused the input: ${message}`, {
      status: 400,
      type: "invalid_request_error",
      code: "refused_by_model",
    }),
  // Triton's text about its own failure may hold paths of its machine: it goes to the log, not to the client.
  failed: (name, message, status) =>
    new ApiError(`The Triton server of ${name} failed on this request; the gateway's log has its words.`, {
      status: 502,
      type: "upstream_error",
      code: "upstream_failed",
      cause: new Error(`Triton answered ${status}: ${message}`),
    }),
};

/** Codes of a connection that was there and broke before an answer began. */
const BROKEN_CONNECTION = new Set(["UND_ERR_SOCKET", "ECONNRESET", "EPIPE"]);

function isBrokenConnection(error: unknown): boolean {
  return BROKEN_CONNECTION.has((error as { code?: string }).code ?? "");
}

function shortReason(error: unknown): string {
  const { code, name } = error as { code?: string; name?: string };
  return String(code ?? name ?? "unknown error");
}

/** Triton's errors are `{"error": "..."}`, and of /generate_stream one such event; anything else is shown as it is. */
export function tritonMessage(body: string): string {
  let text = body;
  try {
    const parsed: unknown = JSON.parse(body.replace(/^data: /, ""));
    if (typeof parsed === "object" && parsed !== null && "error" in parsed) text = String(parsed.error);
  } catch {
    // Not JSON: the text itself says it best.
  }
  return text.slice(0, LONGEST_ERROR_CHARACTERS);
}
