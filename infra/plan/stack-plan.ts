/** The plan of a stack of any platform and tier. */
import type { Problem } from "../problems.ts";
import type { ClusterCpuPlan, CpuPlan } from "./cpu-stack.ts";
import type { ClusterGpuPlan, GpuPlan } from "./gpu-stack.ts";

export type StackPlan = CpuPlan | GpuPlan;

/** A stack in a cluster. */
export type ClusterPlan = ClusterGpuPlan | ClusterCpuPlan;

export interface PlanResult {
  /** null if a problem leaves nothing that could be planned. */
  readonly plan: StackPlan | null;
  /** Errors, with which nothing is created. */
  readonly problems: readonly Problem[];
  /** Warnings and notes: open advisories, tight fits, unpriced machines. */
  readonly warnings: readonly Problem[];
}

/** Databases of a stack, wherever they run; null for a stack without databases. */
export function plannedDatabases(plan: StackPlan) {
  if ("cluster" in plan) return plan.cluster.databases;
  return "databases" in plan ? plan.databases : plan.host.databases;
}
