/** Reports changes of a stack's plan: engines and why they are rebuilt, money, memory, time to the first answer. */

import { rebuildPrefix } from "../../infra/plan/engine/explain-key-change.ts";
import { counted } from "../../infra/problems.ts";
import { code, type Inline, joined, strong } from "../markdown.ts";
import { HOURLY_DIGITS, SUM_DIGITS, sumUsd, usd } from "../plan/amounts.ts";
import { VERDICTS } from "../plan/sections.ts";
import { duration, figure } from "../plan/text-table.ts";
import type { Entry, Section } from "./resource-report.ts";
import type { Amount, FitState, PlanDifferences, StackDiff } from "./types.ts";

/** One value, or both if they differ. */
function arrow(before: string, after: string): string {
  return before === after ? after : `${before} → ${after}`;
}

/** Whether the base has the stack and its plan is unknown: the head's engines may exist already. */
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

/** Engines, cost, memory, cold start. Differences too small to be seen in the figures are left out. */
export function planSections(plan: PlanDifferences, isUnknown: boolean): readonly Section[] {
  const { coldStarts, pricesAsOf } = plan;
  const seconds = (value: number | null, none: string) => (value === null ? none : duration(value));
  const starts = coldStarts.map(({ model, beforeSeconds, afterSeconds }) => ({
    model,
    text: arrow(
      seconds(beforeSeconds, isUnknown ? "unknown" : "not served"),
      seconds(afterSeconds, "not served"),
    ),
  }));
  const date = pricesAsOf === null ? "" : `, prices of ${pricesAsOf}`;
  return [
    { title: "Engines", entries: engineEntries(plan, isUnknown) },
    { title: `Cost (US dollars${date})`, entries: costEntries(plan, isUnknown) },
    { title: "Memory of each GPU (estimate, GiB)", entries: fitEntries(plan, isUnknown) },
    {
      title: "Cold start, engine built (estimate)",
      entries: starts.flatMap(({ model, text }) =>
        text.includes("→") ? [{ text: [code(model), `: ${text}`] }] : [],
      ),
    },
  ];
}

/** Sums with their difference, added and removed machines, lines of the sums, engines that are built. */
function costEntries(plan: PlanDifferences, isUnknown: boolean): readonly Entry[] {
  const { cost, costLines, machines, newBuilds, newBuildUsd } = plan;
  const sums = [...cost]
    .toSorted((a, b) => SUMS.indexOf(a.what) - SUMS.indexOf(b.what))
    .map(
      (change): Inline => [
        `${AMOUNTS[change.what].title}: ${costText(change, isUnknown)}`,
        ...deltaText(change),
      ],
    )
    .filter((text) => String(text[0]).includes("→"));
  const lines = costLines.flatMap(({ what, before, after }): Inline[] => {
    const amount = (line: typeof before) => (line === null ? "nothing" : usd(line.hourlyUsd, HOURLY_DIGITS));
    const text = arrow(isUnknown && before === null ? "unknown" : amount(before), amount(after));
    return text.includes("→") ? [[`${what}: ${text} an hour`]] : [];
  });
  const isPriced = newBuilds.some(({ usd: price }) => price !== null);
  const build = sumUsd(
    isPriced ? newBuildUsd : null,
    SUM_DIGITS,
    newBuilds.some(({ usd: price }) => price === null),
  );
  return [
    ...sums.map((text, index): Entry => (index === 0 ? { text, points: lines } : { text })),
    ...machines.map((change): Entry => ({ text: machinesText(change, isUnknown) })),
    ...(newBuildUsd === 0 ? [] : [{ text: [`engines, built once (estimate): ${build}`] }]),
  ];
}

const SUMS: readonly PlanDifferences["cost"][number]["what"][] = [
  "monthlyUsd",
  "hourlyUsd",
  "asleepMonthlyUsd",
];

/** ` (+$451.14, +38 %)`; of lower bounds, the difference of the known parts. */
function deltaText({ what, before, after }: PlanDifferences["cost"][number]): Inline {
  if (before === null || before.usd === null || after.usd === null) return [];
  const sign = (value: number) => (value < 0 ? "−" : "+");
  const delta = after.usd - before.usd;
  const percent = before.usd === 0 ? undefined : Math.round((delta / before.usd) * 100);
  const share =
    percent === undefined
      ? ""
      : `, ${percent === 0 ? "less than 1 %" : `${sign(percent)}${Math.abs(percent)} %`}`;
  const known = before.isAtLeast || after.isAtLeast ? " of the priced parts" : "";
  return [" (", strong(`${sign(delta)}${usd(Math.abs(delta), AMOUNTS[what].digits)}${share}`), `${known})`];
}

function machinesText(
  { pool, before, after }: PlanDifferences["machines"][number],
  isUnknown: boolean,
): Inline {
  const types = (side: typeof before): Inline =>
    side === null || side.types.length === 0
      ? ["machine of its own description"]
      : joined(
          side.types.map((type): Inline => [code(type)]),
          " or ",
        );
  const words = (side: typeof before, none: string): Inline =>
    side === null ? [none] : [`${side.count} × `, ...types(side)];
  const more = (after?.count ?? 0) - (before?.count ?? 0);
  const needed = before !== null && more > 0 ? [", ", strong(`${counted(more, "machine")} more`)] : [];
  const was = words(before, isUnknown ? "unknown" : "none");
  return ["machines of pool ", code(pool), ": ", ...was, " → ", ...words(after, "none"), ...needed];
}

function engineEntries({ engines, newBuilds }: PlanDifferences, isUnknown: boolean): readonly Entry[] {
  const builds = new Map(newBuilds.map((build) => [build.engine, build]));
  const building = (engine: string): string => {
    const build = builds.get(engine);
    if (build === undefined) return ", which already exists";
    const unless = isUnknown ? ", unless it already exists" : "";
    // Machines that the user owns have no price.
    const price = build.usd === 0 ? "" : ` for ${usd(build.usd, SUM_DIGITS)}`;
    return `; built in ${duration(build.seconds)}${price} (estimate)${unless}`;
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

function fitEntries({ fit }: PlanDifferences, isUnknown: boolean): readonly Entry[] {
  return fit.map(({ pool, tenants, before, after, gpusBefore, gpusAfter }) => {
    const names = tenants.map((tenant): Inline => [code(tenant)]);
    const gpus = arrow(
      String(before === null ? gpusAfter : gpusBefore),
      String(after === null ? gpusBefore : gpusAfter),
    );
    const number = gpus === "1" ? "" : `${gpus} GPUs of `;
    return {
      text: [number, code(pool), " with ", ...joined(names, ", "), ": ", ...needs(before, after, isUnknown)],
    };
  });
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
