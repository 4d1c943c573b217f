/** Memory of keys and values that a stack promises: what its concurrent requests need at their longest. */
import type { ModelSpec } from "../spec.ts";
import { GIB } from "../units.ts";
import { grouped } from "./numbers.ts";

/**
 * Part of the KV cache that is kept for cross attention (`cross_kv_cache_fraction`), where a model has it: the value of the
 * multimodal guide and of TensorRT-LLM's own `run.py`.
 * https://github.com/triton-inference-server/tensorrtllm_backend/blob/main/docs/multimodal.md
 */
export const CROSS_KV_CACHE_FRACTION = 0.5;

/**
 * Tokens of one block of the paged cache. Releases differ (64 since 0.10, 32 in 0.20); the larger one rounds a sequence up
 * further. https://nvidia.github.io/TensorRT-LLM/release-notes.html
 */
const TOKENS_PER_BLOCK = 64;

/** Keys and values are kept in 16 bits; an fp8 cache would take half, and no recipe asks for one. */
const BYTES_PER_VALUE = 2;

export interface KvCachePromise {
  /** Pool that holds the promise, on one rank. With cross attention it is larger than its two uses together. */
  readonly poolGiB: number;
  readonly selfGiB: number;
  readonly selfArithmetic: string;
  /** 0 without cross attention. */
  readonly crossGiB: number;
  readonly crossArithmetic: string;
  /** `maxTokensInPagedKvCache` as memory of one rank; null where the stack sets none. */
  readonly ceilingGiB: number | null;
}

/** Bytes that one token's keys and values take on one rank, in all layers that keep them. */
function kvBytesPerToken(model: ModelSpec): number {
  const { row } = model.engine;
  return bytesPerToken(model, row.architecture.kvLayers ?? row.architecture.layers);
}

/** Bytes that one encoder position takes on one rank, in the layers of cross attention. */
function crossKvBytesPerToken(model: ModelSpec): number {
  const { layers, kvLayers } = model.engine.row.architecture;
  return bytesPerToken(model, layers - (kvLayers ?? layers));
}

/**
 * Layers are spread over pipeline stages, heads over tensor ranks; a rank has the largest share of an uneven spread, and
 * at least one head, since fewer key-value heads than ranks are duplicated.
 */
function bytesPerToken(model: ModelSpec, layers: number): number {
  const { tensorParallel, pipelineParallel, row } = model.engine;
  const heads = Math.max(1, Math.ceil(row.architecture.kvHeads / tensorParallel));
  return 2 * Math.ceil(layers / pipelineParallel) * heads * row.architecture.headDimension * BYTES_PER_VALUE;
}

/**
 * KV cache for `concurrentRequests` sequences of the greatest length, each beam of its own.
 *
 * @param encoderTokens positions that a request's images take in cross attention; 0 without.
 */
export function kvCachePromise(model: ModelSpec, encoderTokens: number): KvCachePromise {
  const { limits } = model.engine;
  const { concurrentRequests, maxAttentionWindowTokens, maxTokensInPagedKvCache } = model.serving;
  const sequence = Math.min(
    limits.maxInputTokens + limits.maxOutputTokens,
    maxAttentionWindowTokens ?? Infinity,
  );
  const inBlocks = Math.ceil(sequence / TOKENS_PER_BLOCK) * TOKENS_PER_BLOCK;
  const wanted = concurrentRequests * limits.maxBeamWidth * inBlocks;
  const tokens = Math.min(wanted, maxTokensInPagedKvCache ?? Infinity);
  const perToken = kvBytesPerToken(model);
  const self = (tokens * perToken) / GIB;
  const selfWords =
    tokens < wanted
      ? `maxTokensInPagedKvCache ${grouped(tokens)} tokens × ${grouped(perToken)} bytes`
      : `${concurrentRequests} requests${limits.maxBeamWidth > 1 ? ` × ${limits.maxBeamWidth} beams` : ""} × ${grouped(inBlocks)} tokens × ${grouped(perToken)} bytes`;
  const ceiling = (share: number) =>
    maxTokensInPagedKvCache === undefined ? null : (maxTokensInPagedKvCache * perToken) / GIB / share;
  if (encoderTokens === 0) {
    return {
      poolGiB: self,
      selfGiB: self,
      selfArithmetic: selfWords,
      crossGiB: 0,
      crossArithmetic: "no cross attention",
      ceilingGiB: ceiling(1),
    };
  }
  const crossPerToken = crossKvBytesPerToken(model);
  const cross = (concurrentRequests * encoderTokens * crossPerToken) / GIB;
  const pool = Math.max(self / (1 - CROSS_KV_CACHE_FRACTION), cross / CROSS_KV_CACHE_FRACTION);
  const half = (use: string, share: number) => `${use}; ${share} of a pool that holds both uses`;
  return {
    poolGiB: pool,
    selfGiB: pool * (1 - CROSS_KV_CACHE_FRACTION),
    selfArithmetic: half(selfWords, 1 - CROSS_KV_CACHE_FRACTION),
    crossGiB: pool * CROSS_KV_CACHE_FRACTION,
    crossArithmetic: half(
      `${concurrentRequests} requests × ${grouped(encoderTokens)} encoder positions × ${grouped(crossPerToken)} bytes`,
      CROSS_KV_CACHE_FRACTION,
    ),
    ceilingGiB: ceiling(1 - CROSS_KV_CACHE_FRACTION),
  };
}
