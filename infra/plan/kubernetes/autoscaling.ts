/** Autoscalers of servers whose number follows the load. */
import { type MetricSeries, tensorRtLlmSeries } from "../catalogue/metrics.ts";
import { ENCODERS } from "../containers/servers.ts";
import { textEncoderConfig, visionEncoderConfig } from "../repository/cpu-models.ts";
import type { ClusterPlan } from "../stack-plan.ts";
import { GATEWAY } from "./ingress.ts";
import { objectLabels } from "./labels.ts";
import type {
  AutoscalerPlan,
  CustomObject,
  HorizontalPodAutoscaler,
  Scaling,
  ScalingMetric,
  ServerPlan,
} from "./types.ts";

/**
 * A second server starts in minutes, so that it is started before as many requests wait as run. A request of encoders may be
 * a whole batch, such as the list of a client that the gateway embeds.
 */
const WAITING_SHARE_OF_BATCH = 0.25;

/** A second gateway starts in seconds, and the first one still has places until then. */
const GATEWAY_BUSY_SHARE = 0.5;

/**
 * Requests that wait for any model of a Triton. An ensemble's own count is always zero, since its requests wait for its models
 * (`EnsembleScheduler::Enqueue` of https://github.com/triton-inference-server/core).
 */
const QUEUE: MetricSeries = { name: "nv_inference_pending_request_count", labels: {} };

/** How often KEDA asks: twice between two scrapes of Prometheus. */
const POLLING_SECONDS = 15;

/** Autoscalers of servers whose least number is below their most; the others keep the number of the stack file. */
export function autoscalers(
  stack: string,
  plan: ClusterPlan,
  servers: readonly ServerPlan[],
): readonly AutoscalerPlan[] {
  const { minReplicas, autoscaling, schedule } = plan.cluster;
  return servers.flatMap((server): readonly AutoscalerPlan[] => {
    const { name, replicas, maxReplicas, pod } = server;
    const { [name]: min = 0 } = minReplicas;
    if (replicas !== null) return [];
    const scaling = {
      name,
      replicas: { min, max: maxReplicas },
      metrics: loadOf(plan, server, min),
      schedule:
        schedule !== null && pod.role === "triton"
          ? { ...schedule, replicas: Math.min(schedule.replicas, maxReplicas) }
          : null,
    };
    const metadata = { name, labels: objectLabels(stack, { role: pod.role, model: pod.model }) };
    return autoscaling.mechanism === "keda"
      ? [{ ...scaling, mechanism: "keda", object: scaledObject(metadata, scaling, autoscaling) }]
      : [{ ...scaling, mechanism: "hpa", object: horizontalAutoscaler(metadata, scaling, autoscaling) }];
  });
}

type Metadata = CustomObject["metadata"];
type Options = ClusterPlan["cluster"]["autoscaling"];

function scaledObject(
  metadata: Metadata,
  { name, replicas, metrics, schedule }: Scaling,
  { prometheusUrl, scaleDownSeconds }: Options,
): CustomObject {
  return {
    apiVersion: "keda.sh/v1alpha1",
    kind: "ScaledObject",
    metadata,
    spec: {
      scaleTargetRef: { name },
      minReplicaCount: replicas.min,
      maxReplicaCount: replicas.max,
      pollingInterval: POLLING_SECONDS,
      cooldownPeriod: scaleDownSeconds,
      advanced: { horizontalPodAutoscalerConfig: { behavior: behavior(scaleDownSeconds) } },
      triggers: [
        ...metrics.map(({ name: metric, query, target, activation }) => ({
          type: "prometheus",
          name: metric,
          metadata: {
            serverAddress: prometheusUrl,
            query,
            threshold: String(target),
            activationThreshold: activation === null ? undefined : String(activation),
            // An absent series is an error: servers stay as they are.
            ignoreNullValues: "false",
          },
        })),
        ...(schedule === null
          ? []
          : [
              {
                type: "cron",
                name: "schedule",
                metadata: {
                  timezone: schedule.timeZone,
                  start: schedule.start,
                  end: schedule.end,
                  desiredReplicas: String(schedule.replicas),
                },
              },
            ]),
      ],
    },
  };
}

