import { describe, expect, it } from "vitest";
import { type LanguageModelName, languageModels } from "../../../../infra/plan/catalogue/language-models.ts";
import { releases } from "../../../../infra/plan/catalogue/releases.ts";
import { memoryFit } from "../../../../infra/plan/fit/memory-fit.ts";
import type { MemoryFit, MemoryTerm } from "../../../../infra/plan/fit/types.ts";
import { verdictOf } from "../../../../infra/plan/fit/verdicts.ts";
import type { EncodersSpec } from "../../../../infra/plan/spec.ts";
import { encodersOf, type ModelChanges, modelOf, poolOf, present, stackOf } from "./stacks.ts";

function fitsOf(
  model: LanguageModelName,
  instanceType: string,
  changes: ModelChanges = {},
): readonly MemoryFit[] {
  return memoryFit(stackOf([modelOf(model, changes)], [poolOf(instanceType)]));
}

function termsOf(fit: MemoryFit | undefined, what: MemoryTerm["what"]): readonly MemoryTerm[] {
  return present(fit, "fit").terms.filter((term) => term.what === what);
}

describe("memoryFit, quick verdicts", () => {
  it.each(["g5.xlarge", "g6.xlarge", "g6e.xlarge", "p4d.24xlarge"])(
    "gpt2-medium fits a %s",
    (instanceType) => {
      const [fit] = fitsOf("gpt2-medium", instanceType, { serving: { concurrentRequests: 4 } });
      expect(fit?.verdict).toBe("fits");
    },
  );

  it("Llama-2-7b in float16 fits an A10G with four requests of 2,560 tokens, and holds no more than six", () => {
    const verdict = (concurrentRequests: number) =>
      fitsOf("llama-2-7b", "g5.2xlarge", { serving: { concurrentRequests } })[0]?.verdict;
    expect([1, 4].map(verdict)).toEqual(["fits", "fits"]);
    expect(verdict(6)).toBe("tight");
    expect(verdict(8)).toBe("doesNotFit");
  });

  it("LLaVA-1.5 fits an A10G, one request at a time as in its walkthrough", () => {
    const [fit] = fitsOf("llava-1.5-7b", "g5.2xlarge");
    expect(fit).toMatchObject({ verdict: "fits", gpu: "A10G 22.35 GiB", tenants: ["llava-1.5-7b"] });
    expect(termsOf(fit, "weights")[0]?.gib).toBeCloseTo(12.552, 3);
    expect(termsOf(fit, "visionEngine")[0]?.gib).toBeCloseTo(0.604, 3);
  });

  it("Llama-3.2-11B-Vision with batch 8 does not fit an A10G, but an L40S, two A10Gs, or int8 within the error", () => {
    const eight = { serving: { concurrentRequests: 8 } };
    expect(fitsOf("llama-3.2-11b-vision", "g5.2xlarge", eight)[0]?.verdict).toBe("doesNotFit");
    expect(fitsOf("llama-3.2-11b-vision", "g6e.xlarge", eight)[0]?.verdict).toBe("fits");
    const halves = fitsOf("llama-3.2-11b-vision", "g5.12xlarge", { ...eight, engine: { tensorParallel: 2 } });
    expect(halves.map((fit) => fit.verdict)).toEqual(["fits", "fits"]);
    const int8 = fitsOf("llama-3.2-11b-vision", "g5.2xlarge", { ...eight, engine: { quantization: "int8" } });
    expect(int8[0]?.verdict).not.toBe("doesNotFit");
  });

  it("LLaVA-OneVision fits an A10G with one request", () => {
    const [fit] = fitsOf("llava-onevision-qwen2-7b", "g5.2xlarge");
    expect(fit?.verdict).toBe("fits");
    expect(termsOf(fit, "kvCache")[0]?.gib).toBeCloseTo((7616 * 57_344) / 2 ** 30, 3);
  });
});

