/** Turns whatever was thrown into an ApiError, and an ApiError into an answer. */
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import {
  hasZodFastifySchemaValidationErrors,
  type ZodFastifySchemaValidationError,
} from "fastify-type-provider-zod";
import { ApiError, type ErrorType, invalidRequest, toOpenAiBody, toProblem } from "./errors.ts";
import { CLIENT_LEFT_STATUS, ClientGone } from "./limits.ts";

/** Installs the error and not-found handlers. */
export function installErrorHandlers(app: FastifyInstance): void {
  app.setErrorHandler((error: FastifyError, request, reply) => {
    if (error instanceof ClientGone) return reply.code(CLIENT_LEFT_STATUS).send();
    const apiError = toApiError(error, request.routeOptions.bodyLimit);
    if (apiError.details.status >= 500) request.log.error({ err: rootCause(apiError) }, apiError.message);
    return sendError(request, reply, apiError);
  });
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split("?", 1)[0];
    return sendError(
      request,
      reply,
      new ApiError(`There is no ${request.method} ${path}; GET /docs lists what there is.`, {
        status: 404,
        type: "not_found_error",
        code: "not_found",
      }),
    );
  });
}

/** Whether a request is answered in the OpenAI API's shape. */
function isOpenAiPath(url: string): boolean {
  return /^\/v1(?:[/?]|$)/.test(url);
}

function sendError(request: FastifyRequest, reply: FastifyReply, error: ApiError): FastifyReply {
  const { status, retryAfterSeconds } = error.details;
  reply.code(status);
  if (status === 413) readToTheEnd(request, reply);
  if (retryAfterSeconds !== undefined) reply.header("retry-after", String(retryAfterSeconds));
  if (status === 401) reply.header("www-authenticate", 'Bearer realm="engine-room"');
  // Text, so that the serializer of the route's own answer leaves it alone.
  const [mediaType, body] = isOpenAiPath(request.url)
    ? ["application/json", toOpenAiBody(error)]
    : ["application/problem+json", toProblem(error, request.url.split("?", 1)[0] ?? "/")];
  return reply.type(mediaType).send(JSON.stringify(body));
}

/**
 * Fastify would close the connection at once, and a client that is still sending its body would see a reset instead of
 * the answer. So what still comes is read and dropped; `requestTimeout` ends that.
 */
function readToTheEnd(request: FastifyRequest, reply: FastifyReply): void {
  reply.removeHeader("connection");
  request.raw.resume();
}

function rootCause(error: ApiError): unknown {
  return error.cause instanceof Error ? error.cause : error;
}

interface FrameworkRow {
  readonly status: number;
  readonly type: ErrorType;
  readonly code: string;
  message(bodyLimitBytes: number): string;
}

/** Fastify's own refusals, in words that say what to do. */
const FRAMEWORK_ERRORS: Readonly<Record<string, FrameworkRow>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: {
    status: 413,
    type: "invalid_request_error",
    code: "body_too_large",
    message: (bytes) =>
      `The body is larger than the ${bytes} bytes that this gateway takes; send less at once.`,
  },
  FST_ERR_CTP_INVALID_MEDIA_TYPE: {
    status: 415,
    type: "invalid_request_error",
    code: "unsupported_media_type",
    message: () =>
      "The body must be JSON; send it with Content-Type: application/json (documents and images also as multipart/form-data).",
  },
  FST_ERR_CTP_EMPTY_JSON_BODY: {
    status: 400,
    type: "invalid_request_error",
    code: "empty_body",
    message: () => "The body is empty; send a JSON object.",
  },
  FST_ERR_CTP_INVALID_JSON_BODY: {
    status: 400,
    type: "invalid_request_error",
    code: "invalid_json",
    message: () => "The body is not valid JSON; send one JSON object.",
  },
};

