/** What the tenants of one GPU need together, and what each KV cache may claim. */
import { round3, showGiB } from "./numbers.ts";
import type { GpuTenant } from "./placement.ts";
import { type SizedTerm, type TenantNeed, tenantNeed } from "./terms.ts";
import type { KvCacheClaim } from "./types.ts";

/** TensorRT-LLM's own default: "90% of the remaining free GPU memory". https://nvidia.github.io/TensorRT-LLM/reference/memory.html */
export const LARGEST_FRACTION = 0.9;

/** Fractions have two decimals, so no cache can be told to take less than this of what is free. */
export const SMALLEST_FRACTION = 0.01;

export interface Measured {
  readonly terms: readonly SizedTerm[];
  readonly needGiB: number;
  /** Every term at its worst at once: what lies between "fits" and "does not fit". */
  readonly errorGiB: number;
  /** Without headroom, which depends on the whole pool. */
  readonly claims: readonly Omit<KvCacheClaim, "headroomGiB">[];
  /** Whether something else can load after a KV cache was sized: another tenant, or the visual engine. */
  readonly contested: boolean;
}

/** Needs of the tenants of one GPU with `capacityGiB`. */
export function measure(tenants: readonly GpuTenant[], capacityGiB: number): Measured {
  const needs = tenants.map(tenantNeed);
  const contested =
    tenants.length > 1 || needs.some((need) => need.terms.some((term) => term.when === "anyTime"));
  const measured = tenants.map((tenant, index) =>
    measureTenant(tenant, needs[index] as TenantNeed, capacityGiB, contested),
  );
  const terms = measured.flatMap((one) => one.terms);
  return {
    terms,
    needGiB: sum(terms.map((term) => term.gib)),
    errorGiB: sum(terms.map((term) => term.uncertaintyGiB)),
    claims: measured.flatMap((one) => one.claims),
    contested,
  };
}

/** Size of one tenant among others on a GPU with `capacityGiB`. */
export function sizeAmongOthersGiB(tenant: GpuTenant, capacityGiB: number): number {
  return sum(measureTenant(tenant, tenantNeed(tenant), capacityGiB, true).terms.map((term) => term.gib));
}

function measureTenant(
  tenant: GpuTenant,
  need: TenantNeed,
  capacityGiB: number,
  contested: boolean,
): Pick<Measured, "terms" | "claims"> {
  if (tenant.kind === "encoders" || need.kvCache === null) return { terms: need.terms, claims: [] };
  const { serving } = tenant.model;
  const loadedBeforeGiB = sum(need.terms.filter((term) => term.when === "before").map((term) => term.gib));
  const freeGiB = Math.max(0, capacityGiB - loadedBeforeGiB);
  const explicitFraction = serving.kvCacheFreeGpuMemoryFraction ?? null;
  const cacheGiB = sum(need.terms.filter((term) => term.when === "cache").map((term) => term.gib));
  const leastGiB = contested ? leastCacheGiB(explicitFraction, freeGiB, need.kvCache.ceilingGiB) : 0;
  const terms =
    leastGiB > cacheGiB
      ? need.terms.map((term) => grow(term, leastGiB, cacheGiB, growthReason(explicitFraction, freeGiB)))
      : need.terms;
  return {
    terms,
    claims: [
      {
        model: serving.name,
        loadedBeforeGiB,
        promisedGiB: sum(terms.filter((term) => term.when === "cache").map((term) => term.gib)),
        ceilingGiB: need.kvCache.ceilingGiB === null ? null : round3(need.kvCache.ceilingGiB),
        explicitFraction,
      },
    ],
  };
}

/** What a KV cache takes whatever was promised, where others need the rest. */
function leastCacheGiB(explicitFraction: number | null, freeGiB: number, ceilingGiB: number | null): number {
  return round3(Math.min((explicitFraction ?? SMALLEST_FRACTION) * freeGiB, ceilingGiB ?? Infinity));
}

function growthReason(explicitFraction: number | null, freeGiB: number): string {
  return explicitFraction === null
    ? `raised to ${SMALLEST_FRACTION} of ${showGiB(freeGiB)}, the least that a fraction can say`
    : `raised to ${explicitFraction} of ${showGiB(freeGiB)}, as kvCacheFreeGpuMemoryFraction sets`;
}

/** Raises a cache's term so that all of them together are `toGiB`; shares of an empty cache are those of its text. */
function grow(term: SizedTerm, toGiB: number, fromGiB: number, reason: string): SizedTerm {
  if (term.when !== "cache") return term;
  const share = fromGiB > 0 ? term.gib / fromGiB : Number(term.what === "kvCache");
  return { ...term, gib: round3(toGiB * share), arithmetic: `${term.arithmetic}; ${reason}` };
}

function sum(values: readonly number[]): number {
  return round3(values.reduce((total, value) => total + value, 0));
}
