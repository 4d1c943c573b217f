/** The plan of a stack that is about to be deployed, with no more code loaded than it needs. */
import { readStack } from "./config/config.ts";
import { planCpuStack } from "./plan/cpu-stack.ts";
import type { StackPlan } from "./plan/stack-plan.ts";

/**
 * As `checkedPlan`. What plans GPUs is loaded for stacks on GPUs only, and to explain mistakes: it takes longer to load
 * than a stack on a CPU takes to be planned.
 *
 * @param values - Keys without the project's prefix; objects and arrays as such, not as JSON text.
 * @throws ConfigError with every problem at once: path, value, reason, fix.
 */
export async function loadPlan(values: Readonly<Record<string, unknown>>): Promise<StackPlan> {
  const { config } = readStack(values);
  if (config?.tier === "cpu") return planCpuStack(config);
  const { checkedPlan } = await import("./checked-plan.ts");
  return checkedPlan(values).plan;
}
