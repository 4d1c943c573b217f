/** The plan of a stack of `tier: cpu`: encoders and small language models on CPU Tritons. */
import type { CpuStackConfig } from "../config/config.ts";
import { cpuModels, textEncoder, VISION_DIMENSION, visionWeightSources } from "./catalogue/cpu-models.ts";
import { PUBLISHED_PORTS, publishedModelPorts } from "./catalogue/published-ports.ts";
import type { CostPlan } from "./cost/types.ts";
import { dockerDatabases, dockerHost, publishedPorts } from "./docker/host.ts";
import { kubernetesCpuCluster } from "./kubernetes/cluster.ts";
import { TRITON_PORTS, type TritonPorts } from "./repository/launch.ts";

type ConfigOf<Platform> = Extract<CpuStackConfig, { platform: Platform }>;

export type LocalPlan = ReturnType<typeof localPlan>;
export type DockerCpuPlan = ReturnType<typeof dockerPlan>;
export type ClusterCpuPlan = ReturnType<typeof clusterPlan>;
export type CpuPlan = LocalPlan | DockerCpuPlan | ClusterCpuPlan;

/** One language model on a CPU Triton of its own. */
export type CpuModelPlan = CpuPlan["models"][number];

export type CpuEncodersPlan = CpuPlan["encoders"];

/** Plans a stack on CPUs. Pure: no clock, no network, no file. */
export function planCpuStack(config: CpuStackConfig): CpuPlan {
  // Each function takes the configuration of its own platform.
  return (platforms[config.platform] as (config: CpuStackConfig) => CpuPlan)(config);
}

const platforms = { local: localPlan, docker: dockerPlan, kubernetes: clusterPlan };

/** 0 lets the platform choose a free port at the first `up`, and keep it. */
const ANY_PORTS: TritonPorts = { http: 0, grpc: 0, metrics: 0 };

/** On this machine. */
function localPlan(config: ConfigOf<"local">) {
  const { databases, externalDatabases, databasePorts, pythonVersion } = config;
  return {
    ...planParts(config, (own) => publishedPorts(own, ANY_PORTS)),
    platform: "local" as const,
    // The checks of the configuration refuse `external` without addresses, and `container` on this platform.
    databases:
      databases === "external" && externalDatabases !== undefined
        ? { kind: "external" as const, ...externalDatabases }
        : { kind: "mock" as const, ports: databasePorts },
    pythonVersion,
  };
}

/** In containers of a Docker host. */
function dockerPlan(config: ConfigOf<"docker">) {
  return {
    ...planParts(config, publishedPorts),
    platform: "docker" as const,
    host: dockerHost(config),
    databases: dockerDatabases(config),
  };
}

/** In a cluster. */
function clusterPlan(config: ConfigOf<"kubernetes">) {
  return {
    ...planParts(config, () => TRITON_PORTS),
    platform: "kubernetes" as const,
    cluster: kubernetesCpuCluster(config),
    gateway: config.gateway,
    /** Servers of each model, by its name. */
    replicas: Object.fromEntries(config.models.map(({ name, replicas }) => [name, replicas])),
    encoderReplicas: config.encoders.replicas,
  };
}

/** Most tokens that one request may ask a model for. */
export function mostAnswerTokens({ maxTokens, contextTokens }: CpuStackConfig["models"][number]): number {
  return maxTokens ?? Math.floor(contextTokens / 2);
}

/**
 * Parts of the plan that all platforms share.
 *
 * @param ports - Selects a Triton's ports from those of the stack file and a Docker host's defaults.
 */
function planParts(
  config: CpuStackConfig,
  ports: (...choices: Parameters<typeof publishedPorts>) => TritonPorts,
) {
  const { maxBatchSize, maxQueueDelayMicroseconds, dynamicBatching, threads, visionWeights } =
    config.encoders;
  const cost: CostPlan = { hourlyUsd: 0, monthlyUsd: 0, withoutPrice: [], buildUsd: 0, pricesAsOf: null };
  return {
    tier: "cpu" as const,
    /** The wheel of requirements.lock and the server version that it carries (`GET /v2` answers it). */
    release: "nvidia-pytriton 0.7.0 (Triton 2.51.0, CPU)",
    models: config.models.map((model, index) => ({
      /** Name in the stack: endpoints, files and metrics carry it. */
      name: model.name,
      /** Row of the catalogue. */
      model: model.model,
      catalogue: cpuModels[model.model],
      parallelRequests: model.parallelRequests,
      contextTokens: model.contextTokens,
      maxTokens: mostAnswerTokens(model),
      threads: model.threads,
      ...(model.golden === undefined ? {} : { golden: model.golden }),
      ports: ports("ports" in model ? model.ports : {}, publishedModelPorts(index)),
    })),
    encoders: {
      ...{ maxBatchSize, maxQueueDelayMicroseconds, dynamicBatching, threads },
      text: textEncoder,
      vision: { dimension: VISION_DIMENSION, sources: visionWeightSources(visionWeights) },
      ports: ports("ports" in config.encoders ? config.encoders.ports : {}, PUBLISHED_PORTS.encoders),
    },
    gateway: config.gateway,
    cost,
  };
}

/** Notes for users about the weights of the encoders, in containers. */
export function cpuWeightNotes({ encoders }: CpuPlan): readonly string[] {
  const kinds = encoders.vision.sources.map(({ kind }) => kind);
  if (kinds.length === 1 && kinds[0] === "hub") return [];
  return kinds.includes("hub")
    ? [
        "If the model hub did not answer, image-to-image search works and text-to-image search does not: the log of the encoders has the weights in use.",
      ]
    : ["Image embeddings do not come from CLIP: text-to-image search does not work."];
}
