/** Dashboards for a closer look: Tritons with their engines, and GPUs. */
import type { tensorRtLlmMetrics } from "../../catalogue/metrics.ts";
import type { Dashboard, Panel, Unit } from "./grafana.ts";
import { gpuJob } from "./monitors.ts";
import { changes, owner } from "./plan-panels.ts";
import { type Matches, rate, series, sum } from "./promql.ts";
import { of, servicesWith, tritonServices, type WatchedStack } from "./scope.ts";

type Gauge = {
  [Name in keyof typeof tensorRtLlmMetrics]: (typeof tensorRtLlmMetrics)[Name]["kind"] extends "gauge"
    ? Name
    : never;
}[keyof typeof tensorRtLlmMetrics];

/** Tritons, their models, and TensorRT-LLM's batch manager inside of them. */
export function modelsDashboard(watched: WatchedStack): Dashboard {
  const enginePanels = [...batchPanels(watched), ...memoryPanels(watched)];
  return {
    name: "engine-room-models",
    title: "Engine room: models",
    owner: owner(watched),
    annotations: changes(watched),
    rows: [
      { title: "Triton", panels: tritonPanels(watched) },
      ...(enginePanels.length === 0 ? [] : [{ title: "TensorRT-LLM", panels: enginePanels }]),
    ],
  };
}

const LEGEND = "{{service}} {{model}}";

function tritonPanels(watched: WatchedStack): readonly Panel[] {
  const at = of(watched, tritonServices(watched));
  const perModel = (expression: string) => sum(expression, "service", "model");
  const perRequest = (
    name:
      | "nv_inference_queue_duration_us"
      | "nv_inference_compute_infer_duration_us"
      | "nv_inference_request_duration_us",
  ) => `${perModel(rate(name, at))} / ${perModel(rate("nv_inference_request_success", at))}`;
  return [
    line("Requests", "perSecond", perModel(rate("nv_inference_request_success", at)), LEGEND),
    line("Failures", "perSecond", perModel(rate("nv_inference_request_failure", at)), LEGEND),
    line("Pending requests", "number", perModel(series("nv_inference_pending_request_count", at)), LEGEND),
    line("A whole request", "microseconds", perRequest("nv_inference_request_duration_us"), LEGEND),
    line("Of it, in Triton's queue", "microseconds", perRequest("nv_inference_queue_duration_us"), LEGEND),
    line("Of it, computing", "microseconds", perRequest("nv_inference_compute_infer_duration_us"), LEGEND),
    line(
      "Rows in a batch",
      "number",
      `${perModel(rate("nv_inference_count", at))} / ${perModel(rate("nv_inference_exec_count", at))}`,
      LEGEND,
    ),
  ];
}

function batchPanels(watched: WatchedStack): readonly Panel[] {
  return [
    ...byValue(
      watched,
      "Requests in the batch manager",
      "number",
      "nv_trt_llm_request_metrics",
      "request_type",
      ["active", "scheduled", "context", "waiting"],
    ),
    ...byValue(
      watched,
      "Batch of a step",
      "number",
      "nv_trt_llm_inflight_batcher_metrics",
      "inflight_batcher_specific_metric",
      ["generation_requests", "total_context_tokens", "paused_requests"],
    ),
  ];
}

function memoryPanels(watched: WatchedStack): readonly Panel[] {
  return [
    ...byValue(watched, "KV cache", "number", "nv_trt_llm_kv_cache_block_metrics", "kv_cache_block_type", [
      "used",
      "free",
      "max",
      "reused",
    ]),
    ...byValue(
      watched,
      "Memory of the runtime",
      "bytes",
      "nv_trt_llm_runtime_memory_metrics",
      "memory_type",
      ["gpu", "cpu", "pinned"],
    ),
  ];
}

/** A line for each value of a family's label, of the servers whose release has it; no panel where none has any. */
function byValue(
  watched: WatchedStack,
  title: string,
  unit: Unit,
  family: Gauge,
  label: (typeof tensorRtLlmMetrics)[Gauge]["label"],
  values: readonly string[],
): readonly Panel[] {
  const queries = values.flatMap((value) => {
    const services = servicesWith(watched, family, value);
    if (services.length === 0) return [];
    const matches: Matches = { ...of(watched, services), [label]: value };
    return [{ expression: sum(series(family, matches), "service"), legend: `{{service}} ${value}` }];
  });
  return queries.length === 0 ? [] : [{ title, kind: "timeseries", unit, width: 12, queries }];
}

/** GPUs as Triton sees them and, where the cluster has NVIDIA's exporter, as it does. */
export function gpusDashboard(watched: WatchedStack, hasExporter: boolean): Dashboard {
  return {
    name: "engine-room-gpus",
    title: "Engine room: GPUs",
    owner: owner(watched),
    annotations: changes(watched),
    rows: [
      { title: "As Triton sees them", panels: tritonGpuPanels(watched) },
      ...(hasExporter ? [{ title: "As DCGM sees them", panels: exporterPanels(watched) }] : []),
    ],
  };
}

function tritonGpuPanels(watched: WatchedStack): readonly Panel[] {
  const at = of(watched, tritonServices(watched));
  const each = (expression: string) => `max by (service, pod, gpu_uuid) (${expression})`;
  const legend = "{{pod}} {{gpu_uuid}}";
  const memory = (name: "nv_gpu_memory_used_bytes" | "nv_gpu_memory_total_bytes") => each(series(name, at));
  return [
    { ...line("At work", "share", each(series("nv_gpu_utilization", at)), legend), width: 12 },
    {
      ...line(
        "Memory in use",
        "share",
        `${memory("nv_gpu_memory_used_bytes")} / ${memory("nv_gpu_memory_total_bytes")}`,
        legend,
      ),
      width: 12,
    },
  ];
}

function exporterPanels(watched: WatchedStack): readonly Panel[] {
  const at = { ...of(watched), job: gpuJob(watched.stack) };
  const legend = "{{node}} {{gpu}} {{pod}}";
  const each = (expression: string) => `max by (node, gpu, pod) (${expression})`;
  const used = each(series("DCGM_FI_DEV_FB_USED", at));
  const free = each(series("DCGM_FI_DEV_FB_FREE", at));
  return [
    {
      title: "At work by DCGM",
      kind: "timeseries",
      unit: "percent",
      queries: [
        { expression: each(series("DCGM_FI_DEV_GPU_UTIL", at)), legend: `${legend} computing` },
        { expression: each(series("DCGM_FI_DEV_MEM_COPY_UTIL", at)), legend: `${legend} memory` },
      ],
    },
    line("Memory by DCGM", "share", `${used} / (${used} + ${free})`, legend),
    line("Memory in use by DCGM", "mebibytes", used, legend),
    line("Temperature", "celsius", each(series("DCGM_FI_DEV_GPU_TEMP", at)), legend),
    line("Power", "watts", each(series("DCGM_FI_DEV_POWER_USAGE", at)), legend),
    { ...line("Last XID", "number", each(series("DCGM_FI_DEV_XID_ERRORS", at)), legend), redFrom: 1 },
    {
      ...line(
        "Memory that can't be replaced",
        "number",
        each(series("DCGM_FI_DEV_ROW_REMAP_FAILURE", at)),
        legend,
      ),
      redFrom: 1,
    },
  ];
}

function line(title: string, unit: Unit, expression: string, legend: string): Panel {
  return { title, kind: "timeseries", unit, queries: [{ expression, legend }] };
}
