/** Who is told when a stack costs more than it was planned to. */
import type { AwsConfig } from "../../config/aws-stacks.ts";
import type { GpuCost } from "../cost/types.ts";
import { STACK_TAG } from "./context.ts";
import type { AwsContext, GuardPlan } from "./types.ts";

/**
 * Room for what no sum holds: traffic, logs, requests, images, and engines that are built anew. Where something has no price the
 * plan's month is a lower bound, and a fifth of it is too little: the stack file then says what a month may cost, or what the
 * machines do (check `budgetHasAmount`).
 */
const UNPRICED_SHARE = 1.2;

/** @param cost - Of the plan: its month is the budget's where the stack file names none. */
export function guardPlan(config: AwsConfig, cost: GpuCost, { stack }: AwsContext): GuardPlan {
  const { emails, monthlyUsd } = config.guard;
  if (emails.length === 0) return { budget: null };
  const planned = monthlyUsd ?? cost.monthlyUsd;
  if (planned === null) throw new Error("A budget of a stack without any price has no amount.");
  return {
    budget: {
      monthlyUsd: monthlyUsd ?? Math.max(1, Math.ceil(planned * UNPRICED_SHARE)),
      emails,
      tagFilter: `user:${STACK_TAG}$${stack}`,
    },
  };
}
