import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { cloneLines, fillTemplateLines } from "../../../../infra/plan/repository/fill-lines.ts";
import { repositoryPlan } from "../../../../infra/plan/repository/repository-plan.ts";
import type { RepositoryPlan } from "../../../../infra/plan/repository/types.ts";
import { enginePlanFor, modelSpec } from "./specs.ts";

const FRACTION = { kvCacheFreeGpuMemoryFraction: 0.5 };

function planOf(...spec: Parameters<typeof modelSpec>): RepositoryPlan {
  const model = modelSpec(...spec);
  const engine = model.serving.runtime === "engine" ? enginePlanFor(model) : null;
  return repositoryPlan(model, engine, FRACTION);
}

describe("fillTemplateLines", () => {
  it("copies and fills what the LLaVA tutorial needs", () => {
    const engine = "/store/engines/llava-1.5-7b/0123456789ab";
    const from = "/tutorials/Popular_Models_Guide/Llava1.5/model_repository";
    expect(fillTemplateLines(planOf("llava-1.5-7b", "v0.20.0", "llava"))).toEqual([
      "mkdir -p /model-repository",
      `cp -r ${from}/llava-1.5 /model-repository/llava-1.5`,
      `cp -r ${from}/tensorrt_llm /model-repository/tensorrt_llm`,
      "python3 /app/tools/fill_template.py -i /model-repository/tensorrt_llm/config.pbtxt " +
        `enable_chunked_context:False,enable_kv_cache_reuse:False,engine_dir:${engine}/llm,kv_cache_free_gpu_mem_fraction:0.5`,
      `cp -r ${from}/vision_encoder /model-repository/vision_encoder`,
    ]);
  });

  // The fill_template.py of these releases aborts on a key that the file lacks.
  it("hands preprocessing of TensorRT-LLM 1.1 the keys of docs/multimodal.md at r26.02 and its tokenizer's", () => {
    const lines = fillTemplateLines(planOf("llava-1.5-7b", "v1.1.0", "multimodal"));
    const line = lines.find((one) => one.includes("-i /model-repository/preprocessing/config.pbtxt")) ?? "";
    const keys = (line.split(" ").at(-1) ?? "").split(",").map((pair) => pair.split(":")[0]);
    expect(keys.sort()).toEqual([
      "add_special_tokens",
      "engine_dir",
      "max_num_images",
      "max_queue_delay_microseconds",
      "max_queue_size",
      "multimodal_model_path",
      "preprocessing_instance_count",
      "tokenizer_dir",
      "triton_max_batch_size",
    ]);
  });

  it("makes the version folder that Git doesn't keep", () => {
    expect(fillTemplateLines(planOf("vila1.5-3b", "v0.20.0", "multimodal"))).toEqual(
      expect.arrayContaining([
        "cp -r /app/all_models/multimodal/ensemble /model-repository/ensemble",
        "mkdir -p /model-repository/ensemble/1",
      ]),
    );
  });

  it("has the lines that put a repository at its commit, with its submodule", () => {
    const [backend] = planOf("llama-2-7b", "v0.9.0", "inflight_batcher_llm").clones;
    expect(backend && cloneLines(backend)).toEqual([
      "git init /tensorrtllm_backend",
      "git -C /tensorrtllm_backend fetch --depth 1 https://github.com/triton-inference-server/tensorrtllm_backend.git" +
        " 76464e9be06600f3979acad9c14857938a66ff9f",
      "git -C /tensorrtllm_backend checkout --detach FETCH_HEAD",
      "GIT_LFS_SKIP_SMUDGE=1 git -C /tensorrtllm_backend submodule update --init --depth 1 tensorrt_llm",
    ]);
  });

  it("makes a folder for a model that has files and no template", () => {
    const plan = planOf("gpt2-medium", "v0.20.0", "gpt");
    const model = {
      name: "own",
      template: null,
      substitutions: {},
      defaults: {},
      files: { "config.pbtxt": "a: 1\n" },
    };
    expect(fillTemplateLines({ ...plan, models: [model] })).toEqual([
      "mkdir -p /model-repository",
      "mkdir -p /model-repository/own/1",
      "printf %s $'a: 1\\n' > /model-repository/own/config.pbtxt",
    ]);
  });

  it("refuses a plan whose set of templates is unknown", () => {
    const plan = planOf("gpt2-medium", "v0.20.0", "gpt");
    expect(() => fillTemplateLines({ ...plan, templates: "v9" })).toThrow(
      "No set of templates is called v9.",
    );
  });

  describe("typed in a shell", () => {
    let root: string;
    beforeEach(() => {
      root = mkdtempSync(join(tmpdir(), "fill-lines-"));
    });
    afterEach(() => {
      rmSync(root, { recursive: true });
    });

    /** Runs all lines but Python, with every place below a folder of this test. */
    function type(plan: RepositoryPlan): void {
      const moved = { ...plan, allModels: join(root, "all_models"), path: join(root, "repository") };
      const lines = fillTemplateLines(moved).filter((line) => !/^python3 /.test(line));
      execFileSync("bash", ["-euc", lines.join("\n")]);
    }

    function template(path: string, config: string): void {
      mkdirSync(join(root, "all_models", path, "1"), { recursive: true });
      writeFileSync(join(root, "all_models", path, "config.pbtxt"), config);
    }

    const read = (path: string) => readFileSync(join(root, "repository", path), "utf8");

    it("gives the BLS the model's name and leaves names of tensors alone", () => {
      for (const name of ["preprocessing", "tensorrt_llm", "postprocessing"]) {
        template(`inflight_batcher_llm/${name}`, `name: "${name}"\n`);
      }
      template(
        "inflight_batcher_llm/tensorrt_llm_bls",
        'name: "tensorrt_llm_bls"\nbackend: "python"\ninput [\n  {\n    name: "text_input"\n  }\n]\n',
      );
      type(planOf("llama-2-7b", "v0.20.0", "tritonCli"));
      expect(readdirSync(join(root, "repository")).sort()).toEqual([
        "llama-2-7b",
        "postprocessing",
        "preprocessing",
        "tensorrt_llm",
      ]);
      expect(read("llama-2-7b/config.pbtxt")).toBe(
        'backend: "python"\ninput [\n  {\n    name: "text_input"\n  }\n]\nname: "llama-2-7b"\n',
      );
      expect(read("tensorrt_llm/config.pbtxt")).toBe('name: "tensorrt_llm"\n');
    });

    it("limits the batches of all_models/gpt", () => {
      for (const name of ["ensemble", "preprocessing", "tensorrt_llm", "postprocessing"]) {
        template(`gpt/${name}`, `name: "${name}"\nmax_batch_size: 1024\n`);
      }
      type(planOf("gpt2-medium", "v0.20.0", "gpt"));
      expect(read("ensemble/config.pbtxt")).toBe('name: "ensemble"\nmax_batch_size: 4\n');
    });

    it("writes model.yaml as planned, to the byte", () => {
      template("llmapi/tensorrt_llm", 'name: "tensorrt_llm"\n');
      const path = "/models/it's $HOME `x` %s";
      const plan = planOf("llama-2-7b", "v1.1.0", "llmapi", {
        engine: { weights: { kind: "folder", path, revision: "1" } },
      });
      type(plan);
      expect(read("tensorrt_llm/1/model.yaml")).toBe(plan.models[0]?.files?.["1/model.yaml"]);
      expect(read("tensorrt_llm/config.pbtxt")).toBe(
        'name: "tensorrt_llm"\nmodel_transaction_policy: { decoupled: false }\n',
      );
    });
  });
});
