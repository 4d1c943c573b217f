/** Prometheus' series of a stack: every name with its labels. Tests compare the services' pages with these tables. */
import { gpuSeries, tensorRtLlmSeries, tritonMetrics } from "../../../../infra/plan/catalogue/metrics.ts";
import type { ClusterPlan } from "../../../../infra/plan/stack-plan.ts";
import type { Selector } from "./promql-selectors.ts";

interface MetricRow {
  readonly kind: "counter" | "gauge" | "histogram";
  /** Labels in addition to those of every series of a target; for a histogram without `le`. */
  readonly labels: readonly string[];
}

type MetricTable = Readonly<Record<string, MetricRow>>;

/**
 * Metrics of every gateway: containers/services/gateway/src/metrics.ts. `model` is its name in the stack, empty for
 * other routes.
 */
export const gatewayMetrics: MetricTable = {
  gateway_pending_requests: { kind: "gauge", labels: ["model"] },
  gateway_http_requests_total: { kind: "counter", labels: ["route", "model", "status"] },
  gateway_http_request_duration_seconds: { kind: "histogram", labels: ["route", "model"] },
  gateway_first_token_seconds: { kind: "histogram", labels: ["model"] },
  gateway_upstream_errors_total: { kind: "counter", labels: ["upstream", "kind"] },
  gateway_tokens_total: { kind: "counter", labels: ["model", "kind"] },
  gateway_connections_dropped_total: { kind: "counter", labels: [] },
  gateway_http_requests_in_flight: { kind: "gauge", labels: [] },
  gateway_places_taken: { kind: "gauge", labels: [] },
  gateway_queue_length: { kind: "gauge", labels: [] },
  gateway_request_memory_bytes: { kind: "gauge", labels: [] },
};

/** Metrics of a gateway with databases: containers/services/gateway/src/metrics.ts. */
export const retrievalMetrics: MetricTable = {
  gateway_database_duration_seconds: { kind: "histogram", labels: ["database", "operation"] },
  gateway_database_errors_total: { kind: "counter", labels: ["database", "kind"] },
  gateway_documents_total: { kind: "counter", labels: ["status"] },
  gateway_reindexed_total: { kind: "counter", labels: ["result"] },
};

/** Used metrics of `databases: mock`: containers/services/mock-mongo/src/server.ts. */
const mockMongoMetrics: MetricTable = {
  mongo_documents: { kind: "gauge", labels: [] },
  mongo_store_bytes: { kind: "gauge", labels: [] },
};

/** Used metrics of `databases: mock`: containers/services/mock-vector/src/server.ts. */
const mockVectorMetrics: MetricTable = {
  vector_points: { kind: "gauge", labels: [] },
  vector_store_bytes: { kind: "gauge", labels: [] },
};

/**
 * Metrics of `databases: container`; mongod has no such page. https://qdrant.tech/documentation/guides/monitoring/ at
 * 1.17.
 */
const qdrantMetrics: MetricTable = {
  collections_total: { kind: "gauge", labels: [] },
  rest_responses_total: { kind: "counter", labels: ["method", "endpoint", "status"] },
};

/** Prometheus' own, of every target: https://prometheus.io/docs/concepts/jobs_instances/ */
const SCRAPE_METRICS = ["up"];

/**
 * Metrics of a pod's GPU, with its labels `namespace` and `pod`: the default fields in etc/default-counters.csv of
 * https://github.com/NVIDIA/dcgm-exporter.
 */
const DCGM_METRICS = [
  "DCGM_FI_DEV_GPU_UTIL",
  "DCGM_FI_DEV_MEM_COPY_UTIL",
  "DCGM_FI_DEV_FB_USED",
  "DCGM_FI_DEV_FB_FREE",
  "DCGM_FI_DEV_GPU_TEMP",
  "DCGM_FI_DEV_POWER_USAGE",
  "DCGM_FI_DEV_XID_ERRORS",
  "DCGM_FI_DEV_ROW_REMAP_FAILURE",
];

/**
 * If a cluster has them, as the kube-prometheus-stack chart does: pkg/kubelet/metrics/collectors/volume_stats.go of
 * https://github.com/kubernetes/kubernetes, and docs/metrics of https://github.com/kubernetes/kube-state-metrics.
 */
const CLUSTER_METRICS = [
  "kubelet_volume_stats_available_bytes",
  "kubelet_volume_stats_capacity_bytes",
  "kube_deployment_spec_replicas",
  "kube_deployment_status_replicas_available",
  "kube_job_status_failed",
  "kube_pod_container_info",
  "kube_pod_container_status_restarts_total",
];

