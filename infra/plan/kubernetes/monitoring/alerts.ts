/** When somebody has to look. Thresholds stand here with their reasons; docs/runbooks says what to do. */
import type { ClusterPlan } from "../cluster-plan.ts";
import { clusterAlerts } from "./cluster-alerts.ts";
import { targets } from "./monitors.ts";
import { quantile, rate, selector, series, sum } from "./promql.ts";
import { of, servicesWith, sleepers, tritonServices, type WatchedStack } from "./scope.ts";
import type { AlertPlan } from "./types.ts";

/** An alert without what all have alike. */
export type Alert = Omit<AlertPlan, "labels" | "runbook"> & { readonly labels?: AlertPlan["labels"] };

/** A restart of Prometheus or of a pod is over by then. */
const SETTLED_SECONDS = 300;
/** Load that lasts this long is no peak. */
const LASTING_SECONDS = 600;

/** Of all answers of a model, those that failed. */
const FAILED_SHARE = 0.05;
/** People wait no longer for a first word; also a bound of the histogram's buckets. */
const SLOW_FIRST_TOKEN_SECONDS = 10;
/** Of places and of blocks of the KV cache: beyond it the next peak waits. */
const FULL_SHARE = 0.9;

/** Folder of the project that has a file for each alert. */
const RUNBOOKS = "docs/runbooks";

type Options = NonNullable<ClusterPlan["cluster"]["monitoring"]>;

/** All alerts of a stack, by name. */
export function alerts(watched: WatchedStack, options: Options): readonly AlertPlan[] {
  const base = options.runbookUrl ?? RUNBOOKS;
  return [
    ...targetAlerts(watched),
    ...gatewayAlerts(watched),
    ...tritonAlerts(watched),
    ...scalingAlerts(watched),
    ...clusterAlerts(watched, options),
  ]
    .map((alert) => ({ labels: {}, ...alert, runbook: `${base}/${alert.name}.md` }))
    .sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}

function targetAlerts(watched: WatchedStack): readonly Alert[] {
  const { models, encoders, gateway, databases } = watched;
  const pods = new Map(
    [...models, ...(encoders === null ? [] : [encoders]), gateway, ...databases].map(({ service, pod }) => [
      service.name,
      pod,
    ]),
  );
  const asleep = sleepers(watched);
  const services = targets(watched).map(({ service }) => service.name);
  const always = services.filter((service) => !asleep.includes(service));
  return [
    ...services.map((service): Alert => {
      const startup = pods.get(service)?.probes?.startup;
      const startSeconds = startup === undefined ? 0 : startup.periodSeconds * startup.failureThreshold;
      return {
        name: "EngineRoomTargetDown",
        labels: { service },
        expression: `${series("up", of(watched, service))} == 0`,
        // A Triton that loads its model has no metrics yet.
        forSeconds: Math.max(SETTLED_SECONDS, startSeconds),
        severity: "critical",
        summary: `{{ $labels.pod }} of ${service} does not answer Prometheus.`,
      };
    }),
    {
      name: "EngineRoomTargetAbsent",
      expression: always.map((service) => absentTarget(watched, service)).join(" or "),
      forSeconds: LASTING_SECONDS,
      severity: "critical",
      summary: "Prometheus reads no pod of {{ $labels.service }}.",
    },
  ];
}

/** A server that `npm run sleep` has put at zero is missed by nobody; without kube-state-metrics it still is. */
function absentTarget(watched: WatchedStack, service: string): string {
  const absent = `absent(${series("up", of(watched, service))})`;
  if (!watched.models.some(({ name }) => name === service)) return absent;
  const { namespace } = watched.plan.cluster;
  const wanted = series("kube_deployment_spec_replicas", { namespace: namespace.name, deployment: service });
  return `(${absent} unless on (namespace) (${wanted} == 0))`;
}

function gatewayAlerts(watched: WatchedStack): readonly Alert[] {
  const { plan, gateway } = watched;
  const at = of(watched, gateway.service.name);
  const places = plan.gateway.limits.concurrentRequests;
  const answers = (more: typeof at) => sum(rate("gateway_http_requests_total", { ...at, ...more }), "model");
  return [
    {
      name: "EngineRoomRequestsFail",
      expression: `${answers({ status: { like: "5.." } })} / ${answers({})} > ${FAILED_SHARE}`,
      forSeconds: LASTING_SECONDS,
      severity: "critical",
      summary:
        '{{ $value | humanizePercentage }} of the answers of model "{{ $labels.model }}" are failures.',
    },
    ...awayAlerts(watched),
    {
      name: "EngineRoomFirstTokenSlow",
      expression: `${quantile(0.95, "gateway_first_token_seconds", at, ["model"])} > ${SLOW_FIRST_TOKEN_SECONDS}`,
      forSeconds: LASTING_SECONDS,
      severity: "warning",
      summary:
        "One in twenty streams of {{ $labels.model }} begins after {{ $value | humanizeDuration }} or later.",
    },
    {
      name: "EngineRoomGatewayFull",
      expression: `${series("gateway_places_taken", at)} >= ${Math.ceil(FULL_SHARE * places)}`,
      forSeconds: LASTING_SECONDS,
      severity: "warning",
      summary: `{{ $labels.pod }} has taken {{ $value }} of ${places} places.`,
    },
    {
      name: "EngineRoomConnectionsRefused",
      expression: `${sum(rate("gateway_connections_refused_total", at), "pod")} > 0`,
      forSeconds: 60,
      severity: "warning",
      summary: "{{ $labels.pod }} closes connections, because too many are open.",
    },
    ...(plan.cluster.databases === null
      ? []
      : [
          {
            name: "EngineRoomDatabaseFails" as const,
            expression: `${sum(rate("gateway_database_errors_total", at), "database", "kind")} > 0`,
            forSeconds: SETTLED_SECONDS,
            severity: "critical" as const,
            summary: "Calls of {{ $labels.database }} fail: {{ $labels.kind }}.",
          },
        ]),
  ];
}

