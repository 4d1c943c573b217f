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
    report("model", ["pools.name"], unknownName(path, name, "a pool", declared));
  }
  return pools.find((pool) => pool.name === name) ?? null;
}

/**
 * The only candidate; null where there are none or several (reported, unless a pool is missing that could not be
 * resolved).
 *
 * @param wanted - What the candidates are: `a pool with GPUs`.
 */
export function onlyPool(
  { config, pools, report }: PoolChoice,
  candidates: readonly PoolSpec[],
  wanted: string,
  path: string,
): PoolSpec | null {
  const [only, ...others] = candidates;
  if (only !== undefined && others.length === 0) return only;
  if (pools.length < declaredPools(config).length) return null;
  report(
    "model",
    POOL_KEYS,
    only === undefined
      ? {
          path,
          reason: `The stack has no pool that is ${wanted}.`,
          fix: "Add one, such as machines of type g5.4xlarge.",
        }
      : {
          path,
          reason: `The stack has ${candidates.length} pools that could be meant: each is ${wanted}.`,
          fix: `Name one of ${candidates.map(({ name }) => name).join(", ")}.`,
        },
  );
  return null;
}
