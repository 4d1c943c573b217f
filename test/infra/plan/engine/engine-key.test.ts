import fc from "fast-check";
import { expect, test } from "vitest";
import { checkedPlan } from "../../../../infra/checked-plan.ts";
import { gpus } from "../../../../infra/plan/catalogue/gpus.ts";
import { ENGINE_MODELS } from "../../../../infra/plan/catalogue/language-models.ts";
import { releases } from "../../../../infra/plan/catalogue/releases.ts";
import type { EngineKeyFields } from "../../../../infra/plan/container-spec-schemas.ts";
import { enginePlan } from "../../../../infra/plan/engine/engine-plan.ts";
import { explainKeyChange } from "../../../../infra/plan/engine/explain-key-change.ts";
import { jsonDigest } from "../../../../infra/plan/plain-data.ts";
import type { EngineSpec } from "../../../../infra/plan/spec.ts";
import { times } from "../../../harness/thorough.ts";
import { type EngineChanges, engineSpec } from "../model-specs.ts";

// A changed vector means that every engine of the store is built again: say so in the release notes.
test.each([
  ["gpt2-medium", "25.07", "a86856384e44"],
  ["llava-1.5-7b", "25.07", "9df37b0ad9f7"],
  ["llama-2-7b", "24.05", "aba221e9736c"],
  ["vila1.5-3b", "25.02", "a925d66f7568"],
  ["llama-3.2-11b-vision", "25.02", "e665924198a7"],
] as const)("the engine's key of %s on %s is still %s", (model, release, key) => {
  expect(enginePlan(engineSpec(model, { release })).shortKey).toBe(key);
});

test("engines' keys are the same on 25.06 and 25.07, which hold the same TensorRT-LLM and TensorRT", () => {
  for (const model of ENGINE_MODELS) {
    const [older, newer] = (["25.06", "25.07"] as const).map((release) =>
      enginePlan(engineSpec(model, { release })),
    );
    expect(older?.key).toBe(newer?.key);
  }
});

test("engines' keys differ between images whose TensorRT version is unknown", () => {
  const unknown = (tag: string) =>
    enginePlan(engineSpec("llama-2-7b", { release: { ...releases["24.02"], tag } })).key;
  expect(unknown("24.02")).not.toBe(unknown("24.03"));
});

