/** KV caches: the memory that a stack's concurrent requests need, and the fraction of free memory that gives it. */
import type { GpuStackSpec, ModelSpec } from "../spec.ts";
import { GIB, grouped, round3 } from "../units.ts";
import type { KvCacheClaim, MemoryFit, SizedTerm } from "./types.ts";

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

/** Bytes of one token's keys and values on the rank with the largest share; fewer key-value heads than ranks are duplicated. */
function bytesPerToken(
  { engine: { tensorParallel, pipelineParallel, row } }: ModelSpec,
  layers: number,
): number {
  const heads = Math.max(1, Math.ceil(row.architecture.kvHeads / tensorParallel));
  return 2 * Math.ceil(layers / pipelineParallel) * heads * row.architecture.headDimension * BYTES_PER_VALUE;
}

/**
 * KV cache for `concurrentRequests` sequences of the greatest length, each beam of its own. With cross attention the cache is a
 * pool of fixed shares, and may be larger than its two uses together.
 *
 * @param encoderTokens positions that a request's images take in cross attention; 0 without.
 * @returns `ceilingGiB`: `maxTokensInPagedKvCache` as memory of one rank; null where the stack sets none.
 */
export function kvCacheTerms(
  model: ModelSpec,
  encoderTokens: number,
): { readonly terms: readonly Omit<SizedTerm, "tenant">[]; readonly ceilingGiB: number | null } {
  const { maxBeamWidth, maxInputTokens, maxOutputTokens } = model.engine.limits;
  const { layers, kvLayers = layers } = model.engine.row.architecture;
  const { concurrentRequests, maxAttentionWindowTokens, maxTokensInPagedKvCache } = model.serving;
  const sequence = Math.min(maxInputTokens + maxOutputTokens, maxAttentionWindowTokens ?? Infinity);
  const inBlocks = Math.ceil(sequence / TOKENS_PER_BLOCK) * TOKENS_PER_BLOCK;
  const wanted = concurrentRequests * maxBeamWidth * inBlocks;
  const tokens = Math.min(wanted, maxTokensInPagedKvCache ?? Infinity);
  const perToken = bytesPerToken(model, kvLayers);
  const selfGiB = (tokens * perToken) / GIB;
  const ceilingGiB =
    maxTokensInPagedKvCache === undefined ? null : (maxTokensInPagedKvCache * perToken) / GIB;
  const beams = maxBeamWidth > 1 ? ` × ${maxBeamWidth} beams` : "";
  const uses =
    tokens < wanted
      ? `maxTokensInPagedKvCache ${grouped(tokens)} tokens`
      : `${concurrentRequests} requests${beams} × ${grouped(inBlocks)} tokens`;
  const selfUse = `${uses} × ${grouped(perToken)} bytes`;
  const term = (what: SizedTerm["what"], gib: number, arithmetic: string) =>
    ({
      what,
      gib: round3(gib),
      arithmetic,
      uncertaintyGiB: 0,
      source: "https://nvidia.github.io/TensorRT-LLM/reference/memory.html",
      when: "cache",
    }) as const;
  if (encoderTokens === 0) return { terms: [term("kvCache", selfGiB, selfUse)], ceilingGiB };

  const crossShare = CROSS_KV_CACHE_FRACTION;
  const selfShare = 1 - crossShare;
  const crossPerToken = bytesPerToken(model, layers - kvLayers);
  const crossGiB = (concurrentRequests * encoderTokens * crossPerToken) / GIB;
  const crossUse = `${concurrentRequests} requests × ${grouped(encoderTokens)} encoder positions × ${grouped(crossPerToken)} bytes`;
  const poolGiB = Math.max(selfGiB / selfShare, crossGiB / crossShare);
  const part = (use: string, share: number) => `${use}; ${share} of a pool that holds both uses`;
  return {
    terms: [
      term("kvCache", poolGiB * selfShare, part(selfUse, selfShare)),
      term("crossKvCache", poolGiB * crossShare, part(crossUse, crossShare)),
    ],
    ceilingGiB: ceilingGiB === null ? null : ceilingGiB / selfShare,
  };
}

/** TensorRT-LLM's own default: "90% of the remaining free GPU memory". https://nvidia.github.io/TensorRT-LLM/reference/memory.html */
const LARGEST_FRACTION = 0.9;

/** Fractions have two decimals, so no cache can be told to take less than this of the free memory. */
export const SMALLEST_FRACTION = 0.01;

/**
 * `kv_cache_free_gpu_mem_fraction` of each language model of the stack by name: a fraction of the memory that is free when
 * TensorRT-LLM sizes its KV cache. Two decimals, rounded down, between 0.01 and 0.90; a value of the stack file is taken as it
 * is. A model on several GPUs has the least value that any of them allows. Models on a pool without GPU are left out.
 *
 * Models of one GPU load in no fixed order, and the first one sees the whole GPU: the sum of
 * `loadedBefore + fraction × (capacity - loadedBefore)` stays below the capacity in any order.
 */
export function kvCacheFractions(
  { models }: GpuStackSpec,
  fits: readonly MemoryFit[],
): Readonly<Record<string, number>> {
  const fractions = new Map<string, number>();
  for (const { kvCaches, capacityGiB } of fits) {
    for (const claim of kvCaches) {
      const fraction = claimFraction(claim, capacityGiB);
      fractions.set(claim.model, Math.min(fraction, fractions.get(claim.model) ?? 1));
    }
  }
  return Object.fromEntries(
    models.flatMap(({ serving: { name } }) => {
      const fraction = fractions.get(name);
      return fraction === undefined ? [] : [[name, fraction]];
    }),
  );
}

function claimFraction(claim: KvCacheClaim, capacityGiB: number): number {
  if (claim.explicitFraction !== null) return claim.explicitFraction;
  const freeGiB = capacityGiB - claim.loadedBeforeGiB;
  if (freeGiB <= 0) return SMALLEST_FRACTION;
  const allowed = (claim.promisedGiB + claim.headroomGiB) / freeGiB;
  // The addend keeps 0.29 from becoming 0.28 by way of 28.999999999999996.
  const roundedDown = Math.floor(allowed * 100 + 1e-9) / 100;
  return Math.min(LARGEST_FRACTION, Math.max(SMALLEST_FRACTION, roundedDown));
}

/** Cache of a claim whose model finds this much free memory. */
function cacheGiB(claim: KvCacheClaim, capacityGiB: number, freeGiB: number): number {
  return Math.min(
    claimFraction(claim, capacityGiB) * Math.max(0, freeGiB),
    claim.ceilingGiB ?? Number.POSITIVE_INFINITY,
  );
}

/**
 * The smallest cache that a claim can end with: when its model loads last, and every other cache took the most that it may.
 *
 * @param fixedGiB everything on the GPU besides KV caches.
 */
export function leastCacheGiB(
  claims: readonly KvCacheClaim[],
  claim: KvCacheClaim,
  capacityGiB: number,
  fixedGiB: number,
): number {
  const others = claims
    .filter((other) => other !== claim)
    .reduce((total, other) => total + cacheGiB(other, capacityGiB, capacityGiB - other.loadedBeforeGiB), 0);
  return cacheGiB(claim, capacityGiB, capacityGiB - fixedGiB - others);
}
