/** Random numbers that a seed repeats. */

export interface Random {
  /** A whole number from 0 to below `end`. */
  below(end: number): number;
}

/** mulberry32, by Tommy Ettinger, public domain. */
export function randomOf(seed: number): Random {
  let state = seed >>> 0;
  return {
    below(end) {
      state = (state + 0x6d2b79f5) >>> 0;
      let mixed = Math.imul(state ^ (state >>> 15), state | 1);
      mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
      return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * end);
    },
  };
}

/** The seed of CRASH_SEED, or another one each time; printed, so that a failure can be repeated. */
export function printedSeed(): number {
  const seed = Number(process.env.CRASH_SEED ?? Math.floor(Math.random() * 2 ** 32));
  console.log(`CRASH_SEED=${seed}`);
  return seed;
}
