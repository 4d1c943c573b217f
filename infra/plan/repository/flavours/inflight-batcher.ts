/**
 * all_models/inflight_batcher_llm: preprocessing, engine and postprocessing, tied together by an ensemble and by a
 * Python model (BLS) that does the same with any number of responses.
 */
import { type Problem, showValue } from "../../../problems.ts";
import type { TemplateSet } from "../../catalogue/templates.ts";
import type { ModelSpec } from "../../spec.ts";
import type { RepositoryModel } from "../types.ts";
import { type FlavourContext, type FlavourDefinition, fromTemplate, hasPlaceholder } from "./flavour.ts";

const FOLDER = "inflight_batcher_llm";

/** Folders that the multimodal flavour shares. */
export function batcherModels(context: FlavourContext): RepositoryModel[] {
  return ["preprocessing", "tensorrt_llm", "postprocessing", "tensorrt_llm_bls"].map((name) =>
    fromTemplate(context, name, `${FOLDER}/${name}`),
  );
}

/** What the templates of a release can't express, for every flavour that is made of this folder. */
export function batcherProblems(model: ModelSpec, templates: TemplateSet): Problem[] {
  const problems: Problem[] = [];
  const { serving, engine } = model;
  if (
    serving.tritonBackend === "python" &&
    !hasPlaceholder(templates, `${FOLDER}/tensorrt_llm`, "triton_backend")
  ) {
    problems.push({
      path: `${model.path}.triton.backend`,
      value: showValue(serving.tritonBackend),
      reason: `The templates of ${engine.release.tag} (TensorRT-LLM ${engine.release.tensorRtLlm}) have the C++ backend written in; a choice exists from 0.10 on.`,
      fix: "Write triton.backend: tensorrtllm, or take a release from 24.06 on.",
    });
  }
  return problems;
}

export const inflightBatcher: FlavourDefinition = {
  takesImages: false,
  decoupled: ({ serving }) => serving.streaming,
  problems: batcherProblems,
  plan(context) {
    const { accumulateTokens } = context.facts.model.serving;
    return {
      models: [fromTemplate(context, "ensemble", `${FOLDER}/ensemble`), ...batcherModels(context)],
      launchArguments: [],
      environment: {},
      clones: [],
      clientModel: "ensemble",
      // Only the BLS can hand all tokens so far to postprocessing.
      streamingModel: accumulateTokens ? "tensorrt_llm_bls" : "ensemble",
    };
  },
};
