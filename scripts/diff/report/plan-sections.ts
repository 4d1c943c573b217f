/** What changes in engines, memory, time and money. */
import { rebuildPrefix } from "../../../infra/plan/engine/explain-key-change.ts";
import { code, type Inline, joined, strong } from "../../markdown.ts";
import { HOURLY_DIGITS, SUM_DIGITS, sumUsd, usd } from "../../plan/amounts.ts";
import { VERDICTS } from "../../plan/sections.ts";
import { duration, figure } from "../../plan/text-table.ts";
import type { Amount, ComparedTree, FitState, PlanDifferences } from "../types.ts";
import { type Entry, grouped, list, type Section } from "./section.ts";

/**
 * Whether the base has the stack and nobody knows its plan: what the head needs may be there already.
 *
 * @param plan - Differences from that plan.
 */
export function isEarlierUnknown({ hasStack }: ComparedTree, { cost }: PlanDifferences): boolean {
  return hasStack && cost.length > 0 && cost.every(({ before }) => before === null);
}

/** Engines, memory, cold start, cost. */
export function planSections(plan: PlanDifferences, isUnknown: boolean): readonly Section[] {
  const table = (title: string, first: string, rows: readonly (readonly Inline[])[]): Section => ({
    title,
    columns: [first, "Before", "After"],
    entries: rows.map((cells) => ({ cells })),
  });
  return [
    { title: "Engines", entries: engineEntries(plan, isUnknown) },
    list("Memory of each GPU (estimate, GiB)", fitItems(plan, isUnknown)),
    table("Cold start, engine built (estimate)", "Model", coldStartRows(plan, isUnknown)),
    table("Cost (US dollars)", "What", costRows(plan, isUnknown)),
  ];
}

function engineEntries({ engines, newBuilds }: PlanDifferences, isUnknown: boolean): readonly Entry[] {
  const builds = new Map(newBuilds.map((build) => [build.engine, build]));
  const build = (engine: string): string => {
    const found = builds.get(engine);
    if (found === undefined) return ", which is there already";
    const unless = isUnknown ? ", unless it is there already" : "";
    return `; built in ${duration(found.seconds)} for ${usd(found.usd, SUM_DIGITS)} (estimate)${unless}`;
  };
  return [
    ...engines.rebuilt.map(
      ({ model, before, after, reasons }): Entry => ({
        cells: [
          [strong("rebuilt"), " for ", code(model), ": ", code(before), " → ", code(after), build(after)],
        ],
        details: { points: reasons.map(({ sentence }) => [withoutEngine(sentence, after)]) },
      }),
    ),
    ...engines.added.map(
      ({ model, engine }): Entry => ({
        cells: [["needed for ", code(model), ": ", code(engine), build(engine)]],
      }),
    ),
    ...engines.removed.map(
      ({ model, engine, elsewhere }): Entry => ({
        cells: [
          [
            "no longer needed for ",
            code(model),
            ": ",
            code(engine),
            elsewhere ? ", which another model needs" : ", which stays in the engine store",
          ],
        ],
      }),
    ),
  ];
}

/** @param engine - `model/key`, which stands above the sentence. */
function withoutEngine(sentence: string, engine: string): string {
  const prefix = rebuildPrefix(engine.slice(0, engine.lastIndexOf("/")));
  return sentence.startsWith(prefix) ? sentence.slice(prefix.length) : sentence;
}

/** GPUs with the same change are one point with their number. */
function fitItems({ fit }: PlanDifferences, isUnknown: boolean): readonly Inline[] {
  return grouped(fit, (change) => JSON.stringify(change)).flatMap((alike) =>
    alike.slice(0, 1).map(({ pool, tenants, before, after }): Inline => {
      const names = joined(
        tenants.map((tenant) => [code(tenant)]),
        ", ",
      );
      const number = alike.length === 1 ? "" : `${alike.length} GPUs of `;
      return [number, code(pool), " with ", ...names, ": ", ...needs(before, after, isUnknown)];
    }),
  );
}

