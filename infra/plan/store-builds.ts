/** Builds that fill the engine store of a stack, and how long they may take; the same on every platform. */
import { jsonDigest } from "./canonical-json.ts";
import { buildEstimate } from "./cost/times.ts";
import type { ModelPlan } from "./gpu-stack.ts";
import type { PoolSpec } from "./spec.ts";

/**
 * A build that takes longer hangs: estimates are right within a factor of two, and a hub may give a quarter of the rate that
 * they assume.
 */
const TIMEOUT_ESTIMATES = 4;
const TIMEOUT_BASE_SECONDS = 1800;

/** Three small models, each downloaded, exported, and built in minutes; no log to estimate from. */
export const ENCODER_TIMEOUT_SECONDS = 3600;

/** Folder for files that are not needed after a build: checkpoints, downloads, unpacked packages. */
export const SCRATCH = "/scratch";

/** Not of servers: Open MPI makes its session folder in TMPDIR, and in a cluster only /tmp of a server is writable. */
export const BUILD_ENVIRONMENT = { TMPDIR: SCRATCH } as const;

/** A build ends between two steps, or kills the one that runs and cleans up. */
export const BUILD_STOP_SECONDS = 30;

/** An engine, or weights that are served without one; models with the same content share a build. */
interface StoreBuild {
  /** Content address, 64 hexadecimal digits. */
  readonly key: string;
  /** The first of the models that need it. */
  readonly model: ModelPlan;
  /** Names of all of them. */
  readonly models: readonly string[];
}

export function storeBuilds(models: readonly ModelPlan[]): readonly StoreBuild[] {
  const modelsByKey = new Map<string, ModelPlan[]>();
  for (const model of models) {
    const key = storeKey(model);
    if (key !== null) modelsByKey.set(key, [...(modelsByKey.get(key) ?? []), model]);
  }
  return [...modelsByKey].map(([key, sharing]) => ({
    key,
    model: sharing[0] as ModelPlan,
    models: sharing.map(({ name }) => name),
  }));
}

/** null: weights in a folder that are served without an engine need no build. */
function storeKey({ spec, engine }: ModelPlan): string | null {
  if (engine !== null) return engine.key;
  const { model, weights, row } = spec.engine;
  if (weights.kind === "folder") return null;
  const { include, exclude } = row.source;
  return jsonDigest({ model, weights, include, exclude });
}

/** @param pool - Its machines build. */
export function buildTimeoutSeconds({ spec, engine }: ModelPlan, pool: PoolSpec): number {
  const { seconds, parts } = buildEstimate(spec.engine, pool);
  const estimated = engine === null ? (parts.download ?? 0) : seconds;
  return TIMEOUT_BASE_SECONDS + TIMEOUT_ESTIMATES * estimated;
}
