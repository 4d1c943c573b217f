import { describe, expect, it } from "vitest";
import { buildEstimate } from "../../../../infra/plan/cost/build-seconds.ts";
import type { EngineSpec } from "../../../../infra/plan/spec.ts";
import { modelOf, poolOf } from "../fit/stacks.ts";

const pool = poolOf("g5.2xlarge");

function part(spec: EngineSpec, what: string): number {
  return buildEstimate(spec, pool).parts.find((one) => one.what === what)?.seconds ?? 0;
}

describe("buildEstimate", () => {
  const gpt2 = modelOf("gpt2-medium").engine;
  const llama = modelOf("llama-2-7b").engine;

  it("is near the published builds: gpt2-medium 41 s; Llama of 8 billion parameters 129 s and, in int4, 55 s", () => {
    expect(Math.abs(part(gpt2, "llm") - 41)).toBeLessThanOrEqual(2);
    const llama3 = {
      ...llama.row,
      architecture: {
        ...llama.row.architecture,
        parameters: 8_030_261_248,
        embeddingParameters: 1_050_673_152,
      },
    };
    expect(part({ ...llama, row: llama3 }, "llm")).toBeGreaterThan(129 / 2);
    expect(part({ ...llama, row: llama3 }, "llm")).toBeLessThan(129 * 2);
    expect(part({ ...llama, row: llama3, quantization: "int4" }, "llm")).toBeGreaterThan(55 / 2);
    expect(part({ ...llama, row: llama3, quantization: "int4" }, "llm")).toBeLessThan(55 * 2);
    expect(Math.abs(part({ ...llama, row: llama3 }, "convert") - 24)).toBeLessThanOrEqual(3);
  });

  it("takes a few minutes for Llama-2-7b, download included", () => {
    const { seconds, parts } = buildEstimate(llama, pool);
    expect(seconds).toBeGreaterThan(120);
    expect(seconds).toBeLessThan(600);
    expect(seconds).toBe(parts.reduce((sum, one) => sum + one.seconds, 0));
  });

  it("has a visual part for vision-language models only", () => {
    expect(part(llama, "vision")).toBe(0);
    expect(part(modelOf("llava-1.5-7b").engine, "vision")).toBeGreaterThan(0);
  });

  it("downloads nothing from a folder, and no faster than the network", () => {
    const folder = { kind: "folder", path: "/models/llama", revision: "1" } as const;
    expect(part({ ...llama, weights: folder }, "download")).toBe(0);
    const slow = { ...pool, machine: { ...pool.machine, networkMbps: 80 } };
    const download = buildEstimate(llama, slow).parts[0];
    expect(download).toMatchObject({
      what: "download",
      arithmetic: `${llama.row.source.downloadGB} GB at 10 MB/s`,
    });
  });

  it("grows with ranks and with quantization that needs calibration", () => {
    expect(part({ ...llama, tensorParallel: 4 }, "llm")).toBeGreaterThan(part(llama, "llm"));
    expect(part({ ...llama, quantization: "fp8" }, "convert")).toBeGreaterThan(
      part({ ...llama, quantization: "int8" }, "convert"),
    );
  });
});