test("an engine's key does not change with anything that no engine depends on", () => {
  const other: fc.Arbitrary<Partial<EngineSpec["release"]>> = fc.record(
    {
      tag: fc.constantFrom("25.06", "25.07", "99.99"),
      cuda: fc.constantFrom(null, "13.0"),
      minimumDriver: fc.constantFrom(null, "600.1"),
      imageGB: fc.constantFrom(null, 1),
      templates: fc.constantFrom(null, "v0.20.0"),
      verified: fc.boolean(),
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(
      fc.constantFrom(...ENGINE_MODELS),
      other,
      fc.constantFrom("ngc" as const, "tritonrelease" as const),
      fc.string(),
      (model, release, layout, text) => {
        const spec = engineSpec(model);
        const row = {
          ...spec.row,
          title: text,
          sources: [text],
          golden: { ...spec.row.golden, prompt: text, answerContains: [text] },
          source: { ...spec.row.source, include: [text], gated: !spec.row.source.gated, license: text },
        };
        const changed = { ...spec, row, layout, release: { ...spec.release, ...release } };
        expect(enginePlan(changed).key).toBe(enginePlan(spec).key);
      },
    ),
  );
});

test("one changed word changes the key of its engine only", () => {
  const all = ENGINE_MODELS.map((model) => enginePlan(engineSpec(model)).keyFields);
  const keys = all.map(jsonDigest);
  fc.assert(
    fc.property(fc.nat(), fc.nat(), fc.nat(), fc.string(), (engine, step, place, text) => {
      const index = engine % all.length;
      const fields = all[index];
      if (fields === undefined) throw new Error("an engine");
      const names = Object.keys(fields.steps);
      const name = names[step % names.length] ?? "";
      const words = fields.steps[name] ?? [];
      const at = place % words.length;
      fc.pre(words[at] !== text);
      const steps = { ...fields.steps, [name]: words.with(at, text) };
      const after = all.map((each, i) => jsonDigest(i === index ? { ...each, steps } : each));
      expect(after.flatMap((key, i) => (key === keys[i] ? [] : [i]))).toEqual([index]);
    }),
  );
});

test.each([
  ["GPU", { target: { gpu: gpus.L4 } }],
  ["partition", { target: { gpu: gpus.A10G, migProfile: "3g.20gb" } }],
  ["dtype", { dtype: "bfloat16" }],
  ["quantization", { quantization: "int8" }],
  ["tensor parallelism", { tensorParallel: 2 }],
  [
    "repository of weights",
    { weights: { kind: "hub", repository: "someone/else", revision: "b".repeat(40) } },
  ],
  [
    "revision",
    { weights: { kind: "hub", repository: "llava-hf/llava-1.5-7b-hf", revision: "b".repeat(40) } },
  ],
  ["version of TensorRT-LLM", { release: { ...releases["25.07"], tensorRtLlm: "0.20.1" } }],
  ["version of TensorRT", { release: { ...releases["25.07"], tensorRt: "10.11.0.33" } }],
  ["answer length", { limits: { maxOutputTokens: 256 } }],
] as const)("an engine's key changes with the %s", (_what, changes) => {
  expect(enginePlan(engineSpec("llava-1.5-7b", changes)).key).not.toBe(
    enginePlan(engineSpec("llava-1.5-7b")).key,
  );
});

test("an engine's key changes with the commit of the model's source code", () => {
  const spec = engineSpec("vila1.5-3b");
  const { vision } = spec.row;
  if (vision?.codeRepository === undefined) throw new Error("a model with source code");
  const codeRepository = { ...vision.codeRepository, commit: "c".repeat(40) };
  const row = { ...spec.row, vision: { ...vision, codeRepository } };
  expect(enginePlan({ ...spec, row }).key).not.toBe(enginePlan(spec).key);
});

test("an engine's key changes with the revision of a weights folder, and not with its path", () => {
  const key = (path: string, revision: string) =>
    enginePlan(engineSpec("gpt2-medium", { weights: { kind: "folder", path, revision } })).key;
  expect(key("/a", "1")).toBe(key("/b", "1"));
  expect(key("/a", "1")).not.toBe(key("/a", "2"));
});

const fields = (changes: EngineChanges = {}) => enginePlan(engineSpec("llava-1.5-7b", changes)).keyFields;

const sentences = (before: EngineKeyFields, after: EngineKeyFields) =>
  explainKeyChange(before, after).map((change) => change.sentence);

test("a rebuild for another GPU names both GPUs", () => {
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

test("a rebuild for a larger batch lists every number that changes", () => {
  expect(sentences(fields(), fields({ limits: { maxBatchSize: 8 } }))).toEqual([
    "engine llava-1.5-7b: rebuild - llm --max_batch_size 1 → 8",
    "engine llava-1.5-7b: rebuild - llm --max_multimodal_len 576 → 4608",
    "engine llava-1.5-7b: rebuild - vision --max_batch_size 1 → 8",
  ]);
});

test("a rebuild for a quantization lists new and removed flags", () => {
  expect(sentences(fields(), fields({ quantization: "int4" }))).toEqual([
    "engine llava-1.5-7b: rebuild - quantization none → int4",
    "engine llava-1.5-7b: rebuild - convert --use_weight_only (new)",
    "engine llava-1.5-7b: rebuild - convert --weight_only_precision int4 (new)",
    "engine llava-1.5-7b: rebuild - llm --use_fused_mlp enable (gone)",
  ]);
});

test("a rebuild lists a script that another release has elsewhere", () => {
  expect(sentences(fields({ release: "25.02" }), fields())).toContain(
    "engine llava-1.5-7b: rebuild - convert python3 <scripts>/llama/convert_checkpoint.py →" +
      " python3 <scripts>/models/core/llama/convert_checkpoint.py",
  );
});

test("a rebuild lists a removed step", () => {
  const { vision, ...steps } = fields().steps;
  expect(vision).toBeDefined();
  const [change, ...others] = explainKeyChange(fields(), { ...fields(), steps });
  expect(others).toEqual([]);
  expect(change).toMatchObject({ field: "steps.vision", after: null });
  expect(change?.sentence).toMatch(/^engine llava-1\.5-7b: rebuild - step vision python3 .* \(gone\)$/);
});

test("a rebuild whose flags only changed their order shows the whole command", () => {
  const before = { ...fields(), steps: { llm: ["build", "--a", "1", "--b", "2"] } };
  const after = { ...before, steps: { llm: ["build", "--b", "2", "--a", "1"] } };
  expect(sentences(before, after)).toEqual([
    "engine llava-1.5-7b: rebuild - llm arguments build --a 1 --b 2 → build --b 2 --a 1",
  ]);
});

test("a rebuild has reasons exactly when the keys differ", () => {
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
      const same = jsonDigest(before) === jsonDigest(after);
      expect(explainKeyChange(before, after).length === 0).toBe(same);
      for (const change of explainKeyChange(before, after)) expect(change.before).not.toBe(change.after);
    }),
    { numRuns: times(100, 500) },
  );
});

