/** Verdict of every GPU of a stack, and the KV cache that each model gets there. */
import type { GpuStackSpec, PoolSpec } from "../spec.ts";
import { round3, showGiB } from "../units.ts";
import { isMixed, type Placement, placements } from "./placement.ts";
import type { GpuTenant, MemoryTerm } from "./terms.ts";

export type Verdict = "fits" | "tight" | "doesNotFit";

/** One pod's KV cache on a GPU. */
interface KvCacheClaim {
  /** Name of the model in the stack. */
  readonly model: string;
  /** Weights, activations, CUDA context and pool of this pod, loaded when it sizes the cache. */
  readonly loadedBeforeGiB: number;
  /** Cache for `concurrentRequests`, cross attention included. */
  readonly promisedGiB: number;
  /** `maxTokensInPagedKvCache` as memory; null if only the fraction limits the cache. */
  readonly ceilingGiB: number | null;
  /** `kvCacheFreeGpuMemoryFraction` of the stack file; null: derived. */
  readonly explicitFraction: number | null;
  /** Fraction of the memory that is free when the cache is sized. */
  readonly fraction: number;
}

/** One GPU (or partition), with all that lands on it. All in GiB. */
export interface GpuFit {
  readonly pool: string;
  /** `A10G 22.35 GiB`, with partition or share. */
  readonly gpu: string;
  readonly tenants: readonly string[];
  /** Without the driver's part. */
  readonly capacityGiB: number;
  readonly terms: readonly MemoryTerm[];
  readonly needGiB: number;
  /** Every term at its worst at once: the distance between "fits" and "does not fit". */
  readonly errorGiB: number;
  readonly verdict: Verdict;
  /** One for each language model on it. */
  readonly kvCaches: readonly KvCacheClaim[];
  /** Sentences about KV caches that may end smaller than promised, because of the order in which models load. */
  readonly notes: readonly string[];
}

/** Verdict of a need: `tight` within the error of the capacity, either way. */
export function verdictOf(needGiB: number, errorGiB: number, capacityGiB: number): Verdict {
  if (needGiB + errorGiB <= capacityGiB) return "fits";
  return needGiB - errorGiB <= capacityGiB ? "tight" : "doesNotFit";
}

/** TensorRT-LLM's own default: "90% of the remaining free GPU memory". https://nvidia.github.io/TensorRT-LLM/reference/memory.html */
const LARGEST_FRACTION = 0.9;

/** Fractions have two decimals, so no cache can be told to take less than this of the free memory. */
const SMALLEST_FRACTION = 0.01;

/** Fractions are rounded down to hundredths: a cache this close to the promise is the rounded one. */
const SAME_SIZE = 0.95;

/** Every GPU of a pool, with the most that can land on it; if pods are mixed, the worst mix first. */
export function poolFits(stack: GpuStackSpec, pool: PoolSpec): readonly GpuFit[] {
  const measured = placements(stack, pool, (tenant, capacityGiB) =>
    sumGiB(withLeastCache(tenant, capacityGiB)),
  ).map(measure);
  // All mixes get the share that the worst one has: the sum then holds for every mix.
  const mix = isMixed(stack, pool) ? measured[0]?.placement.tenants.length : undefined;
  const leastSpareGiB = Math.min(...measured.map(({ spareGiB }) => spareGiB));
  return measured.map((needs) => {
    const derived = needs.claims.filter(({ explicitFraction }) => explicitFraction === null).length;
    const headroomGiB = mix === undefined ? needs.spareGiB / Math.max(1, derived) : leastSpareGiB / mix;
    return judge(pool.name, needs, Math.floor(headroomGiB * 1000) / 1000);
  });
}

/**
 * Needs of the tenants of one GPU. `spareGiB` is the memory left when all needs are met, less the estimate's error if
 * something else can load after a KV cache was sized: another tenant, or the visual engine.
 */
function measure(placement: Placement) {
  const { tenants, capacityGiB } = placement;
  const isContested =
    tenants.length > 1 || tenants.some(({ terms }) => terms.some(({ when }) => when === "anyTime"));
  const parts = tenants.map((tenant) => ({
    ...tenant,
    terms: isContested ? withLeastCache(tenant, capacityGiB) : tenant.terms,
  }));
  const terms = parts.flatMap((tenant) => tenant.terms);
  const needGiB = sumGiB(terms);
  const errorGiB = round3(terms.reduce((sum, { uncertaintyGiB }) => sum + uncertaintyGiB, 0));
  const claims = parts.flatMap(({ model, terms: own, cacheCeilingGiB: ceilingGiB }) =>
    model === null
      ? []
      : {
          model: model.serving.name,
          loadedBeforeGiB: sumGiB(own, "before"),
          promisedGiB: sumGiB(own, "cache"),
          ceilingGiB,
          explicitFraction: model.serving.kvCacheFreeGpuMemoryFraction ?? null,
        },
  );
  const spareGiB = Math.max(0, capacityGiB - needGiB - (isContested ? errorGiB : 0));
  return { placement, terms, needGiB, errorGiB, spareGiB, claims };
}

