/**
 * What a stack will build and run, from its configuration alone. Pure: no clock, no network, no file, no Pulumi; every
 * platform, script and preview starts from this.
 */
import type { StackConfig } from "../config/config.ts";
import type { Problem } from "../problems.ts";
import { type ClusterCpuPlan, type CpuPlan, planCpuStack } from "./cpu-stack.ts";
import { type ClusterGpuPlan, type GpuPlan, planGpuStack } from "./gpu-stack.ts";
import { unreadScaling } from "./kubernetes/cluster.ts";

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

/** Plans a stack. Same configuration, same plan, to the byte. */
export function planStack(config: StackConfig): PlanResult {
  if (config.tier === "cpu") {
    const warnings = config.platform === "kubernetes" ? unreadScaling(config) : [];
    return { plan: planCpuStack(config), problems: [], warnings };
  }
  return planGpuStack(config);
}
