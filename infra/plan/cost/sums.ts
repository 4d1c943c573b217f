/** Sums of amounts of which some are not known. */

/** 365 × 24 ÷ 12: what prices by the month are converted with. */
export const HOURS_PER_MONTH = 730;

/** Sum of what is known; null where there is something, and nothing of it is known: that is no zero. */
export function knownSum(amounts: readonly (number | null)[]): number | null {
  const known = amounts.filter((amount) => amount !== null);
  if (known.length === 0 && amounts.length > 0) return null;
  return known.reduce((sum, amount) => sum + amount, 0);
}

/** Hundredths of a cent: what hourly prices are quoted in. */
export function tenThousandths(usd: number): number {
  return Math.round(usd * 10_000) / 10_000;
}

/** A month of an hourly amount, in cents. */
export function monthOf(hourlyUsd: number | null): number | null {
  return hourlyUsd === null ? null : Math.round(hourlyUsd * HOURS_PER_MONTH * 100) / 100;
}
