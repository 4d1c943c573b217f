/** Moments and values that look random, and are the same for the same seed. */
import { isThorough } from "./thorough.ts";

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

/** The seed of ENGINE_ROOM_PROPERTY_SEED; else the same in every run, and at night another one each time. */
export function printedSeed(): number {
  const { ENGINE_ROOM_PROPERTY_SEED: given } = process.env;
  const usual = isThorough ? Math.floor(Math.random() * 2 ** 32) : 20_261_122;
  const seed = given === undefined ? usual : Number(given);
  console.log(`ENGINE_ROOM_PROPERTY_SEED=${seed}`);
  return seed;
}
