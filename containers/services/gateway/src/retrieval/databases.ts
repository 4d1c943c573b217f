/** Calls of the two databases: their durations, and errors for clients. */
import { unavailable, upstreamFailed } from "../errors.ts";
import type { RetrievalMetrics } from "../metrics.ts";

type DatabaseName = "mongo" | "vector";

/** `unavailable`: it can't be reached, does not answer in time, or is just stopping. `failed`: it answers with something else. */
type FailureKind = "unavailable" | "failed";

const TITLES: Readonly<Record<DatabaseName, string>> = {
  mongo: "document database (mongo)",
  vector: "vector database (vector)",
};

/** A database that restarts is back within seconds. */
const RETRY_AFTER_SECONDS = 5;

/**
 * Runs calls of one database: each is measured, and its failure becomes an ApiError.
 * @param kindOf - Returns the kind of a call's error; undefined for an error that is not a failure and is passed on.
 * @throws ApiError 503 or 502, or the reason of the signal.
 */
export function databaseCalls(
  database: DatabaseName,
  metrics: RetrievalMetrics,
  kindOf: (error: unknown) => FailureKind | undefined,
) {
  return async <T>(operation: string, signal: AbortSignal, call: () => Promise<T>): Promise<T> => {
    const started = performance.now();
    try {
      signal.throwIfAborted();
      return await call();
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      const kind = kindOf(error);
      if (kind === undefined) throw error;
      metrics.databaseErrors.inc({ database, kind });
      const title = TITLES[database];
      if (kind === "failed") {
        const message = `The ${title} failed on this request; the gateway's log has its error under the request id.`;
        throw upstreamFailed(message, `${database}_failed`, error);
      }
      const message = `The ${title} can't be reached; it may be starting. Try again in ${RETRY_AFTER_SECONDS} s.`;
      throw unavailable(message, `${database}_unavailable`, RETRY_AFTER_SECONDS, error);
    } finally {
      metrics.databaseSeconds.observe({ database, operation }, (performance.now() - started) / 1000);
    }
  };
}
