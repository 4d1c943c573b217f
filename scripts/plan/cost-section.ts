/** What the stack costs, line by line. */
import { HOURS_PER_MONTH } from "../../infra/plan/cost/cost.ts";
import type { GpuCost } from "../../infra/plan/cost/types.ts";
import type { GpuPlan } from "../../infra/plan/gpu-stack.ts";
import {
  buildSum,
  HOURLY_DIGITS,
  isNotPriced,
  isWhollyUnpriced,
  NOT_PRICED,
  SUM_DIGITS,
  sumUsd,
  usd,
} from "./amounts.ts";
import { duration, paragraph, type Section, textTable } from "./text-table.ts";

/** Machines by the hour, awake and asleep; engines, built once; and what no sum holds. */
export function costSection({ cost, spec }: Pick<GpuPlan, "cost" | "spec">): Section {
  return {
    title: `Cost (US dollars, ${sourceWords(cost, spec)})`,
    lines: [
      ...hourlyLines(cost, spec),
      ...foreignLines(cost, spec.region),
      ...buildLines(cost, spec),
      ...besidesLines(cost),
    ],
  };
}

/** Where the prices are from. */
function sourceWords({ pricesAsOf }: GpuCost, { pools }: GpuPlan["spec"]): string {
  if (pricesAsOf !== null) return `prices of ${pricesAsOf}`;
  return pools.some(isNotPriced) ? "your own machines, not priced" : "no price of the table used";
}

/** Where the region's prices are not known, {@link foreignLines} names what has none, once. */
function hourlyLines({ elsewhere, ...cost }: GpuCost, spec: GpuPlan["spec"]): string[] {
  const { hourlyUsd, monthlyUsd, asleepHourlyUsd, asleepMonthlyUsd } = cost;
  const lines = elsewhere === null ? cost.lines : cost.lines.filter((line) => line.hourlyUsd !== null);
  const own = spec.pools.filter(isNotPriced).map(({ name }) => `pool ${name}`);
  const awake = (amount: number | null, digits: number) =>
    sumUsd(amount, digits, cost.withoutPrice.length > 0);
  const asleep = (amount: number | null, digits: number) =>
    sumUsd(
      amount,
      digits,
      cost.lines.some((line) => line.asleepHourlyUsd === null),
    );
  const columns = [
    { title: "WHAT" },
    { title: "AN HOUR", align: "right" },
    { title: "ASLEEP", align: "right" },
    { title: "HOW" },
  ] as const;
  const rows = lines.map(({ what, arithmetic, ...line }) =>
    own.includes(what)
      ? [what, NOT_PRICED, "", arithmetic.replace(/\bowned$/, "your own")]
      : [what, usd(line.hourlyUsd, HOURLY_DIGITS), usd(line.asleepHourlyUsd, HOURLY_DIGITS), arithmetic],
  );
  const sum = [
    "sum",
    awake(hourlyUsd, HOURLY_DIGITS),
    asleep(asleepHourlyUsd, HOURLY_DIGITS),
    `a month of ${HOURS_PER_MONTH} hours: ${awake(monthlyUsd, SUM_DIGITS)}, asleep ${asleep(asleepMonthlyUsd, SUM_DIGITS)}`,
  ];
  return textTable(columns, isWhollyUnpriced(spec) ? rows : [...rows, sum]);
}

function foreignLines({ elsewhere, withoutPrice }: GpuCost, region: string | null): string[] {
  if (elsewhere === null) return [];
  const there = `In ${elsewhere.region} all of it would be ${usd(elsewhere.hourlyUsd, HOURLY_DIGITS)} an hour, asleep ${usd(elsewhere.asleepHourlyUsd, HOURLY_DIGITS)}; prices differ between regions.`;
  const fix = "`hourlyUsd` of each pool and `otherHourlyUsd` for all else together complete the sum.";
  return ["", ...paragraph(`No price is known in ${region} of ${withoutPrice.join(", ")}. ${there} ${fix}`)];
}

function buildLines({ builds }: GpuCost, spec: GpuPlan["spec"]): string[] {
  if (builds.length === 0) return [];
  const columns = [
    { title: "ENGINE, BUILT ONCE (ESTIMATE)" },
    { title: "TIME", align: "right" },
    { title: "COST" },
  ] as const;
  const isFree = isWhollyUnpriced(spec);
  const rows = builds.map(({ engine, seconds, usd: cost }) => [
    engine,
    duration(seconds),
    isFree ? NOT_PRICED : usd(cost, SUM_DIGITS),
  ]);
  return ["", ...textTable(columns, isFree ? rows : [...rows, ["all", "", buildSum(builds)]])];
}

function besidesLines({ besides }: GpuCost): string[] {
  if (besides.length === 0) return [];
  return ["", ...besides.flatMap((what) => paragraph(`in no sum: ${what}`))];
}