const stack = {
  platform: "kubernetes",
  pools: [{ name: "gpu", instanceType: "g5.12xlarge", nodes: { min: 0, max: 4 } }],
  models: [
    { name: "gpt2", model: "gpt2-medium" },
    { name: "llava", model: "llava-1.5-7b", limits: { maxBatchSize: 1 } },
    { name: "blip2", model: "blip2-opt-2.7b" },
  ],
};

function keysOf(values: Record<string, unknown>): Record<string, string> {
  const { plan } = checkedPlan(values);
  if (plan.tier === "cpu") throw new Error("A local stack has no engine");
  return Object.fromEntries(plan.models.map(({ name, engine }) => [name, engine?.key ?? "none"]));
}

/** The stack with something added to one of its models. */
function withModel(index: number, change: object): Record<string, unknown> {
  return {
    ...stack,
    models: stack.models.map((model, at) => (at === index ? { ...model, ...change } : model)),
  };
}

const keys = keysOf(stack);

test("engines of a stack have different keys", () => {
  expect(new Set(Object.values(keys)).size).toBe(stack.models.length);
});

test.each<[string, Record<string, unknown>]>([
  [
    "another registry",
    { ...stack, image: { base: "registry.example.org/mirror/tritonserver:25.07-trtllm-python-py3" } },
  ],
  [
    "its own image",
    { ...stack, image: { base: "registry.example.org/own/trtllm:7", layout: "tritonrelease" } },
  ],
  ["a release with the same TensorRT-LLM and TensorRT", { ...stack, release: "25.06" }],
  ["credentials", { ...stack, hub: { token: "hf_OfTheTest" } }],
  ["another gateway", { ...stack, gateway: { requestsPerMinute: 60, replicas: 3 } }],
  ["no encoders", { ...stack, encoders: false }],
  ["another store", { ...stack, engineStore: { sizeGiB: 900, readMBPerSecond: 50 } }],
  ["another namespace", { ...stack, namespace: "elsewhere" }],
  [
    "another pool of machines with the same GPU",
    { ...stack, pools: [{ name: "gpu", instanceType: "g5.48xlarge", nodes: { min: 0, max: 4 } }] },
  ],
  ["other serving settings", withModel(1, { replicas: 2, triton: { instanceCount: 2 } })],
])("a stack with %s has the same engine keys", (_what, values) => {
  expect(Object.values(keysOf(values))).toEqual(Object.values(keys));
});

test.each<[string, number, object]>([
  ["limit", 0, { limits: { maxOutputTokens: 200 } }],
  ["batch", 1, { limits: { maxBatchSize: 2 } }],
  ["quantization", 2, { quantization: "int8" }],
  ["revision of weights", 0, { weights: { from: "folder", path: "/store/own/gpt2", revision: "v2" } }],
  ["tensor parallelism", 2, { tensorParallel: 2 }],
])("a stack with another %s has one other engine key", (_what, index, change) => {
  const after = keysOf(withModel(index, change));
  const changed = Object.keys(keys).filter((name) => after[name] !== keys[name]);
  expect(changed).toEqual([stack.models[index]?.name]);
});
