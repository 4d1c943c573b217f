/** How many servers of each kind there are, where the load decides it: autoscalers as data. */
import { type MetricSeries, tensorRtLlmSeries } from "../catalogue/metrics.ts";
import { textEncoderConfig, visionEncoderConfig } from "../repository/cpu-models.ts";
import type { ClusterPlan } from "./cluster-plan.ts";
import { GATEWAY } from "./gateway.ts";
import { objectLabels } from "./labels.ts";
import type { AutoscalerPlan } from "./operations-types.ts";
import { ENCODERS } from "./servers.ts";
import type { ServerPlan } from "./types.ts";

type ScalingMetric = AutoscalerPlan["metrics"][number];

/**
 * A second server starts in minutes: it is asked for before as many wait as run. A request of encoders may be a whole batch by
 * itself, as those with which the gateway embeds a client's list are.
 */
const WAITING_SHARE_OF_BATCH = 0.25;

/** A second gateway starts in seconds, and the first one still has places until then. */
const GATEWAY_BUSY_SHARE = 0.5;

/**
 * Of all models of a Triton: an ensemble's own count is always zero, since its requests wait in front of its models
 * (`EnsembleScheduler::Enqueue` of https://github.com/triton-inference-server/core).
 */
const QUEUE: MetricSeries = {
  name: "nv_inference_pending_request_count",
  labels: {},
};

/** Of every server whose least number is below its most; the others keep the number of the stack file. */
export function autoscalers(
  stack: string,
  plan: ClusterPlan,
  servers: readonly ServerPlan[],
): readonly AutoscalerPlan[] {
  const { minReplicas, autoscaling, schedule } = plan.cluster;
  return servers.flatMap((server): readonly AutoscalerPlan[] => {
    const min = minReplicas[server.name];
    if (min === undefined) return [];
    const { role, model } = server.pod;
    return [
      {
        name: server.name,
        labels: objectLabels(stack, { role, model }),
        deployment: server.name,
        mechanism: autoscaling.mechanism,
        replicas: { min, max: server.maxReplicas },
        metrics: loadOf(plan, server, min),
        prometheusUrl: autoscaling.mechanism === "keda" ? autoscaling.prometheusUrl : null,
        scaleDownSeconds: autoscaling.scaleDownSeconds,
        schedule:
          schedule !== null && role === "triton"
            ? { ...schedule, replicas: Math.min(schedule.replicas, server.maxReplicas) }
            : null,
      },
    ];
  });
}

/** A server whose number an autoscaler owns has none of its own: `up` would write it back. */
export function withoutOwnedReplicas(server: ServerPlan, owners: readonly AutoscalerPlan[]): ServerPlan {
  return owners.some(({ deployment }) => deployment === server.name) ? { ...server, replicas: null } : server;
}

function loadOf(plan: ClusterPlan, { name }: ServerPlan, min: number): readonly ScalingMetric[] {
  if (name === GATEWAY) return [gatewayLoad(plan)];
  return name === ENCODERS ? [encodersLoad(plan)] : modelLoad(plan, name, min);
}

function gatewayLoad(plan: ClusterPlan): ScalingMetric {
  return metric(plan, "in-flight-requests", {
    service: GATEWAY,
    series: { name: "gateway_http_requests_in_flight", labels: {} },
    target: Math.max(1, Math.floor(GATEWAY_BUSY_SHARE * plan.gateway.limits.concurrentRequests)),
    activation: null,
  });
}

/** No encoder is decoupled, so that Triton's own queue has what waits for them. */
function encodersLoad(plan: ClusterPlan): ScalingMetric {
  return metric(plan, "pending-requests", {
    service: ENCODERS,
    series: QUEUE,
    target: waitingTarget(encodersBatch(plan)),
    activation: null,
  });
}

/** Requests that one run of any encoder takes. */
function encodersBatch(plan: ClusterPlan): number {
  const models =
    plan.tier === "cpu"
      ? [textEncoderConfig(plan.encoders), visionEncoderConfig(plan.encoders)]
      : (plan.encoders?.models ?? []).map(({ config }) => config);
  return Math.min(
    ...models.map(({ maxBatchSize, dynamicBatching }) => (dynamicBatching === undefined ? 1 : maxBatchSize)),
  );
}

function waitingTarget(batch: number): number {
  return Math.max(1, Math.round(WAITING_SHARE_OF_BATCH * batch));
}

/**
 * What waits in the server itself says how busy servers are. While there is none, nobody but the gateway knows that one is
 * wanted; a release that does not say what waits leaves it to the gateway altogether.
 */
function modelLoad(plan: ClusterPlan, name: string, min: number): readonly ScalingMetric[] {
  const activation = min === 0 ? 0 : null;
  const { batch, waiting } = serverOf(plan, name);
  const pending = metric(plan, "gateway-pending-requests", {
    service: GATEWAY,
    series: {
      name: "gateway_pending_requests",
      labels: { model: name },
    },
    target: batch,
    activation,
  });
  if (waiting === null) return [pending];
  const own = metric(plan, "waiting-requests", {
    service: name,
    series: waiting,
    target: waitingTarget(batch),
    activation,
  });
  return min === 0 ? [own, pending] : [own];
}

interface ServerLoad {
  /** Requests that one server answers at a time. */
  readonly batch: number;
  /** Series of its own that counts who waits; null: it has none. */
  readonly waiting: MetricSeries | null;
}

function serverOf(plan: ClusterPlan, name: string): ServerLoad {
  if (plan.tier === "cpu") {
    const batch = plan.models.find((model) => model.name === name)?.parallelRequests ?? 1;
    // Decoupled, as TensorRT-LLM's: Triton's queue is always empty.
    return { batch, waiting: null };
  }
  const model = plan.models.find((one) => one.name === name);
  if (model === undefined) throw new Error(`The stack has no model ${name}.`);
  const { serving } = model.spec;
  const series = tensorRtLlmSeries(serving, plan.release.tag);
  const waiting = series.find(({ labels }) => labels.request_type === "waiting");
  const batch = serving.maxBatchSize;
  if (waiting !== undefined) return { batch, waiting };
  // A batch manager, the LLM API and whatever is decoupled take each request at once.
  const isQueued = series.length === 0 && model.engine !== null && !model.repository.decoupled;
  return { batch, waiting: isQueued ? QUEUE : null };
}

interface MetricOptions extends Pick<ScalingMetric, "target" | "activation"> {
  /** Service whose pods have the series. */
  readonly service: string;
  readonly series: MetricSeries;
}

/** Prometheus' operator gives each series the namespace and the Service that it was read behind. */
function metric(
  { cluster }: ClusterPlan,
  name: string,
  { service, series, target, activation }: MetricOptions,
): ScalingMetric {
  const asked = {
    name: series.name,
    labels: { namespace: cluster.namespace.name, service, ...series.labels },
  };
  return { name, series: asked, query: `sum(${selector(asked)})`, target, activation };
}

/** `name{label="value"}`, as PromQL has it. */
export function selector({ name, labels }: MetricSeries): string {
  const matchers = Object.entries(labels).map(([label, value]) => `${label}=${JSON.stringify(value)}`);
  return `${name}{${matchers.join(", ")}}`;
}
