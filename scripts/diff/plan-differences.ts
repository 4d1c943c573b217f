/**
 * Changes between two plans of a stack: engines and why they are rebuilt, memory, cost, time to the first answer, warnings.
 * Same plans, same bytes.
 */
import { explainKeyChange } from "../../infra/plan/engine/explain-key-change.ts";
import { canonicalJson } from "../../infra/plan/plain-data.ts";
import type { Problem } from "../../infra/problems.ts";
import type { ComparablePlan } from "./rendered-tree.ts";
import type { Amount, EngineNeed, FitState, PlanDifferences } from "./types.ts";

type AmountName = PlanDifferences["cost"][number]["what"];

const AMOUNT_NAMES: readonly AmountName[] = ["hourlyUsd", "monthlyUsd", "asleepMonthlyUsd"];

/** @param before null: nothing was planned yet, so all of `after` is new. */
export function planDifferences(before: ComparablePlan | null, after: ComparablePlan): PlanDifferences {
  const models = before?.models ?? [];
  const builtBefore = new Set(before?.cost.builds.map(({ engine }) => engine));
  const newBuilds = after.cost.builds
    .filter(({ engine }) => !builtBefore.has(engine))
    .sort((a, b) => byText(a.engine, b.engine));
  return {
    engines: engineChanges(models, after.models),
    fit: pairs(withTenantsKey(before?.fit ?? []), withTenantsKey(after.fit), ({ key }) => key).flatMap(
      ({ was, is, either: { pool, tenants } }) =>
        ifChanged({ pool, tenants, before: fitState(was), after: fitState(is) }),
    ),
    cost: AMOUNT_NAMES.flatMap((what) =>
      ifChanged({
        what,
        before: before === null ? null : amountOf(before.cost, what),
        after: amountOf(after.cost, what),
      }),
    ),
    newBuilds,
    newBuildUsd: Math.round(newBuilds.reduce((sum, { usd }) => sum + (usd ?? 0), 0) * 10_000) / 10_000,
    coldStarts: pairs(models, after.models, ({ name }) => name)
      .map(({ was, is, either }) => ({
        model: either.name,
        beforeSeconds: was?.coldStart.seconds ?? null,
        afterSeconds: is?.coldStart.seconds ?? null,
      }))
      .filter(({ beforeSeconds, afterSeconds }) => beforeSeconds !== afterSeconds),
    warnings: problemChanges(before?.warnings ?? [], after.warnings),
    problems: problemChanges(before?.problems ?? [], after.problems),
  };
}

/** Items of two lists by key, sorted by key; null where a list lacks the key. */
function pairs<Item>(
  before: readonly Item[],
  after: readonly Item[],
  keyOf: (item: Item) => string,
): readonly { readonly was: Item | null; readonly is: Item | null; readonly either: Item }[] {
  const [left, right] = [before, after].map((items) => new Map(items.map((item) => [keyOf(item), item]))) as [
    Map<string, Item>,
    Map<string, Item>,
  ];
  return [...new Map([...left, ...right])]
    .sort(([a], [b]) => byText(a, b))
    .map(([key, either]) => ({ was: left.get(key) ?? null, is: right.get(key) ?? null, either }));
}

/** Code units, not a locale: the same order on every machine. */
function byText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function ifChanged<Change extends { readonly before: unknown; readonly after: unknown }>(
  change: Change,
): readonly Change[] {
  return canonicalJson(change.before) === canonicalJson(change.after) ? [] : [change];
}

type Models = ComparablePlan["models"];

function engineChanges(before: Models, after: Models): PlanDifferences["engines"] {
  const enginesOf = (models: Models) =>
    models.flatMap(({ name: model, engine }) =>
      engine === null ? [] : [{ ...engine, model, name: `${engine.model}/${engine.shortKey}` }],
    );
  const [left, right] = [enginesOf(before), enginesOf(after)];
  type Engine = (typeof left)[number];
  const need = ({ model, name, key }: Engine, others: readonly Engine[]): EngineNeed => ({
    model,
    engine: name,
    elsewhere: others.some((other) => other.key === key),
  });
  const changes = pairs(left, right, ({ model }) => model);
  return {
    added: changes.flatMap(({ was, either }) => (was === null ? [need(either, left)] : [])),
    removed: changes.flatMap(({ is, either }) => (is === null ? [need(either, right)] : [])),
    rebuilt: changes.flatMap(({ was, is }) =>
      was === null || is === null || was.key === is.key
        ? []
        : [
            {
              model: is.model,
              before: was.name,
              after: is.name,
              reasons: explainKeyChange(was.keyFields, is.keyFields),
            },
          ],
    ),
    unchanged: changes.flatMap(({ was, is, either }) => (was?.key === is?.key ? [either.model] : [])),
  };
}

/**
 * A GPU is identified by pool and tenants: a GPU of another kind under the same tenants is a change of it. Ranks of one model
 * have the same tenants, and are numbered in the order of the plan.
 */
function withTenantsKey(fits: ComparablePlan["fit"]) {
  const counts = new Map<string, number>();
  return fits.map((fit) => {
    const tenants = canonicalJson([fit.pool, ...fit.tenants]);
    const rank = counts.get(tenants) ?? 0;
    counts.set(tenants, rank + 1);
    return { ...fit, key: `${tenants} ${rank}` };
  });
}

function fitState(fit: FitState | null): FitState | null {
  if (fit === null) return null;
  const { gpu, verdict, needGiB, capacityGiB } = fit;
  return { gpu, verdict, needGiB, capacityGiB };
}

/** By the lines, since older plans have 0 for a sum of which nothing is known. */
function amountOf(cost: ComparablePlan["cost"], what: AmountName): Amount {
  const parts = cost.lines.map((line) =>
    what === "asleepMonthlyUsd" ? line.asleepHourlyUsd : line.hourlyUsd,
  );
  const isAtLeast = parts.includes(null);
  const isKnown = !isAtLeast || parts.some((part) => part !== null);
  return { usd: isKnown ? cost[what] : null, isAtLeast };
}

function problemChanges(before: readonly Problem[], after: readonly Problem[]): PlanDifferences["problems"] {
  const changes = pairs(before, after, ({ path, value, reason, fix }) =>
    canonicalJson([path, value, reason, fix]),
  );
  return {
    appeared: changes.flatMap(({ was, either }) => (was === null ? [either] : [])),
    gone: changes.flatMap(({ is, either }) => (is === null ? [either] : [])),
  };
}