describe("memoryFit, terms", () => {
  it("adds up: need and error are the sums of what is shown", () => {
    for (const model of Object.keys(languageModels) as LanguageModelName[]) {
      for (const fit of fitsOf(model, "g5.12xlarge", { engine: { tensorParallel: 2 } })) {
        const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
        expect(fit.needGiB).toBeCloseTo(sum(fit.terms.map((term) => term.gib)), 6);
        expect(fit.errorGiB).toBeCloseTo(sum(fit.terms.map((term) => term.uncertaintyGiB ?? 0)), 6);
        expect(fit.terms.every((term) => term.arithmetic !== "" && term.source !== "")).toBe(true);
      }
    }
  });

  it("puts the visual engine, its stub and the memory pool on rank 0 only", () => {
    const [leader, follower] = fitsOf("llava-1.5-7b", "g5.12xlarge", { engine: { tensorParallel: 2 } });
    expect(termsOf(leader, "visionEngine")).toHaveLength(1);
    expect(termsOf(leader, "cudaContext")).toHaveLength(2);
    expect(termsOf(leader, "memoryPool")[0]?.arithmetic).toContain("300,000,000");
    expect(termsOf(follower, "visionEngine")).toHaveLength(0);
    expect(termsOf(follower, "visionActivations")).toHaveLength(0);
    expect(termsOf(follower, "cudaContext")).toHaveLength(1);
    expect(termsOf(follower, "memoryPool")[0]?.arithmetic).toContain("67,108,864");
    // Half of all weights, and the other half of the embedding: 32,064 × 4,096 × 2 bytes are 0.245 GiB.
    expect(termsOf(follower, "weights")[0]).toMatchObject({
      gib: 6.398,
      arithmetic: expect.stringMatching(
        /12\.06 GiB of layers ÷ 2 GPUs \+ 0\.37 GiB of embedding and output head$/,
      ),
    });
  });

  it("divides the cache between text and image where attention crosses", () => {
    const [fit] = fitsOf("llama-3.2-11b-vision", "g6e.xlarge", { serving: { concurrentRequests: 8 } });
    const [self] = termsOf(fit, "kvCache");
    const [cross] = termsOf(fit, "crossKvCache");
    expect(self?.gib).toBe(2);
    expect(self?.arithmetic).toContain("8 requests × 2,048 tokens × 131,072 bytes");
    expect(cross?.gib).toBe(2);
    expect(cross?.arithmetic).toContain("8 requests × 4,100 encoder positions × 32,768 bytes");
  });

  it("takes max_num_tokens from the limits, else from TensorRT-LLM's default of the release", () => {
    const activation = (changes: ModelChanges) =>
      termsOf(fitsOf("llama-2-7b", "g6e.xlarge", changes)[0], "activations")[0]?.arithmetic;
    expect(activation({})).toContain("8,192 tokens");
    expect(activation({ limits: { maxNumTokens: 4096 } })).toContain("4,096 tokens");
    // Before 0.11: a batch of 4 with prompts of 2,048 tokens, which is the same by chance, and one that is not.
    expect(activation({ engine: { release: releases["24.04"] } })).toContain("8,192 tokens");
    const row = languageModels["llama-2-7b"];
    const limits = { ...row.limits, maxBatchSize: 16 };
    expect(activation({ engine: { release: releases["24.04"], limits } })).toContain("32,768 tokens");
  });

  it("counts a Python runtime as a second process on every rank", () => {
    const contexts = (changes: ModelChanges) =>
      termsOf(fitsOf("gpt2-medium", "g5.xlarge", changes)[0], "cudaContext").length;
    expect(contexts({})).toBe(1);
    expect(contexts({ serving: { flavour: "gpt" } })).toBe(2);
    expect(contexts({ serving: { tritonBackend: "python" } })).toBe(2);
    expect(contexts({ serving: { runtime: "llmapi", flavour: "llmapi" } })).toBe(2);
  });

  it("holds the cache to maxTokensInPagedKvCache and to the attention window", () => {
    const cache = (serving: ModelChanges["serving"]) =>
      termsOf(
        fitsOf("llama-2-7b", "g6e.xlarge", { serving: { concurrentRequests: 8, ...serving } })[0],
        "kvCache",
      )[0]?.gib;
    expect(cache({})).toBe(10);
    expect(cache({ maxTokensInPagedKvCache: 2560 })).toBe(1.25);
    expect(cache({ maxAttentionWindowTokens: 1024 })).toBe(4);
  });

  it("adds the encoders where they are on the same GPU of a Docker host", () => {
    const stack = stackOf(
      [modelOf("gpt2-medium", { gpuIndices: [0] })],
      [poolOf("g5.xlarge", { nodes: { min: 1, max: 1 }, capacity: "owned" })],
      { platform: "docker", encoders: encodersOf({ gpuIndices: [0] }) },
    );
    const [fit, ...others] = memoryFit(stack);
    expect(others).toEqual([]);
    expect(fit?.tenants).toEqual(["gpt2-medium", "encoders"]);
    expect(fit?.terms.filter((term) => term.tenant === "encoders" && term.what === "weights")).toHaveLength(
      3,
    );
  });

  it("has nothing to say of a pool without GPU", () => {
    const cpu = { ...poolOf("g5.xlarge"), gpu: null };
    expect(memoryFit(stackOf([], [cpu], { encoders: encodersOf({ device: "cpu" }) }))).toEqual([]);
  });
});

