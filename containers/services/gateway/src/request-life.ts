/** What happens to every request before and after its route: identity, clock, place, log line and metrics. */
import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import rateLimit from "@fastify/rate-limit";
import type { FastifyRequest } from "fastify";
import { KeyRing } from "./auth.ts";
import type { CallContext } from "./call-context.ts";
import type { Gateway, GatewayApp } from "./context.ts";
import { ApiError, unavailable } from "./errors.ts";
import { CLIENT_LEFT_STATUS, Deadline } from "./limits.ts";

/** The client's request id when it is fit for a log, a fresh one otherwise. */
export function requestId(request: Pick<IncomingMessage, "headers">): string {
  const given = request.headers["x-request-id"];
  return typeof given === "string" && /^[A-Za-z0-9._-]{1,128}$/.test(given) ? given : randomUUID();
}

/** The signal that ends a request under /v1. */
function requestSignal(request: FastifyRequest): AbortSignal {
  if (request.deadline === null) throw new Error("a route outside /v1 has no deadline");
  return request.deadline.signal;
}

/** What a request under /v1 passes on to the servers behind the gateway. */
export function callContext(request: FastifyRequest): CallContext {
  return { requestId: request.id, signal: requestSignal(request) };
}

/** Request id, metrics and one log line for every request. Never bodies, headers or query strings: they may hold secrets. */
export function observeRequests(app: GatewayApp, gateway: Gateway): void {
  const { metrics } = gateway;
  app.decorateRequest("servedModel", "");
  app.decorateRequest("keyOwner", "");
  app.decorateRequest("deadline", null);

  app.addHook("onRequest", async (request, reply) => {
    reply.header("x-request-id", request.id);
    gateway.inFlight += 1;
    // Fastify's onResponse does not come for a client that left; the end of the connection's answer always does.
    reply.raw.once("close", () => {
      gateway.inFlight -= 1;
      const route = request.routeOptions.url ?? "unmatched";
      const model = request.servedModel;
      const status = reply.raw.writableFinished ? reply.statusCode : CLIENT_LEFT_STATUS;
      const durationMs = Math.round(reply.elapsedTime * 1000) / 1000;
      metrics.requests.inc({ route, model, status: String(status) });
      metrics.requestSeconds.observe({ route, model }, durationMs / 1000);
      request.log.info(
        { method: request.method, route, status, durationMs, model, key: request.keyOwner },
        "request",
      );
    });
  });
}

/** Guards of /v1 in their order: stopping, clock, key, rate; and, once the body is known to be right, a place. */
export async function guardRequests(app: GatewayApp, gateway: Gateway): Promise<void> {
  const { config, limiter } = gateway;
  const keys = new KeyRing(config.apiKeys);
  const checkRate = await createRateCheck(app, gateway);

  app.addHook("onRequest", async (request, reply) => {
    if (gateway.isDraining) {
      reply.header("connection", "close");
      throw unavailable("The gateway is being stopped; try again in a moment.", "draining", 1);
    }
    const deadline = new Deadline(config.limits.requestSeconds);
    request.deadline = deadline;
    reply.raw.once("close", () => {
      if (reply.raw.writableFinished) deadline.clear();
      else deadline.clientLeft();
    });
    if (!keys.isOpen) request.keyOwner = keys.ownerOf(request.headers.authorization);
    await checkRate(request);
  });

  app.addHook("preHandler", async (request, reply) => {
    if (request.method !== "POST") return;
    const signal = requestSignal(request);
    const release = await limiter.acquire(signal);
    reply.raw.once("close", release);
    if (signal.aborted) {
      release();
      throw signal.reason;
    }
  });
}

type RateCheck = (request: FastifyRequest) => Promise<void>;

async function createRateCheck(app: GatewayApp, { config }: Gateway): Promise<RateCheck> {
  if (config.rateLimit === undefined) return async () => undefined;
  const { requestsPerMinute } = config.rateLimit;
  await app.register(rateLimit, { global: false });
  const check = app.createRateLimit({
    max: requestsPerMinute,
    timeWindow: 60_000,
    keyGenerator: (request) => request.keyOwner || request.ip,
  });
  return async (request) => {
    const state = await check(request);
    if (state.isAllowed || !state.isExceeded) return;
    throw new ApiError(
      `More than ${requestsPerMinute} requests in a minute; try again in ${state.ttlInSeconds} s.`,
      {
        status: 429,
        type: "rate_limit_error",
        code: "rate_limit_exceeded",
        retryAfterSeconds: state.ttlInSeconds,
      },
    );
  };
}
