/** The line that starts Triton with all its ranks. */
import type { LaunchPlan } from "./types.ts";

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

interface LaunchOptions {
  /** Place of launch_triton_server.py. */
  readonly script: string;
  /** Ranks. */
  readonly worldSize: number;
  readonly modelRepository: string;
  readonly ports: TritonPorts;
  /** What a flavour adds. */
  readonly extra: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

/**
 * `launch_triton_server.py` with its arguments. It returns as soon as the servers have begun, so whoever calls it
 * in a container must wait for them itself.
 */
export function launchPlan(options: LaunchOptions): LaunchPlan {
  const { script, worldSize, modelRepository, ports, extra, environment } = options;
  return {
    worldSize,
    argv: [
      "python3",
      script,
      `--world_size=${worldSize}`,
      `--model_repo=${modelRepository}`,
      `--http_port=${ports.http}`,
      `--grpc_port=${ports.grpc}`,
      `--metrics_port=${ports.metrics}`,
      ...extra,
    ],
    environment: Object.fromEntries(
      Object.entries({ ...MPI_ENVIRONMENT, ...environment }).sort(([a], [b]) => (a < b ? -1 : 1)),
    ),
  };
}
