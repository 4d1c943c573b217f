/** Metrics at /metrics. Labels come from configuration and route patterns only, never from a client's text. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import type { ConcurrencyLimiter, RequestMemory } from "./limits.ts";

/** From a refused request (under 1 ms) to a long answer. */
const REQUEST_BUCKETS_SECONDS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300,
];
/** From a look-up by id to a time-out. */
const DATABASE_BUCKETS_SECONDS = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 30,
];

/** Values read at each scrape. */
interface Observed {
  readonly limiter: ConcurrencyLimiter;
  readonly memory: RequestMemory;
  /** Requests that wait for an answer to begin, by model. */
  readonly pending: () => ReadonlyMap<string, number>;
  /** Requests that are being answered. */
  readonly inFlight: () => number;
}

export type GatewayMetrics = ReturnType<typeof gatewayMetrics>;

/** The metrics of requests, on a registry of their own, so that two gateways in one process do not meet. */
export function gatewayMetrics({ limiter, memory, pending, inFlight }: Observed) {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read());
      },
    });
  gauge("gateway_http_requests_in_flight", "Requests that are being answered.", inFlight);
  gauge(
    "gateway_places_taken",
    "Requests that hold one of limits.concurrentRequests places.",
    () => limiter.taken,
  );
  gauge("gateway_queue_length", "Requests that wait for a place.", () => limiter.waiting);
  gauge("gateway_request_memory_bytes", "Bytes of requests and answers in memory.", () => memory.bytes);
  new Gauge({
    name: "gateway_pending_requests",
    help: "Requests that wait for the first byte of a model's answer, and one while a model without server is wanted.",
    labelNames: ["model"],
    registers,
    collect() {
      for (const [model, count] of pending()) this.set({ model }, count);
    },
  });
  return {
    registry,
    requests: new Counter({
      name: "gateway_http_requests_total",
      help: "Answered requests; status 499 means that the client left first.",
      labelNames: ["route", "model", "status"],
      registers,
    }),
    requestSeconds: new Histogram({
      name: "gateway_http_request_duration_seconds",
      help: "From the request's arrival to the last byte of its answer.",
      labelNames: ["route", "model"],
      buckets: REQUEST_BUCKETS_SECONDS,
      registers,
    }),
    droppedConnections: new Counter({
      name: "gateway_connections_dropped_total",
      help: "Idle connections that were closed for others, because limits.connections were open.",
      registers,
    }),
    firstTokenSeconds: new Histogram({
      name: "gateway_first_token_seconds",
      help: "From a streaming request's arrival to the first text that Triton sent for it.",
      labelNames: ["model"],
      buckets: REQUEST_BUCKETS_SECONDS,
      registers,
    }),
    upstreamErrors: new Counter({
      name: "gateway_upstream_errors_total",
      help: "Failed Triton requests: unavailable, model not ready, busy, input refused, failed, or broken in the middle of an answer.",
      labelNames: ["upstream", "kind"],
      registers,
    }),
    tokens: new Counter({
      name: "gateway_tokens_total",
      help: "Tokens of prompts and answers, as given in usage (estimates included).",
      labelNames: ["model", "kind"],
      registers,
    }),
  };
}

export type RetrievalMetrics = ReturnType<typeof retrievalMetrics>;

/** The metrics of documents, of a gateway with databases. */
export function retrievalMetrics(registry: Registry) {
  const registers = [registry];
  return {
    databaseSeconds: new Histogram({
      name: "gateway_database_duration_seconds",
      help: "Calls of the databases, failed ones included.",
      labelNames: ["database", "operation"],
      buckets: DATABASE_BUCKETS_SECONDS,
      registers,
    }),
    databaseErrors: new Counter({
      name: "gateway_database_errors_total",
      help: "Failed calls of the databases: unavailable, or failed.",
      labelNames: ["database", "kind"],
      registers,
    }),
    documents: new Counter({
      name: "gateway_documents_total",
      help: "Documents that clients wrote or removed, by result.",
      labelNames: ["status"],
      registers,
    }),
    reindexed: new Counter({
      name: "gateway_reindexed_total",
      help: "Documents of each reindexing: vectors made again (indexed), vectors without a document removed (removed), rejected by the encoder (refused).",
      labelNames: ["result"],
      registers,
    }),
  };
}
