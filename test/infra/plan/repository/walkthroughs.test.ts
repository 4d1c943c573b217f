/**
 * The values of five published walkthroughs, as they print them, against what is planned. If the two differ, the
 * difference is named here with its reason: a value that is corrected, one that is left out (null), or one that the
 * walkthrough leaves to a default and the plan writes out.
 */
import { describe, expect, test } from "vitest";
import type { LanguageModelName } from "../../../../infra/plan/catalogue/language-models.ts";
import type { EnginePlan } from "../../../../infra/plan/container-spec-schemas.ts";
import { enginePlan } from "../../../../infra/plan/engine/engine-plan.ts";
import { type RepositoryPlan, repositoryPlan } from "../../../../infra/plan/repository/repository-plan.ts";
import type { ModelSpec } from "../../../../infra/plan/spec.ts";
import { modelSpec, type SpecChange } from "./specs.ts";

type Places = EnginePlan["places"];
type Values = Readonly<Record<string, string>>;

/** One difference from a walkthrough. */
interface Correction {
  readonly folders: readonly string[];
  readonly key: string;
  /** null when the key is omitted. */
  readonly value: string | null;
  readonly why: string;
}

interface Walkthrough {
  readonly spec: ModelSpec;
  /** Substitutions by folder, as the walkthrough prints them; its folders by the names of ours. */
  readonly prints: (places: Places) => Readonly<Record<string, Values>>;
  readonly corrections: (places: Places) => readonly Correction[];
}

const FRACTION = 0.5;

function planned(model: ModelSpec): { plan: RepositoryPlan; places: Places } {
  const engine = enginePlan(model.engine);
  return {
    plan: repositoryPlan(model, engine, FRACTION),
    places: engine.places,
  };
}

/** Checks every value of every folder, and that no correction corrects nothing. */
function follows(walkthrough: Walkthrough): RepositoryPlan {
  const { plan, places } = planned(walkthrough.spec);
  const printed = walkthrough.prints(places);
  const expected: Record<string, Record<string, string>> = Object.fromEntries(
    Object.entries(printed).map(([folder, values]) => [folder, { ...values }]),
  );
  for (const { folders, key, value, why } of walkthrough.corrections(places)) {
    for (const folder of folders) {
      const values = expected[folder];
      if (values === undefined) throw new Error(`no folder ${folder} to correct: ${why}`);
      expect(values[key] ?? null, `${folder} ${key}: ${why}`).not.toBe(value);
      if (value === null) delete values[key];
      else values[key] = value;
    }
  }
  expect(Object.fromEntries(plan.models.map(({ name, substitutions }) => [name, substitutions]))).toEqual(
    expected,
  );
  return plan;
}

/** Words of a launch line, with `--flag value` as `--flag=value`. */
function words(line: string): string[] {
  return line.replace(/(--[a-z0-9_]+) (?!--)/g, "$1=").split(" ");
}

/**
 * Argv of one rank, as launch_triton_server.py of the walkthroughs starts it, by its `--model_repo` and the pool of its
 * features.
 */
function oneRank(plan: RepositoryPlan, pool: readonly string[] = []): readonly (readonly string[])[] {
  const ports = words("--http-port=8000 --grpc-port=8001 --metrics-port=8002");
  const server = ["/opt/tritonserver/bin/tritonserver", `--model-repository=${plan.path}`, ...ports];
  return [[...server, ...pool, "--disable-auto-complete-config"]];
}
const ENGINE = ["tensorrt_llm"];

/** Values for keys that every walkthrough of the batcher leaves to defaults, which differ between releases. */
const writtenOut = (values: Values): Correction[] =>
  Object.entries(values).map(([key, value]) => ({
    folders: ENGINE,
    key,
    value,
    why: "left to a default, written out because the plan counts on it",
  }));

const beginToken = (value: string): Correction => ({
  folders: ["preprocessing"],
  key: "add_special_tokens",
  value,
  why: "the default was false until 0.10 and is true since, so the same prompt had two meanings",
});

