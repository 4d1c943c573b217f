/** The vector database as a Fastify server. */
import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { ByteBudget, type LogLevel } from "@engine-room/service-process";
import Fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from "fastify";
import { Collections } from "./collections.ts";
import { RequestError } from "./errors.ts";
import { ServerMetrics } from "./metrics.ts";
import { installRoutes } from "./routes.ts";
import type { Store } from "./store.ts";

export interface ServerOptions {
  readonly logLevel: LogLevel;
  readonly limits: ServerLimits;
}

export interface ServerLimits {
  /** Connections at the same time; more are closed at once. */
  readonly connections: number;
  /** Largest request; a larger one is answered with 413. */
  readonly bodyBytes: number;
  /** Requests and answers that are on their way at the same time; over it 503. */
  readonly transitBytes: number;
  /** A client that sends its request more slowly than this is cut off. */
  readonly requestSeconds: number;
  /** An answer must be read this long after it was sent. */
  readonly answerSeconds: number;
  /** A connection on which nothing moves this long is closed. */
  readonly idleSeconds: number;
}

export const DEFAULT_LIMITS: ServerLimits = {
  connections: 20_000,
  bodyBytes: 64 * 1024 * 1024,
  transitBytes: 512 * 1024 * 1024,
  requestSeconds: 60,
  answerSeconds: 60,
  idleSeconds: 3600,
};

/** The kernel takes an answer of this size at once, or nearly. */
const SMALL_ANSWER_BYTES = 64 * 1024;

/** Asked for all the time, and of no interest. */
const HEALTH_ROUTES = ["/healthz", "/livez", "/readyz"];
const METRICS_ROUTE = "/metrics";

function isQuiet({ routeOptions }: FastifyRequest): boolean {
  const { url } = routeOptions;
  return url === METRICS_ROUTE || (url !== undefined && HEALTH_ROUTES.includes(url));
}

/** A server that does not listen yet; all points are in memory when it is there. */
export async function createVectorServer(store: Store, options: ServerOptions): Promise<FastifyInstance> {
  const { limits } = options;
  const collections = new Collections(store);
  /** Of requests and answers that are on their way. */
  const transit = new ByteBudget(limits.transitBytes);
  const app: FastifyInstance = Fastify({
    bodyLimit: limits.bodyBytes,
    requestTimeout: limits.requestSeconds * 1000,
    http: {
      headersTimeout: limits.requestSeconds * 1000,
      // How often Node looks for requests that take longer.
      connectionsCheckingInterval: limits.requestSeconds * 500,
    },
    keepAliveTimeout: limits.idleSeconds * 1000,
    connectionTimeout: limits.idleSeconds * 1000,
    forceCloseConnections: "idle",
    routerOptions: { maxParamLength: 300 },
    genReqId: requestId,
    logController: new LogController({ requestIdLogLabel: "requestId", disableRequestLogging: true }),
    logger: { level: options.logLevel, base: { service: "vector" } },
  });
  app.server.maxConnections = limits.connections;
  const metrics = new ServerMetrics({
    ...{ connections: () => openConnections(app), transitBytes: () => transit.taken },
    ...{ store: () => ({ ...collections.counts(), bytes: store.bytes() }) },
  });
  errorHandlers(app);
  observe(app, metrics);
  limitTransit(app, transit, limits);
  closeConnections(app);
  for (const path of HEALTH_ROUTES) app.get(path, () => "healthz check passed");
  app.get(METRICS_ROUTE, async (_request, reply) => {
    reply.type(metrics.registry.contentType);
    return metrics.registry.metrics();
  });
  installRoutes(app, collections);
  await app.ready();
  return app;
}

/** The gateway passes on the id of its own request. */
function requestId({ headers }: IncomingMessage): string {
  const given = headers["x-request-id"];
  return typeof given === "string" && /^[\w.:-]{1,100}$/.test(given) ? given : randomUUID();
}

function openConnections(app: FastifyInstance): Promise<number> {
  return new Promise((resolve) => {
    app.server.getConnections((error, count) => resolve(error === null ? count : 0));
  });
}

/** Memory stays bounded however many clients send at the same time, or don't read their answers. */
function limitTransit(app: FastifyInstance, transit: ByteBudget, limits: ServerLimits): void {
  const taken = new WeakMap<FastifyReply, number>();
  const take = (reply: FastifyReply, bytes: number): void => {
    if (!transit.tryTake(bytes)) throw new RequestError(503, "Service is overloaded: try again later");
    taken.set(reply, (taken.get(reply) ?? 0) + bytes);
  };
  app.addHook("onRequest", async (request, reply) => {
    // Who watches a server must reach it when it is overloaded.
    if (isQuiet(request)) return;
    // The reply is over when it is sent, and also when the client breaks off.
    reply.raw.once("close", () => transit.give(taken.get(reply) ?? 0));
    take(reply, bodyBytes(request, limits));
  });
  app.addHook("onSend", async (request, reply, payload) => {
    if (typeof payload !== "string" || reply.statusCode >= 400 || isQuiet(request)) return;
    const bytes = Buffer.byteLength(payload);
    take(reply, bytes);
    if (bytes <= SMALL_ANSWER_BYTES) return;
    const timer = setTimeout(() => {
      reply.log.warn({ bytes }, "an answer is not read; the connection is closed");
      reply.raw.destroy();
    }, limits.answerSeconds * 1000);
    reply.raw.once("close", () => clearTimeout(timer));
  });
}

/** A connection whose request runs when the server stops would otherwise stay open, and the server with it. */
function closeConnections(app: FastifyInstance): void {
  let isStopping = false;
  app.addHook("preClose", async () => {
    isStopping = true;
  });
  app.addHook("onSend", async (_request, reply) => {
    if (isStopping) reply.header("connection", "close");
  });
}

/** What the body will take; its limit where the client does not say. */
function bodyBytes({ headers }: FastifyRequest, { bodyBytes: limit }: ServerLimits): number {
  if (headers["transfer-encoding"] !== undefined) return limit;
  return Math.min(Number(headers["content-length"] ?? 0), limit);
}

function errorHandlers(app: FastifyInstance): void {
  app.setErrorHandler((error: Error & { readonly statusCode?: number }, request, reply) => {
    const status = error instanceof RequestError ? error.status : (error.statusCode ?? 500);
    if (status >= 500 && !(error instanceof RequestError)) request.log.error({ err: error }, "failed");
    const isForClients = status < 500 || error instanceof RequestError;
    if (status === 503) reply.header("retry-after", "1");
    return reply
      .code(status)
      .send({ status: { error: isForClients ? error.message : "Service internal error" }, time: 0 });
  });
  app.setNotFoundHandler((request, reply) =>
    reply.code(404).send({
      status: { error: `${request.method} ${request.url.split("?")[0]} is not supported by this server` },
      time: 0,
    }),
  );
}

function observe(app: FastifyInstance, metrics: ServerMetrics): void {
  app.addHook("onResponse", async (request, reply) => {
    const route = request.routeOptions.url ?? "unknown";
    const seconds = reply.elapsedTime / 1000;
    metrics.requestSeconds.observe(
      { method: request.method, route, status: String(reply.statusCode) },
      seconds,
    );
    if (isQuiet(request)) return;
    request.log.info(
      {
        method: request.method,
        route,
        collection: (request.params as { readonly name?: string }).name,
        status: reply.statusCode,
        milliseconds: Math.round(seconds * 1e5) / 100,
      },
      "request",
    );
  });
}
