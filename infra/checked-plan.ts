/** From the values of a stack file to its plan, or to all its problems at once. */
import { parseConfig, type StackConfig } from "./config/config.ts";
import { planStack } from "./plan/plan-stack.ts";
import type { PlanResult, StackPlan } from "./plan/stack-plan.ts";
import { ConfigError } from "./problems.ts";
import { readTemplateFolders } from "./template-folders.ts";

interface CheckedPlan extends PlanResult {
  readonly plan: StackPlan;
  readonly config: StackConfig;
}

/**
 * Parses, checks and plans.
 *
 * @param values - Keys without their namespace; objects and arrays as such, not as JSON text.
 * @param from - Folder from which folders of templates start. @default this project's
 * @throws ConfigError with every problem of the schema at once, or else with every problem of the checks: path, value,
 * reason, fix.
 */
export function checkedPlan(values: Readonly<Record<string, unknown>>, from?: string): CheckedPlan {
  const config = parseConfig(values);
  const { templates, problems: unread } = readTemplateFolders(config, from);
  const result = planStack(config, values, templates);
  const problems = [...unread, ...result.problems];
  if (result.plan === null || unread.length > 0) throw new ConfigError(problems);
  return { ...result, plan: result.plan, config };
}
