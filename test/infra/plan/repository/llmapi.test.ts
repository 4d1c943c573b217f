import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { repositoryPlan } from "../../../../infra/plan/repository/repository-plan.ts";
import { modelSpec, type SpecChange } from "./specs.ts";

function planOf(change: SpecChange = {}) {
  return repositoryPlan(modelSpec("llama-2-7b-chat", "v1.1.0", "llmapi", change), null, {
    kvCacheFreeGpuMemoryFraction: 0.85,
  });
}

const modelYaml = (plan: ReturnType<typeof planOf>) => plan.models[0]?.files?.["1/model.yaml"] ?? "";

describe("a model without an engine", () => {
  it("is one folder with a model.yaml", () => {
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

  it("writes model.yaml with keys of TensorRT-LLM's LLM class and nothing else", () => {
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

  it("is YAML whatever the folder is called", () => {
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

  it("is decoupled in both of its files, because the launch script keeps Triton from reading the one", () => {
    const plan = planOf({ serving: { streaming: true } });
    expect(plan.decoupled).toBe(true);
    expect(plan.models[0]?.configFields).toEqual({ model_transaction_policy: "{ decoupled: true }" });
    expect(parse(modelYaml(plan))).toMatchObject({ triton_config: { decoupled: true } });
  });

  it("starts one rank without MPI and several under trtllm-llmapi-launch", () => {
    expect(planOf().launch.argv.at(-1)).toBe("--no-mpi");
    const { launch } = planOf({ engine: { tensorParallel: 4 } });
    expect(launch.argv).toContain("--world_size=4");
    expect(launch.argv.slice(-2)).toEqual(["--trtllm_llmapi_launch", "--oversubscribe"]);
  });
});
