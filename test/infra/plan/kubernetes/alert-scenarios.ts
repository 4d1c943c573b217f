/**
 * Prometheus' samples of a stack with autoscalers, one a minute: without faults, and with a fault from a minute on.
 * Names and labels are written out, so that they do not repeat the expressions.
 */

/** The first sample of a fault. */
export const FAULT_MINUTE = 30;
export const LAST_MINUTE = 80;

/** Values in the notation of promtool; null: Prometheus reads no such series. */
type SeriesValues = Readonly<Record<string, string | null>>;

export interface Fired {
  readonly alert: string;
  /** Labels in addition to the severity. */
  readonly labels: Readonly<Record<string, string>>;
  readonly summary: string;
}

export interface Scene {
  readonly title: string;
  readonly changes: SeriesValues;
  readonly fires: readonly Fired[];
}

export const steady = (value: number) => `${value}x${LAST_MINUTE}`;
/** One value until the fault, then another. */
const then = (before: number, after: number) =>
  `${before}x${FAULT_MINUTE - 1} ${after}x${LAST_MINUTE - FAULT_MINUTE}`;
/** Read for the last time before the fault. */
export const until = (value: number) => `${value}x${FAULT_MINUTE - 1} stale`;
/** A counter that grows from the fault on, so much a minute. */
const growing = (step: number) => `0x${FAULT_MINUTE - 1} ${step}+${step}x${LAST_MINUTE - FAULT_MINUTE}`;
/** The same for a counter that is absent before. */
const appearing = (step: number, first = step) =>
  `_x${FAULT_MINUTE} ${first}+${step}x${LAST_MINUTE - FAULT_MINUTE}`;
/** A counter that grows by another step from the fault on. */
const growingBy = (before: number, after: number) =>
  `0+${before}x${FAULT_MINUTE - 1} ${before * FAULT_MINUTE}+${after}x${LAST_MINUTE - FAULT_MINUTE}`;
const counter = (step: number) => `0+${step}x${LAST_MINUTE}`;

/** A series of a target of the stack. */
function series(name: string, service: string, labels: Readonly<Record<string, string>> = {}): string {
  const all = { namespace: "engine-room", service, job: service, pod: `${service}-0`, ...labels };
  return `${name}{${Object.entries(all)
    .map(([label, value]) => `${label}="${value}"`)
    .join(", ")}}`;
}
const gateway = (name: string, labels?: Readonly<Record<string, string>>) => series(name, "gateway", labels);
export const up = (service: string) => series("up", service);

/** kube-state-metrics' series of the model's Deployment; its own labels stay, as they do with `honorLabels`. */
export const WANTED = 'kube_deployment_spec_replicas{namespace="engine-room", deployment="gpt"}';

const WAITING = series("nv_trt_llm_request_metrics", "gpt", {
  model: "tensorrt_llm",
  request_type: "waiting",
});
const blocks = (kind: string) =>
  series("nv_trt_llm_kv_cache_block_metrics", "gpt", {
    kv_cache_block_type: kind,
    model: "tensorrt_llm",
    version: "1",
  });
const failures = (service: string, reason: string) =>
  series("nv_inference_request_failure", service, { model: "ensemble", version: "1", reason });
const PENDING_OF_ENCODERS = series("nv_inference_pending_request_count", "encoders", {
  model: "clip_text",
  version: "1",
});
const PENDING_OF_GPT = gateway("gateway_pending_requests", { model: "gpt" });
const IN_FLIGHT = gateway("gateway_http_requests_in_flight");
const PLACES = gateway("gateway_places_taken");
const answers = (status: string) =>
  gateway("gateway_http_requests_total", { route: "/v1/chat/completions", model: "gpt", status });
const bucket = (le: string) => gateway("gateway_first_token_seconds_bucket", { model: "gpt", le });
const upstreamErrors = (upstream: string, kind: string) =>
  gateway("gateway_upstream_errors_total", { upstream, kind });
