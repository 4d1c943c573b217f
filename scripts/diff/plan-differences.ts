/**
 * Changes between two plans of a stack: engines and why they are rebuilt, memory, cost, time to the first answer, warnings.
 * Same plans, same bytes.
 */
import { explainKeyChange } from "../../infra/plan/engine/explain-key-change.ts";
import { canonicalJson } from "../../infra/plan/plain-data.ts";
import type { ComparablePlan } from "./rendered-tree.ts";
import type { Amount, EngineNeed, PlanDifferences } from "./types.ts";

/** @param before - Null when nothing was planned yet, so all of `after` is new. */
export function planDifferences(before: ComparablePlan | null, after: ComparablePlan): PlanDifferences {
  const models = before?.models ?? [];
  const builtBefore = new Set(before?.cost.builds.map(({ engine }) => engine));
  const newBuilds = after.cost.builds
    .filter(({ engine }) => !builtBefore.has(engine))
    .toSorted((a, b) => (a.engine < b.engine ? -1 : 1));
  // A release with the same end of life as another does not add a warning.
  const warnings = pairs(before?.warnings ?? [], after.warnings, ({ path, reason, fix }) =>
    canonicalJson([path, reason, fix]),
  );
  return {
    engines: engineChanges(models, after.models),
    fit: pairs(before === null ? [] : byTenants(before), byTenants(after), ({ key }) => key)
      .map(({ was, is, either: { pool, tenants } }) => ({
        pool,
        tenants,
        before: was?.state ?? null,
        after: is?.state ?? null,
        gpusBefore: was?.gpus ?? 0,
        gpusAfter: is?.gpus ?? 0,
      }))
      .filter((change) => isChanged(change) || change.gpusBefore !== change.gpusAfter),
    cost: (["hourlyUsd", "monthlyUsd", "asleepMonthlyUsd"] as const)
      .filter((what) => after.cost[what] !== undefined)
      .map((what) => ({
        what,
        before: before === null ? null : amountOf(before.cost, what),
        after: amountOf(after.cost, what),
      }))
      .filter(isChanged),
    costLines: pairs(before?.cost.lines ?? [], after.cost.lines, ({ what }) => what)
      .map(({ was, is, either: { what } }) => ({ what, before: lineOf(was), after: lineOf(is) }))
      .filter(isChanged),
    pricesAsOf: after.cost.pricesAsOf ?? null,
    // Compared with a base without this list, every pool would be new.
    machines: (before !== null && before.machines === undefined
      ? []
      : pairs(before?.machines ?? [], after.machines ?? [], ({ pool }) => pool)
    )
      .map(({ was, is, either: { pool } }) => ({ pool, before: machinesOf(was), after: machinesOf(is) }))
      .filter(isChanged),
    servers: (after.servers ?? []).toSorted((a, b) => (a.model < b.model ? -1 : 1)),
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

/** Items of two lists by key, sorted by key in code units; null if a list lacks the key. */
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

/** GPUs of a pool with the same tenants are one group, whatever kind of GPU it is; ranks of one model have the same tenants. */
function byTenants({ fit: fits, servers }: ComparablePlan) {
  const groups = new Map<string, ComparablePlan["fit"][number][]>();
  for (const fit of fits) {
    const key = canonicalJson([fit.pool, ...fit.tenants]);
    groups.set(key, [...(groups.get(key) ?? []), fit]);
  }
  return [...groups].flatMap(([key, alike]) =>
    alike
      .toSorted((a, b) => b.needGiB / b.capacityGiB - a.needGiB / a.capacityGiB)
      .slice(0, 1)
      .map(({ pool, tenants, ...state }) => {
        // The plan lists GPUs of one kind once, unless several tenants share them.
        const alone = tenants.length === 1 ? servers?.find(({ model }) => model === tenants[0]) : undefined;
        return { pool, tenants, state, key, gpus: alone?.gpus ?? alike.length };
      }),
  );
}

type CostLine = ComparablePlan["cost"]["lines"][number];

function lineOf(line: CostLine | null) {
  return line === null ? null : { arithmetic: line.arithmetic, hourlyUsd: line.hourlyUsd };
}

function machinesOf(machines: NonNullable<ComparablePlan["machines"]>[number] | null) {
  return machines === null ? null : { count: machines.count, types: machines.types };
}

/** By lines: a sum with an unpriced part is a lower bound. */
function amountOf(cost: ComparablePlan["cost"], what: PlanDifferences["cost"][number]["what"]): Amount {
  const parts = cost.lines.map((line) =>
    what === "asleepMonthlyUsd" ? line.asleepHourlyUsd : line.hourlyUsd,
  );
  return { usd: cost[what] ?? null, isAtLeast: parts.includes(null) };
}
