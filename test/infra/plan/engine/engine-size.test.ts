import { describe, expect, it } from "vitest";
import { languageModels } from "../../../../infra/plan/catalogue/language-models.ts";
import type { LanguageModel } from "../../../../infra/plan/catalogue/types.ts";
import {
  checkpointGiB,
  engineBytesGiB,
  hostMemoryGiB,
  loadedWeightsGiB,
} from "../../../../infra/plan/engine/engine-size.ts";
import { engineSpec } from "../model-specs.ts";

/** https://huggingface.co/baichuan-inc/Baichuan2-7B-Base/blob/main/config.json; the catalogue has no row for it. */
const baichuan2: LanguageModel = {
  ...languageModels["llama-2-7b"],
  architecture: {
    ...languageModels["llama-2-7b"].architecture,
    parameters: 7_505_973_248,
    embeddingParameters: 1_029_701_632,
    vocabularySize: 125_696,
  },
};

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

  // Weights of a rank that two users reported, in MiB; no address of the reports is known. An even share of all weights is 6 and 15 % less.
  it.each([
    ["Llama-2-7B in float16 on 4 GPUs", engineSpec("llama-2-7b", { tensorParallel: 4 }), 3404],
    [
      "Baichuan2-7B in int4 on 2 GPUs",
      engineSpec("llama-2-7b", { row: baichuan2, quantization: "int4", tensorParallel: 2 }),
      3170 / 1.048576,
    ],
  ] as const)("of a rank of %s is what was measured, to 2 %%", (_name, spec, measuredMiB) => {
    const planned = engineBytesGiB(spec).llmPerRankGiB * 1024;
    expect(Math.abs(planned / measuredMiB - 1)).toBeLessThan(0.02);
  });

  it("counts the embedding of the vocabulary on every rank of tensor parallelism, on disk too", () => {
    const { vocabularySize, hiddenSize } = languageModels["llama-2-7b"].architecture;
    const embeddingGiB = (vocabularySize * hiddenSize * 2) / 1024 ** 3;
    const one = engineBytesGiB(engineSpec("llama-2-7b"));
    const four = engineBytesGiB(engineSpec("llama-2-7b", { tensorParallel: 4 }));
    expect(four.llmPerRankGiB).toBeCloseTo(one.llmGiB / 4 + (3 / 4) * embeddingGiB, 12);
    expect(four.llmGiB).toBeCloseTo(4 * four.llmPerRankGiB, 12);
    expect(checkpointGiB(engineSpec("llama-2-7b", { tensorParallel: 4 }))).toBe(four.llmGiB);
  });

  it("of fp8 is shared evenly: the quantizer splits the embedding too", () => {
    const spec = { quantization: "fp8" } as const;
    const one = engineBytesGiB(engineSpec("llama-2-7b", spec));
    const four = engineBytesGiB(engineSpec("llama-2-7b", { ...spec, tensorParallel: 4 }));
    expect(four.llmPerRankGiB).toBeCloseTo(one.llmGiB / 4, 12);
    expect(four.llmGiB).toBe(one.llmGiB);
  });

  it("of the PyTorch backend is shared evenly: it splits the embedding too", () => {
    const spec = engineSpec("llama-2-7b", { tensorParallel: 4 });
    const one = engineBytesGiB(engineSpec("llama-2-7b"));
    expect(engineBytesGiB(spec, "llmapi").llmPerRankGiB).toBeCloseTo(one.llmGiB / 4, 12);
  });

  it("has the embedding on the first stage of layers, the output head on the last, the visual engine once", () => {
    const one = engineBytesGiB(engineSpec("llava-1.5-7b"));
    const two = engineBytesGiB(engineSpec("llava-1.5-7b", { pipelineParallel: 2 }));
    // Both are as large in this model.
    expect(two.llmPerRankGiB).toBeCloseTo(one.llmGiB / 2, 12);
    expect(two.llmGiB).toBe(one.llmGiB);
    expect(two.visionGiB).toBe(one.visionGiB);
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
