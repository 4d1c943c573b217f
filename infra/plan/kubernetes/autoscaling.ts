/** Autoscalers of servers whose number follows the load. */
import { type MetricSeries, tensorRtLlmSeries } from "../catalogue/metrics.ts";
import { ENCODERS } from "../containers/servers.ts";
import { imageBatch } from "../repository/cpu-models.ts";
import type { ClusterPlan } from "../stack-plan.ts";
import { GATEWAY } from "./network.ts";
import { type ApiObject, type CustomObject, objectLabels } from "./objects.ts";
import type { ServerPlan } from "./servers.ts";

/** A second server starts in minutes, so that it is started early. A request of encoders may be a whole batch. */
const WAITING_SHARE_OF_BATCH = 0.25;

/** A second gateway starts in seconds, while the first still accepts requests. */
const GATEWAY_BUSY_SHARE = 0.5;

/**
 * Requests that wait for any model of a Triton. An ensemble's own count is always zero, since its requests wait for its models
 * (`EnsembleScheduler::Enqueue` of https://github.com/triton-inference-server/core).
 */
const QUEUE: MetricSeries = { name: "nv_inference_pending_request_count", labels: {} };

/** How often KEDA asks: twice between two scrapes of Prometheus. */
const POLLING_SECONDS = 15;

/** Autoscalers of servers whose least number is below their most; the others keep the number of the stack file. */
export function autoscalers(stack: string, plan: ClusterPlan, servers: readonly ServerPlan[]) {
  return servers.filter(({ replicas }) => replicas === null).map((server) => autoscaler(stack, plan, server));
}

/** Sets the number of replicas of the Deployment of the same name. */
export type AutoscalerPlan = ReturnType<typeof autoscaler>;

function autoscaler(stack: string, plan: ClusterPlan, { name, maxReplicas: max, pod }: ServerPlan) {
  const { autoscaling, schedule, minReplicas } = plan.cluster;
  const { mechanism, prometheusUrl, scaleDownSeconds } = autoscaling;
  const { [name]: min = 0 } = minReplicas;
  const metrics = loadOf(plan, name, min);
  const scheduled =
    schedule === null || pod.role !== "triton"
      ? null
      : { ...schedule, replicas: Math.min(schedule.replicas, max) };
  const metadata = { name, labels: objectLabels(stack, { role: pod.role, model: pod.model }) };
  const behavior = { scaleDown: { stabilizationWindowSeconds: scaleDownSeconds } };
  const horizontal: ApiObject<"HorizontalPodAutoscaler"> = {
    kind: "HorizontalPodAutoscaler",
    // It is ready once metrics have come, which may be after the first request.
    metadata: { ...metadata, annotations: { "pulumi.com/skipAwait": "true" } },
    spec: {
      scaleTargetRef: { apiVersion: "apps/v1", kind: "Deployment", name },
      minReplicas: min,
      maxReplicas: max,
      behavior,
      metrics: metrics.map(({ series, target }) => ({
        type: "External",
        external: {
          metric: { name: series.name, selector: { matchLabels: series.labels } },
          target: { type: "AverageValue", averageValue: String(target) },
        },
      })),
    },
  };
  const scaledObject: CustomObject = {
    apiVersion: "keda.sh/v1alpha1",
    kind: "ScaledObject",
    metadata,
    spec: {
      scaleTargetRef: { name },
      minReplicaCount: min,
      maxReplicaCount: max,
      pollingInterval: POLLING_SECONDS,
      cooldownPeriod: scaleDownSeconds,
      advanced: { horizontalPodAutoscalerConfig: { behavior } },
      triggers: [
        ...metrics.map(({ name, query, target }) => ({
          type: "prometheus",
          name,
          metadata: {
            serverAddress: prometheusUrl,
            query,
            threshold: String(target),
            // Above it there is at least one replica.
            activationThreshold: min === 0 ? "0" : undefined,
            // An absent series is an error: servers stay as they are.
            ignoreNullValues: "false",
          },
        })),
        ...(scheduled === null ? [] : [cron(scheduled)]),
      ],
    },
  };
  return {
    name,
    replicas: { min, max },
    metrics,
    /** Least replicas at a time of the day, whatever the metrics say; only with KEDA. */
    schedule: scheduled,
    /** `hpa`: by metrics of the cluster's external metrics API. `keda`: KEDA asks Prometheus and can scale to zero. */
    mechanism,
    object: mechanism === "hpa" ? horizontal : scaledObject,
  };
}

