/** Steps of every request before and after its route: identity, clock, place, log line, metrics; and the shutdown. */
import { createHash, randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import rateLimit from "@fastify/rate-limit";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { ApiKeyConfig } from "./config.ts";
import type { Gateway, GatewayApp } from "./context.ts";
import { ApiError, CLIENT_LEFT_STATUS, invalidRequest, unavailable } from "./errors.ts";
import { type CallContext, Deadline } from "./limits.ts";

/** The client's request id when it is fit for a log, a fresh one otherwise. */
export function requestId(request: Pick<IncomingMessage, "headers">): string {
  const given = request.headers["x-request-id"];
  return typeof given === "string" && /^[A-Za-z0-9._-]{1,128}$/.test(given) ? given : randomUUID();
}

/** Context for calls of the servers behind the gateway. */
export function callContext({ id, deadline, hold }: FastifyRequest): CallContext {
  return { requestId: id, signal: deadline.signal, hold };
}

/**
 * Request id, clock, metrics and one log line for every request. Never bodies, headers or query strings: they may hold
 * secrets. Answers end here that Node would leave open, and with them what they hold: those that a client reads too slowly,
 * and those of a client that sent several requests in a row and left, of which Node closes the first.
 */
export function observeRequests(app: GatewayApp, gateway: Gateway): void {
  const { metrics, config } = gateway;
  app.decorateRequest("servedModel", "");
  app.decorateRequest("keyOwner", "");
  app.decorateRequest("deadline");
  app.decorateRequest("release", () => undefined);
  app.decorateRequest("hold", () => undefined);

  app.addHook("onRequest", async (request, reply) => {
    reply.header("x-request-id", request.id);
    gateway.inFlight += 1;
    const { socket } = request.raw;
    const { raw: answer } = reply;
    const deadline = new Deadline(config.limits.requestSeconds, () => socket.destroy());
    request.deadline = deadline;
    // An answer that is not yet assigned to the connection does not learn of its end.
    const leave = () => answer.socket ?? answer.emit("close");
    // A listener for each request on the connection.
    socket.setMaxListeners(0).once("close", leave);
    // Fastify's onResponse does not come for a client that left; the end of the connection's answer always does.
    answer.once("close", () => {
      gateway.inFlight -= 1;
      socket.off("close", leave);
      gateway.memory.delete(answer);
      if (answer.writableFinished) deadline.clear();
      else deadline.clientLeft();
      const route = request.routeOptions.url ?? "unmatched";
      const model = request.servedModel;
      const status = answer.writableFinished ? reply.statusCode : CLIENT_LEFT_STATUS;
      const durationMs = Math.round(reply.elapsedTime * 1000) / 1000;
      metrics.requests.inc({ route, model, status: String(status) });
      metrics.requestSeconds.observe({ route, model }, durationMs / 1000);
      request.log.info(
        { method: request.method, route, status, durationMs, model, key: request.keyOwner },
        "request",
      );
    });
    request.hold = (bytes) => gateway.memory.add(answer, bytes);
    gateway.memory.waitsForClient(answer, 0, () => refuse(reply, gateway));
    // Two proxies may each believe a different one (RFC 9112, 3.2).
    const { length: hosts } = request.raw.headersDistinct.host ?? [];
    if (hosts > 1)
      throw invalidRequest(`The request has ${hosts} Host headers; send one.`, undefined, "several_hosts");
  });

  // With a callback the parser of the body listens in the same turn, before the first chunk.
  app.addHook("preParsing", (_request, reply, payload, done) => {
    const { raw: answer } = reply;
    let bytes = 0;
    payload.on("data", (chunk: Buffer | string) => {
      bytes += Buffer.byteLength(chunk);
      if (!reply.sent) gateway.memory.waitsForClient(answer, bytes, () => refuse(reply, gateway));
    });
    done(null, payload);
  });
  app.addHook("preValidation", async (_request, reply) => gateway.memory.isAnswered(reply.raw));

  app.addHook("onSend", async (request, reply, payload) => {
    // A stream says by itself when it is made: see `sendEvents`.
    if (payload instanceof Readable) return payload;
    answerBegun(request, reply, gateway, Buffer.byteLength((payload ?? "") as string | Buffer));
    return payload;
  });
}

/** Ends a request whose client is still sending it. */
function refuse(reply: FastifyReply, { memory }: Gateway): void {
  reply.header("connection", "close").send(memory.refusal());
}

/**
 * A part of an answer is written.
 * @param bytes - Bytes that its reader has not read yet.
 */
export function answerWaits(
  { raw, deadline }: FastifyRequest,
  { raw: answer }: FastifyReply,
  gateway: Gateway,
  bytes: number,
): void {
  if (deadline.isOver) return;
  if (bytes === 0) gateway.memory.isAnswered(answer, 0);
  else gateway.memory.waitsForClient(answer, bytes, () => raw.socket.destroy());
}

/** The answer is complete: frees its place, and limits the time of its reader. @param bytes - Not read yet. */
export function answerBegun(
  request: FastifyRequest,
  reply: FastifyReply,
  gateway: Gateway,
  bytes: number,
): void {
  request.release();
  request.deadline.answered(bytes, gateway.config.limits.readSeconds);
  answerWaits(request, reply, gateway, bytes);
}

/** Guards of /v1 in their order: stopping, key, rate; and, once the body is known to be right, memory and a place. */
export async function guardRequests(app: GatewayApp, gateway: Gateway): Promise<void> {
  const { config, limiter } = gateway;
  const keys = new KeyRing(config.apiKeys);
  const checkRate = await createRateCheck(app, gateway);

  app.addHook("onRequest", async (request, reply) => {
    if (gateway.isDraining) {
      reply.header("connection", "close");
      throw unavailable("The gateway is being stopped; try again in a moment.", "draining", 1);
    }
    if (!keys.isOpen) request.keyOwner = keys.ownerOf(request.headers.authorization);
    await checkRate(request);
  });

  app.addHook("preHandler", async (request, reply) => {
    gateway.memory.checkAnswering();
    if (request.method !== "POST") return;
    const { signal } = callContext(request);
    request.release = await limiter.acquire(signal);
    reply.raw.once("close", request.release);
    if (signal.aborted) {
      request.release();
      throw signal.reason;
    }
  });
}

/** Finds the owner of a request's API key: a Bearer token, known only by its SHA-256. */
export class KeyRing {
  /** Names by hash. Clients can't choose a hash, so that the time of a look-up reveals nothing of a key. */
  readonly #names: ReadonlyMap<string, string>;

  constructor(keys: readonly ApiKeyConfig[]) {
    this.#names = new Map(keys.map(({ name, sha256 }) => [sha256, name]));
  }

  /** Whether no key is configured, and everyone may use /v1. */
  get isOpen(): boolean {
    return this.#names.size === 0;
  }

  /**
   * Name of the key's owner.
   * @param authorization - Value of the header.
   * @throws ApiError 401 for a missing header, one without a Bearer token, or an unknown key.
   */
  ownerOf(authorization: string | undefined): string {
    if (authorization === undefined) {
      throw unauthorized("Missing API key; send it as Authorization: Bearer KEY.", "missing_api_key");
    }
    const token = /^Bearer +(\S+) *$/i.exec(authorization)?.[1];
    // An empty token is always refused, even if the configuration has its hash by mistake.
    const owner = token && this.#names.get(createHash("sha256").update(token).digest("hex"));
    if (owner === undefined) {
      throw unauthorized(
        "Unknown API key; send it as Authorization: Bearer KEY, and check it for typing errors.",
        "invalid_api_key",
      );
    }
    return owner;
  }
}

function unauthorized(message: string, code: string): ApiError {
  return new ApiError(message, { status: 401, code });
}

async function createRateCheck(app: GatewayApp, { config }: Gateway) {
  if (config.rateLimit === undefined) return async () => undefined;
  const { requestsPerMinute } = config.rateLimit;
  await app.register(rateLimit, { global: false });
  const check = app.createRateLimit({
    max: requestsPerMinute,
    timeWindow: 60_000,
    keyGenerator: (request) => request.keyOwner || request.ip,
  });
  return async (request: FastifyRequest) => {
    const state = await check(request);
    if (state.isAllowed || !state.isExceeded) return;
    throw new ApiError(
      `More than ${requestsPerMinute} requests in a minute; try again in ${state.ttlInSeconds} s.`,
      {
        status: 429,
        code: "rate_limit_exceeded",
        retryAfterSeconds: state.ttlInSeconds,
      },
    );
  };
}

/** Interval of checks for the end of the last request. */
const POLL_MILLISECONDS = 20;

/**
 * Refuses new requests (/readyz says 503), waits for the running ones, and closes the server. It listens until then, so
 * that a load balancer sees the 503. No request outlives limits.requestSeconds, no upload the time that server.ts gives it,
 * and no answer its reader's time, so this ends.
 */
export async function drain({ app, gateway }: { app: GatewayApp; gateway: Gateway }): Promise<void> {
  gateway.isDraining = true;
  while (gateway.inFlight > 0) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MILLISECONDS));
  }
  await app.close();
}
