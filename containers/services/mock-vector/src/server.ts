/** The vector database as a Fastify server: limits, errors, log and metrics of all routes. */
import { randomUUID } from "node:crypto";
import { ByteBudget, type LogLevel } from "@engine-room/service-process";
import Fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from "fastify";
import { collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import type { Database } from "./database.ts";
import { RequestError } from "./requests.ts";
import { installRoutes } from "./routes.ts";

export const DEFAULT_LIMITS = {
  /** Connections at the same time; more are closed at once. */
  connections: 20_000,
  /** Largest request; a larger one is answered with 413. */
  bodyBytes: 64 * 1024 * 1024,
  /** Requests and answers that are on their way at the same time; over it 503. */
  transitBytes: 512 * 1024 * 1024,
  /** A client that sends its request more slowly than this is cut off. */
  requestSeconds: 60,
  /** An answer must be read this long after it was sent. */
  answerSeconds: 60,
  /** A connection on which nothing moves this long is closed. */
  idleSeconds: 3600,
};
export type ServerLimits = Readonly<typeof DEFAULT_LIMITS>;

/** Not logged, and answered by an overloaded server as well. */
const QUIET_ROUTES = ["/healthz", "/livez", "/readyz", "/metrics"];

function isQuiet({ routeOptions: { url = "" } }: FastifyRequest): boolean {
  return QUIET_ROUTES.includes(url);
}

/** A server that does not listen yet. */
export async function createVectorServer(
  database: Database,
  logLevel: LogLevel,
  limits: ServerLimits,
): Promise<FastifyInstance> {
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
    // The gateway passes on the id of its own request.
    genReqId({ headers: { "x-request-id": given } }) {
      return typeof given === "string" && /^[\w.:-]{1,100}$/.test(given) ? given : randomUUID();
    },
    logController: new LogController({ requestIdLogLabel: "requestId", disableRequestLogging: true }),
    logger: { level: logLevel, base: { service: "vector" } },
  });
  app.server.maxConnections = limits.connections;
  answerErrors(app);
  const transit = limitTransit(app, limits);
  observe(app, database, transit);
  // A connection whose request runs when the server stops would otherwise stay open, and the server with it.
  app.addHook("onSend", async (_request, reply) => {
    if (!app.server.listening) reply.header("connection", "close");
  });
  for (const path of QUIET_ROUTES.slice(0, -1)) app.get(path, () => "healthz check passed");
  installRoutes(app, database);
  await app.ready();
  return app;
}

function answerErrors(app: FastifyInstance): void {
  app.setErrorHandler((error: Error & { readonly statusCode?: number }, request, reply) => {
    const status = error.statusCode ?? 500;
    const isForClients = status < 500 || error instanceof RequestError;
    if (!isForClients) request.log.error({ err: error }, "failed");
    if (status === 503) reply.header("retry-after", "1");
    const sentence = isForClients ? error.message : "Service internal error";
    return reply.code(status).send({ status: { error: sentence }, time: 0 });
  });
  app.setNotFoundHandler(({ method, url }, reply) => {
    const sentence = `${method} ${url.split("?")[0]} is not supported by this server`;
    return reply.code(404).send({ status: { error: sentence }, time: 0 });
  });
}

/**
 * Memory stays bounded however many clients send at the same time, or don't read their answers.
 *
 * @returns The bytes of requests and answers that are on their way.
 */
function limitTransit(app: FastifyInstance, limits: ServerLimits): ByteBudget {
  const transit = new ByteBudget(limits.transitBytes);
  const take = (reply: FastifyReply, bytes: number): void => {
    const { socket } = reply.request.raw;
    // The client is gone.
    if (reply.raw.destroyed || socket.destroyed) return;
    if (!transit.tryTake(bytes)) throw new RequestError(503, "Service is overloaded: try again later");
    // The reply is over when it is sent. Of a client that sent several requests in a row and left, Node closes the first.
    let isOver = false;
    const over = () => {
      if (isOver) return;
      isOver = true;
      reply.raw.off("close", over);
      socket.off("close", over);
      transit.give(bytes);
    };
    reply.raw.once("close", over);
    socket.setMaxListeners(0).once("close", over);
  };
  app.addHook("onRequest", async (request, reply) => {
    if (isQuiet(request)) return;
    // A body whose length the client does not say may be as long as allowed.
    const isChunked = request.headers["transfer-encoding"] !== undefined;
    const bytes = isChunked ? limits.bodyBytes : Number(request.headers["content-length"] ?? 0);
    take(reply, Math.min(bytes, limits.bodyBytes));
  });
  app.addHook("onSend", async (request, reply, payload) => {
    if (typeof payload !== "string" || reply.statusCode >= 400 || isQuiet(request)) return;
    const bytes = Buffer.byteLength(payload);
    take(reply, bytes);
    const timer = setTimeout(() => {
      reply.log.warn({ bytes }, "an answer is not read; the connection is closed");
      reply.raw.destroy();
    }, limits.answerSeconds * 1000);
    reply.raw.once("close", () => clearTimeout(timer));
  });
  return transit;
}

/** A line of the log for each request, and metrics for Prometheus; labels are route patterns, never a client's text. */
function observe(app: FastifyInstance, database: Database, transit: ByteBudget): void {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const requestSeconds = new Histogram({
    name: "vector_http_request_duration_seconds",
    help: "From a request's arrival to its answer.",
    labelNames: ["method", "route", "status"] as const,
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
    registers: [registry],
  });
  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(read());
      },
    });
  gauge("vector_transit_bytes", "Requests and answers that are on their way.", () => transit.taken);
  gauge("vector_points", "Points of all collections.", () =>
    [...database.collections.values()].reduce((sum, { size }) => sum + size, 0),
  );
  gauge("vector_store_bytes", "Size of the file that holds them.", () => database.bytes());
  app.get("/metrics", async (_request, reply) => {
    reply.type(registry.contentType);
    return registry.metrics();
  });
  app.addHook("onResponse", async (request, reply) => {
    const { method } = request;
    const { statusCode: status, elapsedTime } = reply;
    const route = request.routeOptions.url ?? "unknown";
    requestSeconds.observe({ method, route, status: String(status) }, elapsedTime / 1000);
    if (isQuiet(request)) return;
    const { name: collection } = request.params as { readonly name?: string };
    const milliseconds = Math.round(elapsedTime * 100) / 100;
    request.log.info({ method, route, collection, status, milliseconds }, "request");
  });
}
