/** Monitors, rules and dashboards of a stack in a cluster. */

import { tensorRtLlmMetrics, tensorRtLlmSeries } from "../../catalogue/metrics.ts";
import { canonicalJson, jsonDigest, shortKey } from "../../plain-data.ts";
import type { ClusterPlan } from "../../stack-plan.ts";
import { type AutoscalerPlan, selector } from "../autoscaling.ts";
import type { BuildPlan } from "../builds.ts";
import { GATEWAY } from "../network.ts";
import { type ApiObject, type CustomObject, objectLabels, type PodRole, podSelector } from "../objects.ts";
import type { PodContext } from "../pods.ts";
import type { DatabasePlan, ServerPlan } from "../servers.ts";
import { dashboard, type Fillings, ruleGroups, type Values } from "./templates.ts";

interface WatchedStack extends PodContext {
  /** Tritons, and the gateway as the last. */
  readonly servers: readonly ServerPlan[];
  readonly databases: readonly DatabasePlan[];
  readonly builds: readonly BuildPlan[];
  readonly store: { readonly claim: string } | null;
  readonly autoscalers: readonly AutoscalerPlan[];
}

type Options = NonNullable<ClusterPlan["cluster"]["monitoring"]>;

const API_VERSION = "monitoring.coreos.com/v1";

/** Files in dashboards/. */
const DASHBOARDS = ["overview", "models", "gpus", "databases"] as const;

/** Folder of the project that has a file for each alert; links of alerts begin with it if no URL is configured. */
const RUNBOOKS = "docs/runbooks";

/** A restart of Prometheus or of a pod is over by then. */
const SETTLED_SECONDS = 300;

/** Share of the gateway's places above which requests of the next peak wait. */
const FULL_SHARE = 0.9;

/** Objects that Prometheus' operator and Grafana's sidecar read. */
export type MonitoringPlan = NonNullable<ReturnType<typeof monitoringPlan>>;

/** null if the stack file has `monitoring: none`. */
export function monitoringPlan(watched: WatchedStack) {
  const options = watched.plan.cluster.monitoring;
  if (options === null) return null;
  const labels = objectLabels(watched.stack);
  const fillings = fillingsOf(watched, options);
  return {
    monitors: monitors(watched, options),
    rules: {
      apiVersion: API_VERSION,
      kind: "PrometheusRule",
      metadata: { name: "engine-room", labels: { ...labels, ...options.labels } },
      spec: { groups: ruleGroups(fillings) },
    } satisfies CustomObject,
    // The name stays while the content changes, so that Grafana keeps the dashboard's address.
    dashboards: DASHBOARDS.flatMap((file): readonly ApiObject<"ConfigMap">[] => {
      const json = dashboard(file, fillings);
      if (json === null) return [];
      const name = `dashboard-engine-room-${file}`;
      const metadata = { name, labels: { ...labels, ...options.dashboardLabels } };
      // One line with sorted keys: same plan, same bytes.
      return [{ kind: "ConfigMap", metadata, data: { [`${name}.json`]: canonicalJson(json) } }];
    }),
  };
}

/** Services with a page of metrics, by the name of its port; mongod has no page. */
function targetsOf({ servers, databases }: WatchedStack) {
  return [...servers, ...databases].flatMap(({ name, service, pod }) => {
    const port = pod.role === "gateway" || pod.role === "vector" ? "http" : "metrics";
    return service.spec?.ports?.some(({ name: named }) => named === port) ? [{ name, pod, port }] : [];
  });
}

/** Label `job` of the series of GPUs: another monitor of the same exporter does not count twice. */
const gpuJob = (stack: string) => `engine-room-gpus-${stack}`;

/** One for each role, so that a further model needs no further monitor, and one for the exporter of GPUs. */
function monitors(
  watched: WatchedStack,
  { labels, intervalSeconds, gpuExporter }: Options,
): readonly CustomObject[] {
  const { stack } = watched;
  const endpoint = { path: "/metrics", interval: `${intervalSeconds}s` };
  const monitor = (name: string, role: PodRole | undefined, spec: CustomObject["spec"]) => ({
    apiVersion: API_VERSION,
    kind: "ServiceMonitor",
    metadata: { name: `engine-room-${name}`, labels: { ...objectLabels(stack, { role }), ...labels } },
    spec,
  });
  const ports = new Map(targetsOf(watched).map(({ pod, port }) => [pod.role, port]));
  const own = [...ports].map(([role, port]) =>
    monitor(role, role, {
      selector: { matchLabels: podSelector(stack, { role }) },
      endpoints: [{ ...endpoint, port }],
    }),
  );
  if (gpuExporter === null) return own;
  const relabelings = [
    { targetLabel: "job", replacement: gpuJob(stack) },
    // The exporter names the machine too, by `Hostname` up to 4.8.2 and by `hostname` after it:
    // https://github.com/NVIDIA/dcgm-exporter/pull/655
    { sourceLabels: ["__meta_kubernetes_pod_node_name"], targetLabel: "node" },
  ];
  const gpus = monitor("gpus", undefined, {
    selector: { matchLabels: gpuExporter.labels },
    namespaceSelector: { matchNames: [gpuExporter.namespace] },
    // Series are of the pods that have the GPUs, not of the exporter's: their own labels stay.
    endpoints: [{ ...endpoint, port: gpuExporter.port, honorLabels: true, relabelings }],
  });
  return [...own, gpus];
}

