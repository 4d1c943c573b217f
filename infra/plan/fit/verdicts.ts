/** Verdict of every GPU of a stack: what lands on it, what that needs, and what the order of loading can do to KV caches. */
import type { GpuStackSpec } from "../spec.ts";
import { leastCacheGiB } from "./kv-fraction.ts";
import { type Measured, measure, sizeAmongOthersGiB } from "./measure.ts";
import { round3, showGiB } from "./numbers.ts";
import { type Placement, placements } from "./placement.ts";
import type { KvCacheClaim, MemoryTerm, Verdict } from "./types.ts";

/** A placement with its verdict. */
export interface Judged {
  readonly placement: Placement;
  readonly measured: Measured;
  readonly capacityGiB: number;
  readonly claims: readonly KvCacheClaim[];
  /** Sentences about KV caches that may end smaller than promised. */
  readonly shortages: readonly string[];
  readonly verdict: Verdict;
}

/** Verdict of a need: `tight` within the error of the capacity, either way. All in GiB. */
export function verdictOf(needGiB: number, errorGiB: number, capacityGiB: number): Verdict {
  if (needGiB + errorGiB <= capacityGiB) return "fits";
  return needGiB - errorGiB <= capacityGiB ? "tight" : "doesNotFit";
}

/** Every GPU of the stack, with the most that can land on it, in the order of the pools. */
export function verdicts(stack: GpuStackSpec): readonly Judged[] {
  const measured = placements(stack, sizeAmongOthersGiB).map((placement) => ({
    placement,
    measured: measure(placement.tenants, placement.capacityGiB),
  }));
  const spare = new Map<string, number>();
  for (const { placement, measured: one } of measured) {
    if (placement.mixes === 0) continue;
    const { name } = placement.pool;
    spare.set(name, Math.min(spareGiB(placement, one), spare.get(name) ?? Infinity));
  }
  return measured.map(({ placement, measured: one }) =>
    judge(placement, one, headroomGiB(placement, one, spare.get(placement.pool.name))),
  );
}

/** What is left of a GPU when all have what they need, and the estimate's error is set aside where others depend on it. */
function spareGiB(placement: Placement, measured: Measured): number {
  const margin = measured.contested ? measured.errorGiB : 0;
  return Math.max(0, placement.capacityGiB - measured.needGiB - margin);
}

/**
 * Share of the spare memory for each KV cache without a fraction of its own. Where pods mix, all mixes of a pool get the
 * share that the worst one has: the sum then holds for every mix, since none needs more than the worst.
 */
function headroomGiB(placement: Placement, measured: Measured, worstSpare: number | undefined): number {
  if (placement.mixes > 0) return (worstSpare ?? 0) / placement.mixes;
  const derived = measured.claims.filter((claim) => claim.explicitFraction === null).length;
  return derived === 0 ? 0 : spareGiB(placement, measured) / derived;
}

function judge(placement: Placement, measured: Measured, headroom: number): Judged {
  const capacityGiB = round3(placement.capacityGiB);
  const claims = measured.claims.map((claim) => ({ ...claim, headroomGiB: floor3(headroom) }));
  const byNeed = verdictOf(measured.needGiB, measured.errorGiB, capacityGiB);
  const shortages = byNeed === "doesNotFit" ? [] : cacheShortages(claims, capacityGiB, measured.terms);
  return {
    placement,
    measured,
    capacityGiB,
    claims,
    shortages,
    verdict: byNeed === "fits" && shortages.length > 0 ? "tight" : byNeed,
  };
}

/** Sentences about KV caches that may end smaller than promised, because of the order in which models load. */
function cacheShortages(
  claims: readonly KvCacheClaim[],
  capacityGiB: number,
  terms: readonly MemoryTerm[],
): readonly string[] {
  const fixedGiB = terms.reduce(
    (total, term) => (term.what === "kvCache" || term.what === "crossKvCache" ? total : total + term.gib),
    0,
  );
  return claims.flatMap((claim, index) => {
    const least = leastCacheGiB(claims, index, capacityGiB, fixedGiB);
    if (least >= claim.promisedGiB * SAME_SIZE) return [];
    return [
      `${claim.model}: if it loads last, its KV cache gets ${showGiB(least)} of the ${showGiB(claim.promisedGiB)} that concurrentRequests promises.`,
    ];
  });
}

/** Fractions are rounded down to hundredths: a cache this close to the promise is what rounding leaves of it. */
const SAME_SIZE = 0.95;

function floor3(value: number): number {
  return Math.floor(value * 1000) / 1000;
}
