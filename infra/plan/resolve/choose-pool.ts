/** Which pool runs a model or the encoders, named or by default. */
import type { GpuStackConfig } from "../../config/config.ts";
import type { Key } from "../checks/finding.ts";
import type { PoolSpec } from "../spec.ts";
import { type Report, unknownName } from "./names.ts";
import { declaredPools } from "./pools.ts";

export interface PoolChoice {
  readonly config: GpuStackConfig;
  readonly pools: readonly PoolSpec[];
  readonly report: Report;
}

/** Which keys decide where something runs, besides that which names the pool. */
export const POOL_KEYS: readonly Key[] = ["pools.name", "pools.instanceType", "pools.machine"];

/**
 * The pool of that name; null where there is none (reported), or where the pool itself could not be resolved (reported
 * there).
 */
export function namedPool(
  { config, pools, report }: PoolChoice,
  name: string,
  path: string,
): PoolSpec | null {
  const declared = declaredPools(config).map((pool) => pool.name);
  if (!declared.includes(name)) {
    report(
      "model",
      ["pools.name"],
      config.platform === "docker"
        ? {
            path,
            reason: "A Docker stack has one machine, its host, and no pools to choose from.",
            fix: "Remove the key.",
          }
        : unknownName(path, name, "a pool", declared),
    );
  }
  return pools.find((pool) => pool.name === name) ?? null;
}

/** Why something needs a pool with GPUs, and what else could be done. */
interface GpuNeed {
  /** `TensorRT-LLM runs on nothing else` */
  readonly reason: string;
  /** `, or write …`; empty where there is no other way. */
  readonly otherwise: string;
}

/**
 * The only pool with GPUs; null where there are none or several (reported, unless a pool is missing that could not be
 * resolved). Of pools with one name, which a check reports, it is the first.
 */
export function onlyGpuPool(
  { config, pools, report }: PoolChoice,
  path: string,
  { reason, otherwise }: GpuNeed,
): PoolSpec | null {
  const candidates = pools.filter(({ gpu }) => gpu !== null);
  const [only] = candidates;
  const names = [...new Set(candidates.map(({ name }) => name))];
  if (only !== undefined && names.length === 1) return only;
  if (pools.length < declaredPools(config).length) return null;
  if (only !== undefined) {
    report("model", POOL_KEYS, {
      path,
      reason: `The stack has ${names.length} pools with GPUs, and does not say which is meant.`,
      fix: `Name one of ${names.join(", ")}.`,
    });
  } else if (config.platform === "docker") {
    report("stack", POOL_KEYS, {
      path: `host.${config.host.instanceType === undefined ? "machine" : "instanceType"}`,
      reason: `The host has no GPU, and ${reason}.`,
      fix: `Use a host with one, such as g5.4xlarge${otherwise}.`,
    });
  } else {
    report("model", POOL_KEYS, {
      path,
      reason: `The stack has no pool with GPUs, and ${reason}.`,
      fix: `Add one, such as machines of type g5.4xlarge${otherwise}.`,
    });
  }
  return null;
}
