import { describe, expect, it } from "vitest";
import { gpus } from "../../../../infra/plan/catalogue/gpus.ts";
import { releases } from "../../../../infra/plan/catalogue/releases.ts";
import { encoderPlan } from "../../../../infra/plan/encoders/encoder-plan.ts";
import { encoderProblems } from "../../../../infra/plan/encoders/encoder-problems.ts";
import { ConfigError } from "../../../../infra/problems.ts";
import { b32, onCpu } from "./stacks.ts";

const withoutInt8 = { ...gpus.A10G, name: "Old", computeCapability: "6.0", formats: ["float16"] as const };

describe("problems of encoders", () => {
  it.each([
    ["fp16 on a CPU", { ...onCpu, precision: "fp16" }, null, "encoders.precision", /float32 graphs/],
    ["int8 on a CPU", { ...onCpu, precision: "int8" }, null, "encoders.precision", /float32 graphs/],
    ["a GPU where there is none", b32, null, "encoders.pool", /have none/],
    [
      "int8 where the GPU has none",
      { ...b32, precision: "int8" },
      withoutInt8,
      "encoders.precision",
      /Old .*6\.0/,
    ],
    ["no batch", { ...b32, maxBatchSize: 0 }, gpus.A10G, "encoders.maxBatchSize", /at least 1/],
    ["half a request", { ...b32, maxBatchSize: 1.5 }, gpus.A10G, "encoders.maxBatchSize", /whole number/],
  ] as const)("finds %s, and nothing is planned", (_what, spec, gpu, path, reason) => {
    expect(encoderProblems(spec, gpu)).toEqual([
      expect.objectContaining({ path, reason: expect.stringMatching(reason) }),
    ]);
    expect(() => encoderPlan(spec, releases["25.07"], gpu)).toThrow(ConfigError);
  });

  it("finds none where the encoders can be built", () => {
    expect(encoderProblems(b32, gpus.A10G)).toEqual([]);
    expect(encoderProblems(onCpu, null)).toEqual([]);
    expect(encoderProblems({ ...b32, precision: "fp32" }, withoutInt8)).toEqual([]);
  });
});
