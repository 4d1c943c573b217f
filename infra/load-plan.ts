/** The plan of a stack that is about to be deployed, with no more code loaded than it needs. */
import { parseConfig } from "./config/config.ts";
import { findCpuProblems } from "./plan/checks/cpu.ts";
import { planCpuStack } from "./plan/cpu-stack.ts";
import type { StackPlan } from "./plan/stack-plan.ts";
import { ConfigError } from "./problems.ts";

/**
 * As `checkedPlan`. Modules for GPUs are loaded only for stacks on GPUs: loading them takes longer than planning a stack on a
 * CPU.
 *
 * @param values - Keys without their namespace; objects and arrays as such, not as JSON text.
 * @throws ConfigError with every problem at once: path, value, reason, fix.
 */
export async function loadPlan(values: Readonly<Record<string, unknown>>): Promise<StackPlan> {
  const config = parseConfig(values);
  if (config.tier === "gpu") return (await import("./checked-plan.ts")).checkedPlan(values).plan;
  const { problems } = findCpuProblems(config, values);
  if (problems.length > 0) throw new ConfigError(problems);
  return planCpuStack(config);
}
