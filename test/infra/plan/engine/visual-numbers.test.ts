import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LANGUAGE_MODELS, languageModels } from "../../../../infra/plan/catalogue/language-models.ts";
import { visualNumbers } from "../../../../infra/plan/engine/visual-numbers.ts";

describe("visual numbers", () => {
  // Batch × features × images, and batch × runs × images, as the multimodal guide of tensorrtllm_backend prints them.
  it.each([
    ["llava-1.5-7b", 1, 1, 576, 0, 1],
    ["llava-1.5-7b", 8, 1, 4608, 0, 8],
    ["blip2-opt-2.7b", 8, 1, 256, 0, 8],
    ["vila1.5-3b", 8, 4, 6272, 0, 32],
    ["vila1.5-3b", 1, 1, 196, 0, 1],
    ["llava-onevision-qwen2-7b", 1, 1, 7300, 0, 16],
    ["llama-3.2-11b-vision", 8, 1, 0, 4100, 8],
  ] as const)(
    "%s with %d requests of %d images",
    (model, maxBatchSize, maxImagesPerRequest, multimodal, encoderInput, visionBatch) => {
      expect(visualNumbers(languageModels[model], { maxBatchSize, maxImagesPerRequest })).toMatchObject({
        maxMultimodalTokens: multimodal,
        maxEncoderInputTokens: encoderInput,
        visionMaxBatchSize: visionBatch,
      });
    },
  );

  it("has none for a text model", () => {
    expect(
      visualNumbers(languageModels["gpt2-medium"], { maxBatchSize: 4, maxImagesPerRequest: 0 }),
    ).toBeNull();
  });

  it("bounds a whole request where images are cut in tiles", () => {
    const { vision } = languageModels["llava-onevision-qwen2-7b"];
    const numbers = visualNumbers(languageModels["llava-onevision-qwen2-7b"], {
      maxBatchSize: 3,
      maxImagesPerRequest: 1,
    });
    expect(numbers?.tokensPerRequest).toBe(vision?.tokensPerRequest);
    expect(numbers?.maxMultimodalTokens).toBe(3 * 7300);
  });

  // 2 bytes × tokens × hidden size × batch: 37,748,736 for LLaVA-1.5 with 8 requests, where the guide's own 300 MB hold.
  it.each([
    ["llava-1.5-7b", 8, 1, 300_000_000],
    ["llama-3.2-11b-vision", 8, 1, 400_000_000],
    ["llava-1.5-7b", 64, 1, 400_000_000],
  ] as const)("%s with %d requests of %d images needs a pool of %d bytes", (model, batch, images, bytes) => {
    const numbers = visualNumbers(languageModels[model], {
      maxBatchSize: batch,
      maxImagesPerRequest: images,
    });
    expect(numbers?.cudaMemoryPoolBytes).toBe(bytes);
  });

  it("can be divided back exactly, as Triton's preprocessing does, and holds a full batch in the pool", () => {
    const visual = LANGUAGE_MODELS.filter((name) => languageModels[name].vision !== undefined);
    fc.assert(
      fc.property(
        fc.constantFrom(...visual),
        fc.integer({ min: 1, max: 256 }),
        fc.integer({ min: 1, max: 8 }),
        (name, maxBatchSize, maxImagesPerRequest) => {
          const row = languageModels[name];
          const numbers = visualNumbers(row, { maxBatchSize, maxImagesPerRequest });
          if (numbers === null) throw new Error(`${name} has a visual half`);
          const tokens = numbers.maxMultimodalTokens + numbers.maxEncoderInputTokens;
          expect(tokens).toBeGreaterThan(0);
          expect(numbers.maxMultimodalTokens === 0).toBe(row.vision?.attention === "cross");
          expect(numbers.maxMultimodalTokens % maxBatchSize).toBe(0);
          expect(numbers.visionMaxBatchSize).toBeGreaterThanOrEqual(maxBatchSize * maxImagesPerRequest);
          expect(numbers.cudaMemoryPoolBytes).toBeGreaterThan(
            2 * numbers.tokensPerRequest * row.architecture.hiddenSize * maxBatchSize,
          );
        },
      ),
    );
  });
});
