import { describe, expect, it } from "vitest";
import { serverRequest } from "../../../infra/plan/pod-requests.ts";
import type { ServingSpec } from "../../../infra/plan/spec.ts";
import { engineSpec, servedModel } from "./model-specs.ts";

const memoryMiB = (serving: Partial<ServingSpec>) =>
  serverRequest(servedModel(engineSpec("llama-2-7b"), serving)).memoryMiB;

describe("host memory of a server", () => {
  const one = memoryMiB({ flavour: "inflight_batcher_llm" });

  it("counts each process of tensorrt_llm_bls, preprocessing and postprocessing beyond the first", () => {
    expect(one).toBe(8 * 1024);
    expect(memoryMiB({ flavour: "inflight_batcher_llm", blsInstanceCount: 64 }) - one).toBe(63 * 256);
    expect(memoryMiB({ flavour: "inflight_batcher_llm", instanceCount: 3 }) - one).toBe(2 * 2 * 384);
    expect(memoryMiB({ flavour: "multimodal", blsInstanceCount: 8 }) - one).toBe(7 * 256);
  });

  it("counts one process of each in a repository that has no more", () => {
    for (const flavour of ["tritonCli", "gpt", "llava", "llmapi"] as const) {
      expect(memoryMiB({ flavour, blsInstanceCount: 64, instanceCount: 64 })).toBe(one);
    }
  });
});
