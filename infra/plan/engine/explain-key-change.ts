/** Why an engine must be built anew: which fields of its key changed, from what to what. */
import type { EngineKeyFields } from "./types.ts";

export interface KeyChange {
  /** `gpu`, `steps.vision`, or `steps.llm --max_batch_size`. */
  readonly field: string;
  /** null: absent. */
  readonly before: string | null;
  /** null: absent. */
  readonly after: string | null;
  /** `engine llava-1.5-7b: rebuild - gpu A10G 8.6 → A100-SXM4-40GB 8.0`. */
  readonly sentence: string;
}

type ScalarField = Exclude<keyof EngineKeyFields, "steps">;

/** Name of each field in a sentence, in the order of the sentences. */
const LABELS: Readonly<Record<ScalarField, string>> = {
  model: "model",
  weights: "weights",
  revision: "revision",
  code: "source code",
  tensorRtLlm: "TensorRT-LLM",
  tensorRt: "TensorRT",
  gpu: "gpu",
  dtype: "dtype",
  quantization: "quantization",
  tensorParallel: "tensor parallelism",
  pipelineParallel: "pipeline parallelism",
};

/** Differences of a command that no flag shows, such as another order. */
const WHOLE_COMMAND = "arguments";

const NO_VALUE = "(no value)";

/** Every difference between two sets of key fields; empty exactly when their keys are equal. */
export function explainKeyChange(before: EngineKeyFields, after: EngineKeyFields): readonly KeyChange[] {
  const scalars = (Object.keys(LABELS) as ScalarField[])
    .filter((field) => before[field] !== after[field])
    .map((field) => difference(field, LABELS[field], scalar(before[field]), scalar(after[field])));
  const steps = [...new Set([...Object.keys(before.steps), ...Object.keys(after.steps)])].flatMap((step) =>
    stepDifferences(step, before.steps[step], after.steps[step]),
  );
  return [...scalars, ...steps].map((change) => ({
    ...change,
    sentence: `${rebuildPrefix(after.model)}${change.sentence}`,
  }));
}

/** First words of the sentences of an engine. */
export function rebuildPrefix(model: string): string {
  return `engine ${model}: rebuild - `;
}

function scalar(value: string | number | undefined): string | null {
  return value === undefined ? null : String(value);
}

function stepDifferences(
  step: string,
  before: readonly string[] | undefined,
  after: readonly string[] | undefined,
): readonly KeyChange[] {
  const field = `steps.${step}`;
  if (before === undefined || after === undefined) {
    return [difference(field, `step ${step}`, shown(before), shown(after))];
  }
  if (before.length === after.length && before.every((word, index) => word === after[index])) return [];
  const [left, right] = [parseCommand(before), parseCommand(after)];
  const changes = [...new Set([...left.keys(), ...right.keys()])]
    .filter((flag) => left.get(flag) !== right.get(flag))
    .map((flag) =>
      difference(
        flag === "" ? field : `${field} ${flag}`,
        flag === "" ? step : `${step} ${flag}`,
        left.get(flag) ?? null,
        right.get(flag) ?? null,
      ),
    );
  if (changes.length > 0) return changes;
  return [difference(field, `${step} ${WHOLE_COMMAND}`, shown(before), shown(after))];
}

/**
 * Values by flag; the empty name has the program and its first arguments. A repeated flag has the values of both.
 */
function parseCommand(words: readonly string[]): ReadonlyMap<string, string> {
  const values = new Map<string, string[]>([["", []]]);
  let flag = "";
  for (const word of words) {
    const [, name, value] = /^(--?[A-Za-z][^=]*)(?:=(.*))?$/s.exec(word) ?? [];
    if (name === undefined) {
      values.get(flag)?.push(word);
      continue;
    }
    flag = name;
    values.set(flag, [...(values.get(flag) ?? []), ...(value === undefined ? [] : [value])]);
  }
  return new Map([...values].map(([name, parts]) => [name, shown(parts)]));
}

/** Words in one line, so that two lists that differ never look alike. */
function shown(words: readonly string[]): string;
function shown(words: readonly string[] | undefined): string | null;
function shown(words: readonly string[] | undefined): string | null {
  return words?.map((word) => (/^[^\s"]+$/.test(word) ? word : JSON.stringify(word))).join(" ") ?? null;
}

function difference(field: string, label: string, before: string | null, after: string | null): KeyChange {
  const sentence =
    before === null
      ? `${[label, after].filter(Boolean).join(" ")} (new)`
      : after === null
        ? `${[label, before].filter(Boolean).join(" ")} (gone)`
        : `${label} ${before || NO_VALUE} → ${after || NO_VALUE}`;
  return { field, before, after, sentence };
}