const DATABASE_ERRORS = gateway("gateway_database_errors_total", { database: "mongo", kind: "timeout" });
const DROPPED = gateway("gateway_connections_dropped_total");
const volume = (what: string, claim: string) =>
  `kubelet_volume_stats_${what}_bytes{namespace="engine-room", job="kubelet", node="node-0", persistentvolumeclaim="${claim}"}`;
/** kube-state-metrics' series of a Job without retries left. */
const failedJob = (namespace: string, name: string) =>
  `kube_job_status_failed{namespace="${namespace}", job="kube-state-metrics", job_name="${name}", reason="BackoffLimitExceeded"}`;
const gpu = (name: string) =>
  `${name}{namespace="engine-room", job="engine-room-gpus-demo", pod="gpt-0", node="node-0", gpu="0"}`;

/** A stack that answers, of which nothing is wrong: a failed request of a client, failed builds of others, some load. */
export const HEALTHY: SeriesValues = {
  ...Object.fromEntries(
    ["gpt", "encoders", "gateway", "mongo", "vector"].map((service) => [up(service), steady(1)]),
  ),
  [WANTED]: steady(1),
  [WAITING]: steady(0),
  [blocks("used")]: steady(10),
  [blocks("max")]: steady(100),
  [failures("gpt", "CANCELED")]: counter(3),
  [failures("gpt", "BACKEND")]: steady(0),
  [PENDING_OF_ENCODERS]: steady(0),
  [PENDING_OF_GPT]: steady(0),
  [IN_FLIGHT]: steady(2),
  [PLACES]: steady(2),
  [answers("200")]: counter(60),
  [answers("400")]: counter(20),
  [bucket("5")]: counter(60),
  [bucket("10")]: counter(60),
  [bucket("30")]: counter(60),
  [bucket("+Inf")]: counter(60),
  // A model that wakes is busy.
  [upstreamErrors("gpt", "busy")]: counter(1),
  [DROPPED]: steady(0),
  ...Object.fromEntries(
    ["engine-store", "mock-data-mongo-0", "mock-data-vector-0"].flatMap((claim) => [
      [volume("available", claim), steady(40)],
      [volume("capacity", claim), steady(100)],
    ]),
  ),
  [failedJob("engine-room", "of-somebody-else")]: steady(3),
  [gpu("DCGM_FI_DEV_XID_ERRORS")]: steady(0),
  [gpu("DCGM_FI_DEV_ROW_REMAP_FAILURE")]: steady(0),
};

/** Neither a server of the model nor anything that one reports. */
export const WITHOUT_GPT: SeriesValues = Object.fromEntries(
  [
    up("gpt"),
    WAITING,
    blocks("used"),
    blocks("max"),
    failures("gpt", "CANCELED"),
    failures("gpt", "BACKEND"),
    PENDING_OF_GPT,
  ].map((name) => [name, null]),
);

const target = (service: string) => ({
  namespace: "engine-room",
  service,
  job: service,
  pod: `${service}-0`,
});

const ofGpu = {
  namespace: "engine-room",
  job: "engine-room-gpus-demo",
  pod: "gpt-0",
  node: "node-0",
  gpu: "0",
};

