/** The two databases as they are named to people, and what their failures mean for a client. */
import { ApiError } from "../errors.ts";

export type DatabaseName = "mongo" | "vector";

/** Kinds of failure, as they are counted. */
export type DatabaseErrorKind = "away" | "failed";

/** Told of every call: how long it took, and how it failed. */
export type ObserveDatabase = (
  database: DatabaseName,
  operation: string,
  seconds: number,
  failure: DatabaseErrorKind | undefined,
) => void;

const TITLES: Readonly<Record<DatabaseName, string>> = {
  mongo: "document database (mongo)",
  vector: "vector database (vector)",
};

/** A database that restarts is back within seconds. */
const RETRY_AFTER_SECONDS = 5;

/** 503: it can't be reached, does not answer in time, or is just stopping. */
export function databaseAway(database: DatabaseName, cause: unknown): ApiError {
  return new ApiError(
    `The ${TITLES[database]} can't be reached; it may be starting. Try again in ${RETRY_AFTER_SECONDS} s.`,
    {
      status: 503,
      type: "service_unavailable",
      code: `${database}_unavailable`,
      retryAfterSeconds: RETRY_AFTER_SECONDS,
      cause,
    },
  );
}

/** 502: it answers, but not with what was asked for. Its words go to the log: they may hold anything. */
export function databaseFailed(database: DatabaseName, cause: unknown): ApiError {
  return new ApiError(
    `The ${TITLES[database]} failed on this request; the gateway's log has its words under the request id.`,
    { status: 502, type: "upstream_error", code: `${database}_failed`, cause },
  );
}

/** 500: it holds something that does not fit this configuration; the message says what and how to go on. */
export function databaseMisfit(database: DatabaseName, message: string): ApiError {
  return new ApiError(`${message}.`, { status: 500, type: "server_error", code: `${database}_misfit` });
}
