import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { gpus } from "../../../../infra/plan/catalogue/gpus.ts";
import { engineKey } from "../../../../infra/plan/engine/engine-key.ts";
import { enginePlan } from "../../../../infra/plan/engine/engine-plan.ts";
import { explainKeyChange } from "../../../../infra/plan/engine/explain-key-change.ts";
import type { EngineKeyFields } from "../../../../infra/plan/engine/types.ts";
import { type EngineChanges, engineSpec } from "../model-specs.ts";

const fields = (changes: EngineChanges = {}) => enginePlan(engineSpec("llava-1.5-7b", changes)).keyFields;
const sentences = (before: EngineKeyFields, after: EngineKeyFields) =>
  explainKeyChange(before, after).map((change) => change.sentence);

describe("why a key changed", () => {
  it("names the GPU", () => {
    const a100 = gpus["A100-SXM4-40GB"];
    expect(explainKeyChange(fields(), fields({ target: { gpu: a100 } }))).toEqual([
      {
        field: "gpu",
        before: "A10G 8.6",
        after: "A100-SXM4-40GB 8.0",
        sentence: "engine llava-1.5-7b: rebuild - gpu A10G 8.6 → A100-SXM4-40GB 8.0",
      },
    ]);
  });

  it("shows every number that a larger batch moves", () => {
    expect(sentences(fields(), fields({ limits: { maxBatchSize: 8 } }))).toEqual([
      "engine llava-1.5-7b: rebuild - llm --max_batch_size 1 → 8",
      "engine llava-1.5-7b: rebuild - llm --max_multimodal_len 576 → 4608",
      "engine llava-1.5-7b: rebuild - vision --max_batch_size 1 → 8",
    ]);
  });

  it("shows flags that came and went, and the field that moved them", () => {
    expect(sentences(fields(), fields({ quantization: "int4" }))).toEqual([
      "engine llava-1.5-7b: rebuild - quantization none → int4",
      "engine llava-1.5-7b: rebuild - convert --use_weight_only (new)",
      "engine llava-1.5-7b: rebuild - convert --weight_only_precision int4 (new)",
      "engine llava-1.5-7b: rebuild - llm --use_fused_mlp enable (gone)",
    ]);
  });

  it("shows a script that moved with its release", () => {
    expect(sentences(fields({ release: "25.02" }), fields())).toContain(
      "engine llava-1.5-7b: rebuild - convert python3 <scripts>/llama/convert_checkpoint.py →" +
        " python3 <scripts>/models/core/llama/convert_checkpoint.py",
    );
  });

  it("shows a step that is gone", () => {
    const { vision, ...steps } = fields().steps;
    expect(vision).toBeDefined();
    const [change, ...others] = explainKeyChange(fields(), { ...fields(), steps });
    expect(others).toEqual([]);
    expect(change).toMatchObject({ field: "steps.vision", after: null });
    expect(change?.sentence).toMatch(/^engine llava-1\.5-7b: rebuild - step vision python3 .* \(gone\)$/);
  });

  it("shows the whole command where no flag differs", () => {
    const before = { ...fields(), steps: { llm: ["build", "--a", "1", "--b", "2"] } };
    const after = { ...before, steps: { llm: ["build", "--b", "2", "--a", "1"] } };
    expect(sentences(before, after)).toEqual([
      "engine llava-1.5-7b: rebuild - llm arguments build --a 1 --b 2 → build --b 2 --a 1",
    ]);
  });

  it("is empty exactly when the keys are equal", () => {
    const small = fc.constantFrom("a", "b");
    const words = fc.array(fc.constantFrom("run", "--a", "--a=1", "--b", "1", "", "-c"), { maxLength: 5 });
    const required = fc.record({
      model: small,
      weights: small,
      revision: small,
      tensorRtLlm: small,
      tensorRt: small,
      gpu: small,
      dtype: small,
      quantization: small,
      tensorParallel: fc.constantFrom(1, 2),
      pipelineParallel: fc.constantFrom(1, 2),
      steps: fc.dictionary(fc.constantFrom("convert", "llm", "vision"), words),
    });
    const arbitrary: fc.Arbitrary<EngineKeyFields> = fc
      .tuple(required, fc.record({ code: small }, { requiredKeys: [] }))
      .map(([all, some]) => ({ ...all, ...some }));
    const names = [...Object.keys(fields()), "code"];
    fc.assert(
      fc.property(arbitrary, arbitrary, fc.subarray(names), (before, other, taken) => {
        const after = {
          ...before,
          ...Object.fromEntries(Object.entries(other).filter(([name]) => taken.includes(name))),
        };
        const same = engineKey(before) === engineKey(after);
        expect(explainKeyChange(before, after).length === 0).toBe(same);
        for (const change of explainKeyChange(before, after)) expect(change.before).not.toBe(change.after);
      }),
      { numRuns: 500 },
    );
  });
});
