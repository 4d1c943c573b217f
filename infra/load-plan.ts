/** The plan of a stack that is about to be deployed, with no more code loaded than it needs. */
import { readStack } from "./config/config.ts";
import { planLocalStack } from "./plan/local-stack.ts";
import type { StackPlan } from "./plan/stack-plan.ts";

/**
 * As `checkedPlan`. What plans GPUs is loaded for stacks on GPUs only, and to explain mistakes: it takes longer to load
 * than a local stack takes to be planned.
 *
 * @param values - Keys without the project's prefix; objects and arrays as such, not as JSON text.
 * @throws ConfigError with every problem at once: path, value, reason, fix.
 */
export async function loadPlan(values: Readonly<Record<string, unknown>>): Promise<StackPlan> {
  const { config } = readStack(values);
  if (config?.platform === "local") return planLocalStack(config);
  const { checkedPlan } = await import("./checked-plan.ts");
  return checkedPlan(values).plan;
}