/** Any error as one that may be shown. What is not known becomes 500 without its message: it may hold anything. */
export function toApiError(error: Error, bodyLimitBytes: number): ApiError {
  if (error instanceof ApiError) return error;
  if (hasZodFastifySchemaValidationErrors(error)) return validationError(error.validation.map(zodIssue));
  const { code, statusCode } = error as FastifyError;
  const row = FRAMEWORK_ERRORS[code];
  if (row)
    return new ApiError(row.message(bodyLimitBytes), {
      status: row.status,
      type: row.type,
      code: row.code,
      cause: error,
    });
  // Text of the framework about a request it could not read, such as a wrong Content-Length.
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
    return new ApiError(error.message, { status: statusCode, type: "invalid_request_error", cause: error });
  }
  return new ApiError("The gateway failed on this request; its log has the cause under the request id.", {
    status: 500,
    type: "server_error",
    code: "internal_error",
    cause: error,
  });
}

interface RequestProblem {
  /** `messages[0].content`; empty for the body as a whole. */
  readonly path: string;
  readonly message: string;
}

/** The zod issue that Fastify's zod compiler wrapped. */
function zodIssue({ keyword, instancePath, message, params }: ZodFastifySchemaValidationError): Issue {
  return {
    ...params,
    code: keyword,
    path: instancePath.split("/").slice(1),
    message: message ?? "is invalid",
  };
}

/**
 * The first problem names `param`; the message lists all of them, as far as anybody would read.
 * @param at - Where in the request the value is that was checked; the request itself by default.
 */
export function validationError(issues: readonly Issue[], at?: string): ApiError {
  const problems = issues.flatMap(requestProblems).map(({ path, message }) => ({
    path: [at ?? "", path].filter((part) => part !== "").join("."),
    message,
  }));
  const lines = problems
    .slice(0, MOST_PROBLEMS_SHOWN)
    .map(({ path, message }) => (path === "" ? message : `${path}: ${message}`));
  const more = problems.length - lines.length;
  return invalidRequest(
    lines.join("; ") + (more > 0 ? `; and ${more} more` : ""),
    problems[0]?.path || undefined,
    "invalid_value",
  );
}

const MOST_PROBLEMS_SHOWN = 10;

/** A zod issue, of which Fastify's zod compiler keeps all fields. */
interface Issue {
  readonly code: string;
  readonly path: readonly PropertyKey[];
  readonly message: string;
  /** Of unrecognized_keys. */
  readonly keys?: readonly string[];
  /** Of invalid_union: the issues of each alternative. */
  readonly errors?: readonly (readonly Issue[])[];
  /** Of invalid_key: what is wrong with the key that ends `path`. */
  readonly issues?: readonly Issue[];
}

function requestProblems({ code, path, message, keys, errors, issues }: Issue): RequestProblem[] {
  if (code === "unrecognized_keys" && keys) {
    return keys.map((key) => ({
      path: paramPath([...path, key]),
      message: "there is no such parameter here",
    }));
  }
  if (code === "invalid_key" && issues) {
    return issues.map((issue) => ({ path: paramPath(path), message: issue.message }));
  }
  // An alternative that fits at the top and fails inside is the one that was meant: its own words are more exact.
  const meant = errors?.find((issues) => issues.length > 0 && issues.every((issue) => issue.path.length > 0));
  if (meant) return meant.flatMap((issue) => requestProblems({ ...issue, path: [...path, ...issue.path] }));
  return [{ path: paramPath(path), message: message.replace(MISSING, "it is required, as $1") }];
}

/** What zod says of a parameter that is not there. */
const MISSING = /^Invalid input: expected (\w+), received undefined$/;

/** `["messages", 0, "content"]` as `messages[0].content`. Fastify's zod compiler gives list positions as text. */
function paramPath(path: readonly PropertyKey[]): string {
  return path
    .map(String)
    .filter((part) => part !== "")
    .map((part) => (/^\d+$/.test(part) ? `[${part}]` : `.${part}`))
    .join("")
    .replace(/^\./, "");
}
