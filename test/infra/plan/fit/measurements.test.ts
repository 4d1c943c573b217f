import { describe, expect, it } from "vitest";
import { activationBytes, decoderBytes } from "../../../../infra/plan/fit/terms.ts";

const MIB = 2 ** 20;
const GIB = 2 ** 30;

const llama2 = { hiddenSize: 4096, vocabularySize: 32_000 };
const llama3 = { hiddenSize: 4096, vocabularySize: 128_256 };
const qwenHalfB = { hiddenSize: 896, vocabularySize: 151_936 };

/** Logs that people published; the sources are named beside the rules in terms.ts. */
const activations = [
  ["Llama-3-8B bf16", { ...llama3, tokens: 12_288, sequences: 64 }, 1_811_942_912],
  ["Llama-2-7b fp8", { ...llama2, tokens: 8192, sequences: 256 }, 1134.01 * MIB],
  ["Qwen2.5-0.5B int8", { ...qwenHalfB, tokens: 8192, sequences: 2048 }, 773.51 * MIB],
  ["Qwen2.5-0.5B int8, one request", { ...qwenHalfB, tokens: 512, sequences: 1 }, 43.26 * MIB],
] as const;

const buffers = [
  ["Llama-2-7b", { ...llama2, sequences: 256 }, (43.29 + 180.3) * MIB],
  ["Qwen2.5-0.5B", { ...qwenHalfB, sequences: 2048 }, (2.66 + 5.76) * GIB],
  ["Llama-2-7b of 0.12", { ...llama2, sequences: 4096 }, (1.14 + 4.35) * GIB],
] as const;

describe("rules against published logs", () => {
  it.each(activations)(
    "activations of %s are at most 15 %% too high, never too low",
    (_name, shape, bytes) => {
      const estimate = activationBytes(shape);
      expect(estimate).toBeGreaterThanOrEqual(bytes);
      expect(estimate).toBeLessThan(1.15 * bytes);
    },
  );

  it.each(buffers)("buffers of %s are within the stated half", (_name, shape, bytes) => {
    const estimate = decoderBytes(shape);
    expect(estimate * 1.5).toBeGreaterThanOrEqual(bytes);
    expect(estimate * 0.5).toBeLessThanOrEqual(bytes);
  });
});