describe("the LLaVA-1.5 walkthrough for 25.07", () => {
  const walkthrough: Walkthrough = {
    spec: modelSpec("llava-1.5-7b", "v0.20.0", "llava"),
    prints: ({ engine }) => ({
      "llava-1.5": {},
      tensorrt_llm: { engine_dir: engine },
      vision_encoder: {},
    }),
    corrections: ({ llm }) => [
      {
        folders: ENGINE,
        key: "engine_dir",
        value: llm,
        why: "rank0.engine and config.json are in the folder llm; only run.py wants its parent",
      },
      ...writtenOut({ kv_cache_free_gpu_mem_fraction: "0.5", enable_chunked_context: "False" }),
      {
        folders: ENGINE,
        key: "enable_kv_cache_reuse",
        value: "False",
        why: "true by default since 0.19, and llava-1.5 sends no prompt_table_extra_id",
      },
    ],
  };

  test("the LLaVA-1.5 walkthrough's values are filled in", () => {
    follows(walkthrough);
  });

  test("the LLaVA-1.5 walkthrough's launch line and environment are planned", () => {
    const { plan, places } = planned(walkthrough.spec);
    expect(plan.launch.ranks).toEqual(oneRank(plan));
    expect(plan.launch.environment).toEqual({
      PMIX_MCA_gds: "hash",
      TRT_ENGINE_LOCATION: `${places.vision}/model.engine`,
      HF_LOCATION: places.weights,
    });
    expect(plan.clientModel).toBe("llava-1.5");
  });

  test("the LLaVA-1.5 repository is filled by the image's own script: /tensorrtllm_backend/tools is gone since 25.06", () => {
    expect(planned(walkthrough.spec).plan.fillTemplate).toBe("/app/tools/fill_template.py");
  });
});

describe("the Kubernetes walkthrough for Llama-2-7b-chat", () => {
  const walkthrough: Walkthrough = {
    spec: modelSpec("llama-2-7b-chat", "v0.8.0", "inflight_batcher_llm", {
      limits: { maxBatchSize: 64 },
      serving: {
        // A strategy of its own in 0.8, later an alias of inflight_fused_batching; passed on as written.
        batchingStrategy: "inflight_batching",
        maxTokensInPagedKvCache: 2560,
        maxAttentionWindowTokens: 2560,
        maxQueueDelayMicroseconds: 600,
      },
    }),
    prints: () => ({
      preprocessing: {
        tokenizer_dir: "Llama-2-7b-chat-hf/",
        triton_max_batch_size: "64",
        preprocessing_instance_count: "1",
      },
      postprocessing: {
        tokenizer_dir: "Llama-2-7b-chat-hf/",
        triton_max_batch_size: "64",
        postprocessing_instance_count: "1",
      },
      tensorrt_llm_bls: {
        triton_max_batch_size: "64",
        decoupled_mode: "False",
        bls_instance_count: "1",
        accumulate_tokens: "False",
      },
      ensemble: { triton_max_batch_size: "64" },
      tensorrt_llm: {
        triton_max_batch_size: "64",
        decoupled_mode: "False",
        max_beam_width: "1",
        engine_dir: "engines/1gpu",
        max_tokens_in_paged_kv_cache: "2560",
        max_attention_window_size: "2560",
        kv_cache_free_gpu_mem_fraction: "0.5",
        exclude_input_in_output: "True",
        enable_kv_cache_reuse: "False",
        batching_strategy: "inflight_batching",
        max_queue_delay_microseconds: "600",
      },
    }),
    corrections: ({ llm, weights }) => [
      {
        folders: ["preprocessing", "postprocessing"],
        key: "tokenizer_dir",
        value: weights,
        why: "a relative path works from one working directory only",
      },
      {
        folders: ENGINE,
        key: "engine_dir",
        value: llm,
        why: "a relative path works from one working directory only",
      },
      {
        folders: ["preprocessing", "postprocessing"],
        key: "tokenizer_type",
        value: "auto",
        why: "0.8.0's templates ask for it and its Python models stop without it; the walkthrough's are of a later commit",
      },
      ...writtenOut({ enable_chunked_context: "False" }),
    ],
  };

  test("the Kubernetes walkthrough's values are filled in", () => {
    follows(walkthrough);
  });
});

