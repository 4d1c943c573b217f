import fc from "fast-check";
import { expect, test } from "vitest";
import {
  LANGUAGE_MODELS,
  type LanguageModelName,
  languageModels,
} from "../../../../infra/plan/catalogue/language-models.ts";
import { releases } from "../../../../infra/plan/catalogue/releases.ts";
import { type MemoryFit, memoryFit } from "../../../../infra/plan/fit/memory-fit.ts";
import { activationBytes, decoderBytes, type MemoryTerm } from "../../../../infra/plan/fit/terms.ts";
import { kvCacheFractions, verdictOf } from "../../../../infra/plan/fit/verdicts.ts";
import type {
  EncodersSpec,
  GpuSharing,
  GpuStackSpec,
  ModelSpec,
  PoolSpec,
} from "../../../../infra/plan/spec.ts";
import { times } from "../../../harness/thorough.ts";
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

test.each(["g5.xlarge", "g6.xlarge", "g6e.xlarge", "p4d.24xlarge"])(
  "gpt2-medium fits a %s",
  (instanceType) => {
    const [fit] = fitsOf("gpt2-medium", instanceType, { serving: { concurrentRequests: 4 } });
    expect(fit?.verdict).toBe("fits");
  },
);

test("Llama-2-7b in float16 on an A10G fits with four requests of 2,560 tokens, and not with eight", () => {
  const verdict = (concurrentRequests: number) =>
    fitsOf("llama-2-7b", "g5.2xlarge", { serving: { concurrentRequests } })[0]?.verdict;
  expect([1, 4].map(verdict)).toEqual(["fits", "fits"]);
  expect(verdict(6)).toBe("tight");
  expect(verdict(8)).toBe("doesNotFit");
});

test("LLaVA-1.5 fits an A10G, one request at a time as in its walkthrough", () => {
  const [fit] = fitsOf("llava-1.5-7b", "g5.2xlarge");
  expect(fit).toMatchObject({ verdict: "fits", gpu: "A10G 22.35 GiB", tenants: ["llava-1.5-7b"] });
  expect(termsOf(fit, "weights")[0]?.gib).toBeCloseTo(12.552, 3);
  expect(termsOf(fit, "visionEncoder")[0]?.gib).toBeCloseTo(0.604, 3);
});

test("Llama-3.2-11B-Vision with batch 8 does not fit an A10G, but fits an L40S and two A10Gs, and int8 may fit", () => {
  const eight = { serving: { concurrentRequests: 8 } };
  expect(fitsOf("llama-3.2-11b-vision", "g5.2xlarge", eight)[0]?.verdict).toBe("doesNotFit");
  expect(fitsOf("llama-3.2-11b-vision", "g6e.xlarge", eight)[0]?.verdict).toBe("fits");
  const halves = fitsOf("llama-3.2-11b-vision", "g5.12xlarge", { ...eight, engine: { tensorParallel: 2 } });
  expect(halves.map((fit) => fit.verdict)).toEqual(["fits", "fits"]);
  const int8 = fitsOf("llama-3.2-11b-vision", "g5.2xlarge", { ...eight, engine: { quantization: "int8" } });
  expect(int8[0]?.verdict).not.toBe("doesNotFit");
});

test("LLaVA-OneVision fits an A10G with one request", () => {
  const [fit] = fitsOf("llava-onevision-qwen2-7b", "g5.2xlarge");
  expect(fit?.verdict).toBe("fits");
  expect(termsOf(fit, "kvCache")[0]?.gib).toBeCloseTo((7616 * 57_344) / 2 ** 30, 3);
});

test("need and error of a fit are the sums of its terms", () => {
  for (const model of Object.keys(languageModels) as LanguageModelName[]) {
    for (const fit of fitsOf(model, "g5.12xlarge", { engine: { tensorParallel: 2 } })) {
      const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
      expect(fit.needGiB).toBeCloseTo(sum(fit.terms.map((term) => term.gib)), 6);
      expect(fit.errorGiB).toBeCloseTo(sum(fit.terms.map((term) => term.uncertaintyGiB ?? 0)), 6);
      expect(fit.terms.every((term) => term.arithmetic !== "")).toBe(true);
    }
  }
});

