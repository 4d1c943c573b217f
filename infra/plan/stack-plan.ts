/**
 * What a stack will build and run, from its configuration alone. Pure: no clock, no network, no file, no Pulumi; every
 * platform, script and preview starts from this.
 */
import type { StackConfig } from "../config/config.ts";
import type { Problem } from "../problems.ts";
import { findCpuProblems } from "./checks/cpu.ts";
import { type ClusterCpuPlan, type CpuPlan, planCpuStack } from "./cpu-stack.ts";
import { type ClusterGpuPlan, type GpuPlan, planGpuStack } from "./gpu-stack.ts";

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

/**
 * Plans a stack. Same configuration, same plan, to the byte.
 *
 * @param written - The stack file without the defaults of its schema.
 */
export function planStack(
  config: StackConfig,
  written: Readonly<Record<string, unknown>> = config,
): PlanResult {
  if (config.tier === "gpu") return planGpuStack(config, written);
  const { problems, warnings } = findCpuProblems(config, written);
  return { plan: problems.length > 0 ? null : planCpuStack(config), problems, warnings };
}
