import { describe, expect, it } from "vitest";
import { kvCacheFractions, leastCacheGiB } from "../../../../infra/plan/fit/kv-fraction.ts";
import { memoryFit } from "../../../../infra/plan/fit/memory-fit.ts";
import type { GpuStackSpec } from "../../../../infra/plan/spec.ts";
import { encodersOf, type ModelChanges, modelOf, poolOf, present, stackOf } from "./stacks.ts";

function fractionsOf(stack: GpuStackSpec): Readonly<Record<string, number>> {
  return kvCacheFractions(stack, memoryFit(stack));
}

describe("kvCacheFractions", () => {
  it("is TensorRT-LLM's own 0.9 where nothing else needs the GPU", () => {
    expect(fractionsOf(stackOf([modelOf("llama-2-7b")], [poolOf("g5.2xlarge")]))).toEqual({
      "llama-2-7b": 0.9,
    });
    const llmapi = modelOf("llama-2-7b", { serving: { runtime: "llmapi", flavour: "llmapi" } });
    expect(fractionsOf(stackOf([llmapi], [poolOf("g5.2xlarge")]))).toEqual({ "llama-2-7b": 0.9 });
  });

  it("leaves room for the visual engine: LLaVA-1.5 on an A10G lies between the documents' 0.5 and 0.7", () => {
    const fraction = fractionsOf(stackOf([modelOf("llava-1.5-7b")], [poolOf("g5.2xlarge")]))["llava-1.5-7b"];
    expect(fraction).toBeGreaterThanOrEqual(0.5);
    expect(fraction).toBeLessThanOrEqual(0.75);
  });

  it("takes the value of the stack file as it is", () => {
    const model = modelOf("llava-1.5-7b", { serving: { kvCacheFreeGpuMemoryFraction: 0.5 } });
    expect(fractionsOf(stackOf([model], [poolOf("g5.2xlarge")]))).toEqual({ "llava-1.5-7b": 0.5 });
  });

  it("is the least of all GPUs of a model: rank 0 has the visual engine", () => {
    const stack = stackOf(
      [modelOf("llava-1.5-7b", { engine: { tensorParallel: 2 } })],
      [poolOf("g5.12xlarge")],
    );
    const alone = memoryFit(stack).map((fit) => kvCacheFractions(stack, [fit])["llava-1.5-7b"]);
    expect(alone).toHaveLength(2);
    expect(alone[0]).toBeLessThan(present(alone[1], "fraction of rank 1"));
    expect(fractionsOf(stack)["llava-1.5-7b"]).toBe(alone[0]);
  });

  it("splits a GPU between the models of a Docker host", () => {
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

  it("says where the order of loading can break the promise, and does not call that a fit", () => {
    const model = (name: string, serving: ModelChanges["serving"]) =>
      modelOf("gpt2-medium", { name, gpuIndices: [0], serving: { concurrentRequests: 40, ...serving } });
    const host = poolOf("g5.xlarge", { capacity: "owned", nodes: { min: 1, max: 1 } });
    const fit = present(
      memoryFit(
        stackOf([model("a", {}), model("b", { kvCacheFreeGpuMemoryFraction: 0.65 })], [host], {
          platform: "docker",
        }),
      )[0],
      "fit",
    );
    expect(fit.needGiB + fit.errorGiB).toBeLessThan(fit.capacityGiB);
    expect(fit.verdict).toBe("tight");
    expect(fit.notes?.[0]).toMatch(
      /^a: if it loads last, its KV cache gets \d\.\d\d GiB of the \d\.\d\d GiB/,
    );
    const claims = present(fit.kvCaches, "claims");
    expect(leastCacheGiB(claims, 0, fit.capacityGiB, 0)).toBeGreaterThan(
      leastCacheGiB(claims, 0, fit.capacityGiB, 5),
    );
  });
});
