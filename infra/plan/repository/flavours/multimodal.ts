/**
 * all_models/multimodal over all_models/inflight_batcher_llm: an ensemble that takes images, and multimodal_encoders,
 * which runs the visual engine on GPU 0. From 0.13 on.
 * https://github.com/triton-inference-server/tensorrtllm_backend/blob/r25.07/docs/multimodal.md
 */
import { type Problem, showValue } from "../../../problems.ts";
import type { TemplateSet } from "../../catalogue/templates.ts";
import type { ModelSpec } from "../../spec.ts";
import { type FlavourDefinition, fromTemplate, hasPlaceholder } from "./flavour.ts";
import { batcherModels, batcherProblems } from "./inflight-batcher.ts";

const ENCODERS = "multimodal/multimodal_encoders";

function problems(model: ModelSpec, templates: TemplateSet): Problem[] {
  const { release, row, model: name } = model.engine;
  const problem = (reason: string, fix: string): Problem => ({
    path: `${model.path}.flavour`,
    value: showValue(model.serving.flavour),
    reason,
    fix,
  });
  const version = `${release.tag} (TensorRT-LLM ${release.tensorRtLlm})`;
  const { vision } = row;
  if (vision === undefined) {
    return [
      problem(
        `${name} is a text model: it has no visual engine to serve.`,
        `Write flavour: ${row.flavours[0]}.`,
      ),
    ];
  }
  if (templates.models[ENCODERS] === undefined) {
    return [
      problem(
        `${version} has no all_models/multimodal; it came with 0.13.`,
        "Take a release from 24.09 on, such as 25.07.",
      ),
    ];
  }
  const found = batcherProblems(model, templates);
  if (vision.needsHubFolder && !hasPlaceholder(templates, ENCODERS, "hf_model_path")) {
    found.push(
      problem(
        `multimodal_encoders of ${version} can't be told where the Hugging Face folder is, which ${name} needs; hf_model_path came with 0.16.`,
        "Take a release from 24.12 on, such as 25.07.",
      ),
    );
  }
  if (
    vision.attention === "cross" &&
    !hasPlaceholder(templates, "inflight_batcher_llm/tensorrt_llm", "cross_kv_cache_fraction")
  ) {
    found.push(
      problem(
        `${name} reads images by cross attention, and the templates of ${version} can't divide the KV cache for it; cross_kv_cache_fraction came with 0.14.`,
        "Take a release from 24.12 on, such as 25.07.",
      ),
    );
  }
  return found;
}

export const multimodal: FlavourDefinition = {
  takesImages: true,
  decoupled: ({ serving }) => serving.streaming,
  problems,
  plan(context) {
    const poolBytes = context.facts.engine.visual?.cudaMemoryPoolBytes;
    if (poolBytes === undefined) {
      throw new Error(`The engine plan of ${context.facts.model.serving.name} has no visual numbers.`);
    }
    return {
      models: [
        fromTemplate(context, "ensemble", "multimodal/ensemble"),
        fromTemplate(context, "multimodal_encoders", ENCODERS),
        ...batcherModels(context),
      ],
      launchArguments: [
        // Ranks above 0 load these two and no Python model.
        "--tensorrt_llm_model_name=tensorrt_llm,multimodal_encoders",
        // The visual features go from model to model in GPU memory, out of this pool.
        `--multimodal_gpu0_cuda_mem_pool_bytes=${poolBytes}`,
      ],
      environment: {},
      clones: [],
      clientModel: "ensemble",
      // The BLS takes no image but as a tensor that the client has prepared, so streaming stays with the ensemble.
      streamingModel: "ensemble",
    };
  },
};
