/** HTTP to one Qdrant: connections, time-outs, request ids, and what each way to fail means. */
import { type Dispatcher, Pool } from "undici";
import type { z } from "zod";
import type { CallContext } from "../call-context.ts";
import {
  type DatabaseErrorKind,
  databaseAway,
  databaseFailed,
  type ObserveDatabase,
} from "./database-errors.ts";

/** A server on the same network answers within milliseconds; longer means that it is away. */
const CONNECT_MS = 2000;
const PROBE_MS = 2000;
/** No request here is allowed to take as long. */
const ANSWER_MS = 30_000;
const MOST_CONNECTIONS = 64;
/** How much of its words is kept for the log. */
const LONGEST_ERROR_CHARACTERS = 500;

/** The collection does not exist. */
export class MissingCollection extends Error {
  override readonly name = "MissingCollection";
}

interface QdrantSettings {
  /** `http://host:port`. */
  readonly origin: string;
  readonly apiKey: string | undefined;
  readonly observe: ObserveDatabase;
}

export interface QdrantRequest {
  /** Name for metrics. */
  readonly operation: string;
  readonly method: "GET" | "PUT" | "POST";
  readonly path: string;
  readonly body?: object;
}

export class QdrantClient {
  readonly #pool: Pool;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #observe: ObserveDatabase;

  constructor({ origin, apiKey, observe }: QdrantSettings) {
    this.#observe = observe;
    this.#headers = {
      "content-type": "application/json",
      ...(apiKey !== undefined && { "api-key": apiKey }),
    };
    this.#pool = new Pool(origin, {
      connections: MOST_CONNECTIONS,
      connect: { timeout: CONNECT_MS },
      headersTimeout: ANSWER_MS,
      bodyTimeout: ANSWER_MS,
    });
  }

  /**
   * Sends a request; every one here can be repeated without harm.
   * @param schema - Of `result` in the answer.
   * @throws MissingCollection, ApiError 503 or 502, or the reason of the call's signal.
   */
  async send<T>(request: QdrantRequest, schema: z.ZodType<T>, call: CallContext): Promise<T> {
    const started = performance.now();
    let kind: DatabaseErrorKind | undefined;
    const fail = (failure: DatabaseErrorKind, cause: unknown) => {
      kind = failure;
      return failure === "away" ? databaseAway("vector", cause) : databaseFailed("vector", cause);
    };
    try {
      const { statusCode, text } = await this.#exchange(request, call).catch((error: unknown) => {
        if (call.signal.aborted) throw call.signal.reason;
        throw fail("away", error);
      });
      if (statusCode === 404) throw new MissingCollection(text);
      if (statusCode === 503) throw fail("away", answerError(statusCode, text));
      if (statusCode !== 200) throw fail("failed", answerError(statusCode, text));
      const parsed = schema.safeParse(resultOf(text));
      if (!parsed.success) throw fail("failed", parsed.error);
      return parsed.data;
    } finally {
      this.#observe("vector", request.operation, (performance.now() - started) / 1000, kind);
    }
  }

  /** Makes a collection with named vectors of these lengths; one that is there stays as it is. */
  async createCollection(
    path: string,
    sizes: Readonly<Record<string, number>>,
    call: CallContext,
  ): Promise<void> {
    const vectors = Object.fromEntries(
      Object.entries(sizes).map(([name, size]) => [name, { size, distance: "Cosine" }]),
    );
    const request = { operation: "create", method: "PUT", path, body: { vectors } } as const;
    const { statusCode, text } = await this.#exchange(request, call).catch((error: unknown) => {
      if (call.signal.aborted) throw call.signal.reason;
      throw databaseAway("vector", error);
    });
    // 409, and 400 of older releases: another gateway was faster. Whether it fits is looked at next.
    if (statusCode === 200 || statusCode === 409 || text.includes("already exists")) return;
    throw databaseFailed("vector", answerError(statusCode, text));
  }

  /** A sign of life. @throws Error when it is not ready before the signal, or within two seconds. */
  async ping(signal: AbortSignal): Promise<void> {
    const response = await this.#pool.request({
      path: "/readyz",
      method: "GET",
      headers: this.#headers,
      signal: AbortSignal.any([signal, AbortSignal.timeout(PROBE_MS)]),
    });
    await response.body.dump();
    if (response.statusCode !== 200) throw new Error(`it answers /readyz with ${response.statusCode}`);
  }

  close(): Promise<void> {
    return this.#pool.close();
  }

  async #exchange(
    { method, path, body }: QdrantRequest,
    { requestId, signal }: CallContext,
  ): Promise<{ readonly statusCode: number; readonly text: string }> {
    const attempt = async () => {
      const options: Dispatcher.RequestOptions = {
        method,
        path,
        headers: { ...this.#headers, "x-request-id": requestId },
        body: body === undefined ? null : JSON.stringify(body),
        signal,
      };
      const response = await this.#pool.request(options);
      return { statusCode: response.statusCode, text: await response.body.text() };
    };
    return attempt().catch((error: unknown) => {
      // A kept-alive connection may be closed just as it is used.
      if (!signal.aborted && BROKEN_CONNECTION.has((error as { code?: string }).code ?? "")) return attempt();
      throw error;
    });
  }
}

const BROKEN_CONNECTION = new Set(["UND_ERR_SOCKET", "ECONNRESET", "EPIPE"]);

function resultOf(text: string): unknown {
  try {
    return (JSON.parse(text) as { readonly result?: unknown }).result;
  } catch {
    return undefined;
  }
}

function answerError(status: number, text: string): Error {
  return new Error(`Qdrant answered ${status}: ${text.slice(0, LONGEST_ERROR_CHARACTERS)}`);
}
