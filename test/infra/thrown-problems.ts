import { checkedPlan } from "../../infra/checked-plan.ts";
import { ConfigError, type Problem } from "../../infra/problems.ts";

/** Problems of the ConfigError that a call throws; none if it throws nothing. */
export function problemsThrownBy(act: () => unknown): readonly Problem[] {
  try {
    act();
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
}

/** Problems of a stack file: those of its schema, or those of the checks. */
export function stackProblems(values: Readonly<Record<string, unknown>>): readonly Problem[] {
  return problemsThrownBy(() => checkedPlan(values));
}
