/** Words that messages of several checks have in common. */
import { showValue } from "../../problems.ts";
import type { Shortage } from "../pool-space.ts";
import type { GpuStackSpec, ModelSpec, PoolSpec } from "../spec.ts";
import type { Remark } from "./finding.ts";

/** `1, 2 or 4` */
export function oneOf(values: readonly (string | number)[]): string {
  const [last, ...others] = values.toReversed();
  return others.length === 0 ? String(last) : `${others.toReversed().join(", ")} or ${last}`;
}

/** `1 GPU`, `2 GPUs` */
export function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}

/** `Use 4 or less`; where nothing is less than 1: `Use 1`. */
export function atMost(number: number): string {
  return number <= 1 ? `Use ${number}` : `Use ${number} or less`;
}

/** How a message calls a machine of a pool, and what runs on it. A Docker stack has one machine, its host. */
interface MachineWords {
  /** `a machine of gpu`, `the host` */
  readonly machine: string;
  /** `gpu`, `the host` */
  readonly pool: string;
  /** What runs on it: `pods`, `containers`. */
  readonly units: string;
  /** Key that says what machine it is: `pools[0].instanceType`, `host.machine`. */
  readonly path: string;
}

export function machineWords({ runsOn }: Pick<GpuStackSpec, "runsOn">, pool: PoolSpec): MachineWords {
  const path = `${pool.path}.${pool.instanceType === null ? "machine" : "instanceType"}`;
  return runsOn === "host"
    ? { machine: "the host", pool: "the host", units: "containers", path }
    : { machine: `a machine of ${pool.name}`, pool: pool.name, units: "pods", path };
}

/** With a capital, for the begin of a sentence. */
export function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Where a machine is chosen for a model: by the name of its pool, or as the host. */
export function placeOf(
  model: ModelSpec,
  pool: PoolSpec,
  key: "pool" | "buildPool",
  spec: GpuStackSpec,
): Pick<Remark, "path" | "value"> {
  return spec.runsOn === "host"
    ? { path: machineWords(spec, pool).path }
    : { path: `${model.path}.${key}`, value: showValue(pool.name) };
}

/** What a pod takes and does not find: `2.5 CPUs (1.5 free) and 8.0 GiB of memory (4.0 GiB free)`. */
export function shortageWords(short: readonly Shortage[]): string {
  return short
    .map(({ resource, needed, free }) => {
      if (resource === "gpu") return `${count(needed, "GPU")} (${free} free)`;
      if (resource === "cpu") return `${count(needed / 1000, "CPU")} (${free / 1000} free)`;
      return `${gib(needed)} of memory (${gib(free)} free)`;
    })
    .join(" and ");
}

/** What a machine needs more of, for a fix: `CPUs and memory`. */
export function shortNames(short: readonly Shortage[]): string {
  const names = { gpu: "GPUs", cpu: "CPUs", memory: "memory" };
  return short.map(({ resource }) => names[resource]).join(" and ");
}

/** Mebibytes in GiB. */
export function gib(mebibytes: number): string {
  return `${(mebibytes / 1024).toFixed(1)} GiB`;
}
