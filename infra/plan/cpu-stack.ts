/** The plan of a stack of `tier: cpu`: encoders and small language models on CPU Tritons. */
import type { CpuStackConfig } from "../config/config.ts";
import {
  type CpuModel,
  cpuModels,
  type ModelName,
  textEncoder,
  VISION_DIMENSION,
  visionWeightSources,
  type WeightSource,
} from "./catalogue/cpu-models.ts";
import { PUBLISHED_PORTS, publishedModelPorts } from "./catalogue/published-ports.ts";
import type { CostPlan } from "./cost/types.ts";
import {
  type DockerDatabasesPlan,
  type DockerHost,
  dockerDatabases,
  dockerHost,
  publishedPorts,
} from "./docker/host.ts";
import { type CpuCluster, kubernetesCpuCluster } from "./kubernetes/cluster.ts";
import { TRITON_PORTS, type TritonPorts } from "./repository/launch.ts";

type CpuModelConfig = CpuStackConfig["models"][number];
type LocalStackConfig = Extract<CpuStackConfig, { platform: "local" }>;
type ClusterStackConfig = Extract<CpuStackConfig, { platform: "kubernetes" }>;

/** One language model on a CPU Triton of its own. */
export interface CpuModelPlan {
  /** Name in the stack: endpoints, files and metrics carry it. */
  readonly name: string;
  /** Row of the catalogue. */
  readonly model: ModelName;
  readonly catalogue: CpuModel;
  readonly parallelRequests: number;
  readonly contextTokens: number;
  readonly maxTokens: number;
  readonly threads: number;
  /** 0 lets the platform choose a free one and keep it. */
  readonly ports: TritonPorts;
}

export interface CpuEncodersPlan
  extends Pick<
    CpuStackConfig["encoders"],
    "maxBatchSize" | "maxQueueDelayMicroseconds" | "dynamicBatching" | "threads"
  > {
  readonly text: typeof textEncoder;
  readonly vision: { readonly dimension: number; readonly sources: readonly WeightSource[] };
  readonly ports: TritonPorts;
}

/** Where documents and vectors are kept. Port 0 lets the platform choose a free one and keep it. */
type LocalDatabasesPlan =
  | { readonly kind: "mock"; readonly ports: LocalStackConfig["databasePorts"] }
  | ({ readonly kind: "external" } & NonNullable<LocalStackConfig["externalDatabases"]>);

/** The parts that all platforms share. */
interface CpuPlanParts {
  readonly tier: "cpu";
  /** The Triton that serves, as the outputs name it. */
  readonly release: string;
  readonly models: readonly CpuModelPlan[];
  readonly encoders: CpuEncodersPlan;
  readonly gateway: CpuStackConfig["gateway"];
  readonly cost: CostPlan;
}

/** On this machine. */
export interface LocalPlan extends CpuPlanParts {
  readonly platform: "local";
  readonly databases: LocalDatabasesPlan;
  readonly pythonVersion: LocalStackConfig["pythonVersion"];
}

/** In containers of a Docker host. */
export interface DockerCpuPlan extends CpuPlanParts {
  readonly platform: "docker";
  readonly host: DockerHost;
  readonly databases: DockerDatabasesPlan;
}

/** In a cluster. */
export interface ClusterCpuPlan extends CpuPlanParts {
  readonly platform: "kubernetes";
  readonly cluster: CpuCluster;
  readonly gateway: ClusterStackConfig["gateway"];
  /** Servers of each model, by its name. */
  readonly replicas: Readonly<Record<string, number>>;
  readonly encoderReplicas: number;
}

export type CpuPlan = LocalPlan | DockerCpuPlan | ClusterCpuPlan;

/** The wheel of requirements.lock and the server version that it carries (`GET /v2` answers it). */
const CPU_RELEASE = "nvidia-pytriton 0.7.0 (Triton 2.51.0, CPU)";

/** Plans a stack on CPUs. Pure: no clock, no network, no file. */
export function planCpuStack(config: CpuStackConfig): CpuPlan {
  // Each row takes the configuration of its own name.
  const platform = platforms[config.platform] as CpuPlatform<CpuStackConfig>;
  return platform.plan(config, planParts(config, platform.publishesPorts));
}