test("only rank 0 has the visual engine, its stub and its memory pool", () => {
  const [leader, follower] = fitsOf("llava-1.5-7b", "g5.12xlarge", { engine: { tensorParallel: 2 } });
  expect(termsOf(leader, "visionEncoder")).toHaveLength(1);
  expect(termsOf(leader, "cudaContext")).toHaveLength(2);
  expect(termsOf(leader, "memoryPool")[0]?.arithmetic).toContain("300,000,000");
  expect(termsOf(follower, "visionEncoder")).toHaveLength(0);
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

test("without a visual engine each rank has the visual half, for pictures of the row's tokens in a step", () => {
  const serving = { runtime: "llmapi", flavour: "llmapi" } as const;
  const activations = (tokensPerImage: number) => {
    const row = languageModels["qwen2.5-vl-7b"];
    const vision = { ...present(row.vision, "visual half"), tokensPerImage };
    const engine = { row: { ...row, vision }, tensorParallel: 2 };
    return fitsOf("qwen2.5-vl-7b", "g6e.12xlarge", { serving, engine }).map((fit) => {
      expect(termsOf(fit, "visionEncoder")).toMatchObject([{ gib: 1.26 }]);
      expect(termsOf(fit, "cudaContext")).toHaveLength(2);
      return termsOf(fit, "visionActivations").map(({ arithmetic }) => arithmetic);
    });
  };
  const runs = (words: string) => Array(2).fill([`18 × ${words} patches × 1,280 × 2 bytes`]);
  expect(activations(1280)).toEqual(runs("7 runs × 5,120"));
  expect(activations(7000)).toEqual(runs("2 runs × 28,000"));
});

test("cross-attention has a cache of its own beside that of text", () => {
  const [fit] = fitsOf("llama-3.2-11b-vision", "g6e.xlarge", { serving: { concurrentRequests: 8 } });
  const [self] = termsOf(fit, "kvCache");
  const [cross] = termsOf(fit, "crossKvCache");
  expect(self?.gib).toBe(2);
  expect(self?.arithmetic).toContain("8 requests × 2,048 tokens × 131,072 bytes");
  expect(cross?.gib).toBe(2);
  expect(cross?.arithmetic).toContain("8 requests × 4,100 encoder positions × 32,768 bytes");
});

test("the cache of cross-attention is the part that the stack file has for it", () => {
  const [fit] = fitsOf("llama-3.2-11b-vision", "g6e.xlarge", {
    serving: { concurrentRequests: 8, parameters: { cross_kv_cache_fraction: 0.4 } },
  });
  expect(termsOf(fit, "kvCache")[0]?.gib).toBe(2);
  expect(termsOf(fit, "crossKvCache")[0]?.gib).toBeCloseTo(1.333, 3);
});

test("activations are for max_num_tokens of the limits, else for TensorRT-LLM's default of the release", () => {
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

test("a Python runtime is a second process on every rank", () => {
  const contexts = (changes: ModelChanges) =>
    termsOf(fitsOf("gpt2-medium", "g5.xlarge", changes)[0], "cudaContext").length;
  expect(contexts({})).toBe(1);
  expect(contexts({ serving: { flavour: "gpt" } })).toBe(2);
  expect(contexts({ serving: { tritonBackend: "python" } })).toBe(2);
  expect(contexts({ serving: { runtime: "llmapi", flavour: "llmapi" } })).toBe(2);
});

test("maxTokensInPagedKvCache and the attention window limit the cache", () => {
  const cache = (serving: ModelChanges["serving"]) =>
    termsOf(
      fitsOf("llama-2-7b", "g6e.xlarge", { serving: { concurrentRequests: 8, ...serving } })[0],
      "kvCache",
    )[0]?.gib;
  expect(cache({})).toBe(10);
  expect(cache({ maxTokensInPagedKvCache: 2560 })).toBe(1.25);
  expect(cache({ maxAttentionWindowTokens: 1024 })).toBe(4);
});

test("encoders on the same GPU of a Docker host are added to its need", () => {
  const stack = stackOf(
    [modelOf("gpt2-medium", { gpuIndices: [0] })],
    [poolOf("g5.xlarge", { nodes: { min: 1, max: 1 }, capacity: "owned" })],
    { platform: "docker", encoders: encodersOf({ gpuIndices: [0] }) },
  );
  const [fit, ...others] = memoryFit(stack);
  expect(others).toEqual([]);
  expect(fit?.tenants).toEqual(["gpt2-medium", "encoders"]);
  expect(fit?.terms.filter((term) => term.tenant === "encoders" && term.what === "weights")).toHaveLength(3);
});

test("a pool without GPU has no memory fit", () => {
  const cpu = { ...poolOf("g5.xlarge"), gpu: null };
  expect(memoryFit(stackOf([], [cpu], { encoders: encodersOf({ device: "cpu" }) }))).toEqual([]);
});

test.each([
  [9, 1, 10, "fits"],
  [9.001, 1, 10, "tight"],
  [11, 1, 10, "tight"],
  [11.001, 1, 10, "doesNotFit"],
] as const)("a need of %d ± %d GiB on %d GiB has the verdict %s", (need, error, capacity, verdict) => {
  expect(verdictOf(need, error, capacity)).toBe(verdict);
});

const gpuOf = (changes: Partial<EncodersSpec>) =>
  present(memoryFit(stackOf([], [poolOf("g5.xlarge")], { encoders: encodersOf(changes) }))[0], "fit");

test("the size of encoders' weights depends on their precision", () => {
  const weights = (precision: EncodersSpec["precision"]) =>
    termsOf(gpuOf({ precision }), "weights").reduce((sum, { gib }) => sum + gib, 0);
  // 87,849,216 + 22,713,216 + 63,428,096 parameters.
  expect(weights("fp16")).toBeCloseTo((173_990_528 * 2) / 2 ** 30, 2);
  expect(weights("fp32")).toBeCloseTo(2 * weights("fp16"), 2);
  expect(weights("int8")).toBeCloseTo(weights("fp16") / 2, 2);
});

test("encoders need more with larger batches, and have no KV cache", () => {
  expect(gpuOf({ maxBatchSize: 64 }).needGiB).toBeGreaterThan(gpuOf({ maxBatchSize: 8 }).needGiB);
  expect(gpuOf({}).kvCaches).toEqual([]);
  expect(gpuOf({}).verdict).toBe("fits");
});

const cacheBytes = (model: LanguageModelName, engine: ModelChanges["engine"]) => {
  const [fit] = fitsOf(model, "p4d.24xlarge", { engine: { ...engine } });
  return termsOf(fit, "kvCache")[0]?.arithmetic;
};

test("the cache of a rank is for its largest share of layers and heads", () => {
  expect(cacheBytes("llama-2-7b", {})).toContain("× 524,288 bytes");
  expect(cacheBytes("llama-2-7b", { tensorParallel: 4 })).toContain("× 131,072 bytes");
  expect(cacheBytes("llama-2-7b", { pipelineParallel: 3 })).toContain("× 180,224 bytes");
  // One of three ranks has two of four key-value heads.
  expect(cacheBytes("llava-onevision-qwen2-7b", { tensorParallel: 3 })).toContain("× 28,672 bytes");
  // Four key-value heads for seven ranks: each has one.
  expect(cacheBytes("llava-onevision-qwen2-7b", { tensorParallel: 7 })).toContain("× 14,336 bytes");
});

const modelName = fc.constantFrom(...LANGUAGE_MODELS);

const quantization = fc.constantFrom("none", "int8", "int4");

const changes = fc.record({
  maxBatchSize: fc.integer({ min: 1, max: 64 }),
  maxInputTokens: fc.integer({ min: 64, max: 8192 }),
  maxOutputTokens: fc.integer({ min: 16, max: 2048 }),
  concurrentRequests: fc.integer({ min: 1, max: 32 }),
  tensorParallel: fc.constantFrom(1, 2),
  quantization,
});

type Changes = typeof changes extends fc.Arbitrary<infer T> ? T : never;

function model(name: (typeof LANGUAGE_MODELS)[number], change: Changes, own: string = name): ModelSpec {
  const { maxBatchSize, maxInputTokens, maxOutputTokens, concurrentRequests, tensorParallel } = change;
  return modelOf(name, {
    name: own,
    limits: { maxBatchSize, maxInputTokens, maxOutputTokens },
    engine: {
      tensorParallel,
      quantization: change.quantization,
      limits: { ...languageModels[name].limits, maxBatchSize, maxInputTokens, maxOutputTokens },
    },
    serving: { concurrentRequests },
  });
}

/** A pool whose GPU has this much memory. */
function poolWith(memoryGiB: number, sharing: GpuSharing = { mode: "none" }): PoolSpec {
  const pool = poolOf("p4d.24xlarge", { sharing });
  return { ...pool, gpu: { ...present(pool.gpu, "GPU"), memoryGiB } };
}

function fitsOn(memoryGiB: number, spec: ModelSpec): readonly MemoryFit[] {
  return memoryFit(stackOf([spec], [poolWith(memoryGiB)]));
}

const VERDICTS = ["doesNotFit", "tight", "fits"];

const grows = ["maxBatchSize", "maxInputTokens", "maxOutputTokens", "concurrentRequests"] as const;
test.each(grows)("the memory need does not fall with a larger %s", (field) => {
  fc.assert(
    fc.property(modelName, changes, fc.integer({ min: 1, max: 4 }), (name, change, factor) => {
      const before = fitsOn(80, model(name, change));
      const after = fitsOn(80, model(name, { ...change, [field]: change[field] * (1 + factor) }));
      after.forEach((fit, index) => {
        expect(fit.needGiB).toBeGreaterThanOrEqual(present(before[index], "fit").needGiB);
      });
    }),
    { numRuns: times(20, 60) },
  );
});

test("the memory need grows with every request and with longer sequences", () => {
  const textModel = fc.constantFrom(
    ...LANGUAGE_MODELS.filter((name) => languageModels[name].vision === undefined),
  );
  const field = fc.constantFrom("concurrentRequests" as const, "maxInputTokens" as const);
  fc.assert(
    fc.property(textModel, changes, field, (name, change, grown) => {
      const need = (one: Changes) => present(fitsOn(80, model(name, one))[0], "fit").needGiB;
      expect(need({ ...change, [grown]: 2 * change[grown] })).toBeGreaterThan(need(change));
    }),
    { numRuns: times(20, 60) },
  );
});

test("more GPU memory never worsens the verdict", () => {
  const memory = fc.double({ min: 1, max: 160, noNaN: true });
  fc.assert(
    fc.property(modelName, changes, memory, memory, (name, change, one, other) => {
      const spec = model(name, change);
      const small = fitsOn(Math.min(one, other), spec);
      const large = fitsOn(Math.max(one, other), spec);
      small.forEach((fit, index) => {
        const better = present(large[index], "fit").verdict;
        expect(VERDICTS.indexOf(better)).toBeGreaterThanOrEqual(VERDICTS.indexOf(fit.verdict));
      });
    }),
    { numRuns: times(50, 200) },
  );
});

test("the same stack has the same memory fit", () => {
  fc.assert(
    fc.property(modelName, changes, (name, change) => {
      const stack = stackOf([model(name, change)], [poolWith(24)]);
      expect(JSON.stringify(memoryFit(stack))).toBe(JSON.stringify(memoryFit(structuredClone(stack))));
    }),
    { numRuns: times(10, 30) },
  );
});

const sharings = fc.oneof(
  fc.constant<GpuSharing>({ mode: "none" }),
  fc.record({ mode: fc.constant("timeSlicing" as const), replicas: fc.integer({ min: 2, max: 4 }) }),
  fc.record({ mode: fc.constant("mps" as const), replicas: fc.integer({ min: 2, max: 4 }) }),
);
const stacks = fc
  .record({
    names: fc.array(fc.tuple(modelName, changes), { minLength: 1, maxLength: 4 }),
    memoryGiB: fc.integer({ min: 16, max: 160 }),
    sharing: sharings,
    encoders: fc.boolean(),
    docker: fc.boolean(),
  })
  .map(({ names, memoryGiB, sharing, encoders, docker }): GpuStackSpec => {
    const models = names.map(([name, change], index) => ({
      ...model(name, change, `${name}-${index}`),
      ...(docker ? { gpuIndices: change.tensorParallel === 1 ? [0] : [0, 1] } : {}),
    }));
    return stackOf(models, [poolWith(memoryGiB, docker ? { mode: "none" } : sharing)], {
      platform: docker ? "docker" : "aws",
      encoders: encoders ? encodersOf({ gpuIndices: [0] }) : null,
    });
  });

/** Most memory that each tenant of a fit can take: what is fixed, and its cache when it loads first. */
function claimsOf(fit: MemoryFit, fractions: ReadonlyMap<string, number>): number {
  const fixed = fit.terms
    .filter(({ what }) => what !== "kvCache" && what !== "crossKvCache")
    .reduce((sum, { gib }) => sum + gib, 0);
  return present(fit.kvCaches, "claims").reduce(
    (sum, claim) =>
      sum +
      present(fractions.get(claim.model), claim.model) * Math.max(0, fit.capacityGiB - claim.loadedBeforeGiB),
    fixed,
  );
}

test("KV cache fractions are between 0 and 1 with two decimals, one for each model", () => {
  fc.assert(
    fc.property(stacks, (stack) => {
      const fractions = kvCacheFractions(memoryFit(stack));
      expect([...fractions.keys()].sort()).toEqual(stack.models.map(({ serving }) => serving.name).sort());
      for (const fraction of fractions.values()) {
        expect(fraction).toBeGreaterThan(0);
        expect(fraction).toBeLessThan(1);
        expect(fraction).toBe(Number(fraction.toFixed(2)));
      }
    }),
    { numRuns: times(30, 150) },
  );
});

test("KV caches never claim more than the GPU in any order of loading, if the needs fit", () => {
  fc.assert(
    fc.property(stacks, (stack) => {
      const fits = memoryFit(stack);
      const fractions = kvCacheFractions(fits);
      for (const fit of fits) {
        if (fit.needGiB <= fit.capacityGiB) {
          expect(claimsOf(fit, fractions)).toBeLessThanOrEqual(fit.capacityGiB + 0.005);
        }
      }
    }),
    { numRuns: times(50, 400) },
  );
});

test("KV cache fractions hold for every pair of pods that time slicing can make", () => {
  const sliced = fc.tuple(
    fc.array(fc.tuple(modelName, changes), { minLength: 2, maxLength: 4 }),
    fc.integer({ min: 20, max: 160 }),
  );
  fc.assert(
    fc.property(sliced, ([names, memoryGiB]) => {
      const models = names.map(([name, change], index) =>
        model(name, { ...change, tensorParallel: 1 }, `${name}-${index}`),
      );
      const slices = 2;
      const stack = stackOf(models, [poolWith(memoryGiB, { mode: "timeSlicing", replicas: slices })]);
      const fits = memoryFit(stack);
      const fractions = kvCacheFractions(fits);
      if (fits.some((fit) => fit.needGiB > fit.capacityGiB)) return;
      for (const [index, first] of models.entries()) {
        for (const second of models.slice(index + 1)) {
          // The same pair on a Docker host is certain to meet; its claims must stay within the GPU.
          const pair = [first, second].map((one) => ({ ...one, gpuIndices: [0] }));
          const [met] = memoryFit(stackOf(pair, [poolWith(memoryGiB)], { platform: "docker" }));
          const fit = present(met, "fit");
          expect(claimsOf(fit, fractions)).toBeLessThanOrEqual(fit.capacityGiB + 0.005);
        }
      }
    }),
    { numRuns: times(25, 100) },
  );
});

function fractionsOf(stack: GpuStackSpec): Readonly<Record<string, number>> {
  return Object.fromEntries(kvCacheFractions(memoryFit(stack)));
}

test("the KV cache fraction is TensorRT-LLM's own 0.9 if nothing else needs the GPU", () => {
  expect(fractionsOf(stackOf([modelOf("llama-2-7b")], [poolOf("g5.2xlarge")]))).toEqual({
    "llama-2-7b": 0.9,
  });
  const llmapi = modelOf("llama-2-7b", { serving: { runtime: "llmapi", flavour: "llmapi" } });
  expect(fractionsOf(stackOf([llmapi], [poolOf("g5.2xlarge")]))).toEqual({ "llama-2-7b": 0.9 });
});

test("the KV cache fraction of LLaVA-1.5 on an A10G leaves room for the visual engine: between the documents' 0.5 and 0.7", () => {
  const fraction = fractionsOf(stackOf([modelOf("llava-1.5-7b")], [poolOf("g5.2xlarge")]))["llava-1.5-7b"];
  expect(fraction).toBeGreaterThanOrEqual(0.5);
  expect(fraction).toBeLessThanOrEqual(0.75);
});

test("the KV cache fraction of the stack file is taken as it is", () => {
  const model = modelOf("llava-1.5-7b", { serving: { kvCacheFreeGpuMemoryFraction: 0.5 } });
  expect(fractionsOf(stackOf([model], [poolOf("g5.2xlarge")]))).toEqual({ "llava-1.5-7b": 0.5 });
});

test("the KV cache fraction of a model on several GPUs is the least of theirs: rank 0 has the visual engine", () => {
  const stack = stackOf(
    [modelOf("llava-1.5-7b", { engine: { tensorParallel: 2 } })],
    [poolOf("g5.12xlarge")],
  );
  const alone = memoryFit(stack).map((fit) => kvCacheFractions([fit]).get("llava-1.5-7b"));
  expect(alone).toHaveLength(2);
  expect(alone[0]).toBeLessThan(present(alone[1], "fraction of rank 1"));
  expect(fractionsOf(stack)["llava-1.5-7b"]).toBe(alone[0]);
});

test("the KV cache fractions of a Docker host share a GPU between its models", () => {
  const stack = stackOf(
    ["a", "b"].map((name) => modelOf("gpt2-medium", { name, gpuIndices: [0] })),
    [poolOf("g5.xlarge", { capacity: "owned", nodes: { min: 1, max: 1 } })],
    { platform: "docker", encoders: encodersOf({ gpuIndices: [0] }) },
  );
  const { a, b } = fractionsOf(stack);
  expect(a).toBe(b);
  expect(a).toBeGreaterThan(0.2);
  expect(a).toBeLessThan(0.5);
});

test("a model whose cache would be too small if it loaded last has a note, and fits tightly", () => {
  const model = (name: string, serving: ModelChanges["serving"]) =>
    modelOf("gpt2-medium", { name, gpuIndices: [0], serving: { concurrentRequests: 40, ...serving } });
  const host = poolOf("g5.xlarge", { capacity: "owned", nodes: { min: 1, max: 1 } });
  const on = (encoders: GpuStackSpec["encoders"]) => {
    const models = [model("a", {}), model("b", { kvCacheFreeGpuMemoryFraction: 0.65 })];
    return present(memoryFit(stackOf(models, [host], { platform: "docker", encoders }))[0], "fit");
  };
  const note = /^a: if it loads last, its KV cache gets (\d\.\d\d) GiB of the \d\.\d\d GiB/;
  const leastGiB = (fit: MemoryFit) => Number(note.exec(fit.notes[0] ?? "")?.[1]);
  const fit = on(null);
  expect(fit.needGiB + fit.errorGiB).toBeLessThan(fit.capacityGiB);
  expect(fit.verdict).toBe("tight");
  expect(leastGiB(fit)).toBeGreaterThan(leastGiB(on(encodersOf({ gpuIndices: [0], maxBatchSize: 8 }))));
});

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

test.each(activations)(
  "estimated activations of %s are at most 15 percent above the published, and never below",
  (_name, shape, bytes) => {
    const estimate = activationBytes(shape);
    expect(estimate).toBeGreaterThanOrEqual(bytes);
    expect(estimate).toBeLessThan(1.15 * bytes);
  },
);

test.each(buffers)(
  "estimated buffers of %s are within the stated half of the published",
  (_name, shape, bytes) => {
    const estimate = decoderBytes(shape);
    expect(estimate * 1.5).toBeGreaterThanOrEqual(bytes);
    expect(estimate * 0.5).toBeLessThanOrEqual(bytes);
  },
);
