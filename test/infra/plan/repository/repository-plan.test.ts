import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { parse } from "yaml";
import {
  LANGUAGE_MODELS,
  type LanguageModelName,
  languageModels,
} from "../../../../infra/plan/catalogue/language-models.ts";
import { TEMPLATE_REFS, type TemplateRef, templateSet } from "../../../../infra/plan/catalogue/templates.ts";
import type { Flavour, ImageLayout } from "../../../../infra/plan/catalogue/types.ts";
import { imageFiles } from "../../../../infra/plan/engine/release.ts";
import { withExitTimeout } from "../../../../infra/plan/repository/launch.ts";
import { rules, templateRules } from "../../../../infra/plan/repository/parameters.ts";
import { repositoryProblems } from "../../../../infra/plan/repository/problems.ts";
import {
  type RepositoryModel,
  type RepositoryPlan,
  repositoryPlan,
} from "../../../../infra/plan/repository/repository-plan.ts";
import { ConfigError } from "../../../../infra/problems.ts";
import { projectRoot } from "../../../../scripts/program/stack-file.ts";
import { times } from "../../../harness/thorough.ts";
import { enginePlanFor, modelSpec, releaseWith, type SpecChange } from "./specs.ts";

const FRACTION = 0.5;

const templateFlavours: readonly Flavour[] = ["inflight_batcher_llm", "multimodal", "gpt", "tritonCli"];

function planFor(spec: ReturnType<typeof modelSpec>): RepositoryPlan {
  return repositoryPlan(spec, enginePlanFor(spec), FRACTION);
}

function keysOf(plan: RepositoryPlan, { template }: RepositoryModel) {
  return templateSet(plan.templates)?.models[template] ?? { mandatory: [], optional: [] };
}

function folder(plan: RepositoryPlan, name: string): RepositoryModel {
  const model = plan.models.find((one) => one.name === name);
  if (model === undefined) throw new Error(`no folder ${name}`);
  return model;
}

const combinations = TEMPLATE_REFS.flatMap((ref) =>
  templateFlavours.flatMap((flavour) =>
    LANGUAGE_MODELS.filter(
      (name) => flavour !== "multimodal" || languageModels[name].vision !== undefined,
    ).map((name) => ({ ref, flavour, name })),
  ),
);

test.each(TEMPLATE_REFS)(
  "every placeholder of the templates %s has a value or a default, and no other key has",
  (ref) => {
    const plannable = combinations.filter((one) => {
      return one.ref === ref && repositoryProblems(modelSpec(one.name, ref, one.flavour)).length === 0;
    });
    expect(plannable.length).toBeGreaterThan(0);
    for (const { name, flavour } of plannable) {
      const plan = planFor(modelSpec(name, ref, flavour));
      for (const model of plan.models) {
        const { mandatory, optional } = keysOf(plan, model);
        const decided = [...Object.keys(model.substitutions), ...Object.keys(model.defaults)];
        const title = `${name} ${flavour} ${model.name}`;
        expect(decided.sort(), title).toEqual([...mandatory, ...optional].sort());
        expect(Object.keys(model.substitutions), title).toEqual(expect.arrayContaining([...mandatory]));
      }
    }
  },
);

test("every placeholder has a rule, and every rule a placeholder", () => {
  const wanted: Record<string, Set<string>> = {};
  for (const ref of TEMPLATE_REFS) {
    for (const [template, { mandatory, optional }] of Object.entries(templateSet(ref)?.models ?? {})) {
      wanted[template] = new Set([...(wanted[template] ?? []), ...mandatory, ...optional]);
    }
  }
  const all = new Set(Object.values(wanted).flatMap((keys) => [...keys]));
  expect(Object.keys(rules).sort()).toEqual([...all].sort());
  for (const [template, own] of Object.entries(templateRules))
    expect([...(wanted[template] ?? [])]).toEqual(expect.arrayContaining(Object.keys(own)));
});