function cron({ timeZone, start, end, replicas }: NonNullable<ClusterPlan["cluster"]["schedule"]>) {
  const metadata = { timezone: timeZone, start, end, desiredReplicas: String(replicas) };
  return { type: "cron", name: "schedule", metadata };
}

/** Values that the autoscaler of a server reads. @param min - Least number of replicas. */
function loadOf(plan: ClusterPlan, server: string, min: number) {
  const metric = (trigger: string, service: string, of: MetricSeries, target: number) => {
    // Prometheus' operator gives each series the namespace and the Service of its pods.
    const labels = { namespace: plan.cluster.namespace.name, service, ...of.labels };
    const series: MetricSeries = { name: of.name, labels };
    return {
      /** Name of the trigger: `waiting-requests`. */
      name: trigger,
      series,
      /** PromQL; an empty answer is an error, never a zero. */
      query: `sum(${selector(series)})`,
      /** Value of one replica that is as busy as it should be. */
      target: Math.max(1, target),
    };
  };
  const waitingTarget = (batch: number) => Math.round(WAITING_SHARE_OF_BATCH * batch);
  if (server === GATEWAY) {
    const inFlight = { name: "gateway_http_requests_in_flight", labels: {} };
    const places = plan.gateway.limits.concurrentRequests;
    return [metric("in-flight-requests", GATEWAY, inFlight, Math.floor(GATEWAY_BUSY_SHARE * places))];
  }
  if (server === ENCODERS)
    return [metric("pending-requests", ENCODERS, QUEUE, waitingTarget(encodersBatch(plan)))];
  const { batch, series } = modelLoad(plan, server);
  // Without a server, or with a release that does not report waiting requests, only the gateway knows the load.
  const asked = { name: "gateway_pending_requests", labels: { model: server } };
  const pending = metric("gateway-pending-requests", GATEWAY, asked, batch);
  if (series === null) return [pending];
  const own = metric("waiting-requests", server, series, waitingTarget(batch));
  return min === 0 ? [own, pending] : [own];
}

/** Smallest batch of the encoders. No encoder is decoupled, so that Triton's queue holds waiting requests. */
function encodersBatch(plan: ClusterPlan): number {
  if (plan.tier === "cpu" && !plan.encoders.dynamicBatching) return 1;
  const encoders = plan.tier === "cpu" ? plan.encoders : plan.spec.encoders;
  return imageBatch(encoders?.maxBatchSize ?? 1);
}

/** Requests that one server of a model answers at a time, and its series of waiting requests, if any. */
function modelLoad(
  plan: ClusterPlan,
  name: string,
): { readonly batch: number; readonly series: MetricSeries | null } {
  if (plan.tier === "cpu") {
    const batch = plan.models.find((model) => model.name === name)?.parallelRequests ?? 1;
    // Decoupled, so that Triton's queue is always empty.
    return { batch, series: null };
  }
  const model = plan.models.find((candidate) => candidate.name === name);
  if (model === undefined) throw new Error(`The stack has no model ${name}.`);
  const { serving } = model.spec;
  const reported = tensorRtLlmSeries(serving, plan.release.tag);
  // A batch manager, the LLM API and decoupled models take each request at once.
  const isQueued = reported.length === 0 && model.engine !== null && !model.repository.decoupled;
  return {
    batch: serving.maxBatchSize,
    series: reported.find(({ labels }) => labels.request_type === "waiting") ?? (isQueued ? QUEUE : null),
  };
}

/** `name{label="value"}`, as PromQL has it. */
export function selector({ name, labels }: MetricSeries): string {
  const matchers = Object.entries(labels).map(([label, value]) => `${label}=${JSON.stringify(value)}`);
  return `${name}{${matchers.join(", ")}}`;
}
