/** Servers of the GPU tier: a Triton for each language model, and one for the encoders. */
import { encoderServerSpec, SPEC_FILES, serverSpec } from "../container-specs.ts";
import { ENCODERS_START_SECONDS, startSeconds } from "../cost/times.ts";
import type { DockerGpuPlan } from "../gpu-stack.ts";
import { MPI_ENVIRONMENT } from "../repository/launch.ts";
import { buildsBefore, type PlannedBuild } from "./builds.ts";
import { container, tritonHealth, tritonPorts } from "./container.ts";
import { encoderGpus, GPU_OPTIONS, gpuOption, hostPool, modelGpus } from "./gpu-options.ts";
import type { DockerContainer } from "./types.ts";
import { storeMount, weightsMounts } from "./volumes.ts";

/** Name of the encoders' Triton in the stack's network. */
export const ENCODERS = "encoders";

const SERVE = ["triton_entrypoint", "serve", SPEC_FILES.server] as const;

/** Triton answers what runs for up to 30 s (`--exit-timeout-secs`); then its ranks end. */
const STOP_SECONDS = 60;

/** One server of a model. @param index - Of the model in the stack file. */
export function modelTriton(
  stack: string,
  plan: DockerGpuPlan,
  index: number,
  builds: readonly PlannedBuild[],
): DockerContainer {
  const [model, ports] = [plan.models[index], plan.host.modelPorts[index]];
  if (model === undefined || ports === undefined) throw new RangeError(`The stack has no model ${index}.`);
  const { name, spec } = model;
  const gpuIndices = modelGpus(plan, spec);
  return container(
    stack,
    {
      ...GPU_OPTIONS,
      role: "triton",
      model: name,
      image: "trtllm",
      networkAlias: name,
      command: SERVE,
      environment: MPI_ENVIRONMENT,
      files: { [SPEC_FILES.server]: serverSpec(model) },
      mounts: [storeMount(stack, plan, true), ...weightsMounts(spec)],
      gpus: gpuOption(plan, gpuIndices),
      ports: tritonPorts(ports),
      health: tritonHealth(startSeconds(model)),
      lifecycle: "service",
      stopTimeoutSeconds: STOP_SECONDS,
      after: buildsBefore(builds, ({ models }) => models.includes(name), gpuIndices),
    },
    model.engine?.key ?? null,
  );
}

/** null: the stack has none. */
export function encodersTriton(
  stack: string,
  plan: DockerGpuPlan,
  builds: readonly PlannedBuild[],
): DockerContainer | null {
  const { encoders, release, host } = plan;
  if (encoders === null || host.encoderPorts === null) return null;
  const gpuIndices = encoderGpus(plan);
  const { gpu } = hostPool(plan);
  const target = encoders.device === "gpu" && gpu !== null ? { gpu } : null;
  return container(
    stack,
    {
      ...GPU_OPTIONS,
      role: "encoders",
      image: "encoders",
      networkAlias: ENCODERS,
      command: SERVE,
      files: { [SPEC_FILES.server]: encoderServerSpec(encoders, release, target) },
      mounts: [storeMount(stack, plan, true)],
      gpus: gpuOption(plan, gpuIndices),
      ports: tritonPorts(host.encoderPorts),
      health: tritonHealth(ENCODERS_START_SECONDS),
      lifecycle: "service",
      stopTimeoutSeconds: STOP_SECONDS,
      after: buildsBefore(builds, ({ container: { role } }) => role === "encoderBuild", gpuIndices),
    },
    encoders.key,
  );
}
