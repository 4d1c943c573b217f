import { describe, expect, it } from "vitest";
import type { TemplateRef } from "../../../../infra/plan/catalogue/templates.ts";
import type { ImageLayout } from "../../../../infra/plan/catalogue/types.ts";
import { backendPaths } from "../../../../infra/plan/repository/paths.ts";
import { repositoryPlan } from "../../../../infra/plan/repository/repository-plan.ts";
import { enginePlanFor, modelSpec, releaseWith, type SpecChange } from "./specs.ts";

const FRACTION = { kvCacheFreeGpuMemoryFraction: 0.5 };

function launchOf(...spec: Parameters<typeof modelSpec>) {
  const model = modelSpec(...spec);
  return repositoryPlan(model, enginePlanFor(model), FRACTION).launch;
}

describe("backendPaths", () => {
  it.each([
    ["v0.16.0", "ngc", "/tensorrtllm_backend"],
    ["v0.17.0", "ngc", "/app"],
    ["v0.20.0", "ngc", "/app"],
    ["v0.20.0", "tritonrelease", "/app/tensorrt_llm/triton_backend"],
  ] as const)("%s in an image of layout %s: %s", (ref: TemplateRef, layout: ImageLayout, root) => {
    expect(backendPaths(releaseWith(ref), layout)).toMatchObject({
      allModels: `${root}/all_models`,
      fillTemplate: `${root}/tools/fill_template.py`,
      launchScript: `${root}/scripts/launch_triton_server.py`,
    });
  });

  it("names the clone that an image without these files needs", () => {
    expect(backendPaths(releaseWith("v0.9.0"), "ngc").clones).toEqual([
      {
        url: "https://github.com/triton-inference-server/tensorrtllm_backend.git",
        commit: "76464e9be06600f3979acad9c14857938a66ff9f",
        directory: "/tensorrtllm_backend",
        submodule: "tensorrt_llm",
      },
    ]);
    expect(backendPaths(releaseWith("v0.17.0"), "ngc").clones).toEqual([]);
  });
});

describe("launch", () => {
  it("starts as many ranks as the engine has", () => {
    const engine: SpecChange["engine"] = { tensorParallel: 2, pipelineParallel: 2 };
    const launch = launchOf("llama-2-7b", "v0.20.0", "inflight_batcher_llm", { engine });
    expect(launch.worldSize).toBe(4);
    expect(launch.argv).toEqual([
      "python3",
      "/app/scripts/launch_triton_server.py",
      "--world_size=4",
      "--model_repo=/model-repository",
      "--http_port=8000",
      "--grpc_port=8001",
      "--metrics_port=8002",
    ]);
    expect(launch.environment).toEqual({ PMIX_MCA_gds: "hash" });
  });

  it("listens on the ports that it is given", () => {
    const model = modelSpec("llama-2-7b", "v0.20.0", "gpt");
    const ports = { http: 8100, grpc: 8101, metrics: 8102 };
    const { argv } = repositoryPlan(model, enginePlanFor(model), { ...FRACTION, ports }).launch;
    expect(argv.slice(-3)).toEqual(["--http_port=8100", "--grpc_port=8101", "--metrics_port=8102"]);
  });

  it("loads both GPU models on every rank and makes room for image features", () => {
    const limits = { maxBatchSize: 64 };
    const pool = (name: "llava-1.5-7b" | "llama-3.2-11b-vision", change: SpecChange = {}) =>
      launchOf(name, "v0.20.0", "multimodal", change).argv.slice(-2);
    expect(pool("llava-1.5-7b")).toEqual([
      "--tensorrt_llm_model_name=tensorrt_llm,multimodal_encoders",
      "--multimodal_gpu0_cuda_mem_pool_bytes=300000000",
    ]);
    // 2 bytes × 576 tokens × 4096 × 64 requests, a quarter more, in steps of 100 MB.
    expect(pool("llava-1.5-7b", { limits })[1]).toBe("--multimodal_gpu0_cuda_mem_pool_bytes=400000000");
  });
});