test("the LLaVA tutorial's engine has the placeholders of its config.pbtxt", () => {
  const { substitutions, defaults } = folder(
    planFor(modelSpec("llava-1.5-7b", "v0.20.0", "llava")),
    "tensorrt_llm",
  );
  expect(Object.keys({ ...substitutions, ...defaults }).sort()).toEqual([
    "batch_scheduler_policy",
    "cancellation_check_period_ms",
    "decoding_mode",
    "enable_chunked_context",
    "enable_kv_cache_reuse",
    "engine_dir",
    "exclude_input_in_output",
    "gpu_device_ids",
    "gpu_weights_percent",
    "iter_stats_max_iterations",
    "kv_cache_free_gpu_mem_fraction",
    "kv_cache_host_memory_bytes",
    "kv_cache_onboard_blocks",
    "lora_cache_gpu_memory_fraction",
    "lora_cache_host_memory_bytes",
    "lora_cache_max_adapter_size",
    "lora_cache_optimal_adapter_size",
    "max_attention_window_size",
    "max_tokens_in_paged_kv_cache",
    "medusa_choices",
    "normalize_log_probs",
    "request_stats_max_iterations",
    "sink_token_length",
    "stats_check_period_ms",
  ]);
});

test("templates serve images from 0.13 on, LLaVA-OneVision and MLLaMA from 0.16 on", () => {
  const firstFor = (name: (typeof LANGUAGE_MODELS)[number]) =>
    TEMPLATE_REFS.find((ref) => repositoryProblems(modelSpec(name, ref, "multimodal")).length === 0);
  expect(firstFor("llava-1.5-7b")).toBe("v0.13.0");
  expect(firstFor("llava-onevision-qwen2-7b")).toBe("v0.16.0");
  expect(firstFor("llama-3.2-11b-vision")).toBe("v0.16.0");
});

test("streaming makes engine and BLS decoupled", () => {
  for (const streaming of [false, true]) {
    const plan = planFor(
      modelSpec("llama-2-7b", "v0.20.0", "inflight_batcher_llm", { serving: { streaming } }),
    );
    const expected = streaming ? "True" : "False";
    expect(plan.decoupled).toBe(streaming);
    expect(folder(plan, "tensorrt_llm").substitutions.decoupled_mode).toBe(expected);
    expect(folder(plan, "tensorrt_llm_bls").substitutions.decoupled_mode).toBe(expected);
  }
});

test("streaming of accumulated tokens goes through the BLS", () => {
  const serving = { streaming: true, accumulateTokens: true, blsInstanceCount: 7 };
  const plan = planFor(modelSpec("llama-2-7b-chat", "v0.20.0", "inflight_batcher_llm", { serving }));
  expect(plan.clientModel).toBe("ensemble");
  expect(plan.streamingModel).toBe("tensorrt_llm_bls");
  expect(folder(plan, "tensorrt_llm_bls").substitutions).toMatchObject({
    accumulate_tokens: "True",
    bls_instance_count: "7",
  });
});

test.each([
  ["r25.02", "visual_model_path"],
  ["v0.19.0", "multimodal_model_path"],
] as const)("the visual engine has the key of templates %s: %s", (ref, key) => {
  const plan = planFor(modelSpec("llava-1.5-7b", ref, "multimodal"));
  expect(folder(plan, "preprocessing").substitutions[key]).toMatch(/\/vision$/);
  expect(folder(plan, "multimodal_encoders").substitutions[key]).toMatch(/\/vision$/);
});

const SEVERAL = ["vila1.5-3b", "llava-onevision-qwen2-7b"] as const;

test("several pictures a request have this project's part of multimodal_encoders if NVIDIA's answers each picture, or takes one", () => {
  const refs = (model: (typeof SEVERAL)[number], images: number) =>
    TEMPLATE_REFS.filter((ref) => {
      const spec = modelSpec(model, ref, "multimodal", { limits: { maxImagesPerRequest: images } });
      if (repositoryProblems(spec).length > 0) return false;
      return folder(planFor(spec), "multimodal_encoders").sources !== undefined;
    });
  expect(refs("vila1.5-3b", 2)).toEqual(["r25.02", "v0.19.0", "v0.20.0", "v1.1.0"]);
  expect(refs("llava-onevision-qwen2-7b", 2)).toEqual(TEMPLATE_REFS.slice(TEMPLATE_REFS.indexOf("v0.16.0")));
  for (const model of SEVERAL) expect(refs(model, 1)).toEqual([]);
});

test.each([
  ["vila1.5-3b", "4"],
  ["llava-onevision-qwen2-7b", "1"],
] as const)("%s with four pictures a request has %s pictures at marks", (model, marks) => {
  const spec = modelSpec(model, "v0.20.0", "multimodal", { limits: { maxImagesPerRequest: 4 } });
  expect(folder(planFor(spec), "preprocessing").substitutions.max_num_images).toBe(marks);
});

