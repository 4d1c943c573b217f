/** A cap on what a stack may cost, where the cost is not known. */
import { SYSTEM_POOL } from "../aws/names.ts";
import type { CostPlan } from "./types.ts";

/**
 * @param hourlyUsdCap - US dollars.
 * @param withoutPrice - As {@link CostPlan.withoutPrice} names it; none where only its number is missing.
 */
export function unjudgedCap(
  hourlyUsdCap: number,
  withoutPrice: CostPlan["withoutPrice"],
): { readonly reason: string; readonly fix: string } {
  const what = withoutPrice.length === 0 ? "what the stack pays for" : withoutPrice.join(", ");
  const pools = withoutPrice.filter((name) => name.startsWith("pool ") && name !== `pool ${SYSTEM_POOL}`);
  const keys = [
    ...(pools.length > 0 || withoutPrice.length === 0 ? ["hourlyUsd of each pool"] : []),
    ...(pools.length < withoutPrice.length ? ["otherHourlyUsd for all else together"] : []),
  ];
  return {
    reason: `Whether the stack costs less than its cap of ${hourlyUsdCap.toFixed(2)} USD an hour can't be judged: there is no price of ${what}.`,
    fix: `Write what an hour costs: ${keys.join(" and ")}.`,
  };
}
