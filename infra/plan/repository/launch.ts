/**
 * How Triton is started: the whole command line of each rank's server. The images' entry point
 * (containers/python/engine_room/triton_entrypoint) runs it, with the name of shared memory and other ports if it is asked.
 */
import type { EnginePlan, Launch } from "../container-spec-schemas.ts";
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

/** Start of a server, except its exit timeout: see {@link withExitTimeout}. */
export type LaunchPlan = Omit<Launch, "exitTimeoutSeconds">;

/**
 * A language model on GPUs: a server for each rank, with the arguments of launch_triton_server.py of TensorRT-LLM 0.8 to 1.2. That
 * script returns while its servers run, so no container can have it as its command.
 * https://github.com/NVIDIA/TensorRT-LLM/blob/0a2e2c1f1268b34586393794045691b666ba28be/triton_backend/scripts/launch_triton_server.py
 *
 * @param environment - Variables of the flavour.
 */
export function modelLaunch(
  { engine: { tensorParallel, pipelineParallel }, serving: { flavour } }: ModelSpec,
  engine: EnginePlan | null,
  environment: Readonly<Record<string, string>> = {},
): LaunchPlan {
  const ranks = tensorParallel * pipelineParallel;
  const isLlmApi = flavour === "llmapi";
  // One rank of llmapi runs without MPI; more run under trtllm-llmapi-launch, as in
  // tests/integration/defs/triton_server/test_triton_llmapi.py of TensorRT-LLM.
  const usesMpi = !isLlmApi || ranks > 1;
  const visual = flavour === "multimodal" ? engine?.visual : null;
  // The visual features go from model to model in GPU memory, out of this pool.
  const first = visual ? [`--cuda-memory-pool-byte-size=0:${visual.cudaMemoryPoolBytes}`] : [];
  // Only the first rank accepts requests; the others load no Python model.
  const names = visual ? ["tensorrt_llm", "multimodal_encoders"] : ["tensorrt_llm"];
  const others = ["--model-control-mode=explicit", ...names.map((name) => `--load-model=${name}`)];
  return {
    environment: sortedByKey({ ...MPI_ENVIRONMENT, ...environment }),
    // Open MPI binds ranks, with all threads of their servers, to a core each otherwise: docs/decisions/0017-unbound-ranks.md.
    mpirun: usesMpi
      ? ["mpirun", "--allow-run-as-root", "--bind-to", "none", ...(isLlmApi ? ["--oversubscribe"] : [])]
      : [],
    ranks: Array.from({ length: ranks }, (_, rank) => [
      ...(isLlmApi && usesMpi ? ["trtllm-llmapi-launch"] : []),
      ...tritonserver({ own: rank === 0 ? first : others }),
    ]),
  };
}

/** A server of models that need no MPI. @param server - Its options; `program` is NVIDIA's image's by default. */
export function singleLaunch(server: Parameters<typeof tritonserver>[0]): LaunchPlan {
  return { environment: {}, mpirun: [], ranks: [tritonserver(server)] };
}

function tritonserver({
  program = "/opt/tritonserver/bin/tritonserver",
  repository = MODEL_REPOSITORY,
  own,
}: {
  readonly program?: string;
  readonly repository?: string;
  readonly own: readonly string[];
}): readonly string[] {
  return [
    program,
    `--model-repository=${repository}`,
    ...Object.entries(TRITON_PORTS).map(([protocol, port]) => `--${protocol}-port=${port}`),
    ...own,
    // Every config.pbtxt is complete; to complete one, Triton would start the process of each Python model a second time.
    "--disable-auto-complete-config",
  ];
}

/** The launch of a server that answers requests in flight for so long after SIGTERM; Triton's own default is 30 s. */
export function withExitTimeout(launch: LaunchPlan, exitTimeoutSeconds = 30): Launch {
  const argument = `--exit-timeout-secs=${exitTimeoutSeconds}`;
  return { ...launch, exitTimeoutSeconds, ranks: launch.ranks.map((argv) => [...argv, argument]) };
}