test("tokenizer_type is filled on 0.8 only, and the prompt table's type from 1.1 on", () => {
  const has = (key: string) =>
    TEMPLATE_REFS.filter((ref) =>
      planFor(modelSpec("llama-2-7b", ref, "inflight_batcher_llm")).models.some(
        ({ substitutions }) => key in substitutions,
      ),
    );
  expect(has("tokenizer_type")).toEqual(["v0.8.0"]);
  expect(has("prompt_embedding_table_data_type")).toEqual(
    TEMPLATE_REFS.slice(TEMPLATE_REFS.indexOf("v1.1.0")),
  );
  expect(has("triton_backend")).toEqual(TEMPLATE_REFS.slice(TEMPLATE_REFS.indexOf("v0.10.0")));
});

test("a vision-language model served for text only has no image settings", () => {
  const plan = planFor(modelSpec("llava-1.5-7b", "v0.20.0", "inflight_batcher_llm"));
  expect(folder(plan, "preprocessing").defaults).toMatchObject({
    engine_dir: "text only",
    max_num_images: "text only",
    multimodal_model_path: "text only",
  });
});

test("MLLaMA has bfloat16 features and a cache divided for cross-attention", () => {
  const mllama = folder(planFor(modelSpec("llama-3.2-11b-vision", "v0.20.0", "multimodal")), "tensorrt_llm");
  const llava = folder(planFor(modelSpec("llava-1.5-7b", "v0.20.0", "multimodal")), "tensorrt_llm");
  expect(mllama.substitutions).toMatchObject({
    cross_kv_cache_fraction: "0.5",
    encoder_input_features_data_type: "TYPE_BF16",
  });
  expect(llava.substitutions).toMatchObject({ encoder_input_features_data_type: "TYPE_FP16" });
  expect(llava.defaults.cross_kv_cache_fraction).toBe("no cross attention");
});

test("a user's own parameters are filled into every template that has them, beside the plan's", () => {
  const plan = (parameters: NonNullable<SpecChange["serving"]>["parameters"]) =>
    planFor(
      modelSpec("llama-3.2-11b-vision", "v0.20.0", "multimodal", {
        serving: parameters === undefined ? {} : { parameters },
      }),
    );
  const changed = plan({
    batch_scheduler_policy: "max_utilization",
    cross_kv_cache_fraction: 0.4,
    logits_datatype: "TYPE_FP16",
    max_queue_delay_microseconds: 5000,
    normalize_log_probs: false,
  });
  const own = plan(undefined).models.flatMap((before) => {
    const { substitutions } = folder(changed, before.name);
    return Object.entries(substitutions).flatMap(([key, value]) =>
      value === before.substitutions[key] ? [] : [`${before.name} ${key}:${value}`],
    );
  });
  expect(own).toEqual([
    "ensemble logits_datatype:TYPE_FP16",
    "multimodal_encoders max_queue_delay_microseconds:5000",
    "preprocessing max_queue_delay_microseconds:5000",
    "tensorrt_llm batch_scheduler_policy:max_utilization",
    "tensorrt_llm cross_kv_cache_fraction:0.4",
    "tensorrt_llm logits_datatype:TYPE_FP16",
    "tensorrt_llm normalize_log_probs:False",
    "tensorrt_llm_bls logits_datatype:TYPE_FP16",
  ]);
  expect(folder(changed, "tensorrt_llm").defaults).not.toHaveProperty("batch_scheduler_policy");
});

test("the prompt table has the language model's format if the template asks for it", () => {
  const formats = (dtype: "float16" | "bfloat16") => {
    const plan = planFor(modelSpec("llava-1.5-7b", "v1.1.0", "multimodal", { engine: { dtype } }));
    return ["tensorrt_llm", "tensorrt_llm_bls", "multimodal_encoders"].map(
      (name) => folder(plan, name).substitutions.prompt_embedding_table_data_type,
    );
  };
  expect(formats("float16")).toEqual(["TYPE_FP16", "TYPE_FP16", "TYPE_FP16"]);
  expect(formats("bfloat16")).toEqual(["TYPE_BF16", "TYPE_BF16", "TYPE_BF16"]);
});

