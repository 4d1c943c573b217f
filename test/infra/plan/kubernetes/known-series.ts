/** What Prometheus has of a stack: every name with its labels, by the catalogue's tables. */
import {
  clusterMetrics,
  dcgmMetrics,
  recordedMetrics,
  scrapeMetrics,
} from "../../../../infra/plan/catalogue/cluster-metrics.ts";
import {
  gpuMetrics,
  type MetricRow,
  tensorRtLlmSeries,
  tritonMetrics,
} from "../../../../infra/plan/catalogue/metrics.ts";
import {
  gatewayMetrics,
  mockMongoMetrics,
  mockVectorMetrics,
  qdrantMetrics,
  retrievalMetrics,
} from "../../../../infra/plan/catalogue/service-metrics.ts";
import type { ClusterPlan } from "../../../../infra/plan/kubernetes/cluster-plan.ts";
import type { Selector } from "./promql-selectors.ts";

/** A Service whose pages have a series; null: it is of no Service of the stack. */
type Known = Readonly<
  Record<string, { readonly services: readonly string[] | null; readonly labels: readonly string[] }>
>;

/** Of metrics of the cluster, those by which something is looked up. */
const CLUSTER_LABELS = ["persistentvolumeclaim", "job_name", "deployment"];
/** What Prometheus gives each series of a target. */
const TARGET = ["namespace", "service", "pod", "job"];

/** By name; families of TensorRT-LLM are looked up by their label's value, with {@link unknownSeries}. */
function knownMetrics({ tier, models, encoders, cluster }: ClusterPlan): Known {
  const tritons = [...models.map(({ name }) => name), ...(encoders === null ? [] : ["encoders"])];
  const databases = cluster.databases;
  const row = (name: string, services: readonly string[] | null, labels: readonly string[]) =>
    [name, { services, labels: [...TARGET, ...labels] }] as const;
  const service = (
    table: Readonly<Record<string, MetricRow & { readonly labels: readonly string[] }>>,
    name: string,
  ) =>
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
    ...Object.keys(tritonMetrics).map((name) => row(name, tritons, ["model", "version", "reason"])),
    ...(tier === "gpu" ? Object.keys(gpuMetrics).map((name) => row(name, tritons, ["gpu_uuid"])) : []),
    ...Object.keys(scrapeMetrics).map((name) => row(name, null, [])),
    ...Object.keys(recordedMetrics)
      .filter((name) => tier === "gpu" || name !== "engine_room_hourly_usd")
      .map((name) => row(name, null, ["stack"])),
    ...Object.keys(clusterMetrics).map((name) => row(name, null, CLUSTER_LABELS)),
    ...(cluster.monitoring?.gpuExporter ? Object.keys(dcgmMetrics).map((name) => row(name, null, [])) : []),
    ...service(gatewayMetrics, "gateway"),
    ...(databases === null ? [] : service(retrievalMetrics, "gateway")),
    ...(databases?.kind === "mock" ? service(mockMongoMetrics, "mongo") : []),
    ...(databases?.kind === "mock" ? service(mockVectorMetrics, "vector") : []),
    ...(databases?.kind === "container" ? service(qdrantMetrics, "vector") : []),
  ]);
}

/** What is wrong with a selector; null: a stack has the series. */
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
