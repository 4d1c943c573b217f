/** Money as every report writes it. */
import { figure } from "./text-table.ts";

/** Digits behind the point: machines cost tenths of a cent an hour. */
export const HOURLY_DIGITS = 3;
export const SUM_DIGITS = 2;

const NO_PRICE = "no price";

/** An amount of US dollars. @param amount - null: no price is known. */
export function usd(amount: number | null, digits: number): string {
  return amount === null ? NO_PRICE : `$${figure(amount, digits)}`;
}

/** How to write a sum: of parts without a price it is a lower bound, and of none at all no amount. */
export function sumUsd(parts: readonly (number | null)[]): (amount: number, digits: number) => string {
  if (parts.every((part) => part === null)) return () => NO_PRICE;
  return (amount, digits) => `${parts.includes(null) ? "at least " : ""}${usd(amount, digits)}`;
}