test("cache settings of the stack are filled in", () => {
  const serving = { maxTokensInPagedKvCache: 2560, maxAttentionWindowTokens: 1024, kvCacheReuse: true };
  const spec = modelSpec("llama-2-7b", "v0.20.0", "inflight_batcher_llm", { serving });
  const plan = repositoryPlan(spec, enginePlanFor(spec), 0.7);
  expect(folder(plan, "tensorrt_llm").substitutions).toMatchObject({
    enable_kv_cache_reuse: "True",
    kv_cache_free_gpu_mem_fraction: "0.7",
    max_attention_window_size: "1024",
    max_tokens_in_paged_kv_cache: "2560",
  });
});

test("a tritonCli repository is that of `triton import`: the model's own name, decoupled, without ensemble", () => {
  const plan = planFor(modelSpec("llama-2-7b", "r25.02", "tritonCli"));
  expect(plan.models.map(({ name }) => name)).toEqual([
    "llama-2-7b",
    "postprocessing",
    "preprocessing",
    "tensorrt_llm",
  ]);
  expect(plan).toMatchObject({ clientModel: "llama-2-7b", streamingModel: "llama-2-7b", decoupled: true });
  expect(folder(plan, "llama-2-7b")).toMatchObject({
    template: "inflight_batcher_llm/tensorrt_llm_bls",
    configFields: { name: '"llama-2-7b"' },
  });
  // parse_and_substitute of triton_cli's engine_config_parser.py, for the keys that it writes to this template.
  expect(folder(plan, "tensorrt_llm").substitutions).toMatchObject({
    triton_max_batch_size: "4",
    logits_datatype: "TYPE_FP32",
    triton_backend: "tensorrtllm",
    decoupled_mode: "True",
    max_queue_size: "0",
    batching_strategy: "inflight_fused_batching",
    encoder_input_features_data_type: "TYPE_FP16",
    guided_decoding_backend: "",
    max_queue_delay_microseconds: "0",
    exclude_input_in_output: "True",
  });
});

test("all_models/gpt, whose templates allow 1024, has its batches limited", () => {
  const plan = planFor(modelSpec("gpt2-medium", "v0.20.0", "gpt", { serving: { maxBatchSize: 3 } }));
  expect(plan.models.map(({ configFields }) => configFields)).toEqual(
    Array.from({ length: 4 }, () => ({ max_batch_size: "3" })),
  );
});

test.each([
  ["v0.9.0", "visual_encoder.engine"],
  ["v0.16.0", "model.engine"],
  ["v0.20.0", "model.engine"],
] as const)("the tutorial's repository on %s has its clone and its visual engine %s", (ref, file) => {
  const plan = planFor(modelSpec("llava-1.5-7b", ref, "llava"));
  const dockerfile = readFileSync(join(projectRoot, "containers/trtllm/Dockerfile"), "utf8");
  expect(plan.launch.environment.TRT_ENGINE_LOCATION).toMatch(new RegExp(`/vision/${file}$`));
  expect(plan.clones.at(-1)).toEqual({
    url: "https://github.com/triton-inference-server/tutorials.git",
    commit: /^ARG TUTORIALS_COMMIT=(.+)$/m.exec(dockerfile)?.[1],
    directory: "/tutorials",
  });
  expect(plan.decoupled).toBe(true);
});

test("a model with an engine and without its plan is refused", () => {
  const spec = modelSpec("llama-2-7b", "v0.20.0", "inflight_batcher_llm");
  expect(() => repositoryPlan(spec, null, FRACTION)).toThrow(/no engine plan/);
});

test("a weights folder that the release's fill_template.py would split is refused", () => {
  const plan = (ref: "v0.15.0" | "v0.16.0") => {
    const model = modelSpec("llama-2-7b", ref, "inflight_batcher_llm");
    const engine = enginePlanFor(model);
    const places = { ...engine.places, weights: "/models/a,b" };
    return repositoryPlan(model, { ...engine, places }, FRACTION);
  };
  expect(() => plan("v0.15.0")).toThrow(ConfigError);
  expect(folder(plan("v0.16.0"), "preprocessing").substitutions.tokenizer_dir).toBe("/models/a,b");
});

