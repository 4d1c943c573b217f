/** What the stack costs, line by line. */
import type { GpuCost } from "../../infra/plan/cost/types.ts";
import type { GpuPlan } from "../../infra/plan/gpu-stack.ts";
import { duration, figure, paragraph, type Section, textTable } from "./text-table.ts";

/** Hours of a month, as prices count them. */
const MONTH_HOURS = 730;

const NO_PRICE = "no price";

/** Machines by the hour; engines, built once; a month asleep; and what no sum holds. */
export function costSection({ cost }: GpuPlan): Section {
  const from = cost.pricesAsOf === null ? "no price of the table used" : `prices of ${cost.pricesAsOf}`;
  return {
    title: `Cost (US dollars, ${from})`,
    lines: [...hourlyLines(cost), ...buildLines(cost), ...unpricedLines(cost)],
  };
}

function hourlyLines({ lines, hourlyUsd, monthlyUsd, asleepMonthlyUsd }: GpuCost): string[] {
  const columns = [{ title: "WHAT" }, { title: "AN HOUR", align: "right" }, { title: "HOW" }] as const;
  const rows = [
    ...lines.map((line) => [line.what, usd(line.hourlyUsd, 3), line.arithmetic]),
    ["sum", usd(hourlyUsd, 3), `${usd(monthlyUsd, 2)} a month of ${MONTH_HOURS} hours`],
    [
      "asleep",
      usd(asleepMonthlyUsd / MONTH_HOURS, 3),
      `${usd(asleepMonthlyUsd, 2)} a month, every pool at its least`,
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
    ["all", "", usd(buildUsd, 2)],
  ];
  return ["", ...textTable(columns, rows)];
}

function unpricedLines({ unpriced }: GpuCost): string[] {
  if (unpriced.length === 0) return [];
  return ["", ...unpriced.flatMap((what) => paragraph(`in no sum: ${what}`))];
}

function usd(amount: number | null, digits: number): string {
  return amount === null ? NO_PRICE : `$${figure(amount, digits)}`;
}
