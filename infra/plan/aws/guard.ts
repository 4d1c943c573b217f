/** Who is told when a stack costs more than it was planned to. */
import type { AwsConfig } from "../../config/aws-stacks.ts";
import type { GpuCost } from "../cost/types.ts";
import { STACK_TAG } from "./context.ts";
import type { AwsContext, GuardPlan } from "./types.ts";

/** Room for what the plan has no price for: traffic, logs, requests, engines that are built anew. */
const UNPRICED_SHARE = 1.2;

/** @param cost - Of the plan: its month is the budget's where the stack file names none. */
export function guardPlan(config: AwsConfig, cost: GpuCost, { stack }: AwsContext): GuardPlan {
  const { emails, monthlyUsd } = config.guard;
  if (emails.length === 0) return { budget: null };
  return {
    budget: {
      monthlyUsd: monthlyUsd ?? Math.max(1, Math.ceil(cost.monthlyUsd * UNPRICED_SHARE)),
      emails,
      tagFilter: `user:${STACK_TAG}$${stack}`,
    },
  };
}
