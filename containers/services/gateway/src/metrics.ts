/** What Prometheus reads at /metrics. Labels come from configuration and route patterns only, never from a client's text. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import type { ConcurrencyLimiter } from "./limits.ts";
import type { PendingRequests } from "./pending.ts";

/** From a refused request (under 1 ms) to a long answer. */
const DURATION_BUCKETS_SECONDS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300,
];

/** What is looked at when the metrics are read. */
interface Observed {
  readonly limiter: ConcurrencyLimiter;
  readonly pending: PendingRequests;
  /** Requests that are being answered. */
  readonly inFlight: () => number;
}

/** All of the gateway's metrics on one registry of its own, so that two gateways in one process do not meet. */
export class GatewayMetrics {
  readonly registry = new Registry();

  readonly requests = new Counter({
    name: "gateway_http_requests_total",
    help: "Answered requests; status 499 means that the client left first.",
    labelNames: ["route", "model", "status"] as const,
    registers: [this.registry],
  });

  readonly requestSeconds = new Histogram({
    name: "gateway_http_request_duration_seconds",
    help: "From the request's arrival to the last byte of its answer.",
    labelNames: ["route", "model"] as const,
    buckets: DURATION_BUCKETS_SECONDS,
    registers: [this.registry],
  });

  readonly refusedConnections = new Counter({
    name: "gateway_connections_refused_total",
    help: "Connections that were closed at once, because limits.connections were open.",
    registers: [this.registry],
  });

  readonly firstTokenSeconds = new Histogram({
    name: "gateway_first_token_seconds",
    help: "From a streaming request's arrival to the first text that Triton sent for it.",
    labelNames: ["model"] as const,
    buckets: DURATION_BUCKETS_SECONDS,
    registers: [this.registry],
  });

  readonly upstreamErrors = new Counter({
    name: "gateway_upstream_errors_total",
    help: "Failed Triton requests: away, model not ready, busy, input refused, failed, or broken in the middle of an answer.",
    labelNames: ["upstream", "kind"] as const,
    registers: [this.registry],
  });

  readonly tokens = new Counter({
    name: "gateway_tokens_total",
    help: "Tokens of prompts and answers, as given in usage (estimates included).",
    labelNames: ["model", "kind"] as const,
    registers: [this.registry],
  });

  constructor({ limiter, pending, inFlight }: Observed) {
    collectDefaultMetrics({ register: this.registry });
    const registers = [this.registry];
    new Gauge({
      name: "gateway_http_requests_in_flight",
      help: "Requests that are being answered.",
      registers,
      collect() {
        this.set(inFlight());
      },
    });
    new Gauge({
      name: "gateway_pending_requests",
      help: "Requests that wait for the first byte of a model's answer, and one while a model without server is wanted.",
      labelNames: ["model"],
      registers,
      collect() {
        for (const [model, count] of pending.counts) this.set({ model }, count);
      },
    });
    new Gauge({
      name: "gateway_places_taken",
      help: "Requests that hold one of limits.concurrentRequests places.",
      registers,
      collect() {
        this.set(limiter.taken);
      },
    });
    new Gauge({
      name: "gateway_queue_length",
      help: "Requests that wait for a place.",
      registers,
      collect() {
        this.set(limiter.waiting);
      },
    });
  }
}