/** @param build - Name of a Job of the stack. */
export function faults(build: string): readonly Scene[] {
  const gone = (service: string): Scene => ({
    title: `a target of ${service} that does not answer`,
    changes: { [up(service)]: then(1, 0) },
    fires: [
      {
        alert: "EngineRoomTargetDown",
        labels: target(service),
        summary: `${service}-0 of ${service} does not answer Prometheus.`,
      },
    ],
  });
  const scene = (upstream: string, kind: string): Scene => ({
    title: `requests to ${upstream} that fail as ${kind}`,
    changes: { [upstreamErrors(upstream, kind)]: appearing(1) },
    fires: [
      {
        alert: "EngineRoomModelUnavailable",
        labels: { upstream, kind },
        summary: `Requests to ${upstream} fail: ${kind}.`,
      },
    ],
  });
  return [
    ...["gpt", "encoders", "gateway", "mongo", "vector"].map(gone),
    scene("encoders", "unavailable"),
    scene("gpt", "broken"),
    {
      title: "a database without any pod",
      changes: { [up("mongo")]: until(1) },
      fires: [
        {
          alert: "EngineRoomTargetAbsent",
          labels: { namespace: "engine-room", service: "mongo" },
          summary: "Prometheus reads no pod of mongo.",
        },
      ],
    },
    {
      title: "one failed answer in ten",
      changes: { [answers("503")]: appearing(10) },
      fires: [
        {
          alert: "EngineRoomRequestsFail",
          labels: { model: "gpt" },
          summary: '11.11% of the answers of model "gpt" are failures.',
        },
      ],
    },
    {
      title: "one late stream in ten",
      changes: { [bucket("5")]: growingBy(60, 54), [bucket("10")]: growingBy(60, 54) },
      fires: [
        {
          alert: "EngineRoomFirstTokenSlow",
          labels: { model: "gpt" },
          summary: "One in twenty streams of gpt begins after 20s or later.",
        },
      ],
    },
    {
      title: "a gateway with nine of ten places taken",
      changes: { [PLACES]: then(2, 231) },
      fires: [
        {
          alert: "EngineRoomGatewayFull",
          labels: target("gateway"),
          summary: "gateway-0 has taken 231 of 256 places.",
        },
      ],
    },
    {
      title: "connections that are closed for others",
      changes: { [DROPPED]: growing(1) },
      fires: [
        {
          alert: "EngineRoomConnectionsClosed",
          labels: { pod: "gateway-0" },
          summary: "gateway-0 closes connections, because too many are open.",
        },
      ],
    },
    {
      title: "a database whose calls fail",
      changes: { [DATABASE_ERRORS]: appearing(1) },
      fires: [
        {
          alert: "EngineRoomDatabaseFails",
          labels: { database: "mongo", kind: "timeout" },
          summary: "Calls of mongo fail: timeout.",
        },
      ],
    },
    {
      title: "a Triton that fails requests",
      changes: { [failures("gpt", "BACKEND")]: growing(1) },
      fires: [
        {
          alert: "EngineRoomTritonFails",
          labels: { service: "gpt", model: "ensemble" },
          summary: "Triton fails requests of ensemble in gpt.",
        },
      ],
    },
    {
      title: "a Triton without labels of reasons that fails requests",
      changes: {
        [series("nv_inference_request_failure", "encoders", { model: "clip", version: "1" })]: growing(1),
      },
      fires: [
        {
          alert: "EngineRoomTritonFails",
          labels: { service: "encoders", model: "clip" },
          summary: "Triton fails requests of clip in encoders.",
        },
      ],
    },
    {
      title: "requests that wait in the engine",
      changes: { [WAITING]: then(0, 4) },
      fires: [
        {
          alert: "EngineRoomRequestsWait",
          labels: { service: "gpt" },
          summary: "4 requests wait for gpt.",
        },
      ],
    },
    {
      title: "a KV cache that is nearly full",
      changes: { [blocks("used")]: then(10, 95) },
      fires: [
        {
          alert: "EngineRoomKvCacheFull",
          labels: { service: "gpt", pod: "gpt-0" },
          summary: "95% of the KV cache of gpt-0 are in use.",
        },
      ],
    },
    {
      title: "a server that does not report waiting requests",
      changes: { [WAITING]: until(0) },
      fires: [
        {
          alert: "EngineRoomScalingSeriesAbsent",
          labels: { ...target("gpt"), autoscaler: "gpt", scaling_series: "waiting-requests" },
          summary: "gpt-0 does not report nv_trt_llm_request_metrics, by which the number of gpt is chosen.",
        },
      ],
    },
    {
      title: "encoders that do not report pending requests",
      changes: { [PENDING_OF_ENCODERS]: until(0) },
      fires: [
        {
          alert: "EngineRoomScalingSeriesAbsent",
          labels: { ...target("encoders"), autoscaler: "encoders", scaling_series: "pending-requests" },
          summary:
            "encoders-0 does not report nv_inference_pending_request_count, by which the number of encoders is chosen.",
        },
      ],
    },
    {
      title: "a gateway that does not report a model's pending requests",
      changes: { [PENDING_OF_GPT]: until(0) },
      fires: [
        {
          alert: "EngineRoomScalingSeriesAbsent",
          labels: {
            namespace: "engine-room",
            service: "gateway",
            model: "gpt",
            autoscaler: "gpt",
            scaling_series: "gateway-pending-requests",
          },
          summary: "No gateway reports gateway_pending_requests, by which the number of gpt is chosen.",
        },
      ],
    },
    {
      title: "a gateway that does not report requests in flight",
      changes: { [IN_FLIGHT]: until(2) },
      fires: [
        {
          alert: "EngineRoomScalingSeriesAbsent",
          labels: {
            namespace: "engine-room",
            service: "gateway",
            autoscaler: "gateway",
            scaling_series: "in-flight-requests",
          },
          summary:
            "No gateway reports gateway_http_requests_in_flight, by which the number of gateway is chosen.",
        },
      ],
    },
    {
      title: "a build that has failed",
      changes: { [failedJob("engine-room", build)]: appearing(0, 1) },
      fires: [
        {
          alert: "EngineRoomBuildFailed",
          labels: { job_name: build },
          summary: `1 pods of the build ${build} have failed.`,
        },
      ],
    },
    {
      title: "a volume that is nearly full",
      changes: { [volume("available", "engine-store")]: then(40, 5) },
      fires: [
        {
          alert: "EngineRoomVolumeFull",
          labels: { persistentvolumeclaim: "engine-store" },
          summary: "5% of the volume engine-store are free.",
        },
      ],
    },
    {
      title: "an XID of a GPU",
      changes: { [gpu("DCGM_FI_DEV_XID_ERRORS")]: then(0, 79) },
      fires: [
        {
          alert: "EngineRoomGpuError",
          labels: ofGpu,
          summary: "The driver reports XID 79 of GPU 0 on node-0.",
        },
      ],
    },
    {
      title: "a GPU with memory that can't be repaired",
      changes: { [gpu("DCGM_FI_DEV_ROW_REMAP_FAILURE")]: then(0, 1) },
      fires: [
        {
          alert: "EngineRoomGpuMemoryFault",
          labels: ofGpu,
          summary: "GPU 0 on node-0 has broken memory that it can't replace.",
        },
      ],
    },
  ];
}

