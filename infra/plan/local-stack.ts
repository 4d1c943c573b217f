/** What a stack of `platform: local` will run: encoders and small language models on CPU Tritons of this machine. */

import type { LocalModelConfig, LocalStackConfig } from "../config/local.ts";
import {
  type CpuModel,
  cpuModels,
  textEncoder,
  VISION_DIMENSION,
  visionWeightSources,
  type WeightSource,
} from "./catalogue/cpu-models.ts";
import type { CostPlan } from "./cost/types.ts";

/** Ports of one Triton server; 0 lets the platform choose a free one and keep it. */
export interface TritonPorts {
  readonly http: number;
  readonly grpc: number;
  readonly metrics: number;
}

/** One language model on a CPU Triton of its own. */
export interface LocalModelPlan {
  /** Name in the stack: endpoints, files and metrics carry it. */
  readonly name: string;
  /** Row of the catalogue. */
  readonly model: string;
  readonly catalogue: CpuModel;
  readonly parallelRequests: number;
  readonly contextTokens: number;
  readonly maxTokens: number;
  readonly threads: number;
  readonly ports: TritonPorts;
}

export interface LocalEncodersPlan {
  readonly maxBatchSize: number;
  readonly maxQueueDelayMicroseconds: number;
  readonly dynamicBatching: boolean;
  readonly threads: number;
  readonly text: {
    readonly name: string;
    readonly dimension: number;
    readonly maxTokens: number;
    readonly sources: readonly WeightSource[];
  };
  readonly vision: { readonly dimension: number; readonly sources: readonly WeightSource[] };
  readonly ports: TritonPorts;
}

/** 0 lets the platform choose a free one and keep it. */
export interface DatabasePorts {
  readonly mongo: number;
  readonly mongoMetrics: number;
  readonly vector: number;
}

/** Where documents and vectors are kept. */
export type LocalDatabasesPlan =
  | { readonly kind: "mock"; readonly ports: DatabasePorts }
  | {
      readonly kind: "external";
      readonly mongo: { readonly uriFile: string };
      readonly vector: { readonly url: string; readonly apiKeyFile?: string | undefined };
    };

export interface LocalPlan {
  readonly platform: "local";
  /** The Triton that serves, as the outputs name it. */
  readonly release: string;
  readonly models: readonly LocalModelPlan[];
  readonly encoders: LocalEncodersPlan;
  readonly databases: LocalDatabasesPlan;
  readonly gateway: LocalStackConfig["gateway"];
  readonly pythonVersion: string | undefined;
  readonly cost: CostPlan;
}

/** The wheel of requirements.lock and the server version that it carries (`GET /v2` answers it). */
const CPU_RELEASE = "nvidia-pytriton 0.7.0 (Triton 2.51.0, CPU)";

export function planLocalStack(config: LocalStackConfig): LocalPlan {
  return {
    platform: "local",
    release: CPU_RELEASE,
    models: config.models.map(planModel),
    encoders: {
      maxBatchSize: config.encoders.maxBatchSize,
      maxQueueDelayMicroseconds: config.encoders.maxQueueDelayMicroseconds,
      dynamicBatching: config.encoders.dynamicBatching,
      threads: config.encoders.threads,
      text: {
        name: textEncoder.name,
        dimension: textEncoder.dimension,
        maxTokens: textEncoder.maxTokens,
        sources: textEncoder.sources,
      },
      vision: { dimension: VISION_DIMENSION, sources: visionWeightSources(config.encoders.visionWeights) },
      ports: config.encoders.ports,
    },
    databases: planDatabases(config),
    gateway: config.gateway,
    pythonVersion: config.pythonVersion,
    cost: { hourlyUsd: 0, monthlyUsd: 0, buildUsd: 0, pricesAsOf: null },
  };
}

function planModel(model: LocalModelConfig): LocalModelPlan {
  return {
    name: model.name,
    model: model.model,
    catalogue: cpuModels[model.model],
    parallelRequests: model.parallelRequests,
    contextTokens: model.contextTokens,
    maxTokens: model.maxTokens ?? Math.floor(model.contextTokens / 2),
    threads: model.threads,
    ports: model.ports,
  };
}

function planDatabases({
  databases,
  externalDatabases,
  databasePorts,
}: LocalStackConfig): LocalDatabasesPlan {
  // The configuration's own checks refuse `external` without addresses, and `container` on this platform.
  if (databases === "external" && externalDatabases !== undefined)
    return { kind: "external", ...externalDatabases };
  return { kind: "mock", ports: databasePorts };
}
