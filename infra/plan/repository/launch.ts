/** How Triton is started with all its ranks. */
import type { FlavourPlan, RepositoryPlan } from "./flavours.ts";

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
 */
export function launchPlan(
  script: string,
  worldSize: number,
  { launchArguments = [], environment = {} }: FlavourPlan,
): RepositoryPlan["launch"] {
  return {
    worldSize,
    argv: [
      "python3",
      script,
      `--world_size=${worldSize}`,
      `--model_repo=${MODEL_REPOSITORY}`,
      `--http_port=${TRITON_PORTS.http}`,
      `--grpc_port=${TRITON_PORTS.grpc}`,
      `--metrics_port=${TRITON_PORTS.metrics}`,
      ...launchArguments,
    ],
    environment: Object.fromEntries(
      Object.entries({ ...MPI_ENVIRONMENT, ...environment }).sort(([a], [b]) => (a < b ? -1 : 1)),
    ),
  };
}
