/** What has to be put into the engine store for a stack, and how long that may take; the same on every platform. */
import { jsonDigest } from "./canonical-json.ts";
import { buildEstimate } from "./cost/times.ts";
import type { ModelPlan } from "./gpu-stack.ts";
import type { PoolSpec } from "./spec.ts";

/** An engine, or weights that are served without one. */
interface StoreBuild {
  /** Content address, 64 hexadecimal digits. */
  readonly key: string;
  /** The first of the models that need it. */
  readonly model: ModelPlan;
  /** Names of all of them. */
  readonly models: readonly string[];
}

/**
 * A build that takes longer hangs: estimates are right within a factor of two, and a hub may give a quarter of the rate that
 * they assume.
 */
const TIMEOUT_ESTIMATES = 4;
const TIMEOUT_BASE_SECONDS = 1800;

/** Three small models, each downloaded, exported, and built in minutes; no log to estimate from. */
export const ENCODER_TIMEOUT_SECONDS = 3600;

/** Where builds keep what nobody needs afterwards: checkpoints, downloads, packages that are unpacked. */
export const SCRATCH = "/scratch";

/**
 * Of every build. Servers have no such folder: Open MPI makes its session folder where TMPDIR says, and a server's root is
 * read-only in a cluster, where only /tmp is writable.
 */
export const BUILD_ENVIRONMENT = { TMPDIR: SCRATCH } as const;

/** A build ends between two steps, or kills the one that runs and cleans up. */
export const BUILD_STOP_SECONDS = 30;

/** Two models with the same engine share one build. */
export function storeBuilds(models: readonly ModelPlan[]): readonly StoreBuild[] {
  const keyed = models.flatMap((model) => {
    const key = storeKey(model);
    return key === null ? [] : [{ model, key }];
  });
  return keyed
    .filter(({ key }, index) => keyed.findIndex((other) => other.key === key) === index)
    .map(({ model, key }) => ({
      key,
      model,
      models: keyed.filter((other) => other.key === key).map((other) => other.model.name),
    }));
}

/** Content address of what a model needs of the store; null where its weights lie in a folder and it has no engine. */
function storeKey({ spec, engine }: ModelPlan): string | null {
  if (engine !== null) return engine.key;
  const { model, weights, row } = spec.engine;
  if (weights.kind === "folder") return null;
  const { include, exclude } = row.source;
  return jsonDigest({ model, weights, include, exclude });
}

/** How long a build may take. @param pool - Whose machines build. */
export function buildTimeoutSeconds({ spec, engine }: ModelPlan, pool: PoolSpec): number {
  const { seconds, parts } = buildEstimate(spec.engine, pool);
  const estimated = engine === null ? (parts.download ?? 0) : seconds;
  return TIMEOUT_BASE_SECONDS + TIMEOUT_ESTIMATES * estimated;
}