/** Terms of a tenant beside others: its cache takes a least share of the free memory whatever was promised. */
function withLeastCache(
  { model, terms, cacheCeilingGiB }: GpuTenant,
  capacityGiB: number,
): readonly MemoryTerm[] {
  if (model === null) return terms;
  const explicit = model.serving.kvCacheFreeGpuMemoryFraction;
  const fraction = explicit ?? SMALLEST_FRACTION;
  const freeGiB = Math.max(0, capacityGiB - sumGiB(terms, "before"));
  const leastGiB = round3(Math.min(fraction * freeGiB, cacheCeilingGiB ?? Infinity));
  const cacheGiB = sumGiB(terms, "cache");
  if (leastGiB <= cacheGiB) return terms;
  const reason =
    explicit === undefined ? "the least that a fraction can say" : "as kvCacheFreeGpuMemoryFraction sets";
  return terms.map((term) => {
    if (term.when !== "cache") return term;
    const share = cacheGiB > 0 ? term.gib / cacheGiB : Number(term.what === "kvCache");
    return {
      ...term,
      gib: round3(leastGiB * share),
      arithmetic: `${term.arithmetic}; raised to ${fraction} of ${showGiB(freeGiB)}, ${reason}`,
    };
  });
}

function sumGiB(terms: readonly MemoryTerm[], when?: MemoryTerm["when"]): number {
  return round3(
    terms.reduce((sum, term) => (when === undefined || term.when === when ? sum + term.gib : sum), 0),
  );
}

/** @param headroomGiB of each KV cache without a fraction of its own. */
function judge(pool: string, needs: ReturnType<typeof measure>, headroomGiB: number): GpuFit {
  const { placement, terms, needGiB, errorGiB, claims } = needs;
  const capacityGiB = round3(placement.capacityGiB);
  const kvCaches = claims.map((claim) => ({
    ...claim,
    fraction:
      claim.explicitFraction ??
      fractionFor(claim.promisedGiB + headroomGiB, capacityGiB - claim.loadedBeforeGiB),
  }));
  const byNeed = verdictOf(needGiB, errorGiB, capacityGiB);
  const fixedGiB = terms.reduce((total, { when, gib }) => (when === "cache" ? total : total + gib), 0);
  const notes = byNeed === "doesNotFit" ? [] : cacheShortages(kvCaches, capacityGiB, fixedGiB);
  const verdict = byNeed === "fits" && notes.length > 0 ? "tight" : byNeed;
  const tenants = placement.tenants.map(({ name }) => name);
  const gpu = placement.label;
  return { pool, gpu, tenants, capacityGiB, terms, needGiB, errorGiB, verdict, kvCaches, notes };
}

/** Two decimals, rounded down. */
function fractionFor(cacheGiB: number, freeGiB: number): number {
  if (freeGiB <= 0) return SMALLEST_FRACTION;
  // The addend keeps 0.29 from becoming 0.28 by way of 28.999999999999996.
  const roundedDown = Math.floor((cacheGiB / freeGiB) * 100 + 1e-9) / 100;
  return Math.min(LARGEST_FRACTION, Math.max(SMALLEST_FRACTION, roundedDown));
}

/** A cache is smallest when its model loads last, and every other cache took the most that it may. */
function cacheShortages(
  claims: readonly KvCacheClaim[],
  capacityGiB: number,
  fixedGiB: number,
): readonly string[] {
  const cacheGiB = ({ fraction, ceilingGiB }: KvCacheClaim, freeGiB: number) =>
    Math.min(fraction * Math.max(0, freeGiB), ceilingGiB ?? Infinity);
  return claims.flatMap((claim) => {
    const othersGiB = claims
      .filter((other) => other !== claim)
      .reduce((sum, other) => sum + cacheGiB(other, capacityGiB - other.loadedBeforeGiB), 0);
    const leastGiB = cacheGiB(claim, capacityGiB - fixedGiB - othersGiB);
    if (leastGiB >= claim.promisedGiB * SAME_SIZE) return [];
    return [
      `${claim.model}: if it loads last, its KV cache gets ${showGiB(leastGiB)} of the ${showGiB(claim.promisedGiB)} that concurrentRequests promises.`,
    ];
  });
}

/**
 * `kv_cache_free_gpu_mem_fraction` of each language model of the stack by name: a fraction of the memory that is free when
 * TensorRT-LLM sizes its KV cache. Two decimals, rounded down, between 0.01 and 0.90; a value of the stack file is taken as it
 * is. A model on several GPUs has the least value that any of them allows.
 *
 * Models of one GPU load in no fixed order, and the first one sees the whole GPU: the sum of
 * `loadedBefore + fraction × (capacity - loadedBefore)` stays below the capacity in any order.
 */
export function kvCacheFractions(fits: readonly GpuFit[]): ReadonlyMap<string, number> {
  const fractions = new Map<string, number>();
  for (const { model, fraction } of fits.flatMap(({ kvCaches }) => kvCaches)) {
    fractions.set(model, Math.min(fraction, fractions.get(model) ?? 1));
  }
  return fractions;
}
