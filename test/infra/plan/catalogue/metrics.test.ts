import { describe, expect, test } from "vitest";
import {
  gpuMetrics,
  type MetricSeries,
  tensorRtLlmMetrics,
  tensorRtLlmSeries,
  tritonMetrics,
  tritonSeries,
} from "../../../../infra/plan/catalogue/metrics.ts";
import { RELEASE_TAGS } from "../../../../infra/plan/catalogue/releases.ts";

const text = ({ name, labels }: MetricSeries) => {
  const { model, ...rest } = labels;
  expect(model).toBe("tensorrt_llm");
  const pairs = Object.entries(rest).map(([key, value]) => `${key}="${value}"`);
  return `${name}{${pairs.join(",")}}`;
};

const of = (release: string, tritonBackend: "tensorrtllm" | "python" = "tensorrtllm") =>
  tensorRtLlmSeries({ flavour: "inflight_batcher_llm", tritonBackend }, release).map(text);

/** "Triton Metrics" of tensorrtllm_backend's README at v0.8.0, sorted. */
const AT_24_02 = [
  'nv_trt_llm_general_metrics{general_type="iteration_counter"}',
  'nv_trt_llm_general_metrics{general_type="timestamp"}',
  'nv_trt_llm_inflight_batcher_metrics{inflight_batcher_specific_metric="generation_requests"}',
  'nv_trt_llm_inflight_batcher_metrics{inflight_batcher_specific_metric="micro_batch_id"}',
  'nv_trt_llm_inflight_batcher_metrics{inflight_batcher_specific_metric="total_context_tokens"}',
  'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="free"}',
  'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max"}',
  'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per"}',
  'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used"}',
  'nv_trt_llm_request_metrics{request_type="active"}',
  'nv_trt_llm_request_metrics{request_type="context"}',
  'nv_trt_llm_request_metrics{request_type="max"}',
  'nv_trt_llm_request_metrics{request_type="scheduled"}',
  'nv_trt_llm_runtime_memory_metrics{memory_type="cpu"}',
  'nv_trt_llm_runtime_memory_metrics{memory_type="gpu"}',
  'nv_trt_llm_runtime_memory_metrics{memory_type="pinned"}',
];

describe("TensorRT-LLM's series", () => {
  test("of 24.02 are those that its README prints", () => {
    expect(of("24.02").sort()).toEqual(AT_24_02);
  });

  test("of 25.07 are more, by what its custom_metrics_reporter.cc added", () => {
    const added = of("25.07").filter((one) => !AT_24_02.includes(one));
    expect(added.sort()).toEqual([
      'nv_llm_input_token_len_count{response_metric_type="total_input_tokens"}',
      'nv_llm_output_token_len_count{response_metric_type="total_output_tokens"}',
      'nv_trt_llm_disaggregated_serving_metrics{disaggregated_serving_type="kv_cache_transfer_ms"}',
      'nv_trt_llm_disaggregated_serving_metrics{disaggregated_serving_type="request_count"}',
      'nv_trt_llm_inflight_batcher_metrics{inflight_batcher_specific_metric="paused_requests"}',
      'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction"}',
      'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="reused"}',
      'nv_trt_llm_request_metrics{request_type="waiting"}',
    ]);
  });

  test("of model.py lack what it never reports", () => {
    const missing = of("25.07").filter((one) => !of("25.07", "python").includes(one));
    expect(missing.map((one) => one.replace(/\{.*"(.*)"\}/, " $1")).sort()).toEqual([
      "nv_trt_llm_disaggregated_serving_metrics kv_cache_transfer_ms",
      "nv_trt_llm_disaggregated_serving_metrics request_count",
      "nv_trt_llm_kv_cache_block_metrics reused",
    ]);
    expect(of("24.06", "python")).toEqual([]);
  });

  test("waiting requests, which autoscaling needs, come with 25.04", () => {
    const waiting = 'nv_trt_llm_request_metrics{request_type="waiting"}';
    expect(RELEASE_TAGS.filter((tag) => of(tag).includes(waiting))[0]).toBe("25.04");
  });

  test("no release loses one", () => {
    RELEASE_TAGS.slice(1).forEach((tag, index) => {
      expect(of(tag)).toEqual(expect.arrayContaining(of(String(RELEASE_TAGS[index]))));
    });
  });

  test.each(["gpt", "llmapi"] as const)("%s has none", (flavour) => {
    expect(tensorRtLlmSeries({ flavour, tritonBackend: "python" }, "25.07")).toEqual([]);
  });

  test("of an unknown release can't be said", () => {
    expect(() => of("23.01")).toThrow("The release 23.01 is in no row");
  });
});

test("Triton's own are asked of every model", () => {
  expect(tritonSeries(["a", "b"])).toHaveLength(2 * Object.keys(tritonMetrics).length);
  expect(tritonSeries(["a"])).toContainEqual({ name: "nv_inference_count", labels: { model: "a" } });
});

test("a name with a unit at its end is counted in that unit", () => {
  for (const [name, { unit }] of Object.entries({ ...tritonMetrics, ...gpuMetrics, ...tensorRtLlmMetrics })) {
    if (name.endsWith("_us")) expect([name, unit]).toEqual([name, "µs"]);
    if (name.endsWith("_bytes")) expect([name, unit]).toEqual([name, "bytes"]);
  }
});
