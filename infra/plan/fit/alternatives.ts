/** What would hold the tenants of a GPU that is too small, what costs least first. */
import { onDemandHourlyUsd, orderingHourlyUsd, PRICE_REGIONS } from "../catalogue/prices.ts";
import { poolHourlyUsd } from "../cost/pool-price.ts";
import type { GpuStackSpec } from "../spec.ts";
import { situationOf } from "./changed-stack.ts";
import { compare, machineChanges, settingChanges } from "./changes.ts";
import type { Placement } from "./placement.ts";
import type { Alternative } from "./types.ts";

/** Enough to choose from; a table of every instance type is the price table. */
const MOST_ALTERNATIVES = 6;

/** Places that settings leave to machines, and machines to settings, where there are many of both. */
const MOST_SETTINGS = 3;

interface Ranked extends Alternative {
  readonly orderUsd: number;
  readonly givesUp: number;
}

/**
 * Changes of one thing each that make the placement fit with the estimate's whole error to spare: settings of the stack file
 * such as a quantization or fewer promised requests, and other machines, which hold the pool's servers and builds as well.
 *
 * Ranked by the machine's hourly price in the stack's region. Where that is not known, settings come first, as they cost
 * nothing, and machines follow in the order of us-east-1's prices, which are not shown. Among settings of the same price,
 * the one that changes least is first.
 */
export function alternatives(stack: GpuStackSpec, placement: Placement): readonly Alternative[] {
  const situation = situationOf(stack, placement);
  const { pool } = placement;
  const { region } = stack;
  const isPriced = region !== null && PRICE_REGIONS.includes(region);
  const hourlyUsd = poolHourlyUsd(stack, pool);
  // No setting makes a server run on a GPU that TensorRT-LLM does not support.
  const settings = (placement.gpu.supported ? settingChanges(situation) : [])
    .map(
      ({ change, givesUp }): Ranked => ({
        change,
        instanceType: pool.instanceType,
        hourlyUsd,
        orderUsd: isPriced ? (hourlyUsd ?? 0) : 0,
        givesUp,
      }),
    )
    .sort(byRank);
  const machines = machineChanges(situation)
    .map(
      ({ change, instanceType }): Ranked => ({
        change,
        instanceType,
        hourlyUsd: region === null ? null : onDemandHourlyUsd(region, instanceType),
        orderUsd: orderingHourlyUsd(region, instanceType),
        givesUp: 0,
      }),
    )
    .sort(byRank);
  const kept = settings.slice(0, Math.max(MOST_SETTINGS, MOST_ALTERNATIVES - machines.length));
  return [...kept, ...machines.slice(0, MOST_ALTERNATIVES - kept.length)]
    .sort(byRank)
    .map(({ orderUsd: _orderUsd, givesUp: _givesUp, ...alternative }) => alternative);
}

function byRank(a: Ranked, b: Ranked): number {
  return compare(a.orderUsd, b.orderUsd) || a.givesUp - b.givesUp || (a.change < b.change ? -1 : 1);
}
