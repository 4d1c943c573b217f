/** Tritons of both tiers: one for each language model, and one for the encoders. */

import { cpuServerSpec, encoderServerSpec, SPEC_FILES, serverSpec } from "../container-specs.ts";
import { startEstimate } from "../cost/times.ts";
import type { CpuModelPlan, CpuPlan } from "../cpu-stack.ts";
import { encoderTarget } from "../encoders/encoder-plan.ts";
import { worldSize } from "../fit/placement.ts";
import type { GpuPlan, ModelPlan } from "../gpu-stack.ts";
import { cpuEncoders, cpuLanguageModel } from "../repository/cpu-models.ts";
import { MODEL_REPOSITORY, MPI_ENVIRONMENT, TRITON_PORTS } from "../repository/launch.ts";
import type { ModelSpec } from "../spec.ts";
import { GIB } from "../units.ts";
import {
  type Container,
  type ContainerMount,
  type ContainerOptions,
  type ContainerSettings,
  container,
} from "./container.ts";

/** Name of the encoders' Triton in the stack's network. */
export const ENCODERS = "encoders";

/** Weights and engines in every container. */
export const STORE = "/store";

/** Ranks and Triton's Python models exchange tensors in `/dev/shm`; a container's usual 64 MiB are too few. */
export const SHARED_MEMORY_BYTES = 2 * GIB;

/** Estimates of copy and load are right within a factor of two; the rest is for the start of the container itself. */
const START_ESTIMATES = 2;
const START_BASE_SECONDS = 60;

/** Three small graphs, and warm-up. */
export const ENCODERS_START_SECONDS = 120;

/** Weights that the image of the CPU tier lacks are downloaded and converted first. */
export const CPU_START_SECONDS = 300;

/** An embedding takes milliseconds; a batch of images on a busy CPU some seconds. */
const ENCODERS_ANSWER_SECONDS = 30;

/** Time limits for the end of a server: by default, or after its last answer if it waits for the gateway's requests. */
interface StopTimes {
  /** Default time for running requests. */
  readonly answersSeconds: number;
  readonly defaultSeconds: number;
  readonly afterAnswersSeconds: number;
}

/** After the first rank the others end. */
const STOP: StopTimes = { answersSeconds: 30, defaultSeconds: 60, afterAnswersSeconds: 20 };

/** After the answers the processes of Python models end. */
const CPU_STOP: StopTimes = { answersSeconds: 20, defaultSeconds: 30, afterAnswersSeconds: 10 };

/** Copy of the engine in a server's container. */
const ENGINE_COPY = "/engine-copy";

/** Server of a language model on GPUs. */
export function modelContainer(plan: GpuPlan, model: ModelPlan, settings: ContainerSettings): Container {
  const { name, spec, engine } = model;
  const copiesEngine = engine !== null && settings.copiedEngines.includes(name);
  const server = (exitTimeoutSeconds: number) => serverSpec(model, exitTimeoutSeconds);
  return triton(settings, plan.gateway.limits.requestSeconds, STOP, server, {
    role: "triton",
    model: name,
    key: engine?.key ?? null,
    name,
    image: "trtllm",
    arguments: copiesEngine ? ["--copy-engine-to", ENGINE_COPY] : [],
    environment: MPI_ENVIRONMENT,
    mounts: [
      ...SERVER_MOUNTS,
      ...weightsMounts(spec),
      ...(copiesEngine ? [{ purpose: "engineCopy", path: ENGINE_COPY, readOnly: false } as const] : []),
    ],
    // Its image is on the machine by then.
    startSeconds: START_BASE_SECONDS + START_ESTIMATES * startEstimate(model.coldStart),
    gpus: worldSize(spec),
  });
}

/** Server of the encoders beside language models on GPUs; null for a stack without encoders. */
export function encodersContainer(plan: GpuPlan, settings: ContainerSettings): Container | null {
  const { encoders, release } = plan;
  if (encoders === null) return null;
  const target = encoderTarget(plan.spec);
  const server = (exitTimeoutSeconds: number) =>
    encoderServerSpec(encoders, release, target, exitTimeoutSeconds);
  return triton(settings, ENCODERS_ANSWER_SECONDS, STOP, server, {
    role: "encoders",
    key: encoders.key,
    name: ENCODERS,
    image: "encoders",
    mounts: SERVER_MOUNTS,
    startSeconds: ENCODERS_START_SECONDS,
    gpus: target === null ? 0 : 1,
  });
}

/** Server of the CPU tier. @param model - null for the encoders. */
export function cpuServerContainer(
  plan: CpuPlan,
  model: CpuModelPlan | null,
  settings: ContainerSettings,
): Container {
  const name = model?.name ?? ENCODERS;
  const models = model === null ? cpuEncoders(plan.encoders) : cpuLanguageModel(model);
  const answerSeconds = model === null ? ENCODERS_ANSWER_SECONDS : plan.gateway.limits.requestSeconds;
  const server = (exitTimeoutSeconds: number) => cpuServerSpec(name, models, exitTimeoutSeconds);
  return triton(settings, answerSeconds, CPU_STOP, server, {
    role: model === null ? "encoders" : "triton",
    model: model?.name ?? null,
    name,
    image: "cpu-models",
    mounts: [REPOSITORY_MOUNT, { purpose: "cache", path: "/cache", readOnly: false }],
    startSeconds: CPU_START_SECONDS,
  });
}

/**
 * A container that is ready when all models are, and alive as long as Triton answers at all.
 *
 * @param answerSeconds - Longest answer; the gateway ends each request by then.
 * @param server - server.json, by how long running requests may take when it is stopped.
 */
function triton(
  { answersBeforeEnd, home }: ContainerSettings,
  answerSeconds: number,
  { answersSeconds, defaultSeconds, afterAnswersSeconds }: StopTimes,
  server: (exitTimeoutSeconds: number) => string,
  { arguments: last = [], environment, ...options }: Omit<ContainerOptions, "stopSeconds">,
): Container {
  return container({
    ...options,
    arguments: ["triton_entrypoint", "serve", SPEC_FILES.server, ...last],
    files: { [SPEC_FILES.server]: server(answersBeforeEnd ? answerSeconds : answersSeconds) },
    environment: { ...environment, ...(home === null ? {} : { HOME: home }) },
    ports: { ...TRITON_PORTS },
    readiness: { kind: "http", path: "/v2/health/ready", port: TRITON_PORTS.http },
    liveness: { kind: "http", path: "/v2/health/live", port: TRITON_PORTS.http },
    sharedMemoryBytes: SHARED_MEMORY_BYTES,
    stopSeconds: answersBeforeEnd ? answerSeconds + afterAnswersSeconds : defaultSeconds,
  });
}

/** A folder of weights that the user keeps: its tokenizer is read by the server too. */
export function weightsMounts({ engine: { weights } }: ModelSpec): readonly ContainerMount[] {
  return weights.kind === "folder" ? [{ purpose: "weights", path: weights.path, readOnly: true }] : [];
}

const REPOSITORY_MOUNT = { purpose: "repository", path: MODEL_REPOSITORY, readOnly: false } as const;
const SERVER_MOUNTS = [{ purpose: "store", path: STORE, readOnly: true }, REPOSITORY_MOUNT] as const;

/** Address of a Triton for other containers. */
export function tritonAddress(name: string): string {
  return `http://${name}:${TRITON_PORTS.http}`;
}
