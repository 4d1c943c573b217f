/**
 * Every way in which a request can fail, as one error class with two faces: the OpenAI API's error object under /v1,
 * problem details (RFC 9457) elsewhere.
 */
import { STATUS_CODES } from "node:http";

/** The `type` of an OpenAI error object. Clients choose their exception by the HTTP status, people read this. */
export type ErrorType =
  | "invalid_request_error"
  | "authentication_error"
  | "rate_limit_error"
  | "not_found_error"
  | "timeout_error"
  | "service_unavailable"
  | "upstream_error"
  | "server_error";

interface ApiErrorDetails {
  /** HTTP status of the answer. */
  readonly status: number;
  readonly type: ErrorType;
  /** Where in the request: `messages[0].content`. */
  readonly param?: string;
  /** Short name for programs: `model_not_found`. */
  readonly code?: string;
  /** Whole seconds after which a second try makes sense. */
  readonly retryAfterSeconds?: number;
  /** Further members of the problem document; not shown under /v1. */
  readonly extensions?: Readonly<Record<string, unknown>>;
  readonly cause?: unknown;
}

/** A failure that is meant to be read by the client. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly details: ApiErrorDetails;

  constructor(message: string, details: ApiErrorDetails) {
    super(message, { cause: details.cause });
    this.details = details;
  }
}

/** 400: the request itself is wrong at `param`. */
export function invalidRequest(message: string, param?: string, code?: string): ApiError {
  return new ApiError(message, {
    status: 400,
    type: "invalid_request_error",
    ...(param === undefined ? {} : { param }),
    ...(code === undefined ? {} : { code }),
  });
}

/** 404 with the code that OpenAI clients know. */
export function modelNotFound(model: string, known: readonly string[]): ApiError {
  return new ApiError(
    `The model ${JSON.stringify(model.slice(0, 128))} does not exist; this gateway serves ${known.join(", ")}.`,
    {
      status: 404,
      type: "invalid_request_error",
      param: "model",
      code: "model_not_found",
    },
  );
}

/** 504: the time of `limits.requestSeconds` is over. */
export function requestTimedOut(seconds: number): ApiError {
  return new ApiError(
    `The request took longer than the ${seconds} s that this gateway allows; ask for fewer tokens or send less at once.`,
    { status: 504, type: "timeout_error", code: "timeout" },
  );
}

/** 503: the gateway itself takes no more for the moment. */
export function unavailable(message: string, code: string, retryAfterSeconds: number): ApiError {
  return new ApiError(message, { status: 503, type: "service_unavailable", code, retryAfterSeconds });
}

/** Body of an error under /v1, as the official OpenAI clients read it. */
interface OpenAiErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: ErrorType;
    readonly param: string | null;
    readonly code: string | null;
  };
}

export function toOpenAiBody(error: ApiError): OpenAiErrorBody {
  const { type, param, code } = error.details;
  return { error: { message: error.message, type, param: param ?? null, code: code ?? null } };
}

/** Body of an error outside /v1: RFC 9457. The type is `about:blank`, so the title is the status' own phrase. */
export function toProblem(error: ApiError, instance: string): Record<string, unknown> {
  const { status, code, extensions } = error.details;
  return {
    type: "about:blank",
    title: STATUS_CODES[status] ?? "Error",
    status,
    detail: error.message,
    instance,
    ...(code === undefined ? {} : { code }),
    ...extensions,
  };
}
