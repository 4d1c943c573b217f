/** From the values of a stack file to its plan, or to all its problems at once. */
import { parseConfig, type StackConfig } from "./config/config.ts";
import { planStack } from "./plan/plan-stack.ts";
import type { PlanResult, StackPlan } from "./plan/stack-plan.ts";
import { ConfigError } from "./problems.ts";

interface CheckedPlan extends PlanResult {
  readonly plan: StackPlan;
  /** What was planned. */
  readonly config: StackConfig;
}

/**
 * Parses, checks and plans.
 *
 * @param values - Keys without their namespace; objects and arrays as such, not as JSON text.
 * @throws ConfigError with every problem of the schema at once; where there is none, with every problem of the checks: path,
 * value, reason, fix.
 */
export function checkedPlan(values: Readonly<Record<string, unknown>>): CheckedPlan {
  const config = parseConfig(values);
  const result = planStack(config, values);
  const { plan, problems } = result;
  if (plan === null) throw new ConfigError(problems);
  return { ...result, plan, config };
}
