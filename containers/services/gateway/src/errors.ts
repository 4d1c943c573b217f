/**
 * Failures of requests as one error class, which clients get as the error object of the OpenAI API. Any other error
 * becomes such an error.
 */
import type { Socket } from "node:net";
import type { FastifyBaseLogger, FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { z } from "zod";
import { checked, problemsOf } from "./schema-problems.ts";

/** The `type` of an OpenAI error object by the status; `invalid_request_error` for any other. Programs go by status and code. */
const TYPES: Readonly<Record<number, string>> = {
  401: "authentication_error",
  429: "rate_limit_error",
  500: "server_error",
  502: "upstream_error",
  503: "service_unavailable",
  504: "timeout_error",
};

interface ApiErrorDetails {
  /** HTTP status of the answer. */
  readonly status: number;
  /** Place in the request: `messages[0].content`. */
  readonly param?: string | undefined;
  /** Short name for programs: `model_not_found`. */
  readonly code?: string | undefined;
  /** Whole seconds before a retry. */
  readonly retryAfterSeconds?: number;
  readonly cause?: unknown;
}

/** A failure that is meant to be read by the client. */
export class ApiError extends Error {
  override readonly name: string = "ApiError";
  readonly details: ApiErrorDetails;

  constructor(message: string, details: ApiErrorDetails) {
    super(message, { cause: details.cause });
    this.details = details;
  }
}

/** 400: the request itself is wrong at `param`. */
export function invalidRequest(message: string, param?: string, code?: string): ApiError {
  return new ApiError(message, { status: 400, param, code });
}

/** 404 with OpenAI's code. */
export function modelNotFound(model: string, known: readonly string[]): ApiError {
  return new ApiError(
    `The model ${JSON.stringify(model.slice(0, 128))} does not exist; this gateway serves ${known.join(", ")}.`,
    { status: 404, param: "model", code: "model_not_found" },
  );
}

/** 503: the gateway, or a server behind it, is temporarily unavailable. */
export function unavailable(
  message: string,
  code: string,
  retryAfterSeconds: number,
  cause?: unknown,
): ApiError {
  return new ApiError(message, { status: 503, code, retryAfterSeconds, cause });
}

/** 502: a server behind the gateway failed. @param cause - Its words: for the log, since they may hold anything. */
export function upstreamFailed(message: string, code: string, cause?: unknown): ApiError {
  return new ApiError(message, { status: 502, code, cause });
}

/** Status of a request whose client left before its answer was complete; the number that proxies log for it. */
export const CLIENT_LEFT_STATUS = 499;

/** The client closed its connection and gets no answer. */
export class ClientGone extends Error {
  override readonly name = "ClientGone";
}

/** Body of an error, as the official OpenAI clients read it. */
export function toOpenAiBody({ message, details }: ApiError) {
  const { status, param = null, code = null } = details;
  const type = TYPES[status] ?? "invalid_request_error";
  return { error: { message, type, param, code } };
}

/** Installs the check of requests by their zod schemas, and the error and not-found handlers. */
export function installErrorHandlers(app: FastifyInstance): void {
  app.setValidatorCompiler<z.ZodType>(({ schema }) => (request) => {
    const { data, error } = checked(schema, request);
    return error === undefined ? { value: data } : { error: validationError(error.issues) };
  });
  app.setErrorHandler((error: FastifyError, request, reply) => {
    if (error instanceof ClientGone) return reply.code(CLIENT_LEFT_STATUS).send();
    const apiError = toApiError(error, request.routeOptions.bodyLimit);
    if (apiError.details.status >= 500)
      request.log.error(
        { err: apiError.cause instanceof Error ? apiError.cause : apiError },
        apiError.message,
      );
    return sendError(request, reply, apiError);
  });
  // Before the body is read: its errors don't matter on an unknown route.
  app.addHook("preParsing", async (request) => {
    if (request.is404) throw noSuchRoute(request);
  });
  app.setNotFoundHandler((request, reply) => sendError(request, reply, noSuchRoute(request)));
}

function noSuchRoute(request: FastifyRequest): ApiError {
  // Without the query, which may hold secrets.
  const path = request.url.split("?", 1)[0];
  const message = `Route not found: ${request.method} ${path}. GET /docs lists all routes.`;
  return new ApiError(message, { status: 404, code: "not_found" });
}

/** Status and message of requests that Node's HTTP parser refuses. */
const PARSER_REFUSALS: Readonly<Record<string, readonly [status: string, code: string, message: string]>> = {
  ERR_HTTP_REQUEST_TIMEOUT: [
    "408 Request Timeout",
    "request_timeout",
    "The request came too slowly; send it again.",
  ],
  HPE_HEADER_OVERFLOW: [
    "431 Request Header Fields Too Large",
    "headers_too_large",
    "The headers are too large; send fewer or shorter ones.",
  ],
};
const NO_HTTP = ["400 Bad Request", "invalid_http", "Invalid HTTP request; send HTTP/1.1."] as const;

/** Answers a request that Node's HTTP parser refuses, in the form of all errors, and closes the connection. */
export function refuseUnreadable({ code }: NodeJS.ErrnoException, socket: Socket): void {
  // A client that is gone reads nothing.
  if (code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  const [status, name, message] = PARSER_REFUSALS[code ?? ""] ?? NO_HTTP;
  const body = JSON.stringify(
    toOpenAiBody(new ApiError(message, { status: Number.parseInt(status, 10), code: name })),
  );
  const head = [
    "content-type: application/json",
    `content-length: ${Buffer.byteLength(body)}`,
    "connection: close",
  ];
  socket.end([`HTTP/1.1 ${status}`, ...head, "", body].join("\r\n"), () => socket.destroy());
}

/** Answers a request that the framework refuses before it has a route, such as one with a malformed path. */
export function refuseUnroutable(error: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
  sendError(request, reply.header("x-request-id", request.id), toApiError(error));
}

function sendError(request: FastifyRequest, reply: FastifyReply, error: ApiError): FastifyReply {
  const { status, retryAfterSeconds } = error.details;
  reply.code(status);
  if (status === 413) readToTheEnd(request, reply);
  if (retryAfterSeconds !== undefined) reply.header("retry-after", String(retryAfterSeconds));
  if (status === 401) reply.header("www-authenticate", 'Bearer realm="engine-room"');
  // Text, so that the serializer of the route's own answer does not change it.
  return reply.type("application/json").send(JSON.stringify(toOpenAiBody(error)));
}

/**
 * Fastify would close the connection at once, and a client that is still sending its body would see a reset instead of
 * the answer. So what still comes is read and dropped; `requestTimeout` ends that.
 */
function readToTheEnd(request: FastifyRequest, reply: FastifyReply): void {
  reply.removeHeader("connection");
  request.raw.resume();
}

/** Any error as one that may be shown. An unknown error becomes 500 without its message, which may hold anything. */
export function toApiError(error: Error, bodyLimitBytes = 0): ApiError {
  if (error instanceof ApiError) return error;
  const { code, statusCode } = error as FastifyError;
  const known = (status: number, name: string, message: string) =>
    new ApiError(message, { status, code: name, cause: error });
  switch (code) {
    case "FST_ERR_CTP_BODY_TOO_LARGE": {
      const message = `The body is larger than the limit of ${bodyLimitBytes} bytes; send less at once.`;
      return known(413, "body_too_large", message);
    }
    case "FST_ERR_CTP_INVALID_MEDIA_TYPE": {
      const fix =
        "send it with Content-Type: application/json (documents and images also as multipart/form-data)";
      return known(415, "unsupported_media_type", `The body must be JSON; ${fix}.`);
    }
    case "FST_ERR_BAD_URL":
      return known(400, "invalid_path", "The path can't be decoded; write % as %25.");
    case "FST_ERR_MAX_PARAM_LENGTH":
      return known(414, "path_too_long", "An id in the path is too long; shorten it.");
    case "FST_ERR_CTP_EMPTY_JSON_BODY":
      return known(400, "empty_body", "The body is empty; send a JSON object.");
    case "FST_ERR_CTP_INVALID_JSON_BODY":
      return known(400, "invalid_json", "The body is not valid JSON; send one JSON object.");
  }
  // Text of the framework about a request it could not read, such as a wrong Content-Length.
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
    return new ApiError(error.message, { status: statusCode, cause: error });
  }
  return known(
    500,
    "internal_error",
    "The gateway failed on this request; its log has the cause under the request id.",
  );
}

/** The error that ends a stream for the client; the log has its cause. */
export function streamFailure(error: unknown, log: FastifyBaseLogger): ApiError {
  if (!(error instanceof ClientGone)) log.error({ err: error }, "the stream of the answer failed");
  return toApiError(error as Error);
}

const MOST_PROBLEMS_SHOWN = 10;

/**
 * The first problem sets `param`; the message lists at most MOST_PROBLEMS_SHOWN.
 * @param place - Where in the request the value is that was checked; the request itself by default.
 */
export function validationError(issues: readonly z.core.$ZodIssue[], place = ""): ApiError {
  const problems = problemsOf(issues).map(({ at, message }) => {
    const param = [place, at].filter((part) => part !== "").join(".");
    return { param, line: param === "" ? `The request ${message}` : `${param}: ${message}` };
  });
  const lines = problems.slice(0, MOST_PROBLEMS_SHOWN).map(({ line }) => line);
  const more = problems.length - lines.length;
  const message = lines.join("; ") + (more > 0 ? `; and ${more} more` : "");
  return invalidRequest(message, problems[0]?.param || undefined, "invalid_value");
}
