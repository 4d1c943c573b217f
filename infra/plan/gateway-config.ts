/** The gateway's configuration for a stack, which containers/services/gateway/src/config.ts reads. */
import { requestProfile } from "@engine-room/triton-requests";
import {
  type Prefixes,
  TEXT_ENCODER_NAMES,
  textRow,
  VISION_ENCODER_NAMES,
  visionRow,
} from "./catalogue/encoders.ts";
import type { CpuModelPlan } from "./cpu-stack.ts";
import type { GpuPlan, ModelPlan } from "./gpu-stack.ts";
import { jsonDigest, shortKey } from "./plain-data.ts";
import { chatOf } from "./requests/request-profile.ts";
import { plannedDatabases, type StackPlan } from "./stack-plan.ts";

const BYTES_PER_MIB = 2 ** 20;

/** Addresses of the gateway's upstreams. */
interface UpstreamAddresses {
  /** HTTP address of the encoders' Triton, if the stack has them. */
  readonly encoders?: string;
  /** HTTP address of each model's Triton, in the order of the plan. */
  readonly models: readonly string[];
  /** Addresses of the stack's own databases. */
  readonly mongo?: string;
  readonly vector?: string;
}

/** The gateway's JSON configuration, without host and port. */
export function gatewayConfig(plan: StackPlan, addresses: UpstreamAddresses): Record<string, unknown> {
  const { apiKeys, requestsPerMinute, limits, imageHosts } = plan.gateway;
  const { bodyMiB, requestSeconds, concurrentRequests, queuedRequests } = limits;
  const encoders = servedEncoders(plan);
  const models =
    plan.tier === "cpu" ? plan.models.map(cpuModel) : plan.models.map((model) => gpuModel(plan, model));
  return {
    ...(encoders === null ? {} : { encoders: { http: addresses.encoders, ...encoders, ...prefixes(plan) } }),
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

/** Encoders in the answers to clients; null for a stack without encoders. */
export function servedEncoders(plan: StackPlan) {
  if (plan.tier === "cpu") {
    const { text, vision, maxBatchSize } = plan.encoders;
    return {
      modelName: text.name,
      dimension: text.dimension,
      imageDimension: vision.dimension,
      maxBatchSize,
    };
  }
  const spec = plan.spec.encoders;
  if (spec === null) return null;
  return {
    modelName: spec.text,
    dimension: textRow(spec).dimension,
    imageDimension: visionRow(spec).dimension,
    maxBatchSize: spec.maxBatchSize,
  };
}

/** Words that the gateway puts before texts. */
function prefixes(plan: StackPlan): { readonly prefixes?: Prefixes } {
  const row = plan.tier === "gpu" && plan.spec.encoders !== null ? textRow(plan.spec.encoders) : null;
  return row?.prefixes === undefined ? {} : { prefixes: row.prefixes };
}

function databases(plan: StackPlan, { mongo, vector }: UpstreamAddresses): object {
  const planned = plannedDatabases(plan);
  if (planned === null) return {};
  const [uri, store] =
    planned.kind === "external" ? [planned.mongo, planned.vector] : [{ uri: mongo }, { url: vector }];
  return { databases: { mongo: uri, vector: { ...store, ...ownCollection(plan) } } };
}

/**
 * The collection of a stack with other encoders than the default ones: their vectors have another length, or would be compared with
 * those of the default ones. The gateway fills a missing collection. A prefix of searches is missing here: no stored vector has it.
 */
function ownCollection(plan: StackPlan): { readonly collection?: string } {
  const spec = plan.tier === "gpu" ? plan.spec.encoders : null;
  const isUsual = spec?.vision === VISION_ENCODER_NAMES[0] && spec.text === TEXT_ENCODER_NAMES[0];
  if (spec === null || isUsual) return {};
  const identity = [visionRow(spec), textRow(spec)].map(({ source, text, prefixes }) => ({
    repository: source.repository,
    revision: source.revision,
    graph: text.graph,
    ...(prefixes?.document ? { prefix: prefixes.document } : {}),
  }));
  return { collection: `documents-${shortKey(jsonDigest(identity))}` };
}