/** Scenes that look like a fault and are not. */
export const NO_FAULTS: readonly Omit<Scene, "fires">[] = [
  { title: "when nothing is wrong", changes: {} },
  { title: "when a model that may sleep does", changes: { ...WITHOUT_GPT, [PENDING_OF_GPT]: steady(0) } },
  {
    title: "while a model wakes for half an hour",
    changes: {
      ...WITHOUT_GPT,
      [PENDING_OF_GPT]: steady(1),
      [upstreamErrors("gpt", "unavailable")]: `_x${FAULT_MINUTE} 1+1x30 31x60`,
    },
  },
  { title: "when one in thirty answers fails", changes: { [answers("503")]: appearing(2) } },
  { title: "below nine of ten places of the gateway", changes: { [PLACES]: then(2, 230) } },
  { title: "when a database's call fails once", changes: { [DATABASE_ERRORS]: `0x${FAULT_MINUTE} 1x90` } },
  { title: "when requests wait for some minutes", changes: { [WAITING]: `0x${FAULT_MINUTE} 5x8 0x80` } },
  {
    title: "when the gateway answers nothing",
    changes: { [answers("200")]: steady(60), [answers("400")]: steady(2) },
  },
  { title: "when a server starts for some minutes", changes: { [up("gpt")]: `1x${FAULT_MINUTE} 0x3 1x85` } },
  {
    title: "for GPUs of other stacks",
    changes: { 'DCGM_FI_DEV_XID_ERRORS{namespace="engine-room", job="dcgm-exporter", gpu="0"}': steady(79) },
  },
];
