/**
 * Changes between two plans of a stack: engines and why they are rebuilt, memory, cost, time to the first answer, warnings.
 * Same plans, same bytes.
 */
import { explainKeyChange } from "../../infra/plan/engine/explain-key-change.ts";
import { canonicalJson } from "../../infra/plan/plain-data.ts";
import type { ComparablePlan } from "./rendered-tree.ts";
import type { Amount, EngineNeed, PlanDifferences } from "./types.ts";

/** @param before null: nothing was planned yet, so all of `after` is new. */
export function planDifferences(before: ComparablePlan | null, after: ComparablePlan): PlanDifferences {
  const models = before?.models ?? [];
  const builtBefore = new Set(before?.cost.builds.map(({ engine }) => engine));
  const newBuilds = after.cost.builds
    .filter(({ engine }) => !builtBefore.has(engine))
    .toSorted((a, b) => (a.engine < b.engine ? -1 : 1));
  const warnings = pairs(before?.warnings ?? [], after.warnings, canonicalJson);
  return {
    engines: engineChanges(models, after.models),
    fit: pairs(withTenantsKey(before?.fit ?? []), withTenantsKey(after.fit), ({ key }) => key)
      .map(({ was, is, either: { pool, tenants } }) => ({
        pool,
        tenants,
        before: was?.state ?? null,
        after: is?.state ?? null,
      }))
      .filter(isChanged),
    cost: (["hourlyUsd", "monthlyUsd", "asleepMonthlyUsd"] as const)
      .map((what) => ({
        what,
        before: before === null ? null : amountOf(before.cost, what),
        after: amountOf(after.cost, what),
      }))
      .filter(isChanged),
    newBuilds,
    newBuildUsd: Math.round(newBuilds.reduce((sum, { usd }) => sum + (usd ?? 0), 0) * 10_000) / 10_000,
    coldStarts: pairs(models, after.models, ({ name }) => name)
      .map(({ was, is, either }) => ({
        model: either.name,
        beforeSeconds: was?.coldStartSeconds ?? null,
        afterSeconds: is?.coldStartSeconds ?? null,
      }))
      .filter(({ beforeSeconds, afterSeconds }) => beforeSeconds !== afterSeconds),
    warnings: {
      appeared: warnings.flatMap(({ was, either }) => (was === null ? [either] : [])),
      gone: warnings.flatMap(({ is, either }) => (is === null ? [either] : [])),
    },
  };
}

/** Items of two lists by key, sorted by key in code units; null where a list lacks the key. */
function pairs<Item>(
  before: readonly Item[],
  after: readonly Item[],
  keyOf: (item: Item) => string,
): readonly { readonly was: Item | null; readonly is: Item | null; readonly either: Item }[] {
  const byKey = (items: readonly Item[]) => new Map(items.map((item) => [keyOf(item), item]));
  const [left, right] = [byKey(before), byKey(after)];
  return [...new Map([...left, ...right])]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, either]) => ({ was: left.get(key) ?? null, is: right.get(key) ?? null, either }));
}

function isChanged({ before, after }: { readonly before: unknown; readonly after: unknown }): boolean {
  return canonicalJson(before) !== canonicalJson(after);
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
    rebuilt: changes.flatMap(({ was, is }) => {
      if (was === null || is === null || was.key === is.key) return [];
      const reasons = explainKeyChange(was.keyFields, is.keyFields);
      return [{ model: is.model, before: was.name, after: is.name, reasons }];
    }),
    unchanged: changes.flatMap(({ was, is, either }) => (was?.key === is?.key ? [either.model] : [])),
  };
}

/**
 * A GPU is identified by pool and tenants: a GPU of another kind under the same tenants is a change of it. Ranks of one model
 * have the same tenants, and are numbered in the order of the plan.
 */
function withTenantsKey(fits: ComparablePlan["fit"]) {
  const counts = new Map<string, number>();
  return fits.map(({ pool, tenants, ...state }) => {
    const name = canonicalJson([pool, ...tenants]);
    const rank = counts.get(name) ?? 0;
    counts.set(name, rank + 1);
    return { pool, tenants, state, key: `${name} ${rank}` };
  });
}

/** By the lines: a sum of which a part has no price is a lower bound. */
function amountOf(cost: ComparablePlan["cost"], what: PlanDifferences["cost"][number]["what"]): Amount {
  const parts = cost.lines.map((line) =>
    what === "asleepMonthlyUsd" ? line.asleepHourlyUsd : line.hourlyUsd,
  );
  return { usd: cost[what], isAtLeast: parts.includes(null) };
}
