/** Verdict of every GPU of a stack. */
import type { GpuStackSpec, PoolSpec } from "../spec.ts";
import { round3, showGiB } from "../units.ts";
import { leastCacheGiB, SMALLEST_FRACTION } from "./kv-cache.ts";
import { type GpuTenant, type Placement, placements } from "./placement.ts";
import { type TenantNeed, tenantNeed } from "./terms.ts";
import type { KvCacheClaim, SizedTerm, Verdict } from "./types.ts";

/** A placement with its needs; all in GiB. */
interface Measured {
  readonly placement: Placement;
  readonly terms: readonly SizedTerm[];
  readonly needGiB: number;
  /** Every term at its worst at once: the distance between "fits" and "does not fit". */
  readonly errorGiB: number;
  readonly claims: readonly KvCacheClaim[];
}

export interface Judged extends Measured {
  readonly capacityGiB: number;
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
  const measured = placements(stack, (tenant, capacityGiB) =>
    sum(measureTenant(tenant, tenantNeed(tenant), capacityGiB, true).terms.map(({ gib }) => gib)),
  ).map(measure);
  const worstSpareGiB = new Map<PoolSpec, number>();
  for (const { placement, spareGiB } of measured) {
    worstSpareGiB.set(placement.pool, Math.min(spareGiB, worstSpareGiB.get(placement.pool) ?? spareGiB));
  }
  return measured.map((needs) => {
    const { pool, mixes } = needs.placement;
    // All mixes of a pool get the share that the worst one has: the sum then holds for every mix.
    if (mixes > 0) return judge(needs, (worstSpareGiB.get(pool) ?? 0) / mixes);
    const derived = needs.claims.filter(({ explicitFraction }) => explicitFraction === null).length;
    return judge(needs, derived === 0 ? 0 : needs.spareGiB / derived);
  });
}

/**
 * Needs of the tenants of one GPU. `spareGiB` is what is left of it when all have what they need, and the estimate's error is
 * set aside where something else can load after a KV cache was sized: another tenant, or the visual engine.
 */
function measure(placement: Placement): Measured & { readonly spareGiB: number } {
  const { tenants, capacityGiB } = placement;
  const needs = tenants.map((tenant) => ({ tenant, need: tenantNeed(tenant) }));
  const contested =
    tenants.length > 1 || needs.some(({ need }) => need.terms.some(({ when }) => when === "anyTime"));
  const measured = needs.map(({ tenant, need }) => measureTenant(tenant, need, capacityGiB, contested));
  const terms = measured.flatMap((tenant) => tenant.terms);
  const needGiB = sum(terms.map(({ gib }) => gib));
  const errorGiB = sum(terms.map(({ uncertaintyGiB }) => uncertaintyGiB));
  return {
    placement,
    terms,
    needGiB,
    errorGiB,
    claims: measured.flatMap(({ claim }) => claim ?? []),
    spareGiB: Math.max(0, capacityGiB - needGiB - (contested ? errorGiB : 0)),
  };
}

/** Terms and claim of one tenant; where others need the rest, its cache takes a least share whatever was promised. */
function measureTenant(
  tenant: GpuTenant,
  { terms: needed, cacheCeilingGiB }: TenantNeed,
  capacityGiB: number,
  contested: boolean,
): { readonly terms: readonly SizedTerm[]; readonly claim: KvCacheClaim | null } {
  if (tenant.kind === "encoders") return { terms: needed, claim: null };
  const explicitFraction = tenant.model.serving.kvCacheFreeGpuMemoryFraction ?? null;
  const sumOf = (terms: readonly SizedTerm[], when: SizedTerm["when"]) =>
    sum(terms.filter((term) => term.when === when).map(({ gib }) => gib));
  const loadedBeforeGiB = sumOf(needed, "before");
  const freeGiB = Math.max(0, capacityGiB - loadedBeforeGiB);
  const fraction = explicitFraction ?? SMALLEST_FRACTION;
  const leastGiB = contested
    ? round3(Math.min(fraction * freeGiB, cacheCeilingGiB ?? Number.POSITIVE_INFINITY))
    : 0;
  const cacheGiB = sumOf(needed, "cache");
  const reason =
    explicitFraction === null ? "the least that a fraction can say" : "as kvCacheFreeGpuMemoryFraction sets";
  const terms =
    leastGiB <= cacheGiB
      ? needed
      : needed.map((term) => {
          if (term.when !== "cache") return term;
          const share = cacheGiB > 0 ? term.gib / cacheGiB : Number(term.what === "kvCache");
          return {
            ...term,
            gib: round3(leastGiB * share),
            arithmetic: `${term.arithmetic}; raised to ${fraction} of ${showGiB(freeGiB)}, ${reason}`,
          };
        });
  return {
    terms,
    claim: {
      model: tenant.name,
      loadedBeforeGiB,
      promisedGiB: sumOf(terms, "cache"),
      ceilingGiB: cacheCeilingGiB === null ? null : round3(cacheCeilingGiB),
      explicitFraction,
      headroomGiB: 0,
    },
  };
}

function sum(values: readonly number[]): number {
  return round3(values.reduce((total, value) => total + value, 0));
}

/** @param headroomGiB of each KV cache without a fraction of its own. */
function judge({ placement, terms, needGiB, errorGiB, claims: bare }: Measured, headroomGiB: number): Judged {
  const capacityGiB = round3(placement.capacityGiB);
  const claims = bare.map((claim) => ({ ...claim, headroomGiB: Math.floor(headroomGiB * 1000) / 1000 }));
  const byNeed = verdictOf(needGiB, errorGiB, capacityGiB);
  const shortages = byNeed === "doesNotFit" ? [] : cacheShortages(claims, capacityGiB, terms);
  const verdict = byNeed === "fits" && shortages.length > 0 ? "tight" : byNeed;
  return { placement, terms, needGiB, errorGiB, claims, capacityGiB, shortages, verdict };
}

/** Fractions are rounded down to hundredths: a cache this close to the promise is the rounded one. */
const SAME_SIZE = 0.95;

/** Sentences about KV caches that may end smaller than promised, because of the order in which models load. */
function cacheShortages(
  claims: readonly KvCacheClaim[],
  capacityGiB: number,
  terms: readonly SizedTerm[],
): readonly string[] {
  const fixedGiB = terms.reduce((total, { when, gib }) => (when === "cache" ? total : total + gib), 0);
  return claims.flatMap((claim) => {
    const leastGiB = leastCacheGiB(claims, claim, capacityGiB, fixedGiB);
    if (leastGiB >= claim.promisedGiB * SAME_SIZE) return [];
    return [
      `${claim.model}: if it loads last, its KV cache gets ${showGiB(leastGiB)} of the ${showGiB(claim.promisedGiB)} that concurrentRequests promises.`,
    ];
  });
}