const servings = fc.record({
  maxBatchSize: fc.integer({ min: 1, max: 256 }),
  instanceCount: fc.integer({ min: 1, max: 8 }),
  blsInstanceCount: fc.integer({ min: 1, max: 64 }),
  streaming: fc.boolean(),
  accumulateTokens: fc.boolean(),
  excludeInputInOutput: fc.boolean(),
  kvCacheReuse: fc.boolean(),
  chunkedContext: fc.boolean(),
  maxQueueDelayMicroseconds: fc.nat(100_000),
  maxQueueSize: fc.nat(1000),
  tritonBackend: fc.constantFrom("tensorrtllm" as const, "python" as const),
  maxTokensInPagedKvCache: fc.option(fc.integer({ min: 1, max: 100_000 }), { nil: undefined }),
  maxAttentionWindowTokens: fc.option(fc.integer({ min: 1, max: 100_000 }), { nil: undefined }),
});

const specs = fc
  .record({
    name: fc.constantFrom(...LANGUAGE_MODELS),
    ref: fc.constantFrom(...TEMPLATE_REFS),
    flavour: fc.constantFrom(...templateFlavours, "llava" as const),
    serving: servings,
    maxBatchSize: fc.integer({ min: 1, max: 64 }),
    tensorParallel: fc.constantFrom(1, 2, 4),
  })
  .map(({ name, ref, flavour, serving, maxBatchSize, tensorParallel }) =>
    modelSpec(name, ref, flavour, { serving, limits: { maxBatchSize }, engine: { tensorParallel } }),
  );

test("any model without problems has a plan that fills its placeholders", () => {
  let planned = 0;
  fc.assert(
    fc.property(specs, (spec) => {
      fc.pre(repositoryProblems(spec).length === 0);
      planned += 1;
      const plan = planFor(spec);
      const names = plan.models.map(({ name }) => name);
      expect(names).toEqual([...new Set(names)].sort());
      expect(names).toContain(plan.clientModel);
      expect(names).toContain(plan.streamingModel);
      expect(plan.launch.ranks).toHaveLength(spec.engine.tensorParallel);
      for (const model of plan.models) {
        for (const key of keysOf(plan, model).mandatory) expect(model.substitutions[key]).toMatch(/^\w+$/);
        const largest = model.substitutions.triton_max_batch_size ?? model.configFields?.max_batch_size;
        expect([undefined, String(spec.serving.maxBatchSize)]).toContain(largest);
        expect(Object.keys(model.substitutions)).toEqual(Object.keys(model.substitutions).sort());
      }
    }),
    { numRuns: times(100, 500) },
  );
  expect(planned).toBeGreaterThan(times(10, 100));
});

test("any model has the same plan each time", () => {
  fc.assert(
    fc.property(specs, (spec) => {
      fc.pre(repositoryProblems(spec).length === 0);
      expect(JSON.stringify(planFor(structuredClone(spec)))).toBe(JSON.stringify(planFor(spec)));
    }),
    { numRuns: times(20, 50) },
  );
});

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
    "TensorRT-LLM's own image without the templates",
    ["llama-2-7b", "v0.19.0", "inflight_batcher_llm", { engine: { layout: "tritonrelease" } }],
    "image.layout",
    /from 0.20 on, and 25.05 has 0.19.0/,
  ],
  ["a text model with images", ["llama-2-7b", "v0.20.0", "multimodal"], "models[0].flavour", /text model/],
  [
    "a model with images before 0.13",
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
  ["llmapi before 0.19", ["llama-2-7b", "v0.18.2", "llmapi"], "models[0].runtime", /not known to serve/],
  [
    "a model on llmapi whose type of vision only engines serve",
    ["llava-1.5-7b", "v1.1.0", "llmapi"],
    "models[0].runtime",
    /vision type llava, such as llava-1.5-7b, are not known to be served without an engine; qwen2_5_vl is/,
  ],
  [
    "a model with images on llmapi before TensorRT-LLM 1.2.1",
    ["qwen2.5-vl-3b", "v1.1.0", "llmapi"],
    "models[0].runtime",
    /reads images, and 25.12 .* is not known to serve them without an engine/,
  ],
  [
    "a row with videos on llmapi",
    ["llava-onevision-qwen2-7b", "v1.1.0", "llmapi"],
    "models[0].runtime",
    /takes pictures, and no video/,
  ],
  [
    "quantization on llmapi",
    ["llama-2-7b", "v1.1.0", "llmapi", { engine: { quantization: "int8" } }],
    "models[0].quantization",
    /nothing is quantized/,
  ],
  [
    "an llmapi model of several ranks whose launch script has no flag for them",
    [
      "llama-2-7b",
      "v0.20.0",
      "llmapi",
      { engine: { tensorParallel: 2, release: releaseWith("v0.20.0", { runtimes: ["llmapi"] }) } },
    ],
    "models[0].tensorParallel",
    /2 ranks need trtllm-llmapi-launch/,
  ],
];