/** Values of the placeholders in rules.yaml and dashboards/. */
function fillingsOf(watched: WatchedStack, { gpuExporter, runbookUrl }: Options): Fillings {
  const { stack, plan, servers, databases, builds, store, autoscalers } = watched;
  const namespace = plan.cluster.namespace.name;
  const { concurrentRequests, queuedRequests } = plan.gateway.limits;
  const isGpu = plan.tier === "gpu";
  const kind = plan.cluster.databases?.kind ?? null;
  const tritons = servers.map(({ name }) => name).filter((name) => name !== GATEWAY);
  const sleepers = autoscalers.filter(({ replicas }) => replicas.min === 0).map(({ name }) => name);
  const claims = databases.map(({ claim }) => claim);
  return {
    values: {
      // Grafana's own placeholder.
      datasource: "$" + "{datasource}",
      id: shortKey(jsonDigest({ stack, namespace })),
      stack,
      gpuStack: isGpu ? stack : null,
      cpuStack: isGpu ? null : stack,
      namespace,
      release: plan.tier === "gpu" ? plan.release.tag : plan.release,
      runbooks: runbookUrl ?? RUNBOOKS,
      tritons: anyOf(tritons),
      gpuTritons: isGpu ? anyOf(tritons) : null,
      awakeTritons: anyOf(tritons.filter((name) => !sleepers.includes(name))),
      gpuJob: gpuExporter === null ? null : gpuJob(stack),
      retrievalGateway: kind === null ? null : GATEWAY,
      mockMongo: kind === "mock" ? "mongo" : null,
      mockVector: kind === "mock" ? "vector" : null,
      qdrant: kind === "container" ? "vector" : null,
      concurrentRequests,
      queuedRequests,
      nearlyAllPlaces: Math.ceil(FULL_SHARE * concurrentRequests),
      builds: anyOf(builds.map(({ name }) => name)),
      claims: anyOf(store === null ? claims : [store.claim, ...claims]),
      ...priceValues(plan),
      ...batchManagerValues(plan),
    },
    lists: {
      model: modelEntries(plan),
      image: watched.images.map((image) => ({ ...image })),
      target: targetsOf(watched).map(({ name, pod }) => {
        const [container] = pod.template.spec.containers;
        const { periodSeconds = 0, failureThreshold = 0 } = container?.startupProbe ?? {};
        const awake = sleepers.includes(name) ? null : name;
        return {
          name,
          startSeconds: Math.max(SETTLED_SECONDS, periodSeconds * failureThreshold),
          awakeModel: pod.role === "triton" ? awake : null,
          awakePart: pod.role === "triton" ? null : awake,
        };
      }),
      sleeper: servers
        .filter(({ name, pod }) => pod.role === "triton" && sleepers.includes(name))
        .map(({ name, deployment }) => ({
          name,
          wakeSeconds: SETTLED_SECONDS + (deployment.spec?.progressDeadlineSeconds ?? 0),
        })),
      scaling: autoscalers.flatMap(({ name: autoscaler, metrics }) =>
        metrics.map(({ series: { name: series, labels }, ...metric }) => {
          const { service = null } = labels;
          const asked = selector({ name: series, labels });
          const isOfGateway = service === GATEWAY;
          return {
            ...{ ...metric, autoscaler, series, selector: asked },
            server: isOfGateway ? null : service,
            gatewaySelector: isOfGateway ? asked : null,
          };
        }),
      ),
    },
  };
}

/** A regular expression in a string of PromQL; null without names. Only `.` of a name needs an escape. */
function anyOf(names: readonly string[]): string | null {
  return names.length === 0 ? null : names.map((name) => name.replaceAll(".", "\\\\.")).join("|");
}

function modelEntries(plan: ClusterPlan): readonly Values[] {
  if (plan.tier === "cpu")
    return plan.models.map(({ name, model }) => ({ name, served: model, engineKey: null, pool: null }));
  return plan.models.map(({ name, spec, engine }) => ({
    name,
    served: spec.engine.model,
    engineKey: engine === null ? "none" : shortKey(engine.key),
    pool: spec.pool,
  }));
}

/** Price of all machines; null if it is unknown, and in stacks on CPUs. */
function priceValues(plan: ClusterPlan): Values {
  if (plan.tier === "cpu" || plan.cost.hourlyUsd === null)
    return { wholeHourlyUsd: null, leastHourlyUsd: null, priceBound: null, priceSource: null };
  const { hourlyUsd, withoutPrice, notIncluded, pricesAsOf } = plan.cost;
  const notInSum = [...withoutPrice, ...notIncluded];
  const isWhole = withoutPrice.length === 0;
  return {
    wholeHourlyUsd: isWhole ? hourlyUsd : null,
    leastHourlyUsd: isWhole ? null : hourlyUsd,
    priceBound: isWhole ? "" : ", at least",
    priceSource: [
      "Cost of all machines at their planned number.",
      ...(pricesAsOf === null ? [] : [`Prices as of ${pricesAsOf}.`]),
      ...(notInSum.length === 0 ? [] : [`In no sum: ${notInSum.join("; ")}.`]),
    ].join(" "),
  };
}

/** By label and value of a series of TensorRT-LLM, such as `request_type.waiting`: Services whose release reports it. */
function batchManagerValues(plan: ClusterPlan): Values {
  const reported = (plan.tier === "cpu" ? [] : plan.models).map(({ name, spec }) => ({
    name,
    series: tensorRtLlmSeries(spec.serving, spec.engine.release.tag).map(({ labels }) => labels),
  }));
  return Object.fromEntries(
    Object.values(tensorRtLlmMetrics).flatMap(({ label, series }) =>
      Object.keys(series).map((value) => {
        const services = reported.filter((model) => model.series.some((labels) => labels[label] === value));
        return [`${label}.${value}`, anyOf(services.map(({ name }) => name))];
      }),
    ),
  );
}
