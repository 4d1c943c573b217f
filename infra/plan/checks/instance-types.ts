/** Which machines could be rented instead. */
import { gpus } from "../catalogue/gpus.ts";
import { machineTypes } from "../catalogue/machines.ts";
import { onDemandHourlyUsd } from "../catalogue/prices.ts";
import type { Gpu, MachineType } from "../catalogue/types.ts";

/** Prices that rank instance types where a stack has no region of its own. */
const REGION_OF_RANKING = "us-east-1";

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
    .map(([name]) => ({ name, price: onDemandHourlyUsd(region ?? REGION_OF_RANKING, name) ?? Infinity }))
    .sort((a, b) => a.price - b.price || (a.name < b.name ? -1 : 1))
    .slice(0, MOST_TYPES)
    .map(({ name }) => name);
}

/** Types with at least so many GPUs, of one kind where it is named. */
export function typesWithGpus(count: number, gpu: string | null, region: string | null): readonly string[] {
  return cheapestTypes(region, (type) => type.gpus >= count && (gpu === null || type.gpu === gpu));
}
