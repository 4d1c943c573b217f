/** What the stack costs, line by line. */
import { HOURS_PER_MONTH } from "../../infra/plan/cost/storage.ts";
import type { GpuCost } from "../../infra/plan/cost/types.ts";
import type { GpuPlan } from "../../infra/plan/gpu-stack.ts";
import { duration, figure, paragraph, type Section, textTable } from "./text-table.ts";

const NO_PRICE = "no price";

/** Machines by the hour; engines, built once; a month asleep; and what no sum holds. */
export function costSection({ cost }: GpuPlan): Section {
  const from = cost.pricesAsOf === null ? "no price of the table used" : `prices of ${cost.pricesAsOf}`;
  return {
    title: `Cost (US dollars, ${from})`,
    lines: [...hourlyLines(cost), ...buildLines(cost), ...unpricedLines(cost)],
  };
}

function hourlyLines(cost: GpuCost): string[] {
  const { lines, hourlyUsd, monthlyUsd, asleepHourlyUsd, asleepMonthlyUsd } = cost;
  const atLeast = total(lines.map((line) => line.hourlyUsd));
  const columns = [{ title: "WHAT" }, { title: "AN HOUR", align: "right" }, { title: "HOW" }] as const;
  const rows = [
    ...lines.map((line) => [line.what, usd(line.hourlyUsd, 3), line.arithmetic]),
    ["sum", atLeast(hourlyUsd, 3), `${atLeast(monthlyUsd, 2)} a month of ${HOURS_PER_MONTH} hours`],
    [
      "asleep",
      atLeast(asleepHourlyUsd, 3),
      `${atLeast(asleepMonthlyUsd, 2)} a month, every pool at its least`,
    ],
  ];
  return textTable(columns, rows);
}

function buildLines({ builds, buildUsd }: GpuCost): string[] {
  if (builds.length === 0) return [];
  const columns = [
    { title: "ENGINE, BUILT ONCE (ESTIMATE)" },
    { title: "TIME", align: "right" },
    { title: "COST" },
  ] as const;
  const rows = [
    ...builds.map(({ engine, seconds, usd: cost }) => [engine, duration(seconds), usd(cost, 2)]),
    ["all", "", total(builds.map((build) => build.usd))(buildUsd, 2)],
  ];
  return ["", ...textTable(columns, rows)];
}

function unpricedLines({ unpriced }: GpuCost): string[] {
  if (unpriced.length === 0) return [];
  return ["", ...unpriced.flatMap((what) => paragraph(`in no sum: ${what}`))];
}

/** How to write a sum: of parts without a price it is a lower bound, and of none at all no amount. */
function total(parts: readonly (number | null)[]): (amount: number, digits: number) => string {
  if (parts.every((part) => part === null)) return () => NO_PRICE;
  return (amount, digits) => `${parts.includes(null) ? "at least " : ""}${usd(amount, digits)}`;
}

function usd(amount: number | null, digits: number): string {
  return amount === null ? NO_PRICE : `$${figure(amount, digits)}`;
}
