/**
 * Does what lands on a GPU fit it? Every process is counted with its weights, activations, KV cache, pools and CUDA
 * contexts; the sum is compared with what CUDA hands out, and the error of the estimate lies between "fits" and "does not
 * fit".
 */
import { onDemandHourlyUsd, orderingHourlyUsd, PRICE_REGIONS } from "../catalogue/prices.ts";
import { poolHourlyUsd } from "../cost/pool-price.ts";
import type { GpuStackSpec } from "../spec.ts";
import { type Change, comparePrices, machineChanges, settingChanges } from "./changes.ts";
import type { Placement } from "./placement.ts";
import type { Alternative, MemoryFit } from "./types.ts";
import { verdicts } from "./verdicts.ts";

/** Every GPU of the stack, with the most that can land on it, in the order of the pools. */
export function memoryFit(stack: GpuStackSpec): readonly MemoryFit[] {
  return verdicts(stack).map(({ placement, terms, claims, shortages, ...judged }) => ({
    pool: placement.pool.name,
    gpu: placement.label,
    tenants: placement.tenants.map(({ name }) => name),
    capacityGiB: judged.capacityGiB,
    terms: terms.map(({ when: _, ...term }) => term),
    needGiB: judged.needGiB,
    errorGiB: judged.errorGiB,
    verdict: judged.verdict,
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
  const { pool, gpu } = placement;
  const { region } = stack;
  const isPriced = region !== null && PRICE_REGIONS.includes(region);
  const hourlyUsd = poolHourlyUsd(stack, pool);
  // No setting makes a server run on a GPU that TensorRT-LLM does not support.
  const settings = ranked(gpu.supported ? settingChanges(stack, placement) : [], () => ({
    hourlyUsd,
    orderUsd: isPriced ? (hourlyUsd ?? 0) : 0,
  }));
  const machines = ranked(machineChanges(stack, placement), (instanceType) => ({
    hourlyUsd: region === null || instanceType === null ? null : onDemandHourlyUsd(region, instanceType),
    orderUsd: orderingHourlyUsd(region, instanceType ?? ""),
  }));
  const kept = settings.slice(0, Math.max(MOST_SETTINGS, MOST_ALTERNATIVES - machines.length));
  return [...kept, ...machines.slice(0, MOST_ALTERNATIVES - kept.length)]
    .sort(byRank)
    .map(({ change, instanceType, hourlyUsd: usd }) => ({ change, instanceType, hourlyUsd: usd }));
}

interface Ranked extends Alternative {
  readonly orderUsd: number;
  readonly givesUp: number;
}

function ranked(
  changes: readonly Change[],
  price: (instanceType: string | null) => Pick<Ranked, "hourlyUsd" | "orderUsd">,
): readonly Ranked[] {
  return changes
    .map(({ change, instanceType, givesUp }) => ({ change, instanceType, givesUp, ...price(instanceType) }))
    .sort(byRank);
}

function byRank(a: Ranked, b: Ranked): number {
  return comparePrices(a.orderUsd, b.orderUsd) || a.givesUp - b.givesUp || (a.change < b.change ? -1 : 1);
}
