/** The vector database as a Fastify server: limits, errors, log and metrics of all routes. */
import { randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { ConnectionsByUse, HeldBytes, type LogLevel } from "@engine-room/service-process";
import Fastify, { type FastifyInstance, type FastifyRequest, LogController } from "fastify";
import { collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import type { Database } from "./database.ts";
import type { ServerLimits } from "./limits.ts";
import { RequestError } from "./requests.ts";
import { installRoutes } from "./routes.ts";

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
  limitConnections(app, limits);
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
    const sentence = isForClients ? error.message : "Service internal error";
    return reply.code(status).send({ status: { error: sentence }, time: 0 });
  });
  app.setNotFoundHandler(({ method, url }, reply) => {
    const sentence = `${method} ${url.split("?")[0]} is not supported by this server`;
    return reply.code(404).send({ status: { error: sentence }, time: 0 });
  });
}

function limitConnections({ server }: FastifyInstance, limits: ServerLimits): void {
  const connections = new ConnectionsByUse<Socket>(limits.connections);
  server.on("connection", (socket: Socket) => {
    socket.once("close", () => connections.delete(socket));
    connections.set(socket, true);
  });
  server.on("request", ({ socket }, answer) => {
    connections.set(socket, false);
    answer.once("close", () => {
      if (!socket.destroyed) connections.set(socket, true);
    });
  });
}

/**
 * Memory stays bounded however many clients send at the same time, or don't read their answers.
 *
 * @returns The bytes of requests and answers that are on their way.
 */
function limitTransit(app: FastifyInstance, limits: ServerLimits): HeldBytes<ServerResponse> {
  const transit = new HeldBytes<ServerResponse>(limits.transitBytes);
  /** Received bytes of open requests. */
  const arrived = new Map<ServerResponse, number>();
  app.addHook("onRequest", async (request, { raw }) => {
    const { socket } = request.raw;
    // The client is gone.
    if (isQuiet(request) || raw.destroyed || socket.destroyed) return;
    arrived.set(raw, 0);
    // The reply is over when it is sent. If a client leaves after several requests in a row, Node closes only the first.
    const over = () => {
      raw.off("close", over);
      socket.off("close", over);
      arrived.delete(raw);
      transit.delete(raw);
    };
    raw.once("close", over);
    socket.setMaxListeners(0).once("close", over);
  });
  app.addHook("preParsing", (request, { raw }, payload, done) => {
    const giveWay = () => {
      request.log.warn("a request was not complete when others needed room; the connection is closed");
      request.raw.socket.destroy();
    };
    const count = (bytes: number, drop: (() => void) | undefined) => {
      const before = arrived.get(raw);
      if (before === undefined) return;
      arrived.set(raw, before + bytes);
      transit.set(raw, before + bytes, drop);
    };
    payload.on("data", (chunk: string | Buffer) => count(Buffer.byteLength(chunk), giveWay));
    // A running request does not wait for its client.
    payload.once("end", () => count(0, undefined));
    done(null, payload);
  });
  app.addHook("onSend", async (request, reply, payload) => {
    const { raw } = reply;
    const before = arrived.get(raw);
    if (typeof payload !== "string" || before === undefined) return;
    const bytes = Buffer.byteLength(payload);
    const dropUnread = () => {
      reply.log.warn({ bytes }, "an answer is not read; the connection is closed");
      request.raw.socket.destroy();
    };
    const timer = setTimeout(dropUnread, limits.answerSeconds * 1000);
    raw.once("close", () => clearTimeout(timer));
    // The answer now waits for its client.
    transit.delete(raw);
    transit.set(raw, before + bytes, dropUnread);
  });
  return transit;
}

/** A line of the log for each request, and metrics for Prometheus; labels are route patterns, never a client's text. */
function observe(app: FastifyInstance, database: Database, transit: HeldBytes<ServerResponse>): void {
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
