/**
 * all_models/llmapi: one model that hands its model.yaml to TensorRT-LLM's LLM class, which loads the hub's weights
 * into its PyTorch backend. No engine, no placeholder.
 * https://github.com/NVIDIA/TensorRT-LLM/tree/main/triton_backend/all_models/llmapi/tensorrt_llm/1
 *
 * The keys of model.yaml are fields of LlmArgs (tensorrt_llm/llmapi/llm_args.py), which refuses others from 1.0 on. The
 * ones used here were read at 0.20 and 1.1.
 */
import { type Problem, showValue } from "../../../problems.ts";
import { compareVersions } from "../../engine/release.ts";
import type { ModelSpec } from "../../spec.ts";
import type { RepositoryModel } from "../types.ts";

/** Name that the template's config.pbtxt has written in. */
export const LLM_API_MODEL = "tensorrt_llm";

/** Why the model can't be served without an engine; empty where it can. */
export function llmApiProblems(model: ModelSpec): Problem[] {
  const { release, row, quantization, model: name, tensorParallel, pipelineParallel } = model.engine;
  const found: Problem[] = [];
  const add = (field: string, value: unknown, reason: string, fix: string) =>
    found.push({ path: `${model.path}.${field}`, value: showValue(value), reason, fix });
  const version = `${release.tag} (TensorRT-LLM ${release.tensorRtLlm})`;
  if (!release.runtimes.includes("llmapi")) {
    add(
      "runtime",
      model.serving.runtime,
      `${version} is not known to serve without an engine; the keys of all_models/llmapi are known from 0.20 on.`,
      "Write runtime: engine, or take a release from 25.06 on.",
    );
  }
  if (row.vision !== undefined) {
    add(
      "runtime",
      model.serving.runtime,
      `all_models/llmapi takes text alone, and ${name} reads images.`,
      "Write runtime: engine.",
    );
  }
  if (quantization !== "none") {
    add(
      "quantization",
      quantization,
      "Without an engine the weights are served as the hub has them; nothing is quantized.",
      "Write quantization: none, or runtime: engine.",
    );
  }
  if (tensorParallel * pipelineParallel > 1 && compareVersions(release.tensorRtLlm, "1.0") < 0) {
    add(
      "tensorParallel",
      tensorParallel,
      `${tensorParallel * pipelineParallel} ranks need launch_triton_server.py --trtllm_llmapi_launch, which ${version} is not known to have.`,
      "Write tensorParallel: 1, or take a release from 25.12 on.",
    );
  }
  return found;
}

/**
 * The one model of the repository.
 *
 * @param weights Folder with the hub's files.
 * @param kvCacheFreeGpuMemoryFraction Part of the memory that is free after loading.
 */
export function llmApiModel(
  { engine, serving }: ModelSpec,
  weights: string,
  kvCacheFreeGpuMemoryFraction: number,
): RepositoryModel {
  const { limits } = engine;
  const settings: Settings = {
    model: weights,
    backend: "pytorch",
    dtype: engine.dtype,
    tensor_parallel_size: engine.tensorParallel,
    pipeline_parallel_size: engine.pipelineParallel,
    max_batch_size: limits.maxBatchSize,
    max_input_len: limits.maxInputTokens,
    max_seq_len: limits.maxInputTokens + limits.maxOutputTokens,
    max_num_tokens: limits.maxNumTokens,
    max_beam_width: limits.maxBeamWidth,
    enable_chunked_prefill: serving.chunkedContext,
    kv_cache_config: {
      free_gpu_memory_fraction: kvCacheFreeGpuMemoryFraction,
      enable_block_reuse: serving.kvCacheReuse,
      max_tokens: serving.maxTokensInPagedKvCache,
      max_attention_window:
        serving.maxAttentionWindowTokens === undefined ? undefined : [serving.maxAttentionWindowTokens],
    },
    triton_config: {
      // The model takes one prompt a request; TensorRT-LLM batches requests by itself.
      max_batch_size: 0,
      decoupled: serving.streaming,
    },
  };
  return {
    name: LLM_API_MODEL,
    template: `llmapi/${LLM_API_MODEL}`,
    substitutions: {},
    defaults: {},
    // The launch script switches off auto-completion, which would copy this from model.yaml.
    configFields: { model_transaction_policy: `{ decoupled: ${serving.streaming} }` },
    files: { "1/model.yaml": `${yamlLines(settings, "").join("\n")}\n` },
  };
}

/**
 * Arguments of launch_triton_server.py. One rank runs without MPI; more run under trtllm-llmapi-launch, as in
 * tests/integration/defs/triton_server/test_triton_llmapi.py of TensorRT-LLM.
 */
export function llmApiLaunchArguments(worldSize: number): string[] {
  return worldSize === 1 ? ["--no-mpi"] : ["--trtllm_llmapi_launch", "--oversubscribe"];
}

interface Settings {
  readonly [key: string]: string | number | boolean | readonly number[] | Settings | undefined;
}

/** YAML of settings; JSON is YAML, so scalars and lists are written as JSON. */
function yamlLines(settings: Settings, indent: string): string[] {
  return Object.entries(settings).flatMap(([key, value]) => {
    if (value === undefined) return [];
    return isSettings(value)
      ? [`${indent}${key}:`, ...yamlLines(value, `${indent}  `)]
      : [`${indent}${key}: ${JSON.stringify(value)}`];
  });
}

function isSettings(value: NonNullable<Settings[string]>): value is Settings {
  return typeof value === "object" && !Array.isArray(value);
}
