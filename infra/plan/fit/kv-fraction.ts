/**
 * `kv_cache_free_gpu_mem_fraction`: a fraction of what is free when TensorRT-LLM sizes its KV cache. Models of one GPU load
 * in no fixed order, and the first one sees the whole GPU; so each fraction is what its model may take even then.
 *
 * With claims `loadedBefore + fraction × (capacity - loadedBefore)` the sum over all that lands on a GPU stays below its
 * capacity, in any order. The price: the model that loads last finds less than it could have; {@link leastCacheGiB} says how
 * much.
 */
import type { GpuStackSpec } from "../spec.ts";
import { LARGEST_FRACTION, SMALLEST_FRACTION } from "./measure.ts";
import type { KvCacheClaim, MemoryFit } from "./types.ts";

/**
 * Fraction for each language model of the stack by name, two decimals, rounded down, between 0.01 and 0.90; a value of the
 * stack file is taken as it is. A model on several GPUs (ranks, replicas) has one value: the least that any of them allows.
 * Models on a pool without GPU are left out.
 */
export function kvCacheFractions(
  stack: GpuStackSpec,
  fits: readonly MemoryFit[],
): Readonly<Record<string, number>> {
  const fractions = new Map<string, number>();
  for (const fit of fits) {
    for (const claim of fit.kvCaches ?? []) {
      const fraction = claimFraction(claim, fit.capacityGiB);
      fractions.set(claim.model, Math.min(fraction, fractions.get(claim.model) ?? 1));
    }
  }
  return Object.fromEntries(
    stack.models.flatMap(({ serving }) => {
      const fraction = fractions.get(serving.name);
      return fraction === undefined ? [] : [[serving.name, fraction]];
    }),
  );
}

/** Fraction of one claim on a GPU with `capacityGiB`. */
function claimFraction(claim: KvCacheClaim, capacityGiB: number): number {
  if (claim.explicitFraction !== null) return claim.explicitFraction;
  const freeGiB = capacityGiB - claim.loadedBeforeGiB;
  if (freeGiB <= 0) return SMALLEST_FRACTION;
  const allowed = (claim.promisedGiB + claim.headroomGiB) / freeGiB;
  // The addend keeps 0.29 from becoming 0.28 by way of 28.999999999999996.
  const roundedDown = Math.floor(allowed * 100 + 1e-9) / 100;
  return Math.min(LARGEST_FRACTION, Math.max(SMALLEST_FRACTION, roundedDown));
}

/** The largest cache that a claim can end with: when its model loads first. GiB. */
function mostCacheGiB(claim: KvCacheClaim, capacityGiB: number): number {
  const freeGiB = Math.max(0, capacityGiB - claim.loadedBeforeGiB);
  return Math.min(claimFraction(claim, capacityGiB) * freeGiB, claim.ceilingGiB ?? Infinity);
}

/**
 * The smallest cache that a claim can end with: when its model loads last, and every other cache took the most that it may.
 *
 * @param fixedGiB everything on the GPU that is no KV cache.
 */
export function leastCacheGiB(
  claims: readonly KvCacheClaim[],
  index: number,
  capacityGiB: number,
  fixedGiB: number,
): number {
  const claim = claims[index] as KvCacheClaim;
  const others = claims.reduce(
    (total, other, at) => (at === index ? total : total + mostCacheGiB(other, capacityGiB)),
    0,
  );
  const freeGiB = Math.max(0, capacityGiB - fixedGiB - others);
  return Math.min(claimFraction(claim, capacityGiB) * freeGiB, claim.ceilingGiB ?? Infinity);
}
