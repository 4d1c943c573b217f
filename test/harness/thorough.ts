/**
 * How much tests try. By default few cases, the same in every run, so that a change fails only for its own faults; with
 * ENGINE_ROOM_THOROUGH=1, as in the nightly workflow, many, drawn again each time.
 */
import fc from "fast-check";
import { afterAll, vi } from "vitest";

const { ENGINE_ROOM_PROPERTY_SEED: seed, ENGINE_ROOM_THOROUGH: wanted } = process.env;

/** Whether tests try much, as at night. */
export const isThorough = wanted === "1";

/**
 * @param usual - Number of cases, kills or rounds by default.
 * @param thorough - Number of them at night.
 */
export function times(usual: number, thorough: number): number {
  return isThorough ? thorough : usual;
}

/** Why the long tests in the browser are skipped by default; undefined at night. */
export const AT_NIGHT = isThorough
  ? undefined
  : "takes long; it runs at night and with ENGINE_ROOM_THOROUGH=1";

/** A failure prints its seed, which ENGINE_ROOM_PROPERTY_SEED takes. */
if (seed !== undefined) fc.configureGlobal({ seed: Number.parseInt(seed, 10) });
else if (!isThorough) fc.configureGlobal({ seed: 20_261_122 });

/** Stubs of a file's last test would otherwise last until the first test of the worker's next file has begun. */
afterAll(() => {
  vi.unstubAllEnvs();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});
