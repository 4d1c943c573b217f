/** What the gateway is told of a stack: containers/services/gateway/src/config.ts reads it. */
import { requestProfile } from "@engine-room/triton-requests";
import { textEncoders, visionEncoders } from "./catalogue/encoders.ts";
import type { CpuModelPlan } from "./cpu-stack.ts";
import type { GpuPlan, ModelPlan } from "./gpu-stack.ts";
import { chatOf } from "./requests/request-profile.ts";
import { plannedDatabases, type StackPlan } from "./stack-plan.ts";

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
  const { bodyMiB, requestSeconds, concurrentRequests, queuedRequests } = limits;
  const models =
    plan.tier === "cpu" ? plan.models.map(cpuModel) : plan.models.map((model) => gpuModel(plan, model));
  return {
    ...encoders(plan, addresses.encoders),
    models: models.map((model, index) => ({ ...model, http: addresses.models[index] })),
    ...databases(plan, addresses),
    imageHosts,
    apiKeys,
    ...(requestsPerMinute > 0 ? { rateLimit: { requestsPerMinute } } : {}),
    limits: { bodyBytes: bodyMiB * BYTES_PER_MIB, requestSeconds, concurrentRequests, queuedRequests },
  };
}

function cpuModel({ name, catalogue, maxTokens, contextTokens }: CpuModelPlan) {
  const { chatTemplate, stopWords, endId, padId } = catalogue;
  const profile = requestProfile("inflight_batcher_llm", { endId, padId });
  return { name, profile, chatTemplate, stopWords, maxTokens, contextTokens };
}

/** The engine's limits are those of requests; a model without template completes text and does not chat. */
function gpuModel(plan: GpuPlan, { name, spec, request, coldStart }: ModelPlan) {
  const { limits } = spec.engine;
  const chat = chatOf(spec);
  const mayHaveNoServer = "cluster" in plan && plan.cluster.minReplicas[name] === 0;
  return {
    name,
    profile: request,
    ...(chat === undefined ? {} : { chatTemplate: chat.template, stopWords: chat.stopWords }),
    maxTokens: limits.maxOutputTokens,
    contextTokens: limits.maxInputTokens + limits.maxOutputTokens,
    // Clients are told when it will have one.
    ...(mayHaveNoServer ? { coldStartSeconds: Math.ceil(coldStart.seconds) } : {}),
  };
}

function encoders(plan: StackPlan, http: string | undefined): object {
  const config = (modelName: string, dimension: number, imageDimension: number, maxBatchSize: number) => ({
    encoders: { http, modelName, dimension, imageDimension, maxBatchSize },
  });
  if (plan.tier === "cpu") {
    const { text, vision, maxBatchSize } = plan.encoders;
    return config(text.name, text.dimension, vision.dimension, maxBatchSize);
  }
  if (plan.spec.encoders === null) return {};
  const { text, vision, maxBatchSize } = plan.spec.encoders;
  return config(text, textEncoders[text].dimension, visionEncoders[vision].dimension, maxBatchSize);
}

function databases(plan: StackPlan, { mongo, vector }: UpstreamAddresses): object {
  const planned = plannedDatabases(plan);
  if (planned === null) return {};
  if (planned.kind === "external") return { databases: { mongo: planned.mongo, vector: planned.vector } };
  return { databases: { mongo: { uri: mongo }, vector: { url: vector } } };
}