describe("the Llama-2 tutorial of Triton", () => {
  const model = (flavour: "inflight_batcher_llm" | "tritonCli") =>
    modelSpec("llama-2-7b", "v0.9.0", flavour, {
      serving: { maxQueueDelayMicroseconds: 10_000, excludeInputInOutput: false },
    });
  const walkthrough: Walkthrough = {
    spec: model("inflight_batcher_llm"),
    prints: ({ weights, llm }) => ({
      preprocessing: {
        tokenizer_dir: weights,
        tokenizer_type: "auto",
        triton_max_batch_size: "4",
        preprocessing_instance_count: "1",
      },
      postprocessing: {
        tokenizer_dir: weights,
        tokenizer_type: "auto",
        triton_max_batch_size: "4",
        postprocessing_instance_count: "1",
      },
      tensorrt_llm_bls: { triton_max_batch_size: "4", decoupled_mode: "false", bls_instance_count: "1" },
      ensemble: { triton_max_batch_size: "4" },
      tensorrt_llm: {
        triton_backend: "tensorrtllm",
        triton_max_batch_size: "4",
        decoupled_mode: "false",
        engine_dir: llm,
        // MAX_QUEUE_DELAY_MS=10000 in the tutorial, but microseconds to Triton: 10 ms.
        max_queue_delay_microseconds: "10000",
        batching_strategy: "inflight_fused_batching",
      },
    }),
    corrections: () => [
      {
        folders: ["preprocessing", "postprocessing"],
        key: "tokenizer_type",
        value: null,
        why: "gone since 0.9, which ignores it; from 0.19 on fill_template.py aborts on it",
      },
      {
        folders: ENGINE,
        key: "triton_backend",
        value: null,
        why: "0.9's template has the C++ backend written in; the placeholder came with 0.10",
      },
      {
        folders: ["tensorrt_llm", "tensorrt_llm_bls"],
        key: "decoupled_mode",
        value: "False",
        why: "one spelling for all booleans, the only one that the backend reads everywhere",
      },
      beginToken("True"),
      ...writtenOut({
        max_beam_width: "1",
        kv_cache_free_gpu_mem_fraction: "0.5",
        exclude_input_in_output: "False",
        enable_kv_cache_reuse: "False",
        enable_chunked_context: "False",
      }),
      ...Object.entries({ accumulate_tokens: "False", tensorrt_llm_model_name: "tensorrt_llm" }).map(
        ([key, value]) => ({
          folders: ["tensorrt_llm_bls"],
          key,
          value,
          why: "left to a default, written out",
        }),
      ),
    ],
  };

  test("the Llama-2 tutorial's values are filled in", () => {
    follows(walkthrough);
  });

  test("the Llama-2 tutorial's launch line is planned", () => {
    const { plan } = planned(walkthrough.spec);
    expect(plan.launch.ranks).toEqual(oneRank(plan));
  });

  test("the tritonCli repository has the folders that `triton import` prints", () => {
    const { plan } = planned(model("tritonCli"));
    expect(plan.models.map(({ name }) => name)).toEqual([
      "llama-2-7b",
      "postprocessing",
      "preprocessing",
      "tensorrt_llm",
    ]);
    expect(plan.clientModel).toBe("llama-2-7b");
  });
});

