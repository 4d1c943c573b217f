import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LANGUAGE_MODELS, languageModels } from "../../../../infra/plan/catalogue/language-models.ts";
import { kvCacheFractions } from "../../../../infra/plan/fit/kv-fraction.ts";
import { memoryFit } from "../../../../infra/plan/fit/memory-fit.ts";
import type { MemoryFit } from "../../../../infra/plan/fit/types.ts";
import type { GpuSharing, GpuStackSpec, ModelSpec, PoolSpec } from "../../../../infra/plan/spec.ts";
import { encodersOf, modelOf, poolOf, present, stackOf } from "./stacks.ts";

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

describe("memory fit", () => {
  const grows = ["maxBatchSize", "maxInputTokens", "maxOutputTokens", "concurrentRequests"] as const;
  it.each(grows)("needs no less with more %s", (field) => {
    fc.assert(
      fc.property(modelName, changes, fc.integer({ min: 1, max: 4 }), (name, change, factor) => {
        const before = fitsOn(80, model(name, change));
        const after = fitsOn(80, model(name, { ...change, [field]: change[field] * (1 + factor) }));
        after.forEach((fit, index) => {
          expect(fit.needGiB).toBeGreaterThanOrEqual(present(before[index], "fit").needGiB);
        });
      }),
      { numRuns: 60 },
    );
  });

  it("needs more with every request and with longer sequences", () => {
    const textModel = fc.constantFrom(
      ...LANGUAGE_MODELS.filter((name) => languageModels[name].vision === undefined),
    );
    const field = fc.constantFrom("concurrentRequests" as const, "maxInputTokens" as const);
    fc.assert(
      fc.property(textModel, changes, field, (name, change, grown) => {
        const need = (one: Changes) => present(fitsOn(80, model(name, one))[0], "fit").needGiB;
        expect(need({ ...change, [grown]: 2 * change[grown] })).toBeGreaterThan(need(change));
      }),
      { numRuns: 60 },
    );
  });

  it("has a verdict that only gets better with more memory", () => {
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
      { numRuns: 200 },
    );
  });

  it("is the same for the same stack", () => {
    fc.assert(
      fc.property(modelName, changes, (name, change) => {
        const stack = stackOf([model(name, change)], [poolWith(24)]);
        expect(JSON.stringify(memoryFit(stack))).toBe(JSON.stringify(memoryFit(structuredClone(stack))));
      }),
      { numRuns: 30 },
    );
  });
});

describe("KV cache fractions", () => {
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
  function claimsOf(fit: MemoryFit, fractions: Readonly<Record<string, number>>): number {
    const fixed = fit.terms
      .filter(({ what }) => what !== "kvCache" && what !== "crossKvCache")
      .reduce((sum, { gib }) => sum + gib, 0);
    return present(fit.kvCaches, "claims").reduce(
      (sum, claim) =>
        sum +
        present(fractions[claim.model], claim.model) * Math.max(0, fit.capacityGiB - claim.loadedBeforeGiB),
      fixed,
    );
  }

  it("lie between 0 and 1, with two decimals, one for each model", () => {
    fc.assert(
      fc.property(stacks, (stack) => {
        const fractions = kvCacheFractions(stack, memoryFit(stack));
        expect(Object.keys(fractions)).toEqual(stack.models.map(({ serving }) => serving.name));
        for (const fraction of Object.values(fractions)) {
          expect(fraction).toBeGreaterThan(0);
          expect(fraction).toBeLessThan(1);
          expect(fraction).toBe(Number(fraction.toFixed(2)));
        }
      }),
      { numRuns: 150 },
    );
  });

  it("never let the claims on a GPU exceed it, in any order of loading, where the needs fit", () => {
    fc.assert(
      fc.property(stacks, (stack) => {
        const fits = memoryFit(stack);
        const fractions = kvCacheFractions(stack, fits);
        for (const fit of fits) {
          if (fit.needGiB <= fit.capacityGiB) {
            expect(claimsOf(fit, fractions)).toBeLessThanOrEqual(fit.capacityGiB + 0.005);
          }
        }
      }),
      { numRuns: 400 },
    );
  });

  it("hold for every mix of pods that time slicing can make", () => {
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
        const fractions = kvCacheFractions(stack, fits);
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
      { numRuns: 100 },
    );
  });
});
