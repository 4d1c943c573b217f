/**
 * Names of metrics on the pages of this project's own services and of the databases, beside metrics.ts, which has Triton's.
 * A test holds the services to these tables.
 */
import type { MetricRow } from "./metrics.ts";

interface LabelledRow extends MetricRow {
  /** Besides those that Prometheus gives every series of a target; of a histogram without `le`. */
  readonly labels: readonly string[];
}

type MetricTable = Readonly<Record<string, LabelledRow>>;

/** Of every gateway: containers/services/gateway/src/metrics.ts. `model` is the stack's name of it, empty for other routes. */
export const gatewayMetrics = {
  gateway_pending_requests: {
    kind: "gauge",
    unit: "requests",
    what: "requests that wait for an answer to begin, and one while a model without server is wanted",
    labels: ["model"],
  },
  gateway_http_requests_total: {
    kind: "counter",
    unit: "requests",
    what: "answered requests; status 499: the client left first",
    labels: ["route", "model", "status"],
  },
  gateway_http_request_duration_seconds: {
    kind: "histogram",
    unit: "s",
    what: "from a request's arrival to the last byte of its answer",
    labels: ["route", "model"],
  },
  gateway_first_token_seconds: {
    kind: "histogram",
    unit: "s",
    what: "from a streaming request's arrival to its first text",
    labels: ["model"],
  },
  gateway_upstream_errors_total: {
    kind: "counter",
    unit: "requests",
    what: "failed requests to Tritons",
    labels: ["upstream", "kind"],
  },
  gateway_tokens_total: {
    kind: "counter",
    unit: "tokens",
    what: "tokens of prompts and answers, estimates included",
    labels: ["model", "kind"],
  },
  gateway_connections_refused_total: {
    kind: "counter",
    unit: "connections",
    what: "connections closed at once, because too many were open",
    labels: [],
  },
  gateway_http_requests_in_flight: {
    kind: "gauge",
    unit: "requests",
    what: "requests that are being answered",
    labels: [],
  },
  gateway_places_taken: {
    kind: "gauge",
    unit: "requests",
    what: "requests that hold one of limits.concurrentRequests places",
    labels: [],
  },
  gateway_queue_length: {
    kind: "gauge",
    unit: "requests",
    what: "requests that wait for a place",
    labels: [],
  },
} as const satisfies MetricTable;

/** Of a gateway with databases: containers/services/gateway/src/retrieval/metrics.ts. */
export const retrievalMetrics = {
  gateway_database_duration_seconds: {
    kind: "histogram",
    unit: "s",
    what: "calls of the databases, failed ones included",
    labels: ["database", "operation"],
  },
  gateway_database_errors_total: {
    kind: "counter",
    unit: "calls",
    what: "failed calls of the databases",
    labels: ["database", "kind"],
  },
  gateway_documents_total: {
    kind: "counter",
    unit: "documents",
    what: "documents that clients wrote or removed",
    labels: ["status"],
  },
  gateway_repaired_total: {
    kind: "counter",
    unit: "documents",
    what: "what repair put in order",
    labels: ["what"],
  },
} as const satisfies MetricTable;

/** Of `databases: mock`: containers/services/mock-mongo/src/metrics.ts; those that something looks at. */
export const mockMongoMetrics = {
  mongo_documents: { kind: "gauge", unit: "documents", what: "documents of all collections", labels: [] },
  mongo_store_bytes: { kind: "gauge", unit: "bytes", what: "size of the file that holds them", labels: [] },
} as const satisfies MetricTable;

/** Of `databases: mock`: containers/services/mock-vector/src/metrics.ts; those that something looks at. */
export const mockVectorMetrics = {
  vector_points: { kind: "gauge", unit: "points", what: "points of all collections", labels: [] },
  vector_store_bytes: { kind: "gauge", unit: "bytes", what: "size of the file that holds them", labels: [] },
} as const satisfies MetricTable;

/** Of `databases: container`; mongod has no such page. https://qdrant.tech/documentation/guides/monitoring/ at 1.17. */
export const qdrantMetrics = {
  collections_total: { kind: "gauge", unit: "collections", what: "collections that are there", labels: [] },
  rest_responses_total: {
    kind: "counter",
    unit: "requests",
    what: "answers over HTTP",
    labels: ["method", "endpoint", "status"],
  },
} as const satisfies MetricTable;
