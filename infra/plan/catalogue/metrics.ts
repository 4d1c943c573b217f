/** Names of metrics on Triton's Prometheus pages, for checks of a running stack, rules, dashboards and autoscaling. */
import { RELEASE_TAGS, type ReleaseTag } from "./releases.ts";
import type { Flavour } from "./types.ts";

/**
 * Metrics of every model from its load on, ensembles included, with the labels `model` and `version`: src/metrics.cc of
 * https://github.com/triton-inference-server/core at r24.02 to r26.05, and docs/user_guide/metrics.md of its server.
 *
 * The queue of a decoupled TensorRT-LLM model is always empty: the backend takes each request at once and queues it itself
 * (https://github.com/triton-inference-server/tensorrtllm_backend/issues/49); {@link tensorRtLlmMetrics} has `waiting`.
 */
export const tritonMetrics = [
  "nv_inference_request_success",
  "nv_inference_request_failure",
  "nv_inference_count",
  "nv_inference_exec_count",
  "nv_inference_pending_request_count",
  "nv_inference_request_duration_us",
  "nv_inference_queue_duration_us",
  "nv_inference_compute_input_duration_us",
  "nv_inference_compute_infer_duration_us",
  "nv_inference_compute_output_duration_us",
] as const;

/** Runtime of the engine: the C++ backend, or the model.py of `all_models/inflight_batcher_llm/tensorrt_llm`. */
type Reporter = "tensorrtllm" | "python";

interface TensorRtLlmMetricRow {
  /** Label that distinguishes the series of the family, in addition to `model` and `version`. */
  readonly label: string;
  /** Values of the label, each with the first release that has it, by runtime; absent: that runtime never has it. */
  readonly series: Readonly<Record<string, Readonly<Partial<Record<Reporter, ReleaseTag>>>>>;
}

/** First releases of the catalogue: the C++ backend reports since 23.11, model.py since TensorRT-LLM 0.11. */
const FROM_START = { tensorrtllm: "24.02", python: "24.07" } as const;
/** v0.18.2 of tensorrtllm_backend; r25.03 still lacks both. */
const SINCE_25_04 = { tensorrtllm: "25.04", python: "25.04" } as const;
const SINCE_24_12 = { tensorrtllm: "24.12", python: "24.12" } as const;

/**
 * Metrics of the Triton model `tensorrt_llm`, from its load on. Read at each release's ref of
 * https://github.com/triton-inference-server/tensorrtllm_backend, in
 * inflight_batcher_llm/src/custom_metrics_reporter/custom_metrics_reporter.cc and
 * all_models/inflight_batcher_llm/tensorrt_llm/1/model.py; since 0.20 in triton_backend/ of
 * https://github.com/NVIDIA/TensorRT-LLM, unchanged. Neither all_models/gpt nor all_models/llmapi reports any.
 */
export const tensorRtLlmMetrics = {
  nv_trt_llm_request_metrics: {
    label: "request_type",
    series: {
      active: FROM_START,
      max: FROM_START,
      scheduled: FROM_START,
      context: FROM_START,
      waiting: SINCE_25_04,
    },
  },
  nv_trt_llm_runtime_memory_metrics: {
    label: "memory_type",
    series: { cpu: FROM_START, gpu: FROM_START, pinned: FROM_START },
  },
  nv_trt_llm_kv_cache_block_metrics: {
    label: "kv_cache_block_type",
    series: {
      max: FROM_START,
      free: FROM_START,
      used: FROM_START,
      tokens_per: FROM_START,
      reused: { tensorrtllm: "24.09" },
      fraction: SINCE_25_04,
    },
  },
  nv_trt_llm_inflight_batcher_metrics: {
    label: "inflight_batcher_specific_metric",
    series: {
      total_context_tokens: FROM_START,
      generation_requests: FROM_START,
      micro_batch_id: FROM_START,
      // 0.8.0 calls it terminated_requests.
      paused_requests: { tensorrtllm: "24.04", python: "24.07" },
    },
  },
  nv_trt_llm_general_metrics: {
    label: "general_type",
    series: { timestamp: FROM_START, iteration_counter: FROM_START },
  },
  nv_trt_llm_disaggregated_serving_metrics: {
    label: "disaggregated_serving_type",
    series: { kv_cache_transfer_ms: { tensorrtllm: "24.11" }, request_count: { tensorrtllm: "24.11" } },
  },
  nv_llm_input_token_len_count: {
    label: "response_metric_type",
    series: { total_input_tokens: SINCE_24_12 },
  },
  nv_llm_output_token_len_count: {
    label: "response_metric_type",
    series: { total_output_tokens: SINCE_24_12 },
  },
} as const satisfies Record<string, TensorRtLlmMetricRow>;

/** One line on a metrics page; a histogram is looked for by its `_count`. */
export interface MetricSeries {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
}

/** Metrics of every GPU that the server sees, with the label `gpu_uuid`, from the sources of {@link tritonMetrics}. */
export const gpuSeries: readonly MetricSeries[] = [
  "nv_gpu_utilization",
  "nv_gpu_memory_total_bytes",
  "nv_gpu_memory_used_bytes",
].map((name) => ({ name, labels: {} }));

/** Triton's own series of models. @param models - Names in the repository. */
export function tritonSeries(models: readonly string[]): readonly MetricSeries[] {
  return models.flatMap((model) => tritonMetrics.map((name) => ({ name, labels: { model } })));
}

/** Flavours whose repository has the model `tensorrt_llm` of inflight_batcher_llm. */
const WITH_BATCH_MANAGER: ReadonlySet<Flavour> = new Set([
  "inflight_batcher_llm",
  "multimodal",
  "llava",
  "tritonCli",
]);

/**
 * TensorRT-LLM's own series of a served model; none for flavours without batch manager.
 * @throws RangeError for a release that the catalogue lacks.
 */
export function tensorRtLlmSeries(
  serving: { readonly flavour: Flavour; readonly tritonBackend: Reporter },
  release: string,
): readonly MetricSeries[] {
  if (!WITH_BATCH_MANAGER.has(serving.flavour)) return [];
  const position = positionOf(release);
  return Object.entries<TensorRtLlmMetricRow>(tensorRtLlmMetrics).flatMap(([name, { label, series }]) =>
    Object.entries(series).flatMap(([value, since]) => {
      const first = since[serving.tritonBackend];
      if (first === undefined || positionOf(first) > position) return [];
      return [{ name, labels: { model: "tensorrt_llm", [label]: value } }];
    }),
  );
}

function positionOf(release: string): number {
  const position = (RELEASE_TAGS as readonly string[]).indexOf(release);
  if (position < 0) throw new RangeError(`The release ${release} is in no row of the catalogue.`);
  return position;
}
