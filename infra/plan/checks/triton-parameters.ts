/** A user's own values for placeholders of Triton's templates. */
import { nearestName } from "../../problems.ts";
import { templateSet } from "../catalogue/templates.ts";
import { enginePlan } from "../engine/engine-plan.ts";
import { unsupportedReason } from "../engine/recipes.ts";
import { placeholderDeciders } from "../repository/parameters.ts";
import { repositoryProblems } from "../repository/problems.ts";
import { repositoryPlan, valueObstacle } from "../repository/repository-plan.ts";
import type { ModelSpec } from "../spec.ts";
import { type Check, eachModel, type Finding } from "./check.ts";
import { oneOf } from "./shared-messages.ts";

type Value = string | number | boolean;

export const tritonParameterChecks = {
  parametersAreKnown: eachModel((model) => {
    const { parameters = {} } = model.serving;
    if (Object.keys(parameters).length === 0 || !hasRepository(model)) return [];
    const placeholders = placeholdersOf(model);
    return Object.entries(parameters).map(([name, value]) => {
      const finding = problemOf(name, value, model, placeholders);
      return finding === null ? [] : { path: `${model.path}.triton.parameters.${name}`, ...finding };
    });
  }),
} satisfies Record<string, Check>;

/** Others are reported already. */
function hasRepository(model: ModelSpec): boolean {
  const isBuilt = model.serving.runtime !== "engine" || unsupportedReason(model.engine) === null;
  return isBuilt && repositoryProblems(model).length === 0;
}

interface Placeholder {
  /** Value that the plan fills in; null for Triton's default. */
  readonly planned: string | null;
  /** Outside quotes of config.pbtxt. */
  readonly isMandatory: boolean;
}

/** All placeholders of a model's repository as the plan fills them by itself. */
function placeholdersOf(model: ModelSpec): ReadonlyMap<string, Placeholder> {
  const { parameters: _own, ...serving } = model.serving;
  const engine = serving.runtime === "engine" ? enginePlan(model.engine) : null;
  const templates = templateSet(model.engine.release.templates)?.models ?? {};
  return new Map(
    // The first of several templates wins: with images the engine's delay differs from the others'.
    repositoryPlan({ ...model, serving }, engine, 1)
      .models.toReversed()
      .flatMap(({ template, substitutions, defaults }) =>
        Object.keys({ ...defaults, ...substitutions }).map((name) => {
          const isMandatory = templates[template]?.mandatory.includes(name) ?? false;
          return [name, { planned: substitutions[name] ?? null, isMandatory }] as const;
        }),
      ),
  );
}

function problemOf(
  name: string,
  value: Value,
  { engine, serving, path }: ModelSpec,
  placeholders: ReadonlyMap<string, Placeholder>,
): Pick<Finding, "reason" | "fix"> | null {
  const { release, row } = engine;
  const placeholder = placeholders.get(name);
  if (placeholder === undefined) {
    const nearest = nearestName(name, [...placeholders.keys()]);
    return {
      reason: `The templates of flavour ${serving.flavour} in ${release.tag} have no placeholder ${name}.`,
      fix: nearest === undefined ? "Remove it." : `Did you mean \`${nearest}\`?`,
    };
  }
  const keys = placeholderDeciders(name, serving);
  if (keys !== undefined)
    return {
      reason:
        keys.length === 0
          ? `The plan fills in ${name}, the name of a folder or model of its own.`
          : `The plan fills in ${name} by ${keys.join(" and ")} of the model.`,
      fix:
        keys.length === 0
          ? "Remove it."
          : `Remove it, and set ${oneOf(keys.map((key) => `${path}.${key}`))}.`,
    };
  if (name === "cross_kv_cache_fraction") {
    if (row.vision?.attention !== "cross")
      return {
        reason: `${engine.model} has no cross attention, and TensorRT-LLM refuses the parameter without it.`,
        fix: "Remove it.",
      };
    if (typeof value !== "number" || value <= 0 || value >= 1)
      return {
        reason: "It is the cross attention's part of the KV cache.",
        fix: "Use a number between 0 and 1, such as 0.5.",
      };
  }
  const { planned, isMandatory } = placeholder;
  if (isMandatory && !(/^\d/.test(planned ?? "") ? Number.isSafeInteger(value) : /^\w+$/.test(String(value))))
    return {
      reason: `${name} is outside quotes in config.pbtxt, where Triton reads one word; the plan's own is ${planned}.`,
      fix: `Use a value of the same kind as ${planned}.`,
    };
  const obstacle = valueObstacle(String(value), templateSet(release.templates) ?? { escapesCommas: true });
  return obstacle === null
    ? null
    : {
        reason: `It can't be filled in: ${obstacle}`,
        fix: "Use a value without these characters, or a later release.",
      };
}
