/** What a kind of model repository consists of; each has one file in this folder. */
import type { Problem } from "../../../problems.ts";
import type { TemplateSet } from "../../catalogue/templates.ts";
import type { RepositoryClone } from "../../engine/release.ts";
import type { ModelSpec } from "../../spec.ts";
import { fillTemplate } from "../fill.ts";
import type { ParameterFacts, Rules } from "../parameters.ts";
import type { RepositoryModel } from "../types.ts";

export interface FlavourContext {
  readonly facts: ParameterFacts;
  readonly templates: TemplateSet;
}

/** The part of a plan that depends on the flavour. */
export interface FlavourPlan {
  readonly models: readonly RepositoryModel[];
  /** Arguments of launch_triton_server.py beside world size, repository and ports. */
  readonly launchArguments: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly clones: readonly RepositoryClone[];
  readonly clientModel: string;
  readonly streamingModel: string;
}

export interface FlavourDefinition {
  readonly takesImages: boolean;
  /** Whether a request may have any number of responses. */
  decoupled(model: ModelSpec): boolean;
  /** Why this flavour can't serve the model with the release; empty where it can. */
  problems(model: ModelSpec, templates: TemplateSet): readonly Problem[];
  /** Only for models without problems. */
  plan(context: FlavourContext): FlavourPlan;
}

/** One folder from a template of all_models; a template that the set doesn't list has no placeholder. */
export function fromTemplate(
  { facts, templates }: FlavourContext,
  name: string,
  template: string,
  own: { readonly overrides?: Rules; readonly configFields?: Readonly<Record<string, string>> } = {},
): RepositoryModel {
  const keys = templates.models[template] ?? { mandatory: [], optional: [] };
  return {
    name,
    template,
    ...fillTemplate(template, keys, facts, own.overrides),
    ...(own.configFields && { configFields: own.configFields }),
  };
}

/** Whether a template of the set has a placeholder. */
export function hasPlaceholder(templates: TemplateSet, template: string, key: string): boolean {
  const keys = templates.models[template];
  return keys !== undefined && (keys.mandatory.includes(key) || keys.optional.includes(key));
}
