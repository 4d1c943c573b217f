/**
 * Placeholders of the config.pbtxt templates that tensorrtllm_backend fills with tools/fill_template.py, at each branch and tag
 * whose folder all_models was read: https://github.com/triton-inference-server/tensorrtllm_backend, and since 0.20
 * triton_backend/all_models of https://github.com/NVIDIA/TensorRT-LLM.
 *
 * data/templates.json has the sets in the order of their content, and for each placeholder the first set that has it, with
 * ` until ` and the first set that lacks it again. A set also has rules of fill_template.py: whether a backslash keeps a comma or
 * colon inside a value, whether it aborts on a key that the template lacks, and the keys that it fills by itself; and the name of
 * the input that seeds the sampling (config.pbtxt of ensemble, multimodal, gpt and tensorrt_llm_bls).
 */
import file from "./data/templates.json" with { type: "json" };

/** Placeholders of one template; the order has no meaning. */
export interface TemplateKeys {
  /** Outside quotes: Triton can't parse the file while one is left (`Expected integer or identifier, got: $`). */
  readonly mandatory: readonly string[];
  /** Inside quotes: if it is not filled, Triton reads the text `${key}` and takes its default. */
  readonly optional: readonly string[];
}

export interface TemplateSet {
  /** If it is false, values with a comma or colon can't be given. */
  readonly escapesCommas: boolean;
  /** The input for the least number of tokens was renamed together with it. */
  readonly seedField: string;
  /** By folder under all_models: `inflight_batcher_llm/tensorrt_llm`. */
  readonly models: Readonly<Record<string, TemplateKeys>>;
}

/** Branches and tags of triton-inference-server/tensorrtllm_backend, and TensorRT-LLM versions from 0.20 on. */
export type TemplateRef = keyof typeof file.sets;

export const TEMPLATE_REFS = Object.keys(file.sets) as readonly TemplateRef[];

const sets = new Map<string, TemplateSet>(TEMPLATE_REFS.map((ref, position) => [ref, setAt(ref, position)]));

/** Set of a release's `templates`; undefined if the catalogue lacks it. */
export function templateSet(ref: string | null): TemplateSet | undefined {
  return ref === null ? undefined : sets.get(ref);
}

function setAt(ref: TemplateRef, position: number): TemplateSet {
  const keysAt = (ranges: Readonly<Record<string, string>>) =>
    Object.entries(ranges).flatMap(([key, range]) => {
      const [since, until] = range.split(" until ").map((name) => TEMPLATE_REFS.indexOf(name as TemplateRef));
      return since !== undefined && since <= position && position < (until ?? Infinity) ? [key] : [];
    });
  const models = Object.entries(file.templates)
    .map(
      ([name, { mandatory, optional }]) =>
        [name, { mandatory: keysAt(mandatory), optional: keysAt(optional) }] as const,
    )
    .filter(([, { mandatory, optional }]) => mandatory.length + optional.length > 0);
  const { escapesCommas, seedField } = file.sets[ref];
  return { escapesCommas, seedField, models: Object.fromEntries(models) };
}
