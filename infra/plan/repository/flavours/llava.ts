/**
 * The model repository of Triton's LLaVA-1.5 tutorial: `llava-1.5` tokenizes and asks `vision_encoder` and
 * `tensorrt_llm`. Its batch size (1), vocabulary (32064) and prompt limit (2048 tokens) are written into it.
 * https://github.com/triton-inference-server/tutorials/tree/r25.07/Popular_Models_Guide/Llava1.5/model_repository
 */
import { type Problem, showValue } from "../../../problems.ts";
import type { TemplateKeys } from "../../catalogue/templates.ts";
import type { Release } from "../../catalogue/types.ts";
import { compareVersions } from "../../engine/release.ts";
import type { ModelSpec } from "../../spec.ts";
import { fillTemplate } from "../fill.ts";
import { gives, keeps } from "../parameters.ts";
import type { FlavourDefinition } from "./flavour.ts";

/** Folder of triton-inference-server/tutorials; its guides mount it there too. */
const TUTORIALS_CLONE = "/tutorials";

const TEMPLATE_ROOT = `${TUTORIALS_CLONE}/Popular_Models_Guide/Llava1.5/model_repository`;

/**
 * Of branch r25.07; the same files lie on all from r24.11 to r26.01. The image has them at this commit, with the patches of
 * containers/trtllm/patches.
 */
const TUTORIALS_COMMIT = "17331012af74eab68ad7c86d8a4ae494272ca4f7";

/** Placeholders of its tensorrt_llm/config.pbtxt, all in quotes; the other two models have none. */
export const LLAVA_TEMPLATE: TemplateKeys = {
  mandatory: [],
  optional: [
    "batch_scheduler_policy",
    "cancellation_check_period_ms",
    "decoding_mode",
    "enable_chunked_context",
    "enable_kv_cache_reuse",
    "engine_dir",
    "exclude_input_in_output",
    "gpu_device_ids",
    "gpu_weights_percent",
    "iter_stats_max_iterations",
    "kv_cache_free_gpu_mem_fraction",
    "kv_cache_host_memory_bytes",
    "kv_cache_onboard_blocks",
    "lora_cache_gpu_memory_fraction",
    "lora_cache_host_memory_bytes",
    "lora_cache_max_adapter_size",
    "lora_cache_optimal_adapter_size",
    "max_attention_window_size",
    "max_tokens_in_paged_kv_cache",
    "medusa_choices",
    "normalize_log_probs",
    "request_stats_max_iterations",
    "sink_token_length",
    "stats_check_period_ms",
  ],
};

/**
 * File that the visual engine builder writes for LLaVA. 0.9: the tutorial itself; from 0.13 on:
 * all_models/multimodal/multimodal_encoders/1/model.py of the backend. null where neither names it.
 */
function visualEngineFile({ tensorRtLlm }: Release): string | null {
  if (compareVersions(tensorRtLlm, "0.13") >= 0) return "model.engine";
  const isTutorials = compareVersions(tensorRtLlm, "0.9") >= 0 && compareVersions(tensorRtLlm, "0.10") < 0;
  return isTutorials ? "visual_encoder.engine" : null;
}

function problems(model: ModelSpec): Problem[] {
  const { release, row, model: name } = model.engine;
  const found: Problem[] = [];
  const add = (field: string, value: unknown, reason: string, fix: string) =>
    found.push({ path: `${model.path}.${field}`, value: showValue(value), reason, fix });
  const { flavour, kvCacheReuse, tritonBackend } = model.serving;
  if (row.vision?.modelType !== "llava") {
    add(
      "flavour",
      flavour,
      `The tutorial's repository has LLaVA-1.5's tokenizer and vocabulary written in; ${name} is another model.`,
      `Write flavour: ${row.flavours[0]}.`,
    );
  }
  if (visualEngineFile(release) === null) {
    add(
      "flavour",
      flavour,
      `No document says how the visual engine of ${release.tag} (TensorRT-LLM ${release.tensorRtLlm}) is named, which the tutorial's repository must be told; 0.9 and 0.13 to 1.1 are known.`,
      "Take another release, such as 25.07.",
    );
  }
  if (tritonBackend === "python") {
    add(
      "triton.backend",
      tritonBackend,
      "The tutorial's repository has the C++ backend written in.",
      "Write triton.backend: tensorrtllm, or flavour: multimodal.",
    );
  }
  if (kvCacheReuse) {
    add(
      "triton.kvCacheReuse",
      kvCacheReuse,
      "Reuse needs a prompt_table_extra_id in each request with an image, and the tutorial's llava-1.5 sends none.",
      "Write triton.kvCacheReuse: false, or flavour: multimodal.",
    );
  }
  return found;
}

export const llava: FlavourDefinition = {
  takesImages: true,
  decoupled: () => true,
  problems,
  plan({ facts }) {
    const { engine, model } = facts;
    const { release } = model.engine;
    const plain = (name: string) => ({
      name,
      template: name,
      templateRoot: TEMPLATE_ROOT,
      substitutions: {},
      defaults: {},
    });
    return {
      models: [
        plain("llava-1.5"),
        {
          ...plain("tensorrt_llm"),
          ...fillTemplate("llava/tensorrt_llm", LLAVA_TEMPLATE, facts, {
            // llava-1.5 decodes all that comes back, and wants the answer alone: streamed responses hold only that.
            exclude_input_in_output: keeps("streamed answers never hold the prompt"),
            enable_kv_cache_reuse: gives(() => "False"),
          }),
        },
        plain("vision_encoder"),
      ],
      launchArguments: [],
      environment: {
        HF_LOCATION: engine.places.weights,
        TRT_ENGINE_LOCATION: `${engine.places.vision}/${visualEngineFile(release)}`,
      },
      clones: [
        {
          url: "https://github.com/triton-inference-server/tutorials.git",
          commit: TUTORIALS_COMMIT,
          directory: TUTORIALS_CLONE,
        },
      ],
      clientModel: "llava-1.5",
      streamingModel: "llava-1.5",
    };
  },
};