describe("verdictOf", () => {
  it.each([
    [9, 1, 10, "fits"],
    [9.001, 1, 10, "tight"],
    [11, 1, 10, "tight"],
    [11.001, 1, 10, "doesNotFit"],
  ] as const)("a need of %d GiB ± %d on %d GiB: %s", (need, error, capacity, verdict) => {
    expect(verdictOf(need, error, capacity)).toBe(verdict);
  });
});

describe("memoryFit, encoders", () => {
  const gpuOf = (changes: Partial<EncodersSpec>) =>
    present(memoryFit(stackOf([], [poolOf("g5.xlarge")], { encoders: encodersOf(changes) }))[0], "fit");

  it("weigh what their precision makes of them", () => {
    const weights = (precision: EncodersSpec["precision"]) =>
      termsOf(gpuOf({ precision }), "weights").reduce((sum, { gib }) => sum + gib, 0);
    // 87,849,216 + 22,713,216 + 63,428,096 parameters.
    expect(weights("fp16")).toBeCloseTo((173_990_528 * 2) / 2 ** 30, 2);
    expect(weights("fp32")).toBeCloseTo(2 * weights("fp16"), 2);
    expect(weights("int8")).toBeCloseTo(weights("fp16") / 2, 2);
  });

  it("need more with larger batches, and have no KV cache", () => {
    expect(gpuOf({ maxBatchSize: 64 }).needGiB).toBeGreaterThan(gpuOf({ maxBatchSize: 8 }).needGiB);
    expect(gpuOf({}).kvCaches).toEqual([]);
    expect(gpuOf({}).verdict).toBe("fits");
  });
});

describe("memoryFit, parallelism", () => {
  const cacheBytes = (model: LanguageModelName, engine: ModelChanges["engine"]) => {
    const [fit] = fitsOf(model, "p4d.24xlarge", { engine: { ...engine } });
    return termsOf(fit, "kvCache")[0]?.arithmetic;
  };

  it("spreads layers over stages and heads over ranks, the largest share counts", () => {
    expect(cacheBytes("llama-2-7b", {})).toContain("× 524,288 bytes");
    expect(cacheBytes("llama-2-7b", { tensorParallel: 4 })).toContain("× 131,072 bytes");
    expect(cacheBytes("llama-2-7b", { pipelineParallel: 3 })).toContain("× 180,224 bytes");
    // Four key-value heads for seven ranks: each has one.
    expect(cacheBytes("llava-onevision-qwen2-7b", { tensorParallel: 7 })).toContain("× 14,336 bytes");
  });
});
