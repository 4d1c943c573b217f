import { describe, expect, it } from "vitest";
import { languageModels } from "../../../../infra/plan/catalogue/language-models.ts";
import {
  checkpointGiB,
  engineBytesGiB,
  hostMemoryGiB,
  loadedWeightsGiB,
} from "../../../../infra/plan/engine/engine-size.ts";
import { engineSpec } from "../model-specs.ts";

describe("size of an engine", () => {
  // GiB of weights at 16, 8 (int8 and fp8) and 4 bits, and of the visual engine.
  const sizes = [
    ["gpt2-medium", 0.66, 0.38, 0.24, 0],
    ["llama-2-7b", 12.55, 6.52, 3.6, 0],
    ["llama-2-7b-chat", 12.55, 6.52, 3.6, 0],
    ["llava-1.5-7b", 12.55, 6.52, 3.6, 0.6],
    ["blip2-opt-2.7b", 4.94, 2.59, 1.46, 2.04],
    ["vila1.5-3b", 5.03, 2.67, 1.52, 0.77],
    ["llava-onevision-qwen2-7b", 14.18, 8.11, 5.16, 0.77],
    ["llama-3.2-11b-vision", 18.21, 10.08, 6.15, 1.67],
  ] as const;

  it.each(sizes)("of %s", (model, half, eight, four, vision) => {
    const llmGiB = (quantization: "none" | "int8" | "fp8" | "int4") =>
      Number(engineBytesGiB(engineSpec(model, { quantization })).llmGiB.toFixed(2));
    expect(llmGiB("none")).toBe(half);
    expect(llmGiB("int8")).toBe(eight);
    expect(llmGiB("fp8")).toBe(eight);
    expect(llmGiB("int4")).toBe(four);
    const size = engineBytesGiB(engineSpec(model, { quantization: "int4" }));
    expect(Number(size.visionGiB.toFixed(2))).toBe(vision);
    expect(size.totalGiB).toBe(size.llmGiB + size.visionGiB);
  });

  it("is shared by the ranks, the visual engine is not", () => {
    const one = engineBytesGiB(engineSpec("llava-1.5-7b"));
    const four = engineBytesGiB(engineSpec("llava-1.5-7b", { tensorParallel: 2, pipelineParallel: 2 }));
    expect(four.llmPerRankGiB).toBeCloseTo(one.llmGiB / 4, 12);
    expect(four.llmGiB).toBe(one.llmGiB);
    expect(four.visionGiB).toBe(one.visionGiB);
  });

  it("of the checkpoint is that of the language model's engine", () => {
    const spec = engineSpec("llava-1.5-7b", { quantization: "int8" });
    expect(checkpointGiB(spec)).toBe(engineBytesGiB(spec).llmGiB);
  });
});

describe("host memory of a build", () => {
  it("doubles for weights that are stored as float32", () => {
    const row = languageModels["blip2-opt-2.7b"];
    const half = { ...row, source: { ...row.source, storedDtype: "float16" as const } };
    expect(loadedWeightsGiB(row)).toBeCloseTo(2 * loadedWeightsGiB(half), 12);
    expect(hostMemoryGiB(engineSpec("blip2-opt-2.7b"))).toBeGreaterThan(
      hostMemoryGiB(engineSpec("blip2-opt-2.7b", { row: half })) + 5,
    );
  });

  it("is what NVIDIA's log of gpt2-medium shows: a peak of 6600 MiB", () => {
    expect(hostMemoryGiB(engineSpec("gpt2-medium"))).toBeCloseTo(6600 / 1024, 1);
  });

  it("fits 32 GiB but not 16 for a model of 7 billion parameters", () => {
    const gib = hostMemoryGiB(engineSpec("llama-2-7b"));
    expect(gib).toBeGreaterThan(16);
    expect(gib).toBeLessThan(32);
  });
});