describe("the multimodal guide of tensorrtllm_backend", () => {
  const ALL = [
    "preprocessing",
    "postprocessing",
    "ensemble",
    "tensorrt_llm",
    "tensorrt_llm_bls",
    "multimodal_encoders",
  ];
  const VARIABLE = "$" + "{ENCODER_INPUT_FEATURES_DTYPE}";

  const prints = ({ weights, llm, vision }: Places): Record<string, Values> => ({
    tensorrt_llm: {
      triton_backend: "tensorrtllm",
      triton_max_batch_size: "8",
      decoupled_mode: "False",
      max_beam_width: "1",
      engine_dir: llm,
      enable_kv_cache_reuse: "False",
      batching_strategy: "inflight_fused_batching",
      max_queue_delay_microseconds: "0",
      enable_chunked_context: "False",
      encoder_input_features_data_type: VARIABLE,
      logits_datatype: "TYPE_FP32",
      cross_kv_cache_fraction: "0.5",
    },
    preprocessing: {
      tokenizer_dir: weights,
      triton_max_batch_size: "8",
      preprocessing_instance_count: "1",
      visual_model_path: vision,
      engine_dir: llm,
      max_num_images: "1",
      max_queue_delay_microseconds: "20000",
    },
    postprocessing: {
      tokenizer_dir: weights,
      triton_max_batch_size: "8",
      postprocessing_instance_count: "1",
    },
    ensemble: { triton_max_batch_size: "8", logits_datatype: "TYPE_FP32" },
    tensorrt_llm_bls: {
      triton_max_batch_size: "8",
      decoupled_mode: "False",
      bls_instance_count: "1",
      accumulate_tokens: "False",
      tensorrt_llm_model_name: "tensorrt_llm",
      multimodal_encoders_name: "multimodal_encoders",
      logits_datatype: "TYPE_FP32",
    },
    multimodal_encoders: {
      triton_max_batch_size: "8",
      visual_model_path: vision,
      encoder_input_features_data_type: VARIABLE,
      hf_model_path: weights,
      max_queue_delay_microseconds: "20000",
    },
  });

  const encoderType = (value: string): Correction => ({
    folders: ["tensorrt_llm", "multimodal_encoders"],
    key: "encoder_input_features_data_type",
    value,
    why: "the guide never sets the variable; empty, Triton can't read the file",
  });
  const noCrossAttention: Correction = {
    folders: ENGINE,
    key: "cross_kv_cache_fraction",
    value: null,
    why: "TensorRT-LLM stops with 'Do not set crossKvCacheFraction for decoder-only model'",
  };
  const common: readonly Correction[] = [
    {
      folders: ["tensorrt_llm", "preprocessing", "multimodal_encoders"],
      key: "max_queue_size",
      value: "0",
      why: "filled by the script itself, written out",
    },
    ...writtenOut({ kv_cache_free_gpu_mem_fraction: "0.5", exclude_input_in_output: "True" }),
  ];

  const cases: readonly (readonly [
    LanguageModelName,
    SpecChange,
    readonly Correction[],
    poolBytes: number,
  ])[] = [
    ["blip2-opt-2.7b", {}, [encoderType("TYPE_FP16"), noCrossAttention], 300_000_000],
    [
      "llava-1.5-7b",
      { limits: { maxBatchSize: 8 } },
      [encoderType("TYPE_FP16"), noCrossAttention],
      300_000_000,
    ],
    [
      "vila1.5-3b",
      {},
      [
        encoderType("TYPE_FP16"),
        noCrossAttention,
        {
          folders: ["preprocessing"],
          key: "max_num_images",
          value: "4",
          why: "its engine is built for 4 images, and preprocessing divides the prompt table by this number",
        },
        {
          folders: ["preprocessing", "postprocessing"],
          key: "tokenizer_dir",
          value: "/store/weights/vila1.5-3b/42d1dda6807cc521ef27674ca2ae157539d17026/llm",
          why: "the hub's folder has the tokenizer beside the language model, and transformers finds none at its root",
        },
      ],
      300_000_000,
    ],
    [
      "llava-onevision-qwen2-7b",
      {},
      [
        encoderType("TYPE_FP16"),
        noCrossAttention,
        {
          folders: ALL,
          key: "triton_max_batch_size",
          value: "1",
          why: "its engine is built for a batch of 1",
        },
      ],
      300_000_000,
    ],
    // 2 bytes × 4100 positions × 4096 × 8 requests are 269 MB, which leaves 300 MB no room to speak of.
    ["llama-3.2-11b-vision", { limits: { maxBatchSize: 8 } }, [encoderType("TYPE_BF16")], 400_000_000],
  ];

  test.each(cases)(
    "the multimodal guide's values for %s are filled in",
    (name, change, corrections, poolBytes) => {
      const model = modelSpec(name, "r25.02", "multimodal", change);
      const begin = beginToken(model.engine.row.tokenizer.addsBeginToken ? "True" : "False");
      const plan = follows({ spec: model, prints, corrections: () => [...corrections, begin, ...common] });
      expect(plan.launch.ranks).toEqual(oneRank(plan, [`--cuda-memory-pool-byte-size=0:${poolBytes}`]));
    },
  );
});

describe("the gpt2-medium and CLIP/MiniLM walkthrough", () => {
  const walkthrough: Walkthrough = {
    spec: modelSpec("gpt2-medium", "v0.20.0", "gpt"),
    // The folders are preprocessor and postprocessor in its tree; a folder must have its model's name.
    prints: () => ({ ensemble: {}, preprocessing: {}, tensorrt_llm: {}, postprocessing: {} }),
    corrections: ({ llm, weights }) => [
      {
        folders: ["preprocessing", "postprocessing"],
        key: "tokenizer_dir",
        value: weights,
        why: "it says to fill what is left open, and names no values",
      },
      {
        folders: ENGINE,
        key: "engine_dir",
        value: llm,
        why: "it copies the engine into tensorrt_llm/1, where the template doesn't look; the engine stays where it is",
      },
    ],
  };

  test("the gpt2-medium walkthrough has the folders of all_models/gpt, and values for the placeholders of its templates", () => {
    const plan = follows(walkthrough);
    expect(plan.models.map(({ template }) => template)).toEqual([
      "gpt/ensemble",
      "gpt/postprocessing",
      "gpt/preprocessing",
      "gpt/tensorrt_llm",
    ]);
  });

  test("gpt2-medium on the batcher has only the batcher's templates", () => {
    const { plan } = planned(modelSpec("gpt2-medium", "v0.20.0", "inflight_batcher_llm"));
    expect(new Set(plan.models.map(({ template }) => template?.split("/")[0]))).toEqual(
      new Set(["inflight_batcher_llm"]),
    );
  });
});
