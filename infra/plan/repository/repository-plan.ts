/** Plans the model repository of a model: folders, values of every placeholder, and the launch command. */
import { ConfigError, showValue } from "../../problems.ts";
import { templateSet } from "../catalogue/templates.ts";
import { imageFiles } from "../engine/release.ts";
import type { EnginePlan } from "../engine/types.ts";
import { worldSize } from "../fit/placement.ts";
import type { ModelSpec } from "../spec.ts";
import { valueObstacle } from "./fill-template.ts";
import { type FlavourPlan, flavours, type RepositoryPlan } from "./flavours.ts";
import { launchPlan, MODEL_REPOSITORY } from "./launch.ts";
import { llmApiPlan } from "./llm-api.ts";
import { repositoryProblems } from "./problems.ts";

/**
 * Plans the model repository of one model. Same input, same plan, to the byte.
 *
 * @param engine null for a model without an engine, which is `runtime: llmapi`.
 * @param kvCacheFreeGpuMemoryFraction Part of the GPU memory that is free after loading, above 0 and at most 1.
 * @throws ConfigError with all that {@link repositoryProblems} finds, and for values that no template can hold.
 */
export function repositoryPlan(
  model: ModelSpec,
  engine: EnginePlan | null,
  kvCacheFreeGpuMemoryFraction: number,
): RepositoryPlan {
  const problems = repositoryProblems(model);
  if (problems.length > 0) throw new ConfigError(problems);

  const { release, layout } = model.engine;
  const { allModels, fillTemplate, launchScript, clones } = imageFiles(release, layout);
  const { plan, decoupled } = flavourPlan(model, engine, kvCacheFreeGpuMemoryFraction);
  return {
    flavour: model.serving.flavour,
    templates: release.templates ?? `r${release.tag}`,
    allModels,
    fillTemplate,
    clones: [...clones, ...(plan.clones ?? [])],
    path: MODEL_REPOSITORY,
    models: [...plan.models].sort((a, b) => (a.name < b.name ? -1 : 1)),
    launch: launchPlan(launchScript, worldSize(model), plan),
    clientModel: plan.clientModel,
    streamingModel: plan.streamingModel ?? plan.clientModel,
    decoupled,
  };
}

function flavourPlan(
  model: ModelSpec,
  engine: EnginePlan | null,
  kvCacheFreeGpuMemoryFraction: number,
): { readonly plan: FlavourPlan; readonly decoupled: boolean } {
  const { flavour, streaming } = model.serving;
  const templates = templateSet(model.engine.release.templates);
  if (flavour === "llmapi") {
    return { plan: llmApiPlan(model, kvCacheFreeGpuMemoryFraction), decoupled: streaming };
  }
  if (engine === null || templates === undefined)
    throw new Error(`${model.serving.name} has no engine plan.`);
  const { takesImages, plan, decoupled: isDecoupled } = flavours[flavour];
  const decoupled = isDecoupled(model);
  const facts = { model, engine, kvCacheFreeGpuMemoryFraction, decoupled, takesImages };
  const planned = plan({ facts, templates });
  const obstacles = planned.models.flatMap(({ name, substitutions }) =>
    Object.entries(substitutions).flatMap(([key, value]) => {
      const obstacle = valueObstacle(value, templates);
      if (obstacle === null) return [];
      return [
        {
          path: model.path,
          value: showValue(value),
          reason: `It would be ${key} of ${name}, and ${obstacle}`,
          fix: "Choose a path and a name without these characters, or a later release.",
        },
      ];
    }),
  );
  if (obstacles.length > 0) throw new ConfigError(obstacles);
  return { plan: planned, decoupled };
}
