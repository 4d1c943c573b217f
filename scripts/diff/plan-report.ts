/** What a change does to the plan of a stack: engines and why they are rebuilt, money, memory, time to the first answer. */
import { rebuildPrefix } from "../../infra/plan/engine/explain-key-change.ts";
import { code, type Inline, joined, strong } from "../markdown.ts";
import { HOURLY_DIGITS, SUM_DIGITS, sumUsd, usd } from "../plan/amounts.ts";
import { VERDICTS } from "../plan/sections.ts";
import { duration, figure } from "../plan/text-table.ts";
import { type Entry, grouped, type Section } from "./resource-report.ts";
import type { Amount, FitState, PlanDifferences, StackDiff } from "./types.ts";

/** One value, or both where they differ. */
function arrow(before: string, after: string): string {
  return before === after ? after : `${before} → ${after}`;
}

/** Whether the base has the stack and nobody knows its plan: what the head needs may be there already. */
export function isEarlierUnknown({ hasStack }: StackDiff["base"], { cost }: PlanDifferences): boolean {
  return hasStack && cost.length > 0 && cost.every(({ before }) => before === null);
}

const AMOUNTS = {
  hourlyUsd: { title: "an hour", digits: HOURLY_DIGITS },
  monthlyUsd: { title: "a month", digits: SUM_DIGITS },
  asleepMonthlyUsd: { title: "a month, all asleep", digits: SUM_DIGITS },
} as const;

/** `$1,185.52 → $1,636.66`. */
export function costText(
  { what, before, after }: PlanDifferences["cost"][number],
  isUnknown: boolean,
): string {
  const show = ({ usd: sum, isAtLeast }: Amount) => sumUsd(sum, AMOUNTS[what].digits, isAtLeast);
  return arrow(before === null ? (isUnknown ? "unknown" : "nothing") : show(before), show(after));
}

/** Engines, memory, cold start, cost. Differences too small to be seen in the figures are left out. */
export function planSections(plan: PlanDifferences, isUnknown: boolean): readonly Section[] {
  const { coldStarts, cost, newBuilds, newBuildUsd } = plan;
  const seconds = (value: number | null, none: string) => (value === null ? none : duration(value));
  const starts = coldStarts.map(({ model, beforeSeconds, afterSeconds }) => ({
    model,
    text: arrow(
      seconds(beforeSeconds, isUnknown ? "unknown" : "not served"),
      seconds(afterSeconds, "not served"),
    ),
  }));
  const costs = cost.map((change) => `${AMOUNTS[change.what].title}: ${costText(change, isUnknown)}`);
  const prices = newBuilds.map(({ usd: price }) => price);
  const isPriced = prices.some((price) => price !== null);
  const build = sumUsd(isPriced ? newBuildUsd : null, SUM_DIGITS, prices.includes(null));
  return [
    { title: "Engines", entries: engineEntries(plan, isUnknown) },
    { title: "Memory of each GPU (estimate, GiB)", entries: fitEntries(plan, isUnknown) },
    {
      title: "Cold start, engine built (estimate)",
      entries: starts.flatMap(({ model, text }) =>
        text.includes("→") ? [{ text: [code(model), `: ${text}`] }] : [],
      ),
    },
    {
      title: "Cost (US dollars)",
      entries: [
        ...costs.filter((text) => text.includes("→")),
        ...(newBuildUsd === 0 ? [] : [`engines, built once (estimate): ${build}`]),
      ].map((text) => ({ text: [text] })),
    },
  ];
}

function engineEntries({ engines, newBuilds }: PlanDifferences, isUnknown: boolean): readonly Entry[] {
  const builds = new Map(newBuilds.map((build) => [build.engine, build]));
  const building = (engine: string): string => {
    const build = builds.get(engine);
    if (build === undefined) return ", which is there already";
    const unless = isUnknown ? ", unless it is there already" : "";
    return `; built in ${duration(build.seconds)} for ${usd(build.usd, SUM_DIGITS)} (estimate)${unless}`;
  };
  return [
    ...engines.rebuilt.map(({ model, before, after, reasons }): Entry => {
      const prefix = rebuildPrefix(after.slice(0, after.lastIndexOf("/")));
      return {
        text: [
          strong("rebuilt"),
          " for ",
          code(model),
          ": ",
          code(before),
          " → ",
          code(after),
          building(after),
        ],
        points: reasons.map(({ sentence }) => [
          sentence.startsWith(prefix) ? sentence.slice(prefix.length) : sentence,
        ]),
      };
    }),
    ...engines.added.map(
      ({ model, engine }): Entry => ({
        text: ["needed for ", code(model), ": ", code(engine), building(engine)],
      }),
    ),
    ...engines.removed.map(
      ({ model, engine, elsewhere }): Entry => ({
        text: [
          "no longer needed for ",
          code(model),
          ": ",
          code(engine),
          elsewhere ? ", which another model needs" : ", which stays in the engine store",
        ],
      }),
    ),
  ];
}

/** GPUs with the same change are one point with their number. */
function fitEntries({ fit }: PlanDifferences, isUnknown: boolean): readonly Entry[] {
  return grouped(fit, (change) => change).flatMap((alike) =>
    alike.slice(0, 1).map(({ pool, tenants, before, after }) => {
      const names = tenants.map((tenant): Inline => [code(tenant)]);
      const number = alike.length === 1 ? "" : `${alike.length} GPUs of `;
      return {
        text: [
          number,
          code(pool),
          " with ",
          ...joined(names, ", "),
          ": ",
          ...needs(before, after, isUnknown),
        ],
      };
    }),
  );
}

function needs(before: FitState | null, after: FitState | null, isUnknown: boolean): Inline {
  if (after === null) return ["no longer together on one GPU"];
  const earlier = before ?? after;
  const need = ({ needGiB, capacityGiB }: FitState) => `${figure(needGiB, 2)} of ${figure(capacityGiB, 2)}`;
  const verdict = arrow(VERDICTS[earlier.verdict], VERDICTS[after.verdict]);
  return [
    before === null ? (isUnknown ? "unknown → " : "new, ") : "",
    `${arrow(earlier.gpu, after.gpu)}, need ${arrow(need(earlier), need(after))}, `,
    after.verdict === "fits" ? verdict : strong(verdict),
  ];
}
