/** What Prometheus reads of retrieval. Labels are names that this code has, never a client's text. */
import { Counter, Histogram, type Registry } from "prom-client";
import type { ObserveDatabase } from "./database-errors.ts";
import type { WriteStatus } from "./documents.ts";
import type { SweepResult } from "./repair.ts";

/** From a look-up by id to a time-out. */
const DURATION_BUCKETS_SECONDS = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 30,
];

export class RetrievalMetrics {
  readonly #databaseSeconds: Histogram<"database" | "operation">;
  readonly #databaseErrors: Counter<"database" | "kind">;
  readonly #documents: Counter<"status">;
  readonly #repaired: Counter<"what">;

  constructor(registry: Registry) {
    const registers = [registry];
    this.#databaseSeconds = new Histogram({
      name: "gateway_database_duration_seconds",
      help: "Calls of the databases, failed ones included.",
      labelNames: ["database", "operation"],
      buckets: DURATION_BUCKETS_SECONDS,
      registers,
    });
    this.#databaseErrors = new Counter({
      name: "gateway_database_errors_total",
      help: "Failed calls of the databases: away, or failed.",
      labelNames: ["database", "kind"],
      registers,
    });
    this.#documents = new Counter({
      name: "gateway_documents_total",
      help: "Documents that clients wrote or removed, by what came of it.",
      labelNames: ["status"],
      registers,
    });
    this.#repaired = new Counter({
      name: "gateway_repaired_total",
      help: "What repair did: unfinished documents finished, vectors brought in line, images without document removed; refused counts documents that the encoder does not take, once a sweep.",
      labelNames: ["what"],
      registers,
    });
  }

  readonly observeDatabase: ObserveDatabase = (database, operation, seconds, failure) => {
    this.#databaseSeconds.observe({ database, operation }, seconds);
    if (failure !== undefined) this.#databaseErrors.inc({ database, kind: failure });
  };

  countDocument(status: WriteStatus | "removed"): void {
    this.#documents.inc({ status });
  }

  countRepairs(result: SweepResult): void {
    for (const [what, count] of Object.entries(result)) this.#repaired.inc({ what }, count);
  }
}
