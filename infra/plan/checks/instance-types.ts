/** Which machines could be rented instead. */
import { gpus } from "../catalogue/gpus.ts";
import { machineTypes } from "../catalogue/machines.ts";
import { orderingHourlyUsd } from "../catalogue/prices.ts";
import type { Gpu, MachineType } from "../catalogue/types.ts";
import type { PoolSpec } from "../spec.ts";

/** Enough to choose from. */
const MOST_TYPES = 4;

/**
 * Names of instance types that satisfy a condition, cheapest first, those without a price last; at most four. Types whose
 * GPU TensorRT-LLM does not support are left out.
 */
export function cheapestTypes(
  region: string | null,
  suits: (type: MachineType, gpu: Gpu) => boolean,
): readonly string[] {
  const rows: Readonly<Record<string, Gpu>> = gpus;
  return Object.entries<MachineType>(machineTypes)
    .filter(([, type]) => {
      const gpu = rows[type.gpu];
      return gpu?.supported === true && suits(type, gpu);
    })
    .map(([name]) => ({ name, price: orderingHourlyUsd(region, name) }))
    .sort((a, b) => a.price - b.price || (a.name < b.name ? -1 : 1))
    .slice(0, MOST_TYPES)
    .map(({ name }) => name);
}

/** GPUs of instance types that TensorRT-LLM supports, with a number format where one is named, in the order of the GPU table. */
export function rentableGpus(format?: Gpu["formats"][number]): readonly string[] {
  const rented = new Set(Object.values<MachineType>(machineTypes).map(({ gpu }) => gpu));
  return Object.entries<Gpu>(gpus)
    .filter(
      ([name, { supported, formats }]) =>
        supported && rented.has(name) && (format === undefined || formats.includes(format)),
    )
    .map(([name]) => name);
}

/** Types with at least so many GPUs, of one kind where it is named. */
export function typesWithGpus(count: number, gpu: string | null, region: string | null): readonly string[] {
  return cheapestTypes(region, (type) => type.gpus >= count && (gpu === null || type.gpu === gpu));
}

/**
 * The fix for a machine that is too small.
 *
 * @param types - Instance types that are large enough.
 * @param what - What it has too little of: `memory`.
 * @param pool - Its machine may be described by its parts: then a number is too small, and no instance type needed.
 * @param lead - How the sentence begins.
 */
export function useLarger(
  types: readonly string[],
  what: string,
  { instanceType }: Pick<PoolSpec, "instanceType">,
  lead = "Use",
): string {
  const named = types.length === 0 ? null : `${lead} one of ${types.join(", ")}.`;
  if (instanceType === null)
    return `Use a machine with more ${what}${named === null ? "" : `, such as ${types.join(", ")}`}.`;
  return named ?? "No instance type of the catalogue with this GPU is large enough; use another GPU.";
}