test.each(cases)("%s is reported", (_title, spec, path, reason) => {
  const problems = repositoryProblems(modelSpec(...spec));
  expect(problems.map((problem) => problem.path)).toContain(path);
  const found = problems.filter((problem) => problem.path === path);
  expect(found.some((problem) => reason.test(problem.reason))).toBe(true);
  for (const problem of problems) {
    expect(problem.reason).toMatch(/\.$/);
    expect(problem.fix).toMatch(/\.$/);
  }
});

test("models that a release can serve have no problems", () => {
  expect(repositoryProblems(modelSpec("llama-3.2-11b-vision", "v0.20.0", "multimodal"))).toEqual([]);
  expect(repositoryProblems(modelSpec("llama-2-7b", "v1.1.0", "llmapi"))).toEqual([]);
});

test("several problems of a repository are reported at once", () => {
  const serving = { tritonBackend: "python", kvCacheReuse: true } as const;
  const spec = modelSpec("blip2-opt-2.7b", "v0.11.0", "llava", { serving });
  expect(repositoryProblems(spec).map(({ path }) => path)).toEqual([
    "models[0].flavour",
    "models[0].flavour",
    "models[0].triton.backend",
    "models[0].triton.kvCacheReuse",
  ]);
});

function launchOf(...spec: Parameters<typeof modelSpec>) {
  const model = modelSpec(...spec);
  return repositoryPlan(model, enginePlanFor(model), FRACTION).launch;
}

test.each([
  ["v0.16.0", "ngc", "/tensorrtllm_backend"],
  ["v0.17.0", "ngc", "/app"],
  ["v0.20.0", "ngc", "/app"],
  ["v0.20.0", "tritonrelease", "/app/tensorrt_llm/triton_backend"],
] as const)(
  "files of %s in an image of layout %s are in %s",
  (ref: TemplateRef, layout: ImageLayout, root) => {
    expect(imageFiles(releaseWith(ref), layout)).toMatchObject({
      allModels: `${root}/all_models`,
      fillTemplate: `${root}/tools/fill_template.py`,
    });
  },
);

test("an image without the backend's files needs a clone of the backend", () => {
  expect(imageFiles(releaseWith("v0.9.0"), "ngc").clones).toEqual([
    {
      url: "https://github.com/triton-inference-server/tensorrtllm_backend.git",
      commit: "76464e9be06600f3979acad9c14857938a66ff9f",
      directory: "/tensorrtllm_backend",
      submodule: "tensorrt_llm",
    },
  ]);
  expect(imageFiles(releaseWith("v0.17.0"), "ngc").clones).toEqual([]);
});

const SERVER = [
  "/opt/tritonserver/bin/tritonserver",
  "--model-repository=/model-repository",
  "--http-port=8000",
  "--grpc-port=8001",
  "--metrics-port=8002",
];
const EXPLICIT = "--model-control-mode=explicit";
const COMPLETE = "--disable-auto-complete-config";
const MPIRUN = ["mpirun", "--allow-run-as-root", "--bind-to", "none"];

test("Triton is launched with as many ranks as the engine has, and only the first loads all models", () => {
  const engine: SpecChange["engine"] = { tensorParallel: 2, pipelineParallel: 2 };
  const launch = launchOf("llama-2-7b", "v0.20.0", "inflight_batcher_llm", { engine });
  const other = [...SERVER, EXPLICIT, "--load-model=tensorrt_llm", COMPLETE];
  expect(launch).toEqual({
    environment: { PMIX_MCA_gds: "hash" },
    mpirun: MPIRUN,
    ranks: [[...SERVER, COMPLETE], other, other, other],
  });
});

