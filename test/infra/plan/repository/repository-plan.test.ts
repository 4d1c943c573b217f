import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LANGUAGE_MODELS, languageModels } from "../../../../infra/plan/catalogue/language-models.ts";
import { TEMPLATE_REFS, templateSets } from "../../../../infra/plan/catalogue/templates.ts";
import type { Flavour } from "../../../../infra/plan/catalogue/types.ts";
import { LLAVA_TEMPLATE } from "../../../../infra/plan/repository/flavours/llava.ts";
import { parameterRules } from "../../../../infra/plan/repository/parameters.ts";
import { repositoryProblems } from "../../../../infra/plan/repository/problems.ts";
import { repositoryPlan } from "../../../../infra/plan/repository/repository-plan.ts";
import type { RepositoryModel, RepositoryPlan } from "../../../../infra/plan/repository/types.ts";
import { ConfigError } from "../../../../infra/problems.ts";
import { projectRoot } from "../../../../scripts/program/stack-file.ts";
import { enginePlanFor, modelSpec } from "./specs.ts";

const FRACTION = { kvCacheFreeGpuMemoryFraction: 0.5 };

const templateFlavours: readonly Flavour[] = ["inflight_batcher_llm", "multimodal", "gpt", "tritonCli"];

function planFor(spec: ReturnType<typeof modelSpec>): RepositoryPlan {
  return repositoryPlan(spec, enginePlanFor(spec), FRACTION);
}

function keysOf(plan: RepositoryPlan, { template }: RepositoryModel) {
  const set = templateSets[plan.templates as keyof typeof templateSets];
  return set.models[template ?? ""] ?? { mandatory: [], optional: [] };
}

function folder(plan: RepositoryPlan, name: string): RepositoryModel {
  const model = plan.models.find((one) => one.name === name);
  if (model === undefined) throw new Error(`no folder ${name}`);
  return model;
}

describe("every set of templates", () => {
  const combinations = TEMPLATE_REFS.flatMap((ref) =>
    templateFlavours.flatMap((flavour) =>
      LANGUAGE_MODELS.filter(
        (name) => flavour !== "multimodal" || languageModels[name].vision !== undefined,
      ).map((name) => ({ ref, flavour, name })),
    ),
  );

  it.each(TEMPLATE_REFS)("%s: all placeholders of all folders are decided, and no other", (ref) => {
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
  });

  it("has a rule for each of its placeholders, and the table has no rule besides", () => {
    const wanted: Record<string, Set<string>> = {
      "llava/tensorrt_llm": new Set(LLAVA_TEMPLATE.optional),
    };
    for (const { models } of Object.values(templateSets)) {
      for (const [template, { mandatory, optional }] of Object.entries(models)) {
        wanted[template] = new Set([...(wanted[template] ?? []), ...mandatory, ...optional]);
      }
    }
    const sorted = (keys: Iterable<string>) => [...keys].sort();
    expect(
      Object.fromEntries(Object.entries(parameterRules).map(([t, r]) => [t, sorted(Object.keys(r))])),
    ).toEqual(Object.fromEntries(Object.entries(wanted).map(([template, keys]) => [template, sorted(keys)])));
  });

  it("begins to serve images with 0.13, LLaVA-OneVision and MLLaMA with 0.16", () => {
    const firstFor = (name: (typeof LANGUAGE_MODELS)[number]) =>
      TEMPLATE_REFS.find((ref) => repositoryProblems(modelSpec(name, ref, "multimodal")).length === 0);
    expect(firstFor("llava-1.5-7b")).toBe("v0.13.0");
    expect(firstFor("llava-onevision-qwen2-7b")).toBe("v0.16.0");
    expect(firstFor("llama-3.2-11b-vision")).toBe("v0.16.0");
  });
});

