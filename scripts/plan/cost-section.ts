/** What the stack costs, line by line. */
import { HOURS_PER_MONTH } from "../../infra/plan/cost/storage.ts";
import type { GpuCost } from "../../infra/plan/cost/types.ts";
import type { GpuPlan } from "../../infra/plan/gpu-stack.ts";
import { HOURLY_DIGITS, SUM_DIGITS, sumUsd, usd } from "./amounts.ts";
import { duration, paragraph, type Section, textTable } from "./text-table.ts";

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
  const atLeast = sumUsd(lines.map((line) => line.hourlyUsd));
  const columns = [{ title: "WHAT" }, { title: "AN HOUR", align: "right" }, { title: "HOW" }] as const;
  const rows = [
    ...lines.map((line) => [line.what, usd(line.hourlyUsd, HOURLY_DIGITS), line.arithmetic]),
    [
      "sum",
      atLeast(hourlyUsd, HOURLY_DIGITS),
      `${atLeast(monthlyUsd, SUM_DIGITS)} a month of ${HOURS_PER_MONTH} hours`,
    ],
    [
      "asleep",
      atLeast(asleepHourlyUsd, HOURLY_DIGITS),
      `${atLeast(asleepMonthlyUsd, SUM_DIGITS)} a month, every pool at its least`,
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
    ...builds.map(({ engine, seconds, usd: cost }) => [engine, duration(seconds), usd(cost, SUM_DIGITS)]),
    ["all", "", sumUsd(builds.map((build) => build.usd))(buildUsd, SUM_DIGITS)],
  ];
  return ["", ...textTable(columns, rows)];
}

function unpricedLines({ unpriced }: GpuCost): string[] {
  if (unpriced.length === 0) return [];
  return ["", ...unpriced.flatMap((what) => paragraph(`in no sum: ${what}`))];
}
