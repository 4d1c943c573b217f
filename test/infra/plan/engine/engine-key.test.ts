import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { gpus } from "../../../../infra/plan/catalogue/gpus.ts";
import { LANGUAGE_MODELS } from "../../../../infra/plan/catalogue/language-models.ts";
import { releases } from "../../../../infra/plan/catalogue/releases.ts";
import { engineKey } from "../../../../infra/plan/engine/engine-key.ts";
import { enginePlan } from "../../../../infra/plan/engine/engine-plan.ts";
import type { EngineSpec } from "../../../../infra/plan/spec.ts";
import { engineSpec } from "../model-specs.ts";

describe("an engine's key", () => {
  // A changed vector means that every engine of the store is built again: say so in the release notes.
  it.each([
    ["gpt2-medium", "25.07", "a86856384e44"],
    ["llava-1.5-7b", "25.07", "9df37b0ad9f7"],
    ["llama-2-7b", "24.05", "aba221e9736c"],
    ["vila1.5-3b", "25.02", "a925d66f7568"],
    ["llama-3.2-11b-vision", "25.02", "e665924198a7"],
  ] as const)("of %s on %s is what it was", (model, release, key) => {
    expect(enginePlan(engineSpec(model, { release })).shortKey).toBe(key);
  });

  it("is the same on 25.06 and 25.07, which hold the same TensorRT-LLM and TensorRT", () => {
    for (const model of LANGUAGE_MODELS) {
      const [older, newer] = (["25.06", "25.07"] as const).map((release) =>
        enginePlan(engineSpec(model, { release })),
      );
      expect(older?.key).toBe(newer?.key);
    }
  });

  it("differs between images whose TensorRT no document names", () => {
    const unknown = (tag: string) =>
      enginePlan(engineSpec("llama-2-7b", { release: { ...releases["24.02"], tag } })).key;
    expect(unknown("24.02")).not.toBe(unknown("24.03"));
  });

  it("does not move with anything that no engine depends on", () => {
    const other: fc.Arbitrary<Partial<EngineSpec["release"]>> = fc.record(
      {
        tag: fc.constantFrom("25.06", "25.07", "99.99"),
        cuda: fc.constantFrom(null, "13.0"),
        minimumDriver: fc.constantFrom(null, "600.1"),
        imageGB: fc.constantFrom(null, 1),
        python: fc.constantFrom(null, "3.13"),
        templates: fc.constantFrom(null, "r25.05"),
        backendRef: fc.constantFrom("main", "r25.07"),
        files: fc.constantFrom("app" as const, "clone" as const),
        verified: fc.boolean(),
        source: fc.string(),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(
        fc.constantFrom(...LANGUAGE_MODELS),
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

  it("moves for one changed word, and only of that engine", () => {
    const all = LANGUAGE_MODELS.map((model) => enginePlan(engineSpec(model)).keyFields);
    const keys = all.map(engineKey);
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
        const after = all.map((each, i) => engineKey(i === index ? { ...each, steps } : each));
        expect(after.flatMap((key, i) => (key === keys[i] ? [] : [i]))).toEqual([index]);
      }),
    );
  });

  it.each([
    ["GPU", { target: { gpu: gpus.L4 } }],
    ["partition", { target: { gpu: gpus.A10G, migProfile: "3g.20gb" } }],
    ["dtype", { dtype: "bfloat16" }],
    ["quantization", { quantization: "int8" }],
    ["tensor parallelism", { tensorParallel: 2 }],
    ["weights", { weights: { kind: "hub", repository: "someone/else", revision: "b".repeat(40) } }],
    [
      "revision",
      { weights: { kind: "hub", repository: "llava-hf/llava-1.5-7b-hf", revision: "b".repeat(40) } },
    ],
    ["TensorRT-LLM", { release: { ...releases["25.07"], tensorRtLlm: "0.20.1" } }],
    ["TensorRT", { release: { ...releases["25.07"], tensorRt: "10.11.0.33" } }],
    ["answer length", { limits: { maxOutputTokens: 256 } }],
  ] as const)("moves with %s", (_what, changes) => {
    expect(enginePlan(engineSpec("llava-1.5-7b", changes)).key).not.toBe(
      enginePlan(engineSpec("llava-1.5-7b")).key,
    );
  });

  it("moves with the commit of a model's source code", () => {
    const spec = engineSpec("vila1.5-3b");
    const { vision } = spec.row;
    if (vision?.codeRepository === undefined) throw new Error("a model with source code");
    const codeRepository = { ...vision.codeRepository, commit: "c".repeat(40) };
    const row = { ...spec.row, vision: { ...vision, codeRepository } };
    expect(enginePlan({ ...spec, row }).key).not.toBe(enginePlan(spec).key);
  });

  it("does not move with the path of a folder of weights, only with the word for its content", () => {
    const key = (path: string, revision: string) =>
      enginePlan(engineSpec("gpt2-medium", { weights: { kind: "folder", path, revision } })).key;
    expect(key("/a", "1")).toBe(key("/b", "1"));
    expect(key("/a", "1")).not.toBe(key("/a", "2"));
  });
});
