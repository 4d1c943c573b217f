import { spawnSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { parseConfig } from "../../../infra/config/config.ts";
import type { GpuPlan } from "../../../infra/plan/gpu-stack.ts";
import { planStack } from "../../../infra/plan/stack-plan.ts";
import { explain, explainableNames } from "../../../scripts/plan/explain.ts";
import { planExample } from "./run-plan.ts";

/** Corrections of docs/walkthroughs.md: what the commands must hold instead of what the document has. */
const corrections: readonly {
  readonly example: string;
  readonly model: string;
  readonly has: readonly (string | RegExp)[];
  readonly hasNot: readonly string[];
}[] = [
  {
    example: "llava-1.5",
    model: "llava",
    has: [
      "python3 /app/tools/fill_template.py",
      /engine_dir:\/store\/engines\/llava-1\.5-7b\/[0-9a-f]{12}\/llm,/,
      /--engine_dir \/store\/engines\/llava-1\.5-7b\/[0-9a-f]{12} \\/,
      /TRT_ENGINE_LOCATION=\S+\/vision\/model\.engine /,
      "enable_kv_cache_reuse:False",
      "--max_seq_len 2560",
      "--max_multimodal_len 576",
      "/v2/models/llava-1.5/generate",
      'its answer holds "coffee" or "espresso" or "cup"',
    ],
    hasNot: ["/tensorrtllm_backend", "git lfs"],
  },
  {
    example: "llama-2-7b-chat-kubernetes",
    model: "llama-2-7b-chat",
    has: [
      "modelscope download",
      "--max_batch_size 64",
      "logits_datatype:TYPE_FP32",
      "encoder_input_features_data_type:TYPE_FP16",
      "max_tokens_in_paged_kv_cache:2560",
      "batching_strategy:inflight_batching",
      "bls_instance_count:64",
    ],
    hasNot: ["HF_TOKEN", "engines/1gpu", "tensorrt_llm==0.8.0", "git clone"],
  },
  {
    example: "llama-2-7b-tutorial",
    model: "llama-2-7b",
    has: [
      "--env HF_TOKEN",
      "--max_input_len 2048",
      "max_queue_delay_microseconds:10000",
      "exclude_input_in_output:False",
      "logits_datatype:TYPE_FP32",
      '"end_id":2,"pad_id":2',
    ],
    hasNot: ["tokenizer_type", "--paged_kv_cache", "--context_fmha", "/engines/1-gpu"],
  },
  {
    example: "llama-2-7b-tutorial",
    model: "llama-2-7b-cli",
    has: [`--gpus '"device=1"'`, "decoupled_mode:True", "/v2/models/llama-2-7b-cli/generate"],
    hasNot: ["triton import"],
  },
  {
    example: "multimodal-guide",
    model: "blip2",
    has: [
      "models/contrib/opt/convert_checkpoint.py",
      "--max_multimodal_len 256",
      "multimodal_model_path:",
      "build_multimodal_engine.py",
    ],
    hasNot: ["visual_model_path", "build_visual_engine.py", "cross_kv_cache_fraction"],
  },
  {
    example: "multimodal-guide",
    model: "vila",
    has: ["--max_multimodal_len 6272", "--max_batch_size 32", "max_num_images:4", "client.py"],
    hasNot: ["max_num_images:1"],
  },
  {
    example: "multimodal-guide",
    model: "onevision",
    has: ["models/core/qwen/convert_checkpoint.py", "triton_max_batch_size:1"],
    hasNot: ["pip install", "contrib/qwen", "triton_max_batch_size:8"],
  },
  {
    example: "multimodal-guide",
    model: "mllama",
    has: [
      "--max_encoder_input_len 4100",
      "encoder_input_features_data_type:TYPE_BF16",
      "cross_kv_cache_fraction:0.5",
      "image_url_input",
    ],
    hasNot: ["6404", "--max_multimodal_len", "ENCODER_INPUT_FEATURES_DTYPE"],
  },
  {
    example: "gpt2-medium-encoders",
    model: "gpt2-medium",
    has: [
      "/app/scripts/launch_triton_server.py",
      "all_models/inflight_batcher_llm/preprocessing",
      '"end_id":50256',
    ],
    hasNot: ["/opt/scripts", "all_models/gpt", "/preprocessor"],
  },
  {
    example: "gpt2-medium-encoders",
    model: "encoders",
    has: ["encoder_builder calibrate", "--int8", "model.plan", "nvcr.io/nvidia/tritonserver:25.07-py3"],
    hasNot: ["trtllm-python-py3"],
  },
];

describe.each(corrections)("$example, $model", ({ example, model, has, hasNot }) => {
  test("has the corrected commands", async () => {
    const { exitCode, stdout } = await planExample(example, "--explain", model);
    expect(exitCode).toBe(0);
    for (const text of has) expect(stdout).toMatch(text);
    for (const text of hasNot) expect(stdout).not.toContain(text);
  });

  test("is a script that bash can read", async () => {
    const { stdout } = await planExample(example, "--explain", model);
    const { status, stderr } = spawnSync("bash", ["-n"], { input: stdout, encoding: "utf8" });
    expect([status, stderr]).toEqual([0, ""]);
  });
});

const machine = { gpu: "A10G", gpus: 4, vcpus: 48, memoryGiB: 192, localDiskGB: 3800 };
const IN_A_CLUSTER = {
  platform: "kubernetes",
  hub: { tokenSecret: { name: "hub-token" } },
  pools: [{ name: "gpu", machine }],
};
const ON_A_HOST = { platform: "docker", host: { machine } };

/** A plan of one model, where there is room. */
function planned(
  model: Readonly<Record<string, unknown>>,
  release = "25.07",
  where: Readonly<Record<string, unknown>> = IN_A_CLUSTER,
): GpuPlan {
  const { plan, problems } = planStack(
    parseConfig({
      ...where,
      release,
      encoders: false,
      engines: { whenFull: "stopServer" },
      models: [{ name: "model", triton: { streaming: false }, ...model }],
    }),
  );
  expect(problems).toEqual([]);
  if (plan === null || plan.tier === "cpu") throw new Error("no plan");
  return plan;
}

function explained(plan: GpuPlan): string {
  return explain(plan, "model", { storePath: "/data/store" }) ?? "";
}

describe("the commands", () => {
  test("of a release whose image holds no converters clone the backend once, before they use it", () => {
    const text = explained(planned({ model: "gpt2-medium" }, "24.04"));
    expect(text.match(/git init \/tensorrtllm_backend$/gm)).toHaveLength(1);
    expect(text.indexOf("git init")).toBeLessThan(text.indexOf("/tensorrtllm_backend/tensorrt_llm/examples"));
    expect(text).toContain("python3 /tensorrtllm_backend/tools/fill_template.py");
  });

  test("mount the store of the machine, and a folder of weights where they come from one", () => {
    const weights = { from: "folder", path: "/models/gpt2", revision: "first" };
    const text = explained(planned({ model: "gpt2-medium", weights }, "25.07", ON_A_HOST));
    expect(text).toContain("--volume /data/store:/store");
    expect(text).toContain("--volume /models/gpt2:/models/gpt2");
    expect(text).toContain("--model_dir /models/gpt2");
    expect(text).not.toContain("huggingface-cli");
    const stored = { ...weights, path: "/store/own/gpt2" };
    expect(explained(planned({ model: "gpt2-medium", weights: stored }))).not.toContain(
      "--volume /store/own",
    );
  });

  test("of a model without engine download its weights and build nothing", () => {
    const text = explained(planned({ model: "llama-2-7b", runtime: "llmapi" }));
    expect(text).toContain("huggingface-cli download meta-llama/Llama-2-7b-hf");
    expect(text).toContain("/v2/models/tensorrt_llm/generate");
    expect(text).not.toContain("trtllm-build");
  });

  test("of several ranks check and serve with all of them", () => {
    const text = explained(planned({ model: "llama-2-7b", tensorParallel: 2 }));
    expect(text).toContain("--tp_size 2");
    expect(text).toContain("mpirun");
    expect(text).toContain("--world_size=2");
    expect(text).toContain("the server, 2 ranks");
  });

  test("are there for models of the stack alone", () => {
    const plan = planned({ model: "gpt2-medium" });
    expect(explainableNames(plan)).toEqual(["model"]);
    expect(explain(plan, "encoders", { storePath: "/data/store" })).toBeUndefined();
  });
});
