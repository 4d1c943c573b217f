/** What Prometheus reads at /metrics. Labels are route patterns, never a client's text. */
import { collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";

/** What is read when Prometheus asks. */
interface Observed {
  readonly connections: () => Promise<number>;
  readonly transitBytes: () => number;
  readonly store: () => { readonly collections: number; readonly points: number; readonly bytes: number };
}

export class ServerMetrics {
  readonly registry = new Registry();

  readonly requestSeconds = new Histogram({
    name: "vector_http_request_duration_seconds",
    help: "From a request's arrival to its answer.",
    labelNames: ["method", "route", "status"] as const,
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
    registers: [this.registry],
  });

  constructor({ connections, transitBytes, store }: Observed) {
    collectDefaultMetrics({ register: this.registry });
    this.#gauge("vector_connections", "Open connections.", connections);
    this.#gauge("vector_transit_bytes", "Requests and answers that are on their way.", transitBytes);
    this.#gauge("vector_collections", "Collections that are there.", () => store().collections);
    this.#gauge("vector_points", "Points of all collections.", () => store().points);
    this.#gauge("vector_store_bytes", "Size of the file that holds them.", () => store().bytes);
  }

  #gauge(name: string, help: string, read: () => number | Promise<number>): void {
    new Gauge({
      name,
      help,
      registers: [this.registry],
      async collect() {
        this.set(await read());
      },
    });
  }
}
