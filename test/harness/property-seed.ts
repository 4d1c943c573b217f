/**
 * Properties try the same cases in every run, so that a change fails for what it changed and not for what nobody had tried
 * before. What nobody has tried is tried each night (.github/workflows/properties.yml).
 */
import fc from "fast-check";

const SEED = 20_261_122;

const { ENGINE_ROOM_PROPERTY_SEED: wanted = String(SEED) } = process.env;

/** `random`: cases that no run had before. A failure prints its seed. */
if (wanted !== "random") fc.configureGlobal({ seed: Number.parseInt(wanted, 10) });
