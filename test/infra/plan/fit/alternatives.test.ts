import { describe, expect, it } from "vitest";
import { memoryFit } from "../../../../infra/plan/fit/memory-fit.ts";
import type { GpuStackSpec } from "../../../../infra/plan/spec.ts";
import { modelOf, poolOf, present, stackOf } from "./stacks.ts";

function alternativesOf(stack: GpuStackSpec) {
  return present(memoryFit(stack)[0], "fit").alternatives;
}

describe("alternatives", () => {
  const tooLarge = modelOf("llama-3.2-11b-vision", { serving: { concurrentRequests: 8 } });
  const stack = stackOf([tooLarge], [poolOf("g5.2xlarge")]);

  it("names what holds it, cheapest first", () => {
    const found = alternativesOf(stack);
    const prices = found.map(({ hourlyUsd }) => hourlyUsd ?? Infinity);
    expect(prices).toEqual([...prices].sort((a, b) => a - b));
    expect(found.map(({ change }) => change)).toEqual(
      expect.arrayContaining([
        "g6e.xlarge: 1 × L40S with 44.70 GiB",
        "tensorParallel: 2 on g5.12xlarge: 4 × A10G",
        "quantization: int4",
      ]),
    );
  });

  it("offers only what the whole error leaves room for: each change makes the verdict fits", () => {
    const changed = {
      "quantization: int4": stackOf(
        [{ ...tooLarge, engine: { ...tooLarge.engine, quantization: "int4" } }],
        stack.pools,
      ),
      "tensorParallel: 2 on g5.12xlarge: 4 × A10G": stackOf(
        [{ ...tooLarge, engine: { ...tooLarge.engine, tensorParallel: 2 } }],
        [poolOf("g5.12xlarge")],
      ),
      "g6e.xlarge: 1 × L40S with 44.70 GiB": stackOf([tooLarge], [poolOf("g6e.xlarge")]),
    };
    for (const [change, other] of Object.entries(changed)) {
      expect([change, memoryFit(other)[0]?.verdict]).toEqual([change, "fits"]);
    }
  });

  it("does not offer fp8 on a GPU that can't compute it, nor a format that the model lacks", () => {
    const changes = alternativesOf(stack).map(({ change }) => change);
    expect(changes).not.toContain("quantization: fp8");
  });

  it("finds the most concurrent requests that fit", () => {
    // Short sequences: the step from one number to the next is smaller than the error.
    const limits = { maxInputTokens: 192, maxOutputTokens: 64 };
    const many = modelOf("llama-2-7b", { limits, serving: { concurrentRequests: 100 } });
    const on = [poolOf("g5.2xlarge")];
    const change = alternativesOf(stackOf([many], on)).find((one) =>
      one.change.startsWith("concurrentRequests"),
    );
    const fitting = Number(present(change, "alternative").change.split(": ")[1]);
    const verdict = (concurrentRequests: number) =>
      memoryFit(stackOf([modelOf("llama-2-7b", { limits, serving: { concurrentRequests } })], on))[0]
        ?.verdict;
    expect([verdict(fitting), verdict(fitting + 1)]).toEqual(["fits", "tight"]);
  });

  it("has no price without a region, and still an answer", () => {
    const found = alternativesOf({ ...stack, region: null });
    expect(found.length).toBeGreaterThan(0);
    expect(found.every(({ hourlyUsd }) => hourlyUsd === null)).toBe(true);
  });

  it("names the model where several share a GPU", () => {
    const pair = ["a", "b"].map((name) => modelOf("llama-2-7b", { name, gpuIndices: [0] }));
    const host = poolOf("g5.2xlarge", { capacity: "owned", nodes: { min: 1, max: 1 } });
    const found = alternativesOf(stackOf(pair, [host], { platform: "docker" }));
    expect(found.some(({ change }) => change.includes("L40S"))).toBe(true);
    expect(found.some(({ change }) => change.startsWith("tensorParallel"))).toBe(false);
  });

  it("is empty where everything fits", () => {
    expect(alternativesOf(stackOf([modelOf("gpt2-medium")], [poolOf("g5.xlarge")]))).toEqual([]);
  });
});
