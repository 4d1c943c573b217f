/** Who is told when a stack costs more than it was planned to. */
import type { AwsConfig } from "../../config/aws-stacks.ts";
import type { GpuCost } from "../cost/types.ts";
import { STACK_TAG } from "./context.ts";
import type { AwsContext, GuardPlan } from "./types.ts";

/**
 * Room for what no sum holds: traffic, logs, requests, engines that are built anew, and whatever the catalogue has no price for, as
 * disks and load balancers. The hours of services are in the sum where it has theirs.
 */
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