/** What a platform says of its stacks on CPUs. */
interface CpuPlatform<Config> {
  /** Whether ports that the stack file leaves out have fixed numbers; else a free one is chosen at the first `up`. */
  readonly publishesPorts: boolean;
  plan(config: Config, parts: CpuPlanParts): CpuPlan;
}

type ConfigOf<Platform> = Extract<CpuStackConfig, { platform: Platform }>;

const platforms: { readonly [Name in CpuStackConfig["platform"]]: CpuPlatform<ConfigOf<Name>> } = {
  local: {
    publishesPorts: false,
    plan: (config, parts) => ({
      ...parts,
      platform: "local",
      databases: localDatabases(config),
      pythonVersion: config.pythonVersion,
    }),
  },
  docker: {
    publishesPorts: true,
    plan: (config, parts) => ({
      ...parts,
      platform: "docker",
      host: dockerHost(config),
      databases: dockerDatabases(config),
    }),
  },
  kubernetes: {
    publishesPorts: false,
    plan: (config, parts) => ({
      ...parts,
      platform: "kubernetes",
      cluster: kubernetesCpuCluster(config),
      gateway: config.gateway,
      replicas: Object.fromEntries(config.models.map(({ name, replicas }) => [name, replicas])),
      encoderReplicas: config.encoders.replicas,
    }),
  },
};

function planParts(config: CpuStackConfig, publishesPorts: boolean): CpuPlanParts {
  const anyPorts = { http: 0, grpc: 0, metrics: 0 };
  const portsOf = (own: Parameters<typeof publishedPorts>[0], published: TritonPorts) =>
    publishedPorts(own, publishesPorts ? published : anyPorts);
  const { maxBatchSize, maxQueueDelayMicroseconds, dynamicBatching, threads, visionWeights } =
    config.encoders;
  return {
    tier: "cpu",
    release: CPU_RELEASE,
    models: config.models.map((model, index) =>
      planModel(model, "ports" in model ? portsOf(model.ports, publishedModelPorts(index)) : TRITON_PORTS),
    ),
    encoders: {
      ...{ maxBatchSize, maxQueueDelayMicroseconds, dynamicBatching, threads },
      text: textEncoder,
      vision: { dimension: VISION_DIMENSION, sources: visionWeightSources(visionWeights) },
      ports:
        "ports" in config.encoders ? portsOf(config.encoders.ports, PUBLISHED_PORTS.encoders) : TRITON_PORTS,
    },
    gateway: config.gateway,
    cost: { hourlyUsd: 0, monthlyUsd: 0, withoutPrice: [], buildUsd: 0, pricesAsOf: null },
  };
}

function planModel(model: CpuModelConfig, ports: TritonPorts): CpuModelPlan {
  return {
    name: model.name,
    model: model.model,
    catalogue: cpuModels[model.model],
    parallelRequests: model.parallelRequests,
    contextTokens: model.contextTokens,
    maxTokens: model.maxTokens ?? Math.floor(model.contextTokens / 2),
    threads: model.threads,
    ports,
  };
}

function localDatabases(config: LocalStackConfig): LocalDatabasesPlan {
  const { databases, externalDatabases, databasePorts } = config;
  // The checks of the configuration refuse `external` without addresses, and `container` on this platform.
  if (databases === "external" && externalDatabases !== undefined)
    return { kind: "external", ...externalDatabases };
  return { kind: "mock", ports: databasePorts };
}

/** Notes for users about the weights of the encoders, in containers. */
export function cpuWeightNotes({ encoders }: CpuPlan): readonly string[] {
  const kinds = encoders.vision.sources.map(({ kind }) => kind);
  if (kinds.length === 1 && kinds[0] === "hub") return [];
  return kinds.includes("hub")
    ? [
        "Where the model hub did not answer, images find like images, but words do not find images: the log of the encoders says which weights were taken.",
      ]
    : ["Image embeddings do not come from CLIP: words do not find images."];
}