/** Recorded by rules of the stack. */
const RECORDED_METRICS = ["engine_room_model_info", "engine_room_image_info", "engine_room_hourly_usd"];

/** Services whose pages have a series; null if no Service of the stack has it. */
type Known = Readonly<
  Record<string, { readonly services: readonly string[] | null; readonly labels: readonly string[] }>
>;

/** Labels by which metrics of the cluster are selected. */
const CLUSTER_LABELS = ["persistentvolumeclaim", "job_name", "deployment"];
/** Labels that Prometheus adds to each series of a target. */
const TARGET = ["namespace", "service", "pod", "job"];

/** Series by name; {@link unknownSeries} looks up families of TensorRT-LLM by their label's value. */
function knownMetrics({ tier, models, encoders, cluster }: ClusterPlan): Known {
  const tritons = [...models.map(({ name }) => name), ...(encoders === null ? [] : ["encoders"])];
  const databases = cluster.databases;
  const row = (name: string, services: readonly string[] | null, labels: readonly string[]) =>
    [name, { services, labels: [...TARGET, ...labels] }] as const;
  const service = (table: MetricTable, name: string) =>
    Object.entries(table).flatMap(([metric, { kind, labels }]) =>
      kind === "histogram"
        ? [
            row(`${metric}_bucket`, [name], [...labels, "le"]),
            row(`${metric}_count`, [name], labels),
            row(`${metric}_sum`, [name], labels),
          ]
        : [row(metric, [name], labels)],
    );
  return Object.fromEntries([
    ...tritonMetrics.map((name) => row(name, tritons, ["model", "version", "reason"])),
    ...(tier === "gpu" ? gpuSeries.map(({ name }) => row(name, tritons, ["gpu_uuid"])) : []),
    ...SCRAPE_METRICS.map((name) => row(name, null, [])),
    ...RECORDED_METRICS.filter((name) => tier === "gpu" || name !== "engine_room_hourly_usd").map((name) =>
      row(name, null, ["stack"]),
    ),
    ...CLUSTER_METRICS.map((name) => row(name, null, CLUSTER_LABELS)),
    ...(cluster.monitoring?.gpuExporter ? DCGM_METRICS.map((name) => row(name, null, [])) : []),
    ...service(gatewayMetrics, "gateway"),
    ...(databases === null ? [] : service(retrievalMetrics, "gateway")),
    ...(databases?.kind === "mock" ? service(mockMongoMetrics, "mongo") : []),
    ...(databases?.kind === "mock" ? service(mockVectorMetrics, "vector") : []),
    ...(databases?.kind === "container" ? service(qdrantMetrics, "vector") : []),
  ]);
}

/** The reason why a stack lacks a selector's series; null when it has the series. */
export function unknownSeries(plan: ClusterPlan, { metric, matchers }: Selector): string | null {
  const match = (label: string) => matchers.find((one) => one.label === label);
  const services = match("service")?.value.split("|") ?? [];
  if (match("namespace")?.value !== plan.cluster.namespace.name) return `${metric} of any namespace`;
  if (metric.startsWith("nv_trt_llm_") || metric.startsWith("nv_llm_")) {
    if (services.length === 0) return `${metric} of no server`;
    const lacking = services.filter((service) => {
      return !tensorRtLlmSeriesOf(plan, service).some(
        ({ name, labels }) =>
          name === metric &&
          Object.entries(labels).every(
            ([label, value]) => label === "model" || match(label)?.value === value,
          ),
      );
    });
    return lacking.length === 0 ? null : `${metric} ${JSON.stringify(matchers)} of ${lacking.join()}`;
  }
  const known = knownMetrics(plan)[metric];
  if (known === undefined) return metric;
  const label = matchers.find((one) => !known.labels.includes(one.label));
  if (label !== undefined) return `${label.label} of ${metric}`;
  const elsewhere = services.filter(
    (service) => known.services !== null && !known.services.includes(service),
  );
  if (known.services !== null && services.length === 0) return `${metric} of no server`;
  return elsewhere.length === 0 ? null : `${metric} of ${elsewhere.join()}`;
}

function tensorRtLlmSeriesOf(plan: ClusterPlan, service: string) {
  if (plan.tier === "cpu") return [];
  const model = plan.models.find(({ name }) => name === service);
  return model === undefined ? [] : tensorRtLlmSeries(model.spec.serving, plan.release.tag);
}
