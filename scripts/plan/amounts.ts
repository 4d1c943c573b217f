/** Money as every report writes it. */
import { knownSum } from "../../infra/plan/cost/cost.ts";
import type { GpuCost } from "../../infra/plan/cost/types.ts";
import type { GpuStackSpec, PoolSpec } from "../../infra/plan/spec.ts";
import { figure } from "./text-table.ts";

/** Digits behind the point: machines cost tenths of a cent an hour. */
export const HOURLY_DIGITS = 3;
export const SUM_DIGITS = 2;

export const NO_PRICE = "no price";

/** Of a machine that the stack file calls its user's own, without a price: a plan counts it as 0. */
export const NOT_PRICED = "not priced";

/** An amount of US dollars. @param amount - null: no price is known. */
export function usd(amount: number | null, digits: number): string {
  return amount === null ? NO_PRICE : `$${figure(amount, digits)}`;
}

/** A sum, which is a lower bound where a part has no price; a lower bound of 0 is shown as no price. @param amount - null: no part has one. */
export function sumUsd(amount: number | null, digits: number, isAtLeast: boolean): string {
  if (!isAtLeast) return usd(amount, digits);
  return amount === null || amount === 0 ? NO_PRICE : `at least ${usd(amount, digits)}`;
}

/** All builds together: a lower bound where one of them has no price. */
export function buildSum(builds: readonly { readonly usd: number | null }[]): string {
  const prices = builds.map((build) => build.usd);
  return sumUsd(knownSum(prices), SUM_DIGITS, prices.includes(null));
}

/** An hour of what is left after `npx engine-room sleep`. */
export function asleepHour({
  asleepHourlyUsd,
  withoutPrice,
  besides,
}: Pick<GpuCost, "asleepHourlyUsd" | "withoutPrice" | "besides">): string {
  return sumUsd(asleepHourlyUsd, HOURLY_DIGITS, withoutPrice.length > 0 || besides.length > 0);
}

/** Whether the machines of a pool are the user's own, without a price. */
export function isNotPriced({ capacity, hourlyUsd }: PoolSpec): boolean {
  return capacity === "owned" && hourlyUsd === undefined;
}

/** Whether nothing of a stack is priced. */
export function isWhollyUnpriced({ pools, isRented }: GpuStackSpec): boolean {
  return !isRented && pools.every(isNotPriced);
}
