/** What Triton loads for a model: folders, values of every placeholder, and the line that starts the server. */
import { ConfigError, type Problem, showValue } from "../../problems.ts";
import { type TemplateSet, templateSet } from "../catalogue/templates.ts";
import { imageFiles } from "../engine/release.ts";
import type { EnginePlan } from "../engine/types.ts";
import { weightsDirectory } from "../engine/weights.ts";
import type { ModelSpec } from "../spec.ts";
import { valueObstacle } from "./fill.ts";
import type { FlavourPlan } from "./flavours/flavour.ts";
import { flavours } from "./flavours/flavours.ts";
import { LLM_API_MODEL, llmApiLaunchArguments, llmApiModel } from "./flavours/llmapi.ts";
import { launchPlan, MODEL_REPOSITORY, TRITON_PORTS, type TritonPorts } from "./launch.ts";
import { repositoryProblems } from "./problems.ts";
import type { RepositoryModel, RepositoryPlan } from "./types.ts";

interface RepositoryOptions {
  /** Part of the GPU memory that is free after loading, above 0 and at most 1. */
  readonly kvCacheFreeGpuMemoryFraction: number;
  /** @default 8000, 8001 and 8002 */
  readonly ports?: TritonPorts | undefined;
}

/**
 * Plans the model repository of one model. Same input, same plan, to the byte.
 *
 * @param engine null for a model without an engine, which is `runtime: llmapi`.
 * @throws ConfigError with all that {@link repositoryProblems} finds, and for values that no template can hold.
 * @throws RangeError for a fraction out of range, or an engine where there must be none, or the reverse.
 */
export function repositoryPlan(
  model: ModelSpec,
  engine: EnginePlan | null,
  options: RepositoryOptions,
): RepositoryPlan {
  checkArguments(model, engine, options);
  const problems = repositoryProblems(model);
  if (problems.length > 0) throw new ConfigError(problems);

  const { release, layout, tensorParallel, pipelineParallel } = model.engine;
  const paths = imageFiles(release, layout);
  const { plan, decoupled } = flavourPlan(model, engine, options);
  return {
    flavour: model.serving.flavour,
    templates: release.templates ?? release.backendRef,
    allModels: paths.allModels,
    fillTemplate: paths.fillTemplate,
    clones: [...paths.clones, ...plan.clones],
    path: MODEL_REPOSITORY,
    models: [...plan.models].sort((a, b) => (a.name < b.name ? -1 : 1)),
    launch: launchPlan({
      script: paths.launchScript,
      worldSize: tensorParallel * pipelineParallel,
      modelRepository: MODEL_REPOSITORY,
      ports: options.ports ?? TRITON_PORTS,
      extra: plan.launchArguments,
      environment: plan.environment,
    }),
    clientModel: plan.clientModel,
    streamingModel: plan.streamingModel,
    decoupled,
  };
}

function checkArguments(model: ModelSpec, engine: EnginePlan | null, options: RepositoryOptions): void {
  const { kvCacheFreeGpuMemoryFraction: fraction } = options;
  if (!(fraction > 0 && fraction <= 1)) {
    throw new RangeError(
      `kvCacheFreeGpuMemoryFraction of ${model.serving.name} is ${fraction}; it must be above 0 and at most 1.`,
    );
  }
  if ((engine === null) !== (model.serving.runtime === "llmapi")) {
    throw new RangeError(
      `${model.serving.name} has runtime ${model.serving.runtime} and ${engine === null ? "no engine plan" : "an engine plan"}.`,
    );
  }
}

function flavourPlan(
  model: ModelSpec,
  engine: EnginePlan | null,
  { kvCacheFreeGpuMemoryFraction }: RepositoryOptions,
): { readonly plan: FlavourPlan; readonly decoupled: boolean } {
  const { flavour, streaming } = model.serving;
  const templates = templateSet(model.engine.release.templates);
  // Any mixture of these has been refused above.
  if (flavour === "llmapi" || engine === null || templates === undefined) {
    return { plan: llmApiPlan(model, kvCacheFreeGpuMemoryFraction), decoupled: streaming };
  }
  const { takesImages, plan, decoupled: isDecoupled } = flavours[flavour];
  const decoupled = isDecoupled(model);
  const facts = { model, engine, kvCacheFreeGpuMemoryFraction, decoupled, takesImages };
  const planned = plan({ facts, templates });
  const obstacles = planned.models.flatMap((one) => valueProblems(model, one, templates));
  if (obstacles.length > 0) throw new ConfigError(obstacles);
  return { plan: planned, decoupled };
}

function llmApiPlan(model: ModelSpec, kvCacheFreeGpuMemoryFraction: number): FlavourPlan {
  const { model: name, weights, tensorParallel, pipelineParallel } = model.engine;
  return {
    models: [llmApiModel(model, weightsDirectory(name, weights), kvCacheFreeGpuMemoryFraction)],
    launchArguments: llmApiLaunchArguments(tensorParallel * pipelineParallel),
    environment: {},
    clones: [],
    clientModel: LLM_API_MODEL,
    streamingModel: LLM_API_MODEL,
  };
}

function valueProblems(
  model: ModelSpec,
  { name, substitutions }: RepositoryModel,
  templates: TemplateSet,
): Problem[] {
  return Object.entries(substitutions).flatMap(([key, value]) => {
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
  });
}
