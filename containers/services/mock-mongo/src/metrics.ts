/** What Prometheus reads. Labels are names of commands that this server has, never a client's text. */
import { createServer, type Server } from "node:http";
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";

export class ServerMetrics {
  readonly registry = new Registry();

  readonly commands = new Counter({
    name: "mongo_commands_total",
    help: "Answered commands; ok is 0 for errors.",
    labelNames: ["command", "ok"] as const,
    registers: [this.registry],
  });

  readonly commandSeconds = new Histogram({
    name: "mongo_command_duration_seconds",
    help: "From a command's arrival to its reply.",
    labelNames: ["command"] as const,
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
    registers: [this.registry],
  });

  constructor() {
    collectDefaultMetrics({ register: this.registry });
  }

  /** Gauges of what a server holds. */
  observe(values: {
    readonly connections: () => number;
    readonly cursors: () => number;
    readonly unsentReplyBytes: () => number;
    readonly store: () => { readonly bytes: number; readonly documents: number };
  }): void {
    this.#gauge("mongo_connections", "Open connections.", values.connections);
    this.#gauge("mongo_open_cursors", "Cursors that clients may fetch more from.", values.cursors);
    this.#gauge("mongo_unsent_reply_bytes", "Replies that clients don't read.", values.unsentReplyBytes);
    this.#gauge("mongo_documents", "Documents of all collections.", () => values.store().documents);
    this.#gauge("mongo_store_bytes", "Size of the file that holds them.", () => values.store().bytes);
  }

  #gauge(name: string, help: string, read: () => number): void {
    new Gauge({
      name,
      help,
      registers: [this.registry],
      collect() {
        this.set(read());
      },
    });
  }
}

/** GET /metrics and GET /healthz. */
export function createMetricsServer(metrics: ServerMetrics): Server {
  const server = createServer(async (request, response) => {
    const path = request.url?.split("?")[0];
    if (request.method !== "GET" || (path !== "/metrics" && path !== "/healthz")) {
      response.writeHead(404).end();
      return;
    }
    const body = path === "/metrics" ? await metrics.registry.metrics() : '{"status":"ok"}';
    const type = path === "/metrics" ? metrics.registry.contentType : "application/json";
    response.writeHead(200, { "content-type": type }).end(body);
  });
  server.requestTimeout = 10_000;
  server.headersTimeout = 5_000;
  server.maxConnections = 100;
  return server;
}
