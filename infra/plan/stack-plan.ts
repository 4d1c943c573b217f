/** The plan of a stack of any platform and tier. */
import type { Problem } from "../problems.ts";
import type { ClusterCpuPlan, CpuPlan } from "./cpu-stack.ts";
import type { ClusterGpuPlan, GpuPlan } from "./gpu-stack.ts";

export type StackPlan = CpuPlan | GpuPlan;

/** A stack in a cluster. */
export type ClusterPlan = ClusterGpuPlan | ClusterCpuPlan;

export interface PlanResult {
  /** null where a problem leaves nothing that could be planned. */
  readonly plan: StackPlan | null;
  /** What forbids to create anything. */
  readonly problems: readonly Problem[];
  /** What is worth knowing: open advisories, tight fits, unpriced machines. */
  readonly warnings: readonly Problem[];
}

/** Databases of a stack, wherever they run; null: it has none. */
export function plannedDatabases(plan: StackPlan) {
  if ("cluster" in plan) return plan.cluster.databases;
  return "databases" in plan ? plan.databases : plan.host.databases;
}
