/** What the gateway is told of a stack: containers/services/gateway/src/config.ts reads it. */
import type { LocalPlan } from "./local-stack.ts";

const BYTES_PER_MIB = 2 ** 20;

/**
 * The gateway's JSON configuration, without host and port.
 *
 * @param encodersUrl - HTTP address of the encoders' Triton.
 * @param modelUrls - HTTP address of each model's Triton, in the order of the plan.
 */
export function gatewayConfig(
  plan: LocalPlan,
  encodersUrl: string,
  modelUrls: readonly string[],
): Record<string, unknown> {
  const { apiKeys, requestsPerMinute, limits } = plan.gateway;
  return {
    encoders: {
      http: encodersUrl,
      modelName: plan.encoders.text.name,
      dimension: plan.encoders.text.dimension,
      maxBatchSize: plan.encoders.maxBatchSize,
    },
    models: plan.models.map((model, index) => ({
      name: model.name,
      http: modelUrls[index],
      tritonModel: "ensemble",
      flavour: "inflight_batcher_llm",
      chatTemplate: model.catalogue.chatTemplate,
      stopWords: model.catalogue.stopWords,
      maxTokens: model.maxTokens,
      contextTokens: model.contextTokens,
      endId: model.catalogue.endId,
      padId: model.catalogue.padId,
    })),
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
