/** Whether all processes on a GPU fit its memory, and changes of the stack file with which they would. */
import { onDemandHourlyUsd, orderingHourlyUsd, PRICE_REGIONS } from "../catalogue/prices.ts";
import { poolHourlyUsd } from "../cost/pool-price.ts";
import type { GpuStackSpec } from "../spec.ts";
import { comparePrices, fittingChanges } from "./changes.ts";
import type { Placement } from "./placement.ts";
import type { Alternative, MemoryFit } from "./types.ts";
import { verdicts } from "./verdicts.ts";

/** Every GPU of the stack, with the most that can land on it, in the order of the pools. */
export function memoryFit(stack: GpuStackSpec): readonly MemoryFit[] {
  return verdicts(stack).map(({ placement, terms, claims, shortages, ...judged }) => ({
    ...judged,
    pool: placement.pool.name,
    gpu: placement.label,
    tenants: placement.tenants.map(({ name }) => name),
    terms: terms.map(({ when: _, ...term }) => term),
    kvCaches: claims,
    notes: shortages,
    alternatives: judged.verdict === "fits" ? [] : alternatives(stack, placement),
  }));
}

/** Enough to choose from. */
const MOST_ALTERNATIVES = 6;

/** Places that settings leave to machines, and machines to settings, where there are many of both. */
const MOST_SETTINGS = 3;

/**
 * Changes of one thing each that make the placement fit with the estimate's whole error to spare: settings of the stack file
 * such as a quantization or fewer promised requests, and other machines, which hold the pool's servers and builds as well.
 *
 * Ranked by the machine's hourly price in the stack's region. Where that is not known, settings come first, as they cost
 * nothing, and machines follow in the order of us-east-1's prices, which are not shown. Among settings of the same price,
 * the one that changes least is first.
 */
function alternatives(stack: GpuStackSpec, placement: Placement): readonly Alternative[] {
  const { region } = stack;
  const isPriced = region !== null && PRICE_REGIONS.includes(region);
  const ownUsd = poolHourlyUsd(stack, placement.pool);
  const ranked = fittingChanges(stack, placement)
    .map(({ instanceType, ...change }) =>
      instanceType === undefined
        ? {
            ...change,
            isSetting: true,
            instanceType: placement.pool.instanceType,
            hourlyUsd: ownUsd,
            orderUsd: isPriced ? (ownUsd ?? 0) : 0,
          }
        : {
            ...change,
            isSetting: false,
            instanceType,
            hourlyUsd: region === null ? null : onDemandHourlyUsd(region, instanceType),
            orderUsd: orderingHourlyUsd(region, instanceType),
          },
    )
    .sort(
      (a, b) =>
        comparePrices(a.orderUsd, b.orderUsd) || a.givesUp - b.givesUp || (a.change < b.change ? -1 : 1),
    );
  const settings = ranked.filter(({ isSetting }) => isSetting);
  const machines = ranked.filter(({ isSetting }) => !isSetting);
  const kept = settings.slice(0, Math.max(MOST_SETTINGS, MOST_ALTERNATIVES - machines.length));
  const shown = new Set([...kept, ...machines.slice(0, MOST_ALTERNATIVES - kept.length)]);
  return ranked
    .filter((alternative) => shown.has(alternative))
    .map(({ change, instanceType, hourlyUsd }) => ({ change, instanceType, hourlyUsd }));
}