function horizontalAutoscaler(
  metadata: Metadata,
  { name, replicas, metrics }: Scaling,
  { scaleDownSeconds }: Options,
): HorizontalPodAutoscaler {
  return {
    // It is ready once metrics have come, which may be after the first request.
    metadata: { ...metadata, annotations: { "pulumi.com/skipAwait": "true" } },
    spec: {
      scaleTargetRef: { apiVersion: "apps/v1", kind: "Deployment", name },
      minReplicas: replicas.min,
      maxReplicas: replicas.max,
      behavior: behavior(scaleDownSeconds),
      metrics: metrics.map(({ series, target }) => ({
        type: "External",
        external: {
          metric: { name: series.name, selector: { matchLabels: series.labels } },
          target: { type: "AverageValue", averageValue: String(target) },
        },
      })),
    },
  };
}

function behavior(scaleDownSeconds: number) {
  return { scaleDown: { stabilizationWindowSeconds: scaleDownSeconds } };
}

/** @param min - Least number of replicas. */
function loadOf(plan: ClusterPlan, { name }: ServerPlan, min: number): readonly ScalingMetric[] {
  const metric = (trigger: string, service: string, of: MetricSeries, target: number): ScalingMetric => {
    // Prometheus' operator gives each series the namespace and the Service of its pods.
    const labels = { namespace: plan.cluster.namespace.name, service, ...of.labels };
    const series = { name: of.name, labels };
    return {
      name: trigger,
      series,
      query: `sum(${selector(series)})`,
      target: Math.max(1, target),
      activation: min === 0 ? 0 : null,
    };
  };
  if (name === GATEWAY) {
    const inFlight = { name: "gateway_http_requests_in_flight", labels: {} };
    const places = plan.gateway.limits.concurrentRequests;
    return [metric("in-flight-requests", GATEWAY, inFlight, Math.floor(GATEWAY_BUSY_SHARE * places))];
  }
  if (name === ENCODERS)
    return [metric("pending-requests", ENCODERS, QUEUE, waitingTarget(encodersBatch(plan)))];
  const { batch, waiting } = modelLoad(plan, name);
  // Without a server, or with a release that does not report what waits, the gateway alone knows that a server is needed.
  const asked = { name: "gateway_pending_requests", labels: { model: name } };
  const pending = metric("gateway-pending-requests", GATEWAY, asked, batch);
  if (waiting === null) return [pending];
  const own = metric("waiting-requests", name, waiting, waitingTarget(batch));
  return min === 0 ? [own, pending] : [own];
}

function waitingTarget(batch: number): number {
  return Math.round(WAITING_SHARE_OF_BATCH * batch);
}

/** Requests that one run of any encoder takes. No encoder is decoupled, so that Triton's queue has those that wait. */
function encodersBatch(plan: ClusterPlan): number {
  const models =
    plan.tier === "cpu"
      ? [textEncoderConfig(plan.encoders), visionEncoderConfig(plan.encoders)]
      : (plan.encoders?.models ?? []).map(({ config }) => config);
  return Math.min(
    ...models.map(({ maxBatchSize, dynamicBatching }) => (dynamicBatching === undefined ? 1 : maxBatchSize)),
  );
}

interface ModelLoad {
  /** Requests that one server answers at a time. */
  readonly batch: number;
  /** The server's series of waiting requests; null: it has none. */
  readonly waiting: MetricSeries | null;
}

function modelLoad(plan: ClusterPlan, name: string): ModelLoad {
  if (plan.tier === "cpu") {
    const batch = plan.models.find((model) => model.name === name)?.parallelRequests ?? 1;
    // Decoupled, so that Triton's queue is always empty.
    return { batch, waiting: null };
  }
  const model = plan.models.find((candidate) => candidate.name === name);
  if (model === undefined) throw new Error(`The stack has no model ${name}.`);
  const { serving } = model.spec;
  const series = tensorRtLlmSeries(serving, plan.release.tag);
  // A batch manager, the LLM API and decoupled models take each request at once.
  const isQueued = series.length === 0 && model.engine !== null && !model.repository.decoupled;
  return {
    batch: serving.maxBatchSize,
    waiting: series.find(({ labels }) => labels.request_type === "waiting") ?? (isQueued ? QUEUE : null),
  };
}

/** `name{label="value"}`, as PromQL has it. */
export function selector({ name, labels }: MetricSeries): string {
  const matchers = Object.entries(labels).map(([label, value]) => `${label}=${JSON.stringify(value)}`);
  return `${name}{${matchers.join(", ")}}`;
}
