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

/** A part of the memory that a service takes at most, with all of its limits reached at the same time. */
export interface MemoryUse {
  /** A noun: what takes it. */
  readonly of: string;
  /** How many there are at most. */
  readonly count: number;
  readonly bytesEach: number;
  /** Where `bytesEach` comes from: the limit that says it, or how it was measured. */
  readonly source: string;
}

/** Bytes of all of them together. */
export function worstCaseBytes(uses: readonly MemoryUse[]): number {
  return uses.reduce((sum, { count, bytesEach }) => sum + count * bytesEach, 0);
}
