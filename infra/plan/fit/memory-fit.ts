/**
 * Does what lands on a GPU fit it? Every process is counted with its weights, activations, KV cache, pools and CUDA
 * contexts; the sum is compared with what CUDA hands out, and the error of the estimate lies between "fits" and "does not
 * fit".
 */
import type { GpuStackSpec } from "../spec.ts";
import { alternatives } from "./alternatives.ts";
import type { MemoryFit } from "./types.ts";
import { verdicts } from "./verdicts.ts";

/** Every GPU of the stack, with the most that can land on it, in the order of the pools. */
export function memoryFit(stack: GpuStackSpec): readonly MemoryFit[] {
  return verdicts(stack).map(({ placement, measured, capacityGiB, claims, shortages, verdict }) => ({
    pool: placement.pool.name,
    gpu: placement.label,
    tenants: placement.tenants.map((tenant) => tenant.name),
    capacityGiB,
    terms: measured.terms.map(({ when: _when, ...term }) => term),
    needGiB: measured.needGiB,
    errorGiB: measured.errorGiB,
    verdict,
    kvCaches: claims,
    notes: shortages,
    alternatives: verdict === "fits" ? [] : alternatives(stack, placement),
  }));
}
