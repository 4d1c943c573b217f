/**
 * all_models/gpt: TensorRT-LLM's Python runtime, without in-flight batching or streaming. Its templates have 1024 as
 * largest batch; an engine refuses batches above its own.
 * https://github.com/triton-inference-server/tensorrtllm_backend/tree/v0.19.0/all_models/gpt
 */
import { type Problem, showValue } from "../../../problems.ts";
import type { ModelSpec } from "../../spec.ts";
import { tritonMaxBatchSize } from "../parameters.ts";
import { type FlavourDefinition, fromTemplate } from "./flavour.ts";

function problems(model: ModelSpec): Problem[] {
  const { serving } = model;
  if (!serving.streaming) return [];
  return [
    {
      path: `${model.path}.triton.streaming`,
      value: showValue(serving.streaming),
      reason: "all_models/gpt answers once, when all is generated.",
      fix: "Write triton.streaming: false, or flavour: inflight_batcher_llm.",
    },
  ];
}

export const gpt: FlavourDefinition = {
  takesImages: false,
  decoupled: () => false,
  problems,
  plan(context) {
    const configFields = { max_batch_size: String(tritonMaxBatchSize(context.facts.model)) };
    return {
      models: ["ensemble", "preprocessing", "tensorrt_llm", "postprocessing"].map((name) =>
        fromTemplate(context, name, `gpt/${name}`, { configFields }),
      ),
      launchArguments: [],
      environment: {},
      clones: [],
      clientModel: "ensemble",
      streamingModel: "ensemble",
    };
  },
};
