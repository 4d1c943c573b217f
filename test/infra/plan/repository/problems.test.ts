import { describe, expect, it } from "vitest";
import type { LanguageModelName } from "../../../../infra/plan/catalogue/language-models.ts";
import type { TemplateRef } from "../../../../infra/plan/catalogue/templates.ts";
import type { Flavour } from "../../../../infra/plan/catalogue/types.ts";
import { repositoryProblems } from "../../../../infra/plan/repository/problems.ts";
import { modelSpec, releaseWith, type SpecChange } from "./specs.ts";

type Case = readonly [
  title: string,
  spec: readonly [LanguageModelName, TemplateRef, Flavour, SpecChange?],
  path: string,
  reason: RegExp,
];

const cases: readonly Case[] = [
  [
    "a flavour that does not go with the runtime",
    ["llama-2-7b", "v1.1.0", "gpt", { serving: { runtime: "llmapi" } }],
    "models[0].flavour",
    /runtime is llmapi/,
  ],
  [
    "a release with unknown templates",
    ["llama-2-7b", "v1.1.0", "gpt", { engine: { release: releaseWith("v1.1.0", { templates: null }) } }],
    "release",
    /placeholders of 25.12's templates are not known/,
  ],
  [
    "TensorRT-LLM's own image before it had the templates",
    ["llama-2-7b", "v0.19.0", "inflight_batcher_llm", { engine: { layout: "tritonrelease" } }],
    "image.layout",
    /from 0.20 on, and 25.05 has 0.19.0/,
  ],
  ["a text model with images", ["llama-2-7b", "v0.20.0", "multimodal"], "models[0].flavour", /text model/],
  [
    "images before 0.13",
    ["llava-1.5-7b", "v0.12.0", "multimodal"],
    "models[0].flavour",
    /24.08 \(TensorRT-LLM 0.12.0\) has no all_models\/multimodal/,
  ],
  [
    "an encoder that can't be told its folder",
    ["llava-onevision-qwen2-7b", "v0.15.0", "multimodal"],
    "models[0].flavour",
    /hf_model_path came with 0.16/,
  ],
  [
    "cross attention without a share of the cache",
    ["llama-3.2-11b-vision", "v0.13.0", "multimodal"],
    "models[0].flavour",
    /cross_kv_cache_fraction came with 0.14/,
  ],
  [
    "the Python backend before it could be chosen",
    ["llama-2-7b", "v0.9.0", "inflight_batcher_llm", { serving: { tritonBackend: "python" } }],
    "models[0].triton.backend",
    /a choice exists from 0.10 on/,
  ],
  [
    "another model in LLaVA's tutorial",
    ["blip2-opt-2.7b", "v0.20.0", "llava"],
    "models[0].flavour",
    /blip2-opt-2.7b is another model/,
  ],
  [
    "the tutorial on a release whose visual engine no document names",
    ["llava-1.5-7b", "v0.11.0", "llava"],
    "models[0].flavour",
    /how the visual engine of 24.07/,
  ],
  [
    "the Python backend in LLaVA's tutorial",
    ["llava-1.5-7b", "v0.20.0", "llava", { serving: { tritonBackend: "python" } }],
    "models[0].triton.backend",
    /C\+\+ backend written in/,
  ],
  [
    "cache reuse in LLaVA's tutorial",
    ["llava-1.5-7b", "v0.20.0", "llava", { serving: { kvCacheReuse: true } }],
    "models[0].triton.kvCacheReuse",
    /prompt_table_extra_id/,
  ],
  [
    "streaming from all_models/gpt",
    ["gpt2-medium", "v0.20.0", "gpt", { serving: { streaming: true } }],
    "models[0].triton.streaming",
    /answers once/,
  ],
  [
    "a model named like a folder of triton import",
    ["llama-2-7b", "v0.20.0", "tritonCli", { serving: { name: "preprocessing" } }],
    "models[0].name",
    /folder preprocessing of its own/,
  ],
  ["no engine before 0.19", ["llama-2-7b", "v0.18.2", "llmapi"], "models[0].runtime", /not known to serve/],
  ["images without an engine", ["llava-1.5-7b", "v1.1.0", "llmapi"], "models[0].runtime", /takes text alone/],
  [
    "quantization without an engine",
    ["llama-2-7b", "v1.1.0", "llmapi", { engine: { quantization: "int8" } }],
    "models[0].quantization",
    /nothing is quantized/,
  ],
  [
    "several ranks without an engine where the launch script has no flag for them",
    [
      "llama-2-7b",
      "v0.20.0",
      "llmapi",
      { engine: { tensorParallel: 2, release: releaseWith("v0.20.0", { runtimes: ["llmapi"] }) } },
    ],
    "models[0].tensorParallel",
    /2 ranks need .*--trtllm_llmapi_launch/,
  ],
];

describe("repositoryProblems", () => {
  it.each(cases)("finds %s", (_title, spec, path, reason) => {
    const problems = repositoryProblems(modelSpec(...spec));
    expect(problems.map((problem) => problem.path)).toContain(path);
    const found = problems.filter((problem) => problem.path === path);
    expect(found.some((problem) => reason.test(problem.reason))).toBe(true);
    for (const problem of problems) {
      expect(problem.reason).toMatch(/\.$/);
      expect(problem.fix).toMatch(/\.$/);
    }
  });

  it("finds nothing where all goes together", () => {
    expect(repositoryProblems(modelSpec("llama-3.2-11b-vision", "v0.20.0", "multimodal"))).toEqual([]);
    expect(repositoryProblems(modelSpec("llama-2-7b", "v1.1.0", "llmapi"))).toEqual([]);
  });

  it("finds several mistakes at once", () => {
    const serving = { tritonBackend: "python", kvCacheReuse: true } as const;
    const spec = modelSpec("blip2-opt-2.7b", "v0.11.0", "llava", { serving });
    expect(repositoryProblems(spec).map(({ path }) => path)).toEqual([
      "models[0].flavour",
      "models[0].flavour",
      "models[0].triton.backend",
      "models[0].triton.kvCacheReuse",
    ]);
  });
});
