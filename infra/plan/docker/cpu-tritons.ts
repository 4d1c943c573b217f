/** Servers of the CPU tier: the same Tritons as on `platform: local`, each in a container. */
import { cpuRepositorySpec, SPEC_FILES } from "../container-specs.ts";
import { encodersRepository, languageModelRepository, type RepositoryPlan } from "../cpu-repositories.ts";
import type { CpuModelPlan, DockerCpuPlan } from "../cpu-stack.ts";
import type { TritonPorts } from "../repository/launch.ts";
import { container, tritonHealth, tritonPorts } from "./container.ts";
import { SHARED_MEMORY_BYTES } from "./gpu-options.ts";
import { ENCODERS } from "./tritons.ts";
import type { DockerContainer } from "./types.ts";

/** The launcher gives requests that run 20 s, and ends stubs after that. */
const STOP_SECONDS = 30;

/** Weights that the image lacks are downloaded and converted first. */
const START_SECONDS = 300;

/** The encoders first, then a Triton for each model. */
export function cpuTritons(stack: string, plan: DockerCpuPlan): readonly DockerContainer[] {
  return [
    triton(stack, null, encodersRepository(plan.encoders), plan.encoders.ports),
    ...plan.models.map((model) => triton(stack, model, languageModelRepository(model), model.ports)),
  ];
}

function triton(
  stack: string,
  model: CpuModelPlan | null,
  repository: RepositoryPlan,
  ports: TritonPorts,
): DockerContainer {
  return container(stack, {
    role: model === null ? "encoders" : "triton",
    model: model?.name ?? null,
    image: "cpu-models",
    networkAlias: model?.name ?? ENCODERS,
    entrypoint: ["python", "-m", "engine_room_models.container"],
    command: [SPEC_FILES.repository],
    files: { [SPEC_FILES.repository]: cpuRepositorySpec(repository) },
    shmBytes: SHARED_MEMORY_BYTES,
    ports: tritonPorts(ports),
    health: tritonHealth(START_SECONDS),
    lifecycle: "service",
    stopTimeoutSeconds: STOP_SECONDS,
  });
}
