/**
 * all_models/llmapi: one model that hands its model.yaml to TensorRT-LLM's LLM class, which loads the hub's weights
 * into its PyTorch backend. No engine, no placeholder.
 * https://github.com/NVIDIA/TensorRT-LLM/tree/main/triton_backend/all_models/llmapi/tensorrt_llm/1
 *
 * The keys of model.yaml are fields of LlmArgs (tensorrt_llm/llmapi/llm_args.py), which refuses others from 1.0 on. The
 * ones used here were read at 0.20 and 1.1.
 */
import { weightsDirectory } from "../engine/weights.ts";
import { worldSize } from "../fit/placement.ts";
import type { ModelSpec } from "../spec.ts";
import type { FlavourPlan } from "./flavours.ts";

/** Name that the template's config.pbtxt has written in. */
export const LLM_API_MODEL = "tensorrt_llm";

/** @param kvCacheFreeGpuMemoryFraction Part of the memory that is free after loading. */
export function llmApiPlan(model: ModelSpec, kvCacheFreeGpuMemoryFraction: number): FlavourPlan {
  const { engine, serving } = model;
  const { limits } = engine;
  const window = serving.maxAttentionWindowTokens;
  const settings: Settings = {
    model: weightsDirectory(engine.model, engine.weights),
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
      max_attention_window: window === undefined ? undefined : [window],
    },
    triton_config: {
      // The model takes one prompt a request; TensorRT-LLM batches requests by itself.
      max_batch_size: 0,
      decoupled: serving.streaming,
    },
  };
  return {
    models: [
      {
        name: LLM_API_MODEL,
        template: `llmapi/${LLM_API_MODEL}`,
        substitutions: {},
        defaults: {},
        // The launch script switches off auto-completion, which would copy this from model.yaml.
        configFields: { model_transaction_policy: `{ decoupled: ${serving.streaming} }` },
        files: { "1/model.yaml": yaml(settings, "") },
      },
    ],
    // One rank runs without MPI; more run under trtllm-llmapi-launch, as in
    // tests/integration/defs/triton_server/test_triton_llmapi.py of TensorRT-LLM.
    launchArguments: worldSize(model) === 1 ? ["--no-mpi"] : ["--trtllm_llmapi_launch", "--oversubscribe"],
    clientModel: LLM_API_MODEL,
  };
}

interface Settings {
  readonly [key: string]: string | number | boolean | readonly number[] | Settings | undefined;
}

/** YAML of settings; JSON is YAML, so scalars and lists are written as JSON. */
function yaml(settings: Settings, indent: string): string {
  return Object.entries(settings)
    .map(([key, value]) => {
      if (value === undefined) return "";
      return typeof value === "object" && !Array.isArray(value)
        ? `${indent}${key}:\n${yaml(value as Settings, `${indent}  `)}`
        : `${indent}${key}: ${JSON.stringify(value)}\n`;
    })
    .join("");
}
