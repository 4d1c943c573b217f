/**
 * Names of metrics that a cluster has besides the stack's: Prometheus' own, those of the GPUs' exporter, of the kubelet and of
 * kube-state-metrics, and what a stack's own rules record of its plan. Only those that something looks at.
 */
import type { MetricRow } from "./metrics.ts";

/** https://prometheus.io/docs/concepts/jobs_instances/ */
export const scrapeMetrics = {
  up: { kind: "gauge", unit: "0 or 1", what: "whether a target was read" },
} as const satisfies Record<string, MetricRow>;

/**
 * Of a GPU that a pod has, with its labels `namespace` and `pod`: etc/default-counters.csv of
 * https://github.com/NVIDIA/dcgm-exporter, the fields that it has by default.
 */
export const dcgmMetrics = {
  DCGM_FI_DEV_GPU_UTIL: { kind: "gauge", unit: "%", what: "share of time in which the GPU worked" },
  DCGM_FI_DEV_MEM_COPY_UTIL: {
    kind: "gauge",
    unit: "%",
    what: "share of time in which memory was read or written",
  },
  DCGM_FI_DEV_FB_USED: { kind: "gauge", unit: "MiB", what: "memory in use" },
  DCGM_FI_DEV_FB_FREE: { kind: "gauge", unit: "MiB", what: "memory that is free" },
  DCGM_FI_DEV_GPU_TEMP: { kind: "gauge", unit: "°C", what: "temperature of the GPU" },
  DCGM_FI_DEV_POWER_USAGE: { kind: "gauge", unit: "W", what: "power" },
  DCGM_FI_DEV_XID_ERRORS: { kind: "gauge", unit: "XID", what: "the driver's last error; 0: none" },
  DCGM_FI_DEV_ROW_REMAP_FAILURE: {
    kind: "gauge",
    unit: "0 or 1",
    what: "whether broken memory could not be replaced",
  },
} as const satisfies Record<string, MetricRow>;

/**
 * Where a cluster has them, as the kube-prometheus-stack chart does: pkg/kubelet/metrics/collectors/volume_stats.go of
 * https://github.com/kubernetes/kubernetes, and docs/metrics of https://github.com/kubernetes/kube-state-metrics.
 */
export const clusterMetrics = {
  kubelet_volume_stats_available_bytes: {
    kind: "gauge",
    unit: "bytes",
    what: "free room of a claim's volume",
  },
  kubelet_volume_stats_capacity_bytes: { kind: "gauge", unit: "bytes", what: "size of a claim's volume" },
  kube_deployment_spec_replicas: { kind: "gauge", unit: "pods", what: "pods that there should be" },
  kube_deployment_status_replicas_available: { kind: "gauge", unit: "pods", what: "pods that are ready" },
  kube_job_status_failed: { kind: "gauge", unit: "pods", what: "failed pods of a Job, by reason" },
  kube_pod_container_info: {
    kind: "gauge",
    unit: "1",
    what: "image of a container, by its digest in `image_id`",
  },
  kube_pod_container_status_restarts_total: {
    kind: "counter",
    unit: "restarts",
    what: "restarts of a container",
  },
} as const satisfies Record<string, MetricRow>;

/** What a stack's rules record of its plan, with the labels `stack` and `namespace`; a change is a new series. */
export const recordedMetrics = {
  engine_room_model_info: {
    kind: "gauge",
    unit: "1",
    what: "a served model, by `release` and, on GPUs, `engine_key` and `pool`",
  },
  engine_room_image_info: { kind: "gauge", unit: "1", what: "an image of the stack, by `reference`" },
  engine_room_hourly_usd: { kind: "gauge", unit: "USD/h", what: "planned price of all machines" },
} as const satisfies Record<string, MetricRow>;
