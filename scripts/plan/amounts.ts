/** Amounts of money, in the form of all reports. */
import type { GpuCost } from "../../infra/plan/cost/types.ts";
import { figure } from "./text-table.ts";

/** Digits behind the point: machines cost tenths of a cent an hour. */
export const HOURLY_DIGITS = 3;
export const SUM_DIGITS = 2;

export const NO_PRICE = "no price";

/** An amount of US dollars. @param amount - Null without a price. */
export function usd(amount: number | null, digits: number): string {
  return amount === null ? NO_PRICE : `$${figure(amount, digits)}`;
}

/**
 * A sum, which is a lower bound if a part has no price; a lower bound of 0 is shown as no price.
 * @param amount - Null when no part has a price.
 */
export function sumUsd(amount: number | null, digits: number, isAtLeast: boolean): string {
  if (!isAtLeast) return usd(amount, digits);
  return amount === null || amount === 0 ? NO_PRICE : `at least ${usd(amount, digits)}`;
}

/** Whether amounts by the hour are lower bounds. */
export function isLowerBound({
  withoutPrice,
  notIncluded,
}: Pick<GpuCost, "withoutPrice" | "notIncluded">): boolean {
  return withoutPrice.length > 0 || notIncluded.length > 0;
}

/** Cost of an hour after `npx engine-room sleep`. */
export function asleepHour(cost: Pick<GpuCost, "asleepHourlyUsd" | "withoutPrice" | "notIncluded">): string {
  return sumUsd(cost.asleepHourlyUsd, HOURLY_DIGITS, isLowerBound(cost));
}
