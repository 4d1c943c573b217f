import { ConfigError, type Problem } from "../../infra/problems.ts";

/** Problems of the ConfigError that a call throws; none where it throws nothing. */
export function problemsThrownBy(act: () => unknown): readonly Problem[] {
  try {
    act();
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
}
