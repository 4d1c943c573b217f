/** What the gateway is told of a stack: containers/services/gateway/src/config.ts reads it. */
import type { CpuModelPlan } from "./cpu-stack.ts";
import type { EncoderModelName, EncoderPlan } from "./encoders/types.ts";
import type { GpuPlan, ModelPlan } from "./gpu-stack.ts";
import type { StackPlan } from "./stack-plan.ts";

const BYTES_PER_MIB = 2 ** 20;

/** Addresses of what the gateway stands in front of. */
interface UpstreamAddresses {
  /** HTTP address of the encoders' Triton, where the stack has them. */
  readonly encoders?: string;
  /** HTTP address of each model's Triton, in the order of the plan. */
  readonly models: readonly string[];
  /** Of databases that are the stack's own. */
  readonly mongo?: string;
  readonly vector?: string;
}

/** The gateway's JSON configuration, without host and port. */
export function gatewayConfig(plan: StackPlan, addresses: UpstreamAddresses): Record<string, unknown> {
  const { apiKeys, requestsPerMinute, limits, imageHosts } = plan.gateway;
  return {
    ...encoders(plan, addresses.encoders),
    models:
      plan.tier === "cpu"
        ? plan.models.map((model, index) => cpuModel(model, addresses.models[index]))
        : plan.models.map((model, index) => ({
            ...gpuModel(model, addresses.models[index]),
            ...coldStart(plan, model),
          })),
    ...databases(plan, addresses),
    imageHosts,
    apiKeys,
    ...(requestsPerMinute > 0 ? { rateLimit: { requestsPerMinute } } : {}),
    limits: {
      bodyBytes: limits.bodyMiB * BYTES_PER_MIB,
      requestSeconds: limits.requestSeconds,
      concurrentRequests: limits.concurrentRequests,
      queuedRequests: limits.queuedRequests,
    },
  };
}

function cpuModel({ name, catalogue, maxTokens, contextTokens }: CpuModelPlan, http: string | undefined) {
  return {
    name,
    http,
    tritonModel: "ensemble",
    flavour: "inflight_batcher_llm",
    chatTemplate: catalogue.chatTemplate,
    stopWords: catalogue.stopWords,
    maxTokens,
    contextTokens,
    endId: catalogue.endId,
    padId: catalogue.padId,
  };
}

/** The engine's limits are those of requests; a model without template completes text and does not chat. */
function gpuModel({ name, spec, request }: ModelPlan, http: string | undefined) {
  const { row, limits } = spec.engine;
  return {
    name,
    http,
    profile: request,
    ...(row.chat === undefined ? {} : { chatTemplate: row.chat.template, stopWords: row.chat.stopWords }),
    maxTokens: limits.maxOutputTokens,
    contextTokens: limits.maxInputTokens + limits.maxOutputTokens,
  };
}

/** Clients of a model that may have no server are told when it will have one. */
function coldStart(plan: GpuPlan, { name, coldStart: { seconds } }: ModelPlan): object {
  if (!("cluster" in plan) || plan.cluster.minReplicas[name] !== 0) return {};
  return { coldStartSeconds: Math.ceil(seconds) };
}

function encoders(plan: StackPlan, http: string | undefined): object {
  if (plan.tier === "cpu") {
    const { text, vision, maxBatchSize } = plan.encoders;
    return {
      encoders: {
        http,
        modelName: text.name,
        dimension: text.dimension,
        imageDimension: vision.dimension,
        maxBatchSize,
      },
    };
  }
  if (plan.encoders === null || plan.spec.encoders === null) return {};
  return {
    encoders: {
      http,
      modelName: plan.spec.encoders.text,
      dimension: dimensionOf("text_encoder", plan.encoders),
      imageDimension: dimensionOf("vision_encoder", plan.encoders),
      maxBatchSize: plan.spec.encoders.maxBatchSize,
    },
  };
}

function dimensionOf(name: EncoderModelName, { models }: EncoderPlan): number | undefined {
  return models.find((model) => model.name === name)?.export.dimension;
}

function databases(plan: StackPlan, { mongo, vector }: UpstreamAddresses): object {
  const planned = plannedDatabases(plan);
  if (planned === null) return {};
  if (planned.kind === "external") return { databases: { mongo: planned.mongo, vector: planned.vector } };
  return { databases: { mongo: { uri: mongo }, vector: { url: vector } } };
}

/** Databases of a stack, wherever they run; null: it has none. */
export function plannedDatabases(plan: StackPlan) {
  if ("cluster" in plan) return plan.cluster.databases;
  return "databases" in plan ? plan.databases : plan.host.databases;
}