/** Requests to a model that sleeps wake it: it is away only if it does not come in the time that its server may take. */
function awayAlerts(watched: WatchedStack): readonly Alert[] {
  const asleep = sleepers(watched);
  const alert = (upstream: readonly string[], forSeconds: number): Alert => ({
    name: "EngineRoomModelAway",
    expression: `${sum(rate("gateway_upstream_errors_total", { ...of(watched, watched.gateway.service.name), upstream, kind: ["away", "not_ready", "broken"] }), "upstream", "kind")} > 0`,
    forSeconds,
    severity: "critical",
    summary: "Requests to {{ $labels.upstream }} fail: {{ $labels.kind }}.",
  });
  const always = tritonServices(watched).filter((name) => !asleep.includes(name));
  return [
    ...(always.length === 0 ? [] : [alert(always, SETTLED_SECONDS)]),
    ...watched.models
      .filter(({ name }) => asleep.includes(name))
      .map(({ name, progressDeadlineSeconds }) => ({
        ...alert([name], SETTLED_SECONDS + progressDeadlineSeconds),
        labels: { upstream: name },
      })),
  ];
}

function tritonAlerts(watched: WatchedStack): readonly Alert[] {
  const waiting = servicesWith(watched, "nv_trt_llm_request_metrics", "waiting");
  const cached = servicesWith(watched, "nv_trt_llm_kv_cache_block_metrics", "used");
  const blocks = (kind: string) =>
    sum(
      series("nv_trt_llm_kv_cache_block_metrics", { ...of(watched, cached), kv_cache_block_type: kind }),
      "service",
      "pod",
    );
  return [
    {
      name: "EngineRoomTritonFails",
      // A client that leaves is no failure; older releases have no label for it.
      expression: `${sum(rate("nv_inference_request_failure", { ...of(watched, tritonServices(watched)), reason: { not: "CANCELED" } }), "service", "model")} > 0`,
      forSeconds: LASTING_SECONDS,
      severity: "warning",
      summary: "Triton fails requests of {{ $labels.model }} in {{ $labels.service }}.",
    },
    ...when(waiting.length > 0, {
      name: "EngineRoomRequestsWait",
      expression: `${sum(series("nv_trt_llm_request_metrics", { ...of(watched, waiting), request_type: "waiting" }), "service")} > 0`,
      forSeconds: LASTING_SECONDS,
      severity: "warning",
      summary: "{{ $value }} requests wait for {{ $labels.service }}.",
    }),
    ...when(cached.length > 0, {
      name: "EngineRoomKvCacheFull",
      expression: `${blocks("used")} / ${blocks("max")} > ${FULL_SHARE}`,
      forSeconds: LASTING_SECONDS,
      severity: "warning",
      summary: "{{ $value | humanizePercentage }} of the KV cache of {{ $labels.pod }} are in use.",
    }),
  ];
}

/**
 * An autoscaler that gets no number neither adds nor takes away servers. A gateway is always there; of a model there may
 * rightly be no server, so that its own series is missed only where a server is read.
 */
function scalingAlerts(watched: WatchedStack): readonly Alert[] {
  return watched.autoscalers.flatMap(({ name, metrics }) =>
    metrics.map((metric): Alert => {
      const asked = selector(metric.series);
      const { service } = metric.series.labels;
      const isOfGateway = service === watched.gateway.service.name;
      return {
        name: "EngineRoomScalingSeriesAbsent",
        labels: { autoscaler: name, scaling_series: metric.name },
        expression: isOfGateway
          ? `absent(${asked})`
          : `${series("up", of(watched, service))} == 1 unless on (namespace, service, pod) ${asked}`,
        forSeconds: SETTLED_SECONDS,
        severity: "warning",
        summary: `${isOfGateway ? "No gateway reports" : "{{ $labels.pod }} does not report"} ${metric.series.name}, by which the number of ${name} is chosen.`,
      };
    }),
  );
}

/** For lists that leave out what a stack does not have. */
export function when(isThere: boolean, alert: Alert): readonly Alert[] {
  return isThere ? [alert] : [];
}
