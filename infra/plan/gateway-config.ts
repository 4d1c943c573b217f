/** What the gateway is told of a stack: containers/services/gateway/src/config.ts reads it. */
import type { LocalPlan } from "./local-stack.ts";

const BYTES_PER_MIB = 2 ** 20;

/** Addresses of what the gateway stands in front of. */
export interface UpstreamAddresses {
  /** HTTP address of the encoders' Triton. */
  readonly encoders: string;
  /** HTTP address of each model's Triton, in the order of the plan. */
  readonly models: readonly string[];
  /** Of the mock databases, where the stack has them. */
  readonly mongo?: string;
  readonly vector?: string;
}

/** The gateway's JSON configuration, without host and port. */
export function gatewayConfig(plan: LocalPlan, addresses: UpstreamAddresses): Record<string, unknown> {
  const { apiKeys, requestsPerMinute, limits, imageHosts } = plan.gateway;
  return {
    encoders: {
      http: addresses.encoders,
      modelName: plan.encoders.text.name,
      dimension: plan.encoders.text.dimension,
      imageDimension: plan.encoders.vision.dimension,
      maxBatchSize: plan.encoders.maxBatchSize,
    },
    models: plan.models.map((model, index) => ({
      name: model.name,
      http: addresses.models[index],
      tritonModel: "ensemble",
      flavour: "inflight_batcher_llm",
      chatTemplate: model.catalogue.chatTemplate,
      stopWords: model.catalogue.stopWords,
      maxTokens: model.maxTokens,
      contextTokens: model.contextTokens,
      endId: model.catalogue.endId,
      padId: model.catalogue.padId,
    })),
    databases: databases(plan, addresses),
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

function databases({ databases: planned }: LocalPlan, { mongo, vector }: UpstreamAddresses): object {
  if (planned.kind === "mock") return { mongo: { uri: mongo }, vector: { url: vector } };
  return { mongo: planned.mongo, vector: planned.vector };
}
