/** Money as every report writes it. */
import { figure } from "./text-table.ts";

/** Digits behind the point: machines cost tenths of a cent an hour. */
export const HOURLY_DIGITS = 3;
export const SUM_DIGITS = 2;

export const NO_PRICE = "no price";

/** An amount of US dollars. @param amount - null: no price is known. */
export function usd(amount: number | null, digits: number): string {
  return amount === null ? NO_PRICE : `$${figure(amount, digits)}`;
}

/** A sum, which is a lower bound where a part has no price; that of nothing tells nobody anything. @param amount - null: no part has one. */
export function sumUsd(amount: number | null, digits: number, isAtLeast: boolean): string {
  if (!isAtLeast) return usd(amount, digits);
  return amount === null || amount === 0 ? NO_PRICE : `at least ${usd(amount, digits)}`;
}
