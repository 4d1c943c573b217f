/** The connection to MongoDB: time-outs, request ids, and what each way to fail means. */
import {
  type Db,
  MongoBulkWriteError,
  MongoClient,
  MongoNetworkError,
  MongoServerSelectionError,
  MongoTopologyClosedError,
} from "mongodb";
import type { CallContext } from "../call-context.ts";
import {
  type DatabaseErrorKind,
  databaseAway,
  databaseFailed,
  type ObserveDatabase,
} from "./database-errors.ts";

/** A server on the same network answers within milliseconds; longer means that it is away. */
const SELECTION_MS = 2000;
/** No command here is allowed to take as long; a server that hangs is left. */
const SOCKET_MS = 30_000;
/** A read that takes longer is stopped by the server. */
const READ_MS = 10_000;
const MOST_CONNECTIONS = 64;

/** Codes of a server that is stopping, stepping down, or too slow: the same command works later, or elsewhere. */
const PASSING_CODES: readonly unknown[] = [50, 91, 189, 262, 10107, 11600, 11602, 13435, 13436];

/** What each command says beside itself. */
interface CommandOptions {
  /** Shown in the server's log and profiler. */
  readonly comment: string;
}

/** Options of a read: it ends with its caller. */
interface ReadOptions extends CommandOptions {
  readonly signal: AbortSignal;
  readonly maxTimeMS: number;
}

interface MongoSettings {
  /** Connection string; it may hold a password. */
  readonly uri: string;
  readonly database: string;
  readonly observe: ObserveDatabase;
}

/** One MongoDB, connected with the first command. */
export class MongoConnection {
  readonly database: Db;
  readonly #client: MongoClient;
  readonly #observe: ObserveDatabase;

  /** @throws Error when the connection string can't be read; its message does not repeat it. */
  constructor({ uri, database, observe }: MongoSettings) {
    this.#observe = observe;
    this.#client = new MongoClient(uri, {
      appName: "engine-room-gateway",
      serverSelectionTimeoutMS: SELECTION_MS,
      connectTimeoutMS: SELECTION_MS,
      socketTimeoutMS: SOCKET_MS,
      waitQueueTimeoutMS: SOCKET_MS,
      maxPoolSize: MOST_CONNECTIONS,
      // Acknowledged means on disk, of a majority where there are several servers.
      writeConcern: { w: "majority", journal: true },
    });
    this.database = this.#client.db(database);
  }

  /** Runs a read. @throws ApiError 503 or 502, or the reason of the call's signal. */
  read<T>(operation: string, call: CallContext, command: (options: ReadOptions) => Promise<T>): Promise<T> {
    const options = { comment: call.requestId, signal: call.signal, maxTimeMS: READ_MS };
    return this.#run(operation, call.signal, () => command(options));
  }

  /**
   * Runs a write. It is not broken off when the client leaves: whether it has been done would then be unknown.
   * @throws ApiError 503 or 502.
   */
  write<T>(
    operation: string,
    call: CallContext,
    command: (options: CommandOptions) => Promise<T>,
  ): Promise<T> {
    return this.#run(operation, undefined, () => command({ comment: call.requestId }));
  }

  /** An error of a cursor that was opened within {@link read} and is read outside of it. */
  failure(error: unknown, signal?: AbortSignal): Error {
    if (signal?.aborted) return signal.reason as Error;
    return kindOf(error) === "away" ? databaseAway("mongo", error) : databaseFailed("mongo", error);
  }

  /** A sign of life. @throws Error when there is none before the signal, or within two seconds. */
  async ping(signal: AbortSignal): Promise<void> {
    await this.database.command(
      { ping: 1 },
      { signal: AbortSignal.any([signal, AbortSignal.timeout(SELECTION_MS)]) },
    );
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  async #run<T>(operation: string, signal: AbortSignal | undefined, command: () => Promise<T>): Promise<T> {
    const started = performance.now();
    let kind: DatabaseErrorKind | undefined;
    try {
      signal?.throwIfAborted();
      return await command();
    } catch (error) {
      if (!signal?.aborted) kind = kindOf(error);
      throw this.failure(error, signal);
    } finally {
      this.#observe("mongo", operation, (performance.now() - started) / 1000, kind);
    }
  }
}

function kindOf(thrown: unknown): DatabaseErrorKind {
  // The driver wraps whatever ended a bulk write.
  const error: unknown = thrown instanceof MongoBulkWriteError ? thrown.errorResponse : thrown;
  const isAway =
    error instanceof MongoNetworkError ||
    error instanceof MongoServerSelectionError ||
    error instanceof MongoTopologyClosedError ||
    PASSING_CODES.includes((error as { readonly code?: unknown }).code);
  return isAway ? "away" : "failed";
}
