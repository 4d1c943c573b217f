/** From the placeholders of a template to values, and from values to what fill_template.py is handed. */
import type { TemplateKeys, TemplateSet } from "../catalogue/templates.ts";
import { type Decision, type ParameterFacts, parameterRules, type Rules } from "./parameters.ts";

/** What is handed to fill_template.py, and what is left to Triton; together all placeholders, each sorted. */
interface FilledTemplate {
  readonly substitutions: Readonly<Record<string, string>>;
  readonly defaults: Readonly<Record<string, string>>;
}

/**
 * Decides every placeholder of a template.
 *
 * @param template Name in {@link parameterRules}.
 * @param overrides Rules that a flavour has of its own.
 * @throws Error where a placeholder has no rule, or a mandatory one no value: the table is incomplete then.
 */
export function fillTemplate(
  template: string,
  keys: TemplateKeys,
  facts: ParameterFacts,
  overrides: Rules = {},
): FilledTemplate {
  const substitutions: Record<string, string> = {};
  const defaults: Record<string, string> = {};
  const mandatory = new Set(keys.mandatory);
  for (const key of [...keys.mandatory, ...keys.optional].sort()) {
    const decision = decide(template, key, facts, overrides);
    if ("value" in decision) {
      substitutions[key] = decision.value;
    } else if (mandatory.has(key)) {
      throw new Error(
        `${template} does not load without ${key}, and its rule gives no value (${decision.keep}).`,
      );
    } else {
      defaults[key] = decision.keep;
    }
  }
  return { substitutions, defaults };
}

function decide(template: string, key: string, facts: ParameterFacts, overrides: Rules): Decision {
  const rule = overrides[key] ?? parameterRules[template]?.[key];
  if (rule === undefined) {
    throw new Error(
      `${template} has the placeholder ${key}, for which repository/parameters.ts has no rule.`,
    );
  }
  return rule(facts);
}

/** How a release's fill_template.py reads its argument. */
type FillTemplateSyntax = Pick<TemplateSet, "escapesCommas">;

/**
 * The argument of fill_template.py: `key:value,key:value`. The script first splits at commas and takes one level of
 * backslashes away, then splits each part at colons and takes another: a colon needs two levels, a comma one.
 * https://github.com/triton-inference-server/tensorrtllm_backend/blob/v0.16.0/tools/fill_template.py
 *
 * @throws RangeError for a value that {@link valueObstacle} names.
 */
export function fillTemplateArgument(
  substitutions: Readonly<Record<string, string>>,
  syntax: FillTemplateSyntax,
): string {
  return Object.entries(substitutions)
    .map(([key, value]) => {
      const obstacle = valueObstacle(value, syntax);
      if (obstacle !== null) throw new RangeError(`${key} can't be ${JSON.stringify(value)}: ${obstacle}`);
      return escaped(`${key}:${escaped(value, ":")}`, ",");
    })
    .join(",");
}

function escaped(text: string, delimiter: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll(delimiter, `\\${delimiter}`);
}

/** Why a value can't be filled in; null where it can. */
export function valueObstacle(value: string, { escapesCommas }: FillTemplateSyntax): string | null {
  if (!escapesCommas && /[,:]/.test(value)) {
    return "fill_template.py before TensorRT-LLM 0.16 splits at every comma and colon and has no way to escape them.";
  }
  // The value lands between quotes of config.pbtxt, where it is protobuf text; "${" would read as not filled in.
  if (/["\\$\p{Cc}]/u.test(value)) {
    return "it stands between quotes of config.pbtxt, where quotes, backslashes, dollar signs and control characters have a meaning.";
  }
  return null;
}
