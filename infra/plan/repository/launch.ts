/** How Triton is started: its ports, the environment of its ranks, and its command line. */
import type { EnginePlan, ModelServerSpec } from "../container-spec-schemas.ts";
import { sortedByKey } from "../plain-data.ts";
import type { ModelSpec } from "../spec.ts";

/** Where a model repository is put together, on a writable disk of the server. */
export const MODEL_REPOSITORY = "/model-repository";

/** Ports of one Triton. */
export interface TritonPorts {
  readonly http: number;
  readonly grpc: number;
  readonly metrics: number;
}

/** Triton's own. */
export const TRITON_PORTS: TritonPorts = { http: 8000, grpc: 8001, metrics: 8002 };

/**
 * PMIx keeps its data in a hash instead of shared memory: `MPI_Init_thread` fails in containers otherwise
 * (https://github.com/triton-inference-server/tensorrtllm_backend/blob/r25.07/docs/multimodal.md).
 */
export const MPI_ENVIRONMENT = { PMIX_MCA_gds: "hash" } as const;

/**
 * `launch_triton_server.py` with its arguments, as a person types it. No container runs it:
 * containers/trtllm/triton_entrypoint/launch.py reads ranks, ports and flags from the arguments and starts the servers itself.
 *
 * @param environment - Variables of the flavour.
 */
export function launchPlan(
  script: string,
  model: ModelSpec,
  engine: EnginePlan | null,
  environment: Readonly<Record<string, string>> = {},
): ModelServerSpec["repository"]["launch"] {
  const ranks = model.engine.tensorParallel * model.engine.pipelineParallel;
  return {
    worldSize: ranks,
    argv: [
      "python3",
      script,
      `--world_size=${ranks}`,
      `--model_repo=${MODEL_REPOSITORY}`,
      `--http_port=${TRITON_PORTS.http}`,
      `--grpc_port=${TRITON_PORTS.grpc}`,
      `--metrics_port=${TRITON_PORTS.metrics}`,
      ...flavourArguments(model, ranks, engine),
    ],
    environment: sortedByKey({ ...MPI_ENVIRONMENT, ...environment }),
  };
}

function flavourArguments(
  { serving: { flavour } }: ModelSpec,
  ranks: number,
  engine: EnginePlan | null,
): readonly string[] {
  if (flavour === "llmapi") {
    // One rank runs without MPI; more run under trtllm-llmapi-launch, as in
    // tests/integration/defs/triton_server/test_triton_llmapi.py of TensorRT-LLM.
    return ranks === 1 ? ["--no-mpi"] : ["--trtllm_llmapi_launch", "--oversubscribe"];
  }
  if (flavour !== "multimodal" || !engine?.visual) return [];
  return [
    // Ranks above 0 load these two and no Python model.
    "--tensorrt_llm_model_name=tensorrt_llm,multimodal_encoders",
    // The visual features go from model to model in GPU memory, out of this pool.
    `--multimodal_gpu0_cuda_mem_pool_bytes=${engine.visual.cudaMemoryPoolBytes}`,
  ];
}
