/** The encoders of a stack: where they run, and in which number format. */
import { poolHourlyUsd } from "../cost/pool-price.ts";
import { packPool } from "../pool-space.ts";
import type { EncodersSpec, GpuStackSpec, PoolSpec } from "../spec.ts";
import { declaredPools, namedPool, onlyGpuPool, type PoolChoice } from "./pools.ts";

const PATH = "encoders.pool";
const CPU_INSTEAD = ", or write `device: cpu` under encoders";

/** Encoders that have no pool yet. */
type Unplaced = Omit<EncodersSpec, "pool">;

/**
 * null: the stack has none, or their pool is not known (reported).
 *
 * @param stack - All the rest of the specification, without encoders.
 */
export function resolveEncoders(choice: PoolChoice, stack: GpuStackSpec): EncodersSpec | null {
  const { encoders } = choice.config;
  if (encoders === false) return null;
  const unplaced: Unplaced = {
    vision: encoders.vision,
    text: encoders.text,
    device: encoders.device,
    precision: encoders.precision ?? (encoders.device === "gpu" ? "fp16" : "fp32"),
    maxBatchSize: encoders.maxBatchSize,
    maxQueueDelayMicroseconds: encoders.maxQueueDelayMicroseconds,
    gpuIndices: encoders.gpuIndices,
    replicas: encoders.replicas,
  };
  const pool =
    encoders.pool === undefined
      ? defaultPool(unplaced, choice, stack)
      : encodersPool(unplaced, encoders.pool, choice);
  return pool === null ? null : placed(unplaced, pool);
}

function placed(encoders: Unplaced, { name }: PoolSpec): EncodersSpec {
  return { ...encoders, pool: name };
}

function encodersPool({ device }: Unplaced, pool: string, choice: PoolChoice): PoolSpec | null {
  const named = namedPool(choice, pool, PATH);
  if (named === null || named.gpu !== null || device === "cpu") return named;
  choice.report({
    path: PATH,
    reason: `The encoders are to run on a GPU, and the machines of ${pool} have none.`,
    fix: `Name a pool with GPUs${CPU_INSTEAD}.`,
  });
  return null;
}

/**
 * On a CPU the encoders take no place from models where there is a pool without GPU. Of several pools it is the cheapest that
 * has room for them beside the models' servers, or the cheapest where none has; of equal ones the first of the stack file.
 */
function defaultPool(encoders: Unplaced, choice: PoolChoice, stack: GpuStackSpec): PoolSpec | null {
  if (encoders.device === "gpu") {
    return onlyGpuPool(choice, PATH, {
      reason: "the encoders are to run on one",
      otherwise: CPU_INSTEAD,
    });
  }
  const withoutGpus = stack.pools.filter(({ gpu }) => gpu === null);
  const candidates = withoutGpus.length > 0 ? withoutGpus : stack.pools;
  // A pool that could not be resolved, which is reported, may have been the better one.
  if (candidates.length > 1 && stack.pools.length < declaredPools(choice.config).length) return null;
  const price = (pool: PoolSpec) => poolHourlyUsd(stack, pool) ?? Number.POSITIVE_INFINITY;
  const byPrice = candidates.toSorted((a, b) => (price(a) < price(b) ? -1 : price(a) > price(b) ? 1 : 0));
  return byPrice.find((pool) => hasRoom(encoders, pool, stack)) ?? byPrice[0] ?? null;
}

function hasRoom(encoders: Unplaced, pool: PoolSpec, stack: GpuStackSpec): boolean {
  const { homeless } = packPool({ ...stack, encoders: placed(encoders, pool) }, pool);
  return homeless.every(({ kind }) => kind !== "encoders");
}
