/** Reasons for building an engine again: changed fields of its key, with old and new values. */
import type { EngineKeyFields } from "../container-spec-schemas.ts";

export interface KeyChange {
  /** `gpu`, `steps.vision`, or `steps.llm --max_batch_size`. */
  readonly field: string;
  /** null if the field is absent, as in `after`. */
  readonly before: string | null;
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
  calibration: "calibration samples",
};

/** Every difference between two sets of key fields; empty exactly when their keys are equal. */
export function explainKeyChange(before: EngineKeyFields, after: EngineKeyFields): readonly KeyChange[] {
  const scalars = (Object.keys(LABELS) as ScalarField[]).map((field) =>
    change(field, LABELS[field], before[field]?.toString(), after[field]?.toString()),
  );
  const steps = [...new Set([...Object.keys(before.steps), ...Object.keys(after.steps)])].map((step) =>
    stepChanges(step, before.steps[step], after.steps[step]),
  );
  const changes = [...scalars, ...steps].flat();
  return changes.map((one) => ({ ...one, sentence: `${rebuildPrefix(after.model)}${one.sentence}` }));
}

/** First words of the sentences of an engine. */
export function rebuildPrefix(model: string): string {
  return `engine ${model}: rebuild - `;
}

function stepChanges(
  step: string,
  before: readonly string[] | undefined,
  after: readonly string[] | undefined,
): readonly KeyChange[] {
  const field = `steps.${step}`;
  const [was, is] = [before && oneLine(before), after && oneLine(after)];
  if (before === undefined || after === undefined) return change(field, `step ${step}`, was, is);
  const [left, right] = [valuesByFlag(before), valuesByFlag(after)];
  const changes = [...new Set([...left.keys(), ...right.keys()])].flatMap((flag) =>
    change(`${field} ${flag}`.trim(), `${step} ${flag}`.trim(), left.get(flag), right.get(flag)),
  );
  // Another order of the same flags shows only in the whole command.
  return changes.length > 0 ? changes : change(field, `${step} arguments`, was, is);
}

/** The empty name has the program and its first arguments. A repeated flag has the values of both. */
function valuesByFlag(words: readonly string[]): ReadonlyMap<string, string> {
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
  return new Map([...values].map(([name, parts]) => [name, oneLine(parts)]));
}

/** Two lists that differ never look alike. */
function oneLine(words: readonly string[]): string {
  return words.map((word) => (/^[^\s"]+$/.test(word) ? word : JSON.stringify(word))).join(" ");
}

function change(
  field: string,
  label: string,
  before: string | undefined,
  after: string | undefined,
): readonly KeyChange[] {
  if (before === after) return [];
  const sentence =
    before === undefined
      ? `${[label, after].filter(Boolean).join(" ")} (new)`
      : after === undefined
        ? `${[label, before].filter(Boolean).join(" ")} (gone)`
        : `${label} ${before || "(no value)"} → ${after || "(no value)"}`;
  return [{ field, before: before ?? null, after: after ?? null, sentence }];
}
