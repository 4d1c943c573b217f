/** What a stack costs an hour while it is forgotten. */
import { ConfigError } from "../../infra/problems.ts";
import { HOURLY_DIGITS, sumUsd } from "../plan/amounts.ts";
import { readPlan } from "../program/docker-target.ts";
import type { StackReference } from "../program/stack-file.ts";

/** As `npx engine-room plan` has it, with all its models up: `at least $1.655`. */
export function hourlyCost(stack: StackReference): string {
  try {
    const { cost } = readPlan(stack);
    return sumUsd(cost.hourlyUsd, HOURLY_DIGITS, cost.withoutPrice.length > 0);
  } catch (error) {
    // An older program took its configuration, and this one does not.
    if (error instanceof ConfigError) return "not known";
    throw error;
  }
}