function needs(before: FitState | null, after: FitState | null, isUnknown: boolean): Inline {
  if (after === null) return ["no longer together on one GPU"];
  const [was, is] = apart(before?.needGiB ?? null, after.needGiB, [2, 4], figure);
  const state = ({ gpu, capacityGiB, verdict }: FitState, need: string): Inline => [
    `${gpu}, need ${need} of ${figure(capacityGiB, 2)}, `,
    verdict === "fits" ? VERDICTS.fits : strong(VERDICTS[verdict]),
  ];
  if (before === null) return [isUnknown ? "unknown → " : "new, ", ...state(after, is)];
  const isSameGpu = before.gpu === after.gpu && before.capacityGiB === after.capacityGiB;
  if (isSameGpu && before.verdict === after.verdict) return state(after, `${was} → ${is}`);
  return [...state(before, was ?? ""), " → ", ...state(after, is)];
}

function coldStartRows({ coldStarts }: PlanDifferences, isUnknown: boolean): readonly (readonly Inline[])[] {
  return coldStarts.map(({ model, beforeSeconds, afterSeconds }) => {
    const [before, after] = apart(beforeSeconds, afterSeconds, [null, 0, 2], (seconds, digits) =>
      digits === null ? duration(seconds) : `${figure(seconds, digits)} s`,
    );
    return [[code(model)], [before ?? (isUnknown ? "unknown" : "not served")], [after ?? "not served"]];
  });
}

type AmountChange = PlanDifferences["cost"][number];

const AMOUNTS: Readonly<Record<AmountChange["what"], { readonly title: string; readonly digits: number }>> = {
  hourlyUsd: { title: "an hour", digits: HOURLY_DIGITS },
  monthlyUsd: { title: "a month", digits: SUM_DIGITS },
  asleepMonthlyUsd: { title: "a month, all asleep", digits: SUM_DIGITS },
};

function costRows(
  { cost, newBuilds, newBuildUsd }: PlanDifferences,
  isUnknown: boolean,
): readonly (readonly Inline[])[] {
  const rows = cost.map((change): readonly Inline[] => {
    const [before, after] = amounts(change);
    return [[AMOUNTS[change.what].title], [before ?? (isUnknown ? "unknown" : "none")], [after]];
  });
  // Without a price there is nothing that the engines' section does not say.
  if (newBuilds.length === 0 || (rows.length === 0 && newBuildUsd === 0)) return rows;
  const prices = newBuilds.map(({ usd: price }) => price);
  const isKnown = prices.some((price) => price !== null);
  const build = sumUsd(isKnown ? newBuildUsd : null, SUM_DIGITS, prices.includes(null));
  const title = `engines, built once${isUnknown ? " unless there" : ""} (estimate)`;
  return [...rows, [[title], [""], [build]]];
}

/** Both sides of an amount, with as many digits as tell them apart. */
export function amounts({ what, before, after }: AmountChange): readonly [string | null, string] {
  const { digits } = AMOUNTS[what];
  return apart(before, after, [digits, 4], ({ usd: sum, isAtLeast }: Amount, form) =>
    sumUsd(sum, form, isAtLeast),
  );
}

/** Both values in the first of the forms in which they differ, where they do. */
function apart<Value, After extends Value | null, Form>(
  before: Value | null,
  after: After,
  forms: readonly Form[],
  show: (value: Value, form: Form) => string,
): readonly [string | null, After extends null ? string | null : string] {
  const pairs = forms.map(
    (form) =>
      [before === null ? null : show(before, form), after === null ? null : show(after, form)] as const,
  );
  const pair = before === after ? pairs[0] : (pairs.find(([was, is]) => was !== is) ?? pairs.at(-1));
  return pair as readonly [string | null, After extends null ? string | null : string];
}
