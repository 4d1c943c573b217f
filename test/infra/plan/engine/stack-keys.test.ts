import { describe, expect, test } from "vitest";
import { checkedPlan } from "../../../../infra/checked-plan.ts";

const stack = {
  platform: "kubernetes",
  pools: [{ name: "gpu", instanceType: "g5.12xlarge", nodes: { min: 0, max: 4 } }],
  models: [
    { name: "gpt2", model: "gpt2-medium" },
    { name: "llava", model: "llava-1.5-7b", limits: { maxBatchSize: 1 } },
    { name: "blip2", model: "blip2-opt-2.7b" },
  ],
};

function keysOf(values: Record<string, unknown>): Record<string, string> {
  const { plan } = checkedPlan(values);
  if (plan.tier === "cpu") throw new Error("A local stack has no engine");
  return Object.fromEntries(plan.models.map(({ name, engine }) => [name, engine?.key ?? "none"]));
}

/** The stack with something added to one of its models. */
function withModel(index: number, change: object): Record<string, unknown> {
  return {
    ...stack,
    models: stack.models.map((model, at) => (at === index ? { ...model, ...change } : model)),
  };
}

const keys = keysOf(stack);

describe("the engine keys of a stack", () => {
  test("are all different", () => {
    expect(new Set(Object.values(keys)).size).toBe(stack.models.length);
  });

  test.each<[string, Record<string, unknown>]>([
    [
      "another registry",
      { ...stack, image: { base: "registry.example.org/mirror/tritonserver:25.07-trtllm-python-py3" } },
    ],
    [
      "an image of one's own",
      { ...stack, image: { base: "registry.example.org/own/trtllm:7", layout: "tritonrelease" } },
    ],
    ["a release with the same TensorRT-LLM and TensorRT", { ...stack, release: "25.06" }],
    ["credentials", { ...stack, hub: { token: "hf_OfTheTest" } }],
    ["the gateway", { ...stack, gateway: { requestsPerMinute: 60, replicas: 3 } }],
    ["no encoders", { ...stack, encoders: false }],
    ["the store", { ...stack, engineStore: { sizeGiB: 900, readMBPerSecond: 50 } }],
    ["the namespace", { ...stack, namespace: "elsewhere" }],
    [
      "another pool of machines with the same GPU",
      { ...stack, pools: [{ name: "gpu", instanceType: "g5.48xlarge", nodes: { min: 0, max: 4 } }] },
    ],
    ["serving alone", withModel(1, { replicas: 2, triton: { instanceCount: 2 } })],
  ])("do not change with %s", (_what, values) => {
    expect(Object.values(keysOf(values))).toEqual(Object.values(keys));
  });

  test.each<[string, number, object]>([
    ["a limit", 0, { limits: { maxOutputTokens: 200 } }],
    ["a batch", 1, { limits: { maxBatchSize: 2 } }],
    ["a quantization", 2, { quantization: "int8" }],
    [
      "the revision of its weights",
      0,
      { weights: { from: "folder", path: "/store/own/gpt2", revision: "v2" } },
    ],
    ["tensor parallelism", 2, { tensorParallel: 2 }],
  ])("change for one model alone with %s", (_what, index, change) => {
    const after = keysOf(withModel(index, change));
    const changed = Object.keys(keys).filter((name) => after[name] !== keys[name]);
    expect(changed).toEqual([stack.models[index]?.name]);
  });
});
