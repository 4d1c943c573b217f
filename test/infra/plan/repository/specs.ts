/** Models, engines and releases to plan repositories for. */
import { type LanguageModelName, languageModels } from "../../../../infra/plan/catalogue/language-models.ts";
import { releases } from "../../../../infra/plan/catalogue/releases.ts";
import type { TemplateRef } from "../../../../infra/plan/catalogue/templates.ts";
import type {
  EngineLimits,
  Flavour,
  LanguageModel,
  Release,
} from "../../../../infra/plan/catalogue/types.ts";
import type { EnginePlan } from "../../../../infra/plan/container-spec-schemas.ts";
import { visualNumbers } from "../../../../infra/plan/engine/engine-size.ts";
import type { EngineSpec, ModelSpec, ServingSpec } from "../../../../infra/plan/spec.ts";
import { engineSpec, servedModel } from "../model-specs.ts";

/** A release with a set of templates. */
export function releaseWith(ref: TemplateRef, change: Partial<Release> = {}): Release {
  const found = Object.values<Release>(releases).find((row) => row.templates === ref && row.verified);
  if (found === undefined) throw new Error(`No verified release has the templates ${ref}.`);
  return { ...found, ...change };
}

export interface SpecChange {
  readonly row?: Partial<LanguageModel>;
  readonly engine?: Partial<EngineSpec>;
  readonly limits?: Partial<EngineLimits>;
  readonly serving?: Partial<ServingSpec>;
}

/** A model as a stack file would resolve to, with the catalogue's limits. */
export function modelSpec(
  model: LanguageModelName,
  ref: TemplateRef,
  flavour: Flavour,
  change: SpecChange = {},
): ModelSpec {
  const engine = engineSpec(model, {
    row: { ...languageModels[model], ...change.row },
    release: releaseWith(ref),
    limits: change.limits ?? {},
    ...change.engine,
  });
  return servedModel(engine, { flavour, ...change.serving });
}

/** The parts of an engine's plan that a repository uses, for any release, even if it can't build the model. */
export function enginePlanFor({ engine }: ModelSpec): EnginePlan {
  const directory = `/store/engines/${engine.model}/0123456789ab`;
  return {
    model: engine.model,
    key: "0123456789ab".padEnd(64, "0"),
    shortKey: "0123456789ab",
    keyFields: {
      model: engine.model,
      weights: "",
      revision: "",
      tensorRtLlm: engine.release.tensorRtLlm,
      tensorRt: "",
      gpu: "A10G 8.6",
      dtype: engine.dtype,
      quantization: engine.quantization,
      tensorParallel: engine.tensorParallel,
      pipelineParallel: engine.pipelineParallel,
      steps: {},
    },
    directory,
    places: {
      weights: `/store/weights/${engine.model}/main`,
      code: "/store/code",
      checkpoint: "/scratch/checkpoint",
      engine: directory,
      llm: `${directory}/llm`,
      vision: `${directory}/vision`,
      goldenImage: "/golden.png",
      scripts: "/app/examples",
    },
    steps: [],
    worldSize: engine.tensorParallel * engine.pipelineParallel,
    maxSequenceTokens: engine.limits.maxInputTokens + engine.limits.maxOutputTokens,
    visual: visualNumbers(engine.row, engine.limits),
  };
}
