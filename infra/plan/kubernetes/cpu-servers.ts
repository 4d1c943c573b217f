/** Servers of the CPU tier: the same Tritons as on `platform: local`, each a Deployment. They need neither store nor builds. */
import { cpuRepositorySpec, SPEC_FILES } from "../container-specs.ts";
import { encodersRepository, languageModelRepository, type RepositoryPlan } from "../cpu-repositories.ts";
import type { ClusterCpuPlan, CpuModelPlan } from "../cpu-stack.ts";
import { cpuServerRequest, ENCODERS_REQUEST, type HostResources } from "../pod-requests.ts";
import { frontPlacement } from "./placement.ts";
import { PRE_STOP_SECONDS, pod, SCRATCH_TMP, TRITON_POD_PORTS, tritonProbes } from "./pod.ts";
import type { PodVolume } from "./pod-types.ts";
import { priorityClass } from "./priorities.ts";
import { ENCODERS, ENCODERS_ANSWER_SECONDS, REPOSITORY, server } from "./servers.ts";
import type { ServerPlan } from "./types.ts";
import { SHARED_MEMORY } from "./volumes.ts";

/** The launcher ends the stubs of Python models after the answers. */
const END_SECONDS = 10;

/** Weights that the image lacks are downloaded and converted first. */
const START_SECONDS = 300;

/** 1.6 GB at 60 MB/s, and slower registries. */
const PULL_SECONDS = 120;

/** Artifacts that the image lacks, with their downloads; on a machine that has all of them next to nothing. */
const CACHE_GIB = 5;

/** The model repository, and logs. */
const REPOSITORY_GIB = 1;

/** Where the image builds what it lacks. */
const CACHE: PodVolume = {
  name: "cache",
  path: "/cache",
  readOnly: false,
  source: { kind: "disk", sizeMiB: CACHE_GIB * 1024 },
};

/** The server of a model. */
export function cpuModelServer(stack: string, plan: ClusterCpuPlan, model: CpuModelPlan): ServerPlan {
  return cpuServer(stack, plan, {
    model: model.name,
    repository: languageModelRepository(model),
    request: cpuServerRequest(model),
    // The gateway ends each request by then, so no answer is cut off that somebody waits for.
    answerSeconds: plan.gateway.limits.requestSeconds,
    replicas: plan.replicas[model.name] ?? 1,
  });
}

export function cpuEncodersServer(stack: string, plan: ClusterCpuPlan): ServerPlan {
  return cpuServer(stack, plan, {
    model: null,
    repository: encodersRepository(plan.encoders),
    request: ENCODERS_REQUEST,
    answerSeconds: ENCODERS_ANSWER_SECONDS,
    replicas: plan.encoderReplicas,
  });
}

interface CpuServer {
  /** null: the encoders. */
  readonly model: string | null;
  readonly repository: RepositoryPlan;
  readonly request: HostResources;
  readonly answerSeconds: number;
  readonly replicas: number;
}

function cpuServer(
  stack: string,
  plan: ClusterCpuPlan,
  { model, repository, request, answerSeconds, replicas }: CpuServer,
): ServerPlan {
  const name = model ?? ENCODERS;
  const made = pod(stack, name, {
    role: model === null ? "encoders" : "triton",
    model,
    image: "cpu-models",
    args: [SPEC_FILES.repository, "--exit-timeout-seconds", String(answerSeconds)],
    environment: { HOME: SCRATCH_TMP.path },
    files: { [SPEC_FILES.repository]: cpuRepositorySpec(repository) },
    volumes: [REPOSITORY, CACHE, SCRATCH_TMP, SHARED_MEMORY],
    ports: TRITON_POD_PORTS,
    resources: {
      ...request,
      limitsMemory: false,
      ephemeralGiB: CACHE_GIB + REPOSITORY_GIB,
      gpus: null,
    },
    placement: frontPlacement(plan),
    priorityClass: priorityClass(plan, "serving"),
    probes: tritonProbes(START_SECONDS),
    preStopSeconds: PRE_STOP_SECONDS,
    graceSeconds: PRE_STOP_SECONDS + answerSeconds + END_SECONDS,
  });
  return server(name, made, {
    replicas,
    rollout: "surge",
    readySeconds: START_SECONDS + PULL_SECONDS,
    after: [],
  });
}
