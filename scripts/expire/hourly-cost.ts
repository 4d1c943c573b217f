/** What a stack costs an hour while it is forgotten. */
import { ConfigError } from "../../infra/problems.ts";
import { HOURLY_DIGITS, sumUsd, usd } from "../plan/amounts.ts";
import { readPlan } from "../program/docker-target.ts";
import type { StackReference } from "../program/stack-file.ts";

/** As `npm run plan` has it, with all its models up: `at least $1.655`. */
export function hourlyCost(stack: StackReference): string {
  try {
    const { cost } = readPlan(stack);
    if (!("lines" in cost)) return usd(cost.hourlyUsd, HOURLY_DIGITS);
    return sumUsd(cost.lines.map(({ hourlyUsd }) => hourlyUsd))(cost.hourlyUsd, HOURLY_DIGITS);
  } catch (error) {
    // An older program took its configuration, and this one does not.
    if (error instanceof ConfigError) return "not known";
    throw error;
  }
}
