/** How a line of the cost is completed. */
import type { CostLine } from "./types.ts";

/** A line before it is known what is left of it asleep. */
export type AwakeLine = Omit<CostLine, "asleepHourlyUsd">;

/** A line of what stays while the stack sleeps. */
export function staying(line: AwakeLine): CostLine {
  return { ...line, asleepHourlyUsd: line.hourlyUsd };
}
