/** What keeps a model from having a repository: flavours, templates and releases that don't go together. */
import { type Problem, showValue } from "../../problems.ts";
import { templateSet } from "../catalogue/templates.ts";
import { compareVersions } from "../engine/release.ts";
import type { ModelSpec } from "../spec.ts";
import { flavours } from "./flavours/flavours.ts";
import { llmApiProblems } from "./flavours/llmapi.ts";

/**
 * All reasons why {@link import("./repository-plan.ts").repositoryPlan} can't plan a model; empty where it can. Needs
 * no engine plan, so that it can be asked before anything is planned.
 */
export function repositoryProblems(model: ModelSpec): readonly Problem[] {
  const { engine, serving } = model;
  const { release } = engine;
  if ((serving.runtime === "llmapi") !== (serving.flavour === "llmapi")) {
    return [
      {
        path: `${model.path}.flavour`,
        value: showValue(serving.flavour),
        reason: `The runtime is ${serving.runtime}; all_models/llmapi is the one repository without an engine, and has no use for one.`,
        fix:
          serving.runtime === "llmapi"
            ? "Write flavour: llmapi, or runtime: engine."
            : "Write runtime: llmapi, or another flavour.",
      },
    ];
  }
  const layout = layoutProblems(model);
  if (serving.flavour === "llmapi") return [...layout, ...llmApiProblems(model)];
  const templates = templateSet(release.templates);
  if (templates === undefined) {
    return [
      ...layout,
      {
        path: "release",
        value: showValue(release.tag),
        reason: `The placeholders of ${release.tag}'s templates are not known, and Triton loads no template with one left open.`,
        fix: "Take a release whose templates are known, such as 25.07.",
      },
    ];
  }
  return [...layout, ...flavours[serving.flavour].problems(model, templates)];
}

function layoutProblems({ engine: { layout, release } }: ModelSpec): readonly Problem[] {
  if (layout === "ngc" || compareVersions(release.tensorRtLlm, "0.20") >= 0) return [];
  return [
    {
      path: "image.layout",
      value: showValue(layout),
      reason: `TensorRT-LLM's own images hold Triton's templates from 0.20 on, and ${release.tag} has ${release.tensorRtLlm}.`,
      fix: "Write layout: ngc, or take a release from 25.06 on.",
    },
  ];
}
