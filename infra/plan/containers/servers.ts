/** Tritons of both tiers: one for each language model, and one for the encoders. */

import { cpuRepositorySpec, encoderServerSpec, SPEC_FILES, serverSpec } from "../container-specs.ts";
import { startEstimate } from "../cost/times.ts";
import { encodersRepository, languageModelRepository } from "../cpu-repositories.ts";
import type { CpuModelPlan, CpuPlan } from "../cpu-stack.ts";
import { worldSize } from "../fit/placement.ts";
import type { GpuPlan, ModelPlan } from "../gpu-stack.ts";
import { poolNamed } from "../pool-space.ts";
import { MODEL_REPOSITORY, MPI_ENVIRONMENT, TRITON_PORTS } from "../repository/launch.ts";
import type { ModelSpec, TargetGpu } from "../spec.ts";
import { GIB } from "../units.ts";
import {
  type Container,
  type ContainerCheck,
  type ContainerMount,
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

/** Triton answers running requests for up to 30 s (`--exit-timeout-secs`); then its ranks end. */
const STOP = { defaultSeconds: 60, afterAnswersSeconds: 20 } as const;

/** The launcher of the CPU tier gives running requests 20 s, and ends the stubs of Python models after that. */
const CPU_STOP = { defaultSeconds: 30, afterAnswersSeconds: 10 } as const;

/** Copy of the engine in a server's container. */
const ENGINE_COPY = "/engine-copy";

/** Server of a language model on GPUs. */
export function modelContainer(plan: GpuPlan, model: ModelPlan, settings: ContainerSettings): Container {
  const { name, spec, engine } = model;
  const copiesEngine = engine !== null && settings.copiedEngines.includes(name);
  // The gateway ends each request by then.
  const { flags, stopSeconds } = end(settings, plan.gateway.limits.requestSeconds, STOP);
  return container({
    ...TRITON,
    role: "triton",
    model: name,
    key: engine?.key ?? null,
    name,
    image: "trtllm",
    arguments: [
      ...["triton_entrypoint", "serve", SPEC_FILES.server, ...flags],
      ...(copiesEngine ? ["--copy-engine-to", ENGINE_COPY] : []),
    ],
    environment: { ...MPI_ENVIRONMENT, ...home(settings) },
    files: { [SPEC_FILES.server]: serverSpec(model) },
    mounts: [
      ...SERVER_MOUNTS,
      ...weightsMounts(spec),
      ...(copiesEngine
        ? [{ purpose: "engineCopy" as const, path: ENGINE_COPY, readOnly: false as const }]
        : []),
    ],
    // Its image is on the machine by then.
    startSeconds: START_BASE_SECONDS + START_ESTIMATES * startEstimate(model.coldStart),
    stopSeconds,
    gpus: worldSize(spec),
  });
}

/** Server of the encoders beside language models on GPUs; null: the stack has none. */
export function encodersContainer(plan: GpuPlan, settings: ContainerSettings): Container | null {
  const { encoders, release } = plan;
  if (encoders === null) return null;
  const target = encoderGpu(plan);
  const { flags, stopSeconds } = end(settings, ENCODERS_ANSWER_SECONDS, STOP);
  return container({
    ...TRITON,
    role: "encoders",
    key: encoders.key,
    name: ENCODERS,
    image: "encoders",
    arguments: ["triton_entrypoint", "serve", SPEC_FILES.server, ...flags],
    environment: home(settings),
    files: { [SPEC_FILES.server]: encoderServerSpec(encoders, release, target) },
    mounts: SERVER_MOUNTS,
    startSeconds: ENCODERS_START_SECONDS,
    stopSeconds,
    gpus: target === null ? 0 : 1,
  });
}

/** Server of the CPU tier. @param model - null: the encoders. */
export function cpuServerContainer(
  plan: CpuPlan,
  model: CpuModelPlan | null,
  settings: ContainerSettings,
): Container {
  const repository = model === null ? encodersRepository(plan.encoders) : languageModelRepository(model);
  const answerSeconds = model === null ? ENCODERS_ANSWER_SECONDS : plan.gateway.limits.requestSeconds;
  const { flags, stopSeconds } = end(settings, answerSeconds, CPU_STOP);
  return container({
    ...TRITON,
    role: model === null ? "encoders" : "triton",
    model: model?.name ?? null,
    name: model?.name ?? ENCODERS,
    image: "cpu-models",
    entrypoint: ["python", "-m", "engine_room_models.container"],
    arguments: [SPEC_FILES.repository, ...flags],
    environment: home(settings),
    files: { [SPEC_FILES.repository]: cpuRepositorySpec(repository) },
    mounts: [REPOSITORY_MOUNT, { purpose: "cache", path: "/cache", readOnly: false }],
    startSeconds: CPU_START_SECONDS,
    stopSeconds,
  });
}

/** GPU of the encoders, as their plans see it; null: they run on the CPU. */
export function encoderGpu({ spec }: GpuPlan): TargetGpu | null {
  if (spec.encoders === null || spec.encoders.device === "cpu") return null;
  const { gpu, sharing } = poolNamed(spec.pools, spec.encoders.pool);
  if (gpu === null) return null;
  return sharing.mode === "mig" ? { gpu, migProfile: sharing.profile } : { gpu };
}

/** A folder of weights that the user keeps: its tokenizer is read by the server too. */
export function weightsMounts({ engine: { weights } }: ModelSpec): readonly ContainerMount[] {
  return weights.kind === "folder" ? [{ purpose: "weights", path: weights.path, readOnly: true }] : [];
}

const REPOSITORY_MOUNT = { purpose: "repository", path: MODEL_REPOSITORY, readOnly: false } as const;
const SERVER_MOUNTS = [{ purpose: "store", path: STORE, readOnly: true }, REPOSITORY_MOUNT] as const;

/** Ready when all models are; alive as long as Triton answers at all. */
const TRITON = {
  ports: { ...TRITON_PORTS },
  readiness: tritonCheck("/v2/health/ready"),
  liveness: tritonCheck("/v2/health/live"),
  sharedMemoryBytes: SHARED_MEMORY_BYTES,
};

function tritonCheck(path: string): ContainerCheck {
  return { kind: "http", path, port: TRITON_PORTS.http };
}

/** Address of a Triton for other containers. */
export function tritonAddress(name: string): string {
  return `http://${name}:${TRITON_PORTS.http}`;
}

function home({ home }: ContainerSettings): Readonly<Record<string, string>> {
  return home === null ? {} : { HOME: home };
}

/** Flags and times of a server that is asked to end. @param answerSeconds - Longest answer. */
function end(
  { answersBeforeEnd }: ContainerSettings,
  answerSeconds: number,
  { defaultSeconds, afterAnswersSeconds }: { defaultSeconds: number; afterAnswersSeconds: number },
): { readonly flags: readonly string[]; readonly stopSeconds: number } {
  if (!answersBeforeEnd) return { flags: [], stopSeconds: defaultSeconds };
  return {
    flags: ["--exit-timeout-seconds", String(answerSeconds)],
    stopSeconds: answerSeconds + afterAnswersSeconds,
  };
}