describe("values", () => {
  it("sets the decoupled policy of engine and BLS together, for streaming", () => {
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

  it("streams through the BLS where all tokens so far go to postprocessing", () => {
    const serving = { streaming: true, accumulateTokens: true, blsInstanceCount: 7 };
    const plan = planFor(modelSpec("llama-2-7b-chat", "v0.20.0", "inflight_batcher_llm", { serving }));
    expect(plan.clientModel).toBe("ensemble");
    expect(plan.streamingModel).toBe("tensorrt_llm_bls");
    expect(folder(plan, "tensorrt_llm_bls").substitutions).toMatchObject({
      accumulate_tokens: "True",
      bls_instance_count: "7",
    });
  });

  it.each([
    ["r25.02", "visual_model_path"],
    ["r25.04", "multimodal_model_path"],
  ] as const)("names the visual engine as %s does: %s", (ref, key) => {
    const plan = planFor(modelSpec("llava-1.5-7b", ref, "multimodal"));
    expect(folder(plan, "preprocessing").substitutions[key]).toMatch(/\/vision$/);
    expect(folder(plan, "multimodal_encoders").substitutions[key]).toMatch(/\/vision$/);
  });

  it("asks for tokenizer_type on 0.8 alone, and for the type of the prompt table from 1.1 on", () => {
    const has = (key: string) =>
      TEMPLATE_REFS.filter((ref) =>
        planFor(modelSpec("llama-2-7b", ref, "inflight_batcher_llm")).models.some(
          ({ substitutions }) => key in substitutions,
        ),
      );
    expect(has("tokenizer_type")).toEqual(["v0.8.0"]);
    expect(has("prompt_embedding_table_data_type")).toEqual(["v1.1.0"]);
    expect(has("triton_backend")).toEqual(TEMPLATE_REFS.slice(TEMPLATE_REFS.indexOf("v0.10.0")));
  });

  it("keeps images out of a vision-language model that is served for text alone", () => {
    const plan = planFor(modelSpec("llava-1.5-7b", "v0.20.0", "inflight_batcher_llm"));
    expect(folder(plan, "preprocessing").defaults).toMatchObject({
      engine_dir: "text alone",
      max_num_images: "text alone",
      multimodal_model_path: "text alone",
    });
  });

  it("hands on bfloat16 features of MLLaMA, and divides its cache for cross attention", () => {
    const mllama = folder(
      planFor(modelSpec("llama-3.2-11b-vision", "v0.20.0", "multimodal")),
      "tensorrt_llm",
    );
    const llava = folder(planFor(modelSpec("llava-1.5-7b", "v0.20.0", "multimodal")), "tensorrt_llm");
    expect(mllama.substitutions).toMatchObject({
      cross_kv_cache_fraction: "0.5",
      encoder_input_features_data_type: "TYPE_BF16",
    });
    expect(llava.substitutions).toMatchObject({ encoder_input_features_data_type: "TYPE_FP16" });
    expect(llava.defaults.cross_kv_cache_fraction).toBe("no cross attention");
  });

  it("gives the prompt table the language model's format, where the template asks", () => {
    const formats = (dtype: "float16" | "bfloat16") => {
      const plan = planFor(modelSpec("llava-1.5-7b", "v1.1.0", "multimodal", { engine: { dtype } }));
      return ["tensorrt_llm", "tensorrt_llm_bls", "multimodal_encoders"].map(
        (name) => folder(plan, name).substitutions.prompt_embedding_table_data_type,
      );
    };
    expect(formats("float16")).toEqual(["TYPE_FP16", "TYPE_FP16", "TYPE_FP16"]);
    expect(formats("bfloat16")).toEqual(["TYPE_BF16", "TYPE_BF16", "TYPE_BF16"]);
  });

  it("sizes the cache as the stack says", () => {
    const serving = { maxTokensInPagedKvCache: 2560, maxAttentionWindowTokens: 1024, kvCacheReuse: true };
    const spec = modelSpec("llama-2-7b", "v0.20.0", "inflight_batcher_llm", { serving });
    const plan = repositoryPlan(spec, enginePlanFor(spec), { kvCacheFreeGpuMemoryFraction: 0.7 });
    expect(folder(plan, "tensorrt_llm").substitutions).toMatchObject({
      enable_kv_cache_reuse: "True",
      kv_cache_free_gpu_mem_fraction: "0.7",
      max_attention_window_size: "1024",
      max_tokens_in_paged_kv_cache: "2560",
    });
  });
});

describe("flavours", () => {
  it("makes what triton import makes: the model's own name, decoupled, without ensemble", () => {
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

  it("limits the batches of all_models/gpt, whose templates allow 1024", () => {
    const plan = planFor(modelSpec("gpt2-medium", "v0.20.0", "gpt", { serving: { maxBatchSize: 64 } }));
    expect(plan.models.map(({ configFields }) => configFields)).toEqual(
      Array.from({ length: 4 }, () => ({ max_batch_size: "4" })),
    );
  });

  it.each([
    ["v0.9.0", "visual_encoder.engine"],
    ["v0.16.0", "model.engine"],
    ["v0.20.0", "model.engine"],
  ] as const)("finds the tutorial's files and visual engine on %s", (ref, file) => {
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
});

describe("arguments", () => {
  const spec = modelSpec("llama-2-7b", "v0.20.0", "inflight_batcher_llm");

  it.each([0, -0.1, 1.01, Number.NaN])("refuses %s as a fraction of the memory", (fraction) => {
    expect(() =>
      repositoryPlan(spec, enginePlanFor(spec), { kvCacheFreeGpuMemoryFraction: fraction }),
    ).toThrow(/must be above 0 and at most 1/);
  });

  it("refuses an engine without its plan, and a plan without an engine", () => {
    expect(() => repositoryPlan(spec, null, FRACTION)).toThrow(/no engine plan/);
    const llmapi = modelSpec("llama-2-7b", "v1.1.0", "llmapi");
    expect(() => repositoryPlan(llmapi, enginePlanFor(llmapi), FRACTION)).toThrow(/an engine plan/);
  });

  it("refuses a folder that the release's fill_template.py would split", () => {
    const plan = (ref: "v0.15.0" | "v0.16.0") => {
      const model = modelSpec("llama-2-7b", ref, "inflight_batcher_llm");
      const engine = enginePlanFor(model);
      const places = { ...engine.places, weights: "/models/a,b" };
      return repositoryPlan(model, { ...engine, places }, FRACTION);
    };
    expect(() => plan("v0.15.0")).toThrow(ConfigError);
    expect(folder(plan("v0.16.0"), "preprocessing").substitutions.tokenizer_dir).toBe("/models/a,b");
  });
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

describe("any model, release and serving", () => {
  it("has a plan that fills what must be filled, within the engine's limits, or a problem that says why not", () => {
    let planned = 0;
    fc.assert(
      fc.property(specs, (spec) => {
        if (repositoryProblems(spec).length > 0) {
          expect(() => planFor(spec)).toThrow(ConfigError);
          return;
        }
        planned += 1;
        const plan = planFor(spec);
        const names = plan.models.map(({ name }) => name);
        expect(names).toEqual([...new Set(names)].sort());
        expect(names).toContain(plan.clientModel);
        expect(names).toContain(plan.streamingModel);
        expect(plan.launch.worldSize).toBe(spec.engine.tensorParallel);
        for (const model of plan.models) {
          for (const key of keysOf(plan, model).mandatory) expect(model.substitutions[key]).toMatch(/^\w+$/);
          const largest = model.substitutions.triton_max_batch_size ?? model.configFields?.max_batch_size;
          expect(Number(largest ?? 0)).toBeLessThanOrEqual(spec.engine.limits.maxBatchSize);
          expect(Object.keys(model.substitutions)).toEqual(Object.keys(model.substitutions).sort());
        }
      }),
      { numRuns: 500 },
    );
    expect(planned).toBeGreaterThan(100);
  });

  it("has the same plan each time", () => {
    fc.assert(
      fc.property(specs, (spec) => {
        fc.pre(repositoryProblems(spec).length === 0);
        expect(JSON.stringify(planFor(structuredClone(spec)))).toBe(JSON.stringify(planFor(spec)));
      }),
      { numRuns: 50 },
    );
  });
});
