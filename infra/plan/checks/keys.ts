/** Keys of the stack file that several checks rest on. */
import type { Key } from "./finding.ts";

/** Keys that say what machines a pool has. */
export const MACHINE_KEYS = ["pools.name", "pools.instanceType", "pools.machine"] as const;

/** Keys that decide what a pool holds. */
export const SERVER_KEYS: readonly Key[] = [
  ...MACHINE_KEYS,
  // Machines of a cluster run agents besides, and count CPUs.
  "compute",
  "pools.nodes",
  "pools.sharing",
  "models.pool",
  "models.replicas",
  "models.tensorParallel",
  "models.pipelineParallel",
  "encoders",
  "gateway",
  "databases",
];
