/** Tasks that fill the engine store: one for each engine, for weights that are served without one, and for the encoders. */

import { shortKey } from "../canonical-json.ts";
import { encoderBuildSpec, engineBuildSpec, SPEC_FILES } from "../container-specs.ts";
import type { DockerGpuPlan, ModelPlan } from "../gpu-stack.ts";
import { MPI_ENVIRONMENT } from "../repository/launch.ts";
import {
  BUILD_ENVIRONMENT,
  BUILD_STOP_SECONDS,
  buildTimeoutSeconds,
  ENCODER_TIMEOUT_SECONDS,
  storeBuilds,
} from "../store-builds.ts";
import { container } from "./container.ts";
import { SECRET_FILES } from "./databases.ts";
import { buildGpus, encoderGpus, GPU_OPTIONS, gpuOption, hostPool } from "./gpu-options.ts";
import type { DockerContainer } from "./types.ts";
import { scratchMount, storeMount, weightsMounts } from "./volumes.ts";

export interface PlannedBuild {
  readonly container: DockerContainer;
  /** GPUs of the host that it uses. */
  readonly gpuIndices: readonly number[];
  /** Models of the stack that need what it makes; none for the encoders. */
  readonly models: readonly string[];
}

/**
 * Builds in the order in which they run, one after the other: memory and disk of the machine are planned for one conversion at
 * a time, and TensorRT measures kernels on a GPU that it has to itself.
 */
export function plannedBuilds(stack: string, plan: DockerGpuPlan): readonly PlannedBuild[] {
  const builds = [...engineBuilds(stack, plan), ...encoderBuild(stack, plan)];
  return builds.map((build, index) => {
    const previous = builds[index - 1]?.container.name;
    const after = previous === undefined ? [] : [previous];
    return { ...build, container: { ...build.container, after } };
  });
}

/** Builds that a server waits for: of what it loads, and all that use its GPUs, whose memory it would take. */
export function buildsBefore(
  builds: readonly PlannedBuild[],
  needs: (build: PlannedBuild) => boolean,
  gpuIndices: readonly number[],
): readonly string[] {
  return builds
    .filter((build) => needs(build) || build.gpuIndices.some((index) => gpuIndices.includes(index)))
    .map((build) => build.container.name);
}

function engineBuilds(stack: string, plan: DockerGpuPlan): readonly PlannedBuild[] {
  return storeBuilds(plan.models).map(({ model, key, models }) => ({
    ...engineBuild(stack, plan, model, key),
    models,
  }));
}

function engineBuild(
  stack: string,
  plan: DockerGpuPlan,
  model: ModelPlan,
  key: string,
): Omit<PlannedBuild, "models"> {
  const { spec, engine } = model;
  // A download alone needs no GPU.
  const gpuIndices = engine === null ? [] : buildGpus(plan, spec);
  const token = hubToken(plan);
  return {
    gpuIndices,
    container: container(
      stack,
      {
        ...buildOptions(plan, gpuIndices),
        environment: { ...BUILD_ENVIRONMENT, ...token.environment, ...MPI_ENVIRONMENT },
        role: "engineBuild",
        model: model.name,
        image: "trtllm",
        networkAlias: `${spec.engine.model}-${shortKey(key)}`,
        command: ["engine_builder", "build", SPEC_FILES.engine],
        files: { [SPEC_FILES.engine]: engineBuildSpec(model) },
        mounts: [
          storeMount(stack, plan, false),
          scratchMount(stack),
          ...weightsMounts(spec),
          ...token.mounts,
        ],
        timeoutSeconds: buildTimeoutSeconds(model, hostPool(plan)),
      },
      key,
    ),
  };
}

function encoderBuild(stack: string, plan: DockerGpuPlan): readonly PlannedBuild[] {
  const { encoders, release } = plan;
  const gpu = hostPool(plan).gpu;
  if (encoders === null) return [];
  const gpuIndices = encoderGpus(plan);
  const token = hubToken(plan);
  const target = encoders.device === "gpu" && gpu !== null ? { gpu } : null;
  return [
    {
      gpuIndices,
      models: [],
      container: container(
        stack,
        {
          ...buildOptions(plan, gpuIndices),
          environment: { ...BUILD_ENVIRONMENT, ...token.environment },
          role: "encoderBuild",
          image: "encoders",
          networkAlias: `encoders-${encoders.shortKey}`,
          command: ["encoder_builder", "build", SPEC_FILES.encoders],
          files: { [SPEC_FILES.encoders]: encoderBuildSpec(encoders, release, target) },
          mounts: [storeMount(stack, plan, false), scratchMount(stack), ...token.mounts],
          timeoutSeconds: ENCODER_TIMEOUT_SECONDS,
        },
        encoders.key,
      ),
    },
  ];
}

function buildOptions(plan: DockerGpuPlan, gpuIndices: readonly number[]) {
  return {
    ...GPU_OPTIONS,
    secretFiles: hubToken(plan).secretFiles,
    gpus: gpuOption(plan, gpuIndices),
    lifecycle: "task" as const,
    stopTimeoutSeconds: BUILD_STOP_SECONDS,
  };
}

/** The hub's client reads the file by itself; no process has the token in its environment or its arguments. */
function hubToken({ host }: DockerGpuPlan): Pick<DockerContainer, "environment" | "secretFiles" | "mounts"> {
  const { hubToken: token } = host;
  if (token === null) return { environment: {}, secretFiles: {}, mounts: [] };
  const path = SECRET_FILES.hubToken;
  const environment = { HF_TOKEN_PATH: path };
  return token.kind === "secret"
    ? { environment, secretFiles: { [path]: "hubToken" }, mounts: [] }
    : { environment, secretFiles: {}, mounts: [{ source: { hostPath: token.path }, path, readOnly: true }] };
}
