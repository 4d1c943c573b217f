/** A service's limits, in a form that the service and docs/limits.md both read. */

/** A limit; its unit is the end of its name: Bytes, Seconds, or a number of things. */
export interface Limit {
  readonly value: number;
  /** A sentence: what is limited, and what happens beyond it. */
  readonly means: string;
}

/** The numbers only, as the service uses them and tests replace them. */
export type LimitValues<Limits> = { readonly [Name in keyof Limits]: number };

export function limitValues<const Limits extends Readonly<Record<string, Limit>>>(
  limits: Limits,
): LimitValues<Limits> {
  const values = Object.entries(limits).map(([name, { value }]) => [name, value]);
  return Object.fromEntries(values) as LimitValues<Limits>;
}

/** A part of a service's maximum memory, with all limits reached at the same time. */
export interface MemoryUse {
  /** A noun. */
  readonly of: string;
  /** Maximum number. */
  readonly count: number;
  readonly bytesEach: number;
  /** Source of `bytesEach`: a limit, or a measurement. */
  readonly source: string;
}

/** Sum of all bytes. */
export function worstCaseBytes(uses: readonly MemoryUse[]): number {
  return uses.reduce((sum, { count, bytesEach }) => sum + count * bytesEach, 0);
}
