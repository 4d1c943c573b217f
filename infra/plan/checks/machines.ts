/** How messages name machines, and which other machines could be rented. */
import { counted, showValue } from "../../problems.ts";
import { gpus } from "../catalogue/gpus.ts";
import { machineTypes } from "../catalogue/machines.ts";
import { orderingHourlyUsd } from "../catalogue/prices.ts";
import type { Gpu, MachineType } from "../catalogue/types.ts";
import type { Shortage } from "../pool-space.ts";
import type { GpuStackSpec, ModelSpec, PoolSpec } from "../spec.ts";
import type { Finding } from "./check.ts";
import { gib } from "./shared-messages.ts";

/** How a message names a machine of a pool, and what runs on it. A Docker stack has one machine, its host. */
interface MachineWords {
  /** `a machine of gpu`, `the host` */
  readonly machine: string;
  /** `pods`, `containers` */
  readonly units: string;
  /** Key that describes it: `pools[0].instanceType`, `host.machine`. */
  readonly path: string;
}

export function machineWords({ runsOn }: GpuStackSpec, pool: PoolSpec): MachineWords {
  const path = `${pool.path}.${pool.instanceType === null ? "machine" : "instanceType"}`;
  return runsOn === "host"
    ? { machine: "the host", units: "containers", path }
    : { machine: `a machine of ${pool.name}`, units: "pods", path };
}

/** Where a machine is chosen for a model: by the name of its pool, or as the host. */
export function placeOf(
  model: ModelSpec,
  pool: PoolSpec,
  key: "pool" | "buildPool",
  spec: GpuStackSpec,
): Pick<Finding, "path" | "value"> {
  return spec.runsOn === "host"
    ? { path: machineWords(spec, pool).path }
    : { path: `${model.path}.${key}`, value: showValue(pool.name) };
}

/** `2.5 CPUs (1.5 free) and 8.0 GiB of memory (4.0 GiB free)` */
export function shortageWords(short: readonly Shortage[]): string {
  return short
    .map(({ resource, needed, free }) => {
      if (resource === "gpu") return `${counted(needed, "GPU")} (${free} free)`;
      if (resource === "cpu") return `${counted(needed / 1000, "CPU")} (${free / 1000} free)`;
      return `${gib(needed)} of memory (${gib(free)} free)`;
    })
    .join(" and ");
}

/** `CPUs and memory` */
export function shortNames(short: readonly Shortage[]): string {
  const names = { gpu: "GPUs", cpu: "CPUs", memory: "memory" };
  return short.map(({ resource }) => names[resource]).join(" and ");
}

/** Enough to choose from. */
const MOST_TYPES = 4;

/**
 * Names of instance types that satisfy a condition, cheapest first, those without a price last; at most four. Types whose
 * GPU TensorRT-LLM does not support are left out.
 */
export function cheapestTypes(
  region: string | null,
  suits: (type: MachineType) => boolean,
): readonly string[] {
  return Object.entries<MachineType>(machineTypes)
    .filter(([, type]) => isSupported(type.gpu) && suits(type))
    .map(([name]) => ({ name, price: orderingHourlyUsd(region, name) }))
    .sort((a, b) => a.price - b.price || (a.name < b.name ? -1 : 1))
    .slice(0, MOST_TYPES)
    .map(({ name }) => name);
}

function isSupported(gpu: string): boolean {
  const rows: Readonly<Record<string, Gpu>> = gpus;
  return rows[gpu]?.supported === true;
}

/** GPUs of instance types that TensorRT-LLM supports, with a number format if one is named, in the order of the GPU table. */
export function rentableGpus(format?: Gpu["formats"][number]): readonly string[] {
  const rented = new Set(Object.values<MachineType>(machineTypes).map(({ gpu }) => gpu));
  return Object.entries<Gpu>(gpus)
    .filter(([name]) => isSupported(name) && rented.has(name))
    .filter(([, { formats }]) => format === undefined || formats.includes(format))
    .map(([name]) => name);
}

/** Types with at least so many GPUs, of one kind if it is named. */
export function typesWithGpus(least: number, gpu: string | null, region: string | null): readonly string[] {
  return cheapestTypes(region, (type) => type.gpus >= least && (gpu === null || type.gpu === gpu));
}

/**
 * The fix for a machine that is too small.
 *
 * @param types - Instance types that are large enough.
 * @param what - The missing resource: `memory`.
 * @param pool - Its machine may be described by its parts: then no instance type is needed.
 * @param lead - How the sentence begins.
 */
export function useLarger(types: readonly string[], what: string, pool: PoolSpec, lead = "Use"): string {
  const names = types.join(", ");
  if (pool.instanceType === null)
    return `Use a machine with more ${what}${names === "" ? "" : `, such as ${names}`}.`;
  return names === ""
    ? "No instance type of the catalogue with this GPU is large enough; use another GPU."
    : `${lead} one of ${names}.`;
}