test("a multimodal launch loads both GPU models on every rank, with a memory pool for image features on the first", () => {
  const ranksOf = (change: SpecChange = {}) =>
    launchOf("llava-1.5-7b", "v0.20.0", "multimodal", change).ranks;
  expect(ranksOf({ engine: { tensorParallel: 2 } })).toEqual([
    [...SERVER, "--cuda-memory-pool-byte-size=0:300000000", COMPLETE],
    [...SERVER, EXPLICIT, "--load-model=tensorrt_llm", "--load-model=multimodal_encoders", COMPLETE],
  ]);
  // 2 bytes × 576 tokens × 4096 × 64 requests, a quarter more, in steps of 100 MB.
  expect(ranksOf({ limits: { maxBatchSize: 64 } }).flat()).toContain(
    "--cuda-memory-pool-byte-size=0:400000000",
  );
});

test("the time for requests in flight is the last argument of every rank", () => {
  const launch = launchOf("llama-2-7b", "v0.20.0", "inflight_batcher_llm", { engine: { tensorParallel: 2 } });
  expect(withExitTimeout(launch, 900)).toEqual({
    ...launch,
    exitTimeoutSeconds: 900,
    ranks: launch.ranks.map((argv) => [...argv, "--exit-timeout-secs=900"]),
  });
});

function planOf(change: SpecChange = {}) {
  return repositoryPlan(modelSpec("llama-2-7b-chat", "v1.1.0", "llmapi", change), null, 0.85);
}

const modelYaml = (plan: ReturnType<typeof planOf>) => plan.models[0]?.files?.["1/model.yaml"] ?? "";

test("an llmapi repository is one folder with a model.yaml", () => {
  const plan = planOf();
  expect(plan.models).toHaveLength(1);
  expect(plan.models[0]).toMatchObject({
    name: "tensorrt_llm",
    template: "llmapi/tensorrt_llm",
    substitutions: {},
    defaults: {},
  });
  expect(plan).toMatchObject({
    clientModel: "tensorrt_llm",
    streamingModel: "tensorrt_llm",
    decoupled: false,
  });
});

test("model.yaml has only keys of TensorRT-LLM's LLM class", () => {
  expect(modelYaml(planOf())).toBe(
    [
      'model: "/store/weights/llama-2-7b-chat/f5db02db724555f92da89c216ac04704f23d4590"',
      'backend: "pytorch"',
      'dtype: "float16"',
      "tensor_parallel_size: 1",
      "pipeline_parallel_size: 1",
      "max_batch_size: 4",
      "max_input_len: 2048",
      "max_seq_len: 2560",
      "max_beam_width: 1",
      "enable_chunked_prefill: false",
      "kv_cache_config:",
      "  free_gpu_memory_fraction: 0.85",
      "  enable_block_reuse: false",
      "triton_config:",
      "  max_batch_size: 0",
      "  decoupled: false",
      "",
    ].join("\n"),
  );
});

test("model.yaml is valid whatever the name of the weights folder", () => {
  const path = '/models/a: b #c\\d\n"e"';
  const engine = { weights: { kind: "folder", path, revision: "1" } } as const;
  const serving = { maxTokensInPagedKvCache: 2560, maxAttentionWindowTokens: 1024, kvCacheReuse: true };
  const yaml = parse(modelYaml(planOf({ engine, serving, limits: { maxNumTokens: 4096 } })));
  expect(yaml).toMatchObject({
    model: path,
    max_num_tokens: 4096,
    kv_cache_config: { enable_block_reuse: true, max_attention_window: [1024], max_tokens: 2560 },
  });
});

test("an llmapi model that streams is decoupled in both of its files: Triton does not read model.yaml under the launch script", () => {
  const plan = planOf({ serving: { streaming: true } });
  expect(plan.decoupled).toBe(true);
  expect(plan.models[0]?.configFields).toEqual({ model_transaction_policy: "{ decoupled: true }" });
  expect(parse(modelYaml(plan))).toMatchObject({ triton_config: { decoupled: true } });
});

test("llmapi starts one rank without MPI, and several under trtllm-llmapi-launch", () => {
  expect(planOf().launch).toMatchObject({ mpirun: [], ranks: [[...SERVER, COMPLETE]] });
  const { launch } = planOf({ engine: { tensorParallel: 4 } });
  expect(launch.mpirun).toEqual([...MPIRUN, "--oversubscribe"]);
  expect(launch.ranks.map((argv) => argv.slice(0, 2))).toEqual(
    Array.from({ length: 4 }, () => ["trtllm-llmapi-launch", SERVER[0]]),
  );
});
