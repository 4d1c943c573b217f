/** The encoders of a stack: where they run, and in which number format. */
import type { EncodersSpec, PoolSpec } from "../spec.ts";
import { namedPool, onlyPool, POOL_KEYS, type PoolChoice } from "./choose-pool.ts";

/** null: the stack has none, or their pool is not known (reported). */
export function resolveEncoders(choice: PoolChoice): EncodersSpec | null {
  const { encoders } = choice.config;
  if (encoders === false) return null;
  const pool = encodersPool(encoders, choice);
  if (pool === null) return null;
  return {
    vision: encoders.vision,
    text: encoders.text,
    device: encoders.device,
    precision: encoders.precision ?? (encoders.device === "gpu" ? "fp16" : "fp32"),
    maxBatchSize: encoders.maxBatchSize,
    maxQueueDelayMicroseconds: encoders.maxQueueDelayMicroseconds,
    pool: pool.name,
    gpuIndices: encoders.gpuIndices,
    replicas: encoders.replicas,
  };
}

/** On a CPU the encoders take no place from models where there is a pool without GPU. */
function encodersPool(
  { pool, device }: { readonly pool?: string | undefined; readonly device: EncodersSpec["device"] },
  choice: PoolChoice,
): PoolSpec | null {
  const path = "encoders.pool";
  const { pools, report } = choice;
  if (pool !== undefined) {
    const named = namedPool(choice, pool, path);
    if (named !== null && named.gpu === null && device === "gpu") {
      report("stack", ["encoders", ...POOL_KEYS], {
        path,
        reason: `The encoders are to run on a GPU, and the machines of ${pool} have none.`,
        fix: "Name a pool with GPUs, or write `device: cpu`.",
      });
      return null;
    }
    return named;
  }
  const withGpus = pools.filter(({ gpu }) => gpu !== null);
  if (device === "gpu") return onlyPool(choice, withGpus, "one of machines with GPUs", path);
  const withoutGpus = pools.filter(({ gpu }) => gpu === null);
  const candidates = withoutGpus.length > 0 ? withoutGpus : withGpus;
  return onlyPool(choice, candidates, "one that encoders on a CPU can run on", path);
}
