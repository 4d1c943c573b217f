/**
 * What changes between two plans of a stack, before anything is done about it: engines and why they are built anew, memory,
 * money, time to the first answer, warnings. Same plans, same bytes.
 */
import type { Problem } from "../problems.ts";
import { canonicalJson } from "./canonical-json.ts";
import type { ColdStart, CostLine, GpuCost } from "./cost/types.ts";
import { explainKeyChange, type KeyChange } from "./engine/explain-key-change.ts";
import type { EnginePlan } from "./engine/types.ts";
import type { MemoryFit, Verdict } from "./fit/types.ts";

/** What of a plan is compared. */
export interface ComparablePlan {
  readonly models: readonly {
    /** Name in the stack. */
    readonly name: string;
    /** null where the model runs without an engine. */
    readonly engine: Pick<EnginePlan, "model" | "key" | "shortKey" | "keyFields"> | null;
    readonly coldStart: Pick<ColdStart, "seconds">;
  }[];
  readonly fit: readonly Pick<
    MemoryFit,
    "pool" | "gpu" | "tenants" | "capacityGiB" | "needGiB" | "verdict"
  >[];
  readonly cost: Pick<GpuCost, "hourlyUsd" | "monthlyUsd" | "asleepMonthlyUsd" | "builds"> & {
    readonly lines: readonly Pick<CostLine, "hourlyUsd" | "asleepHourlyUsd">[];
  };
  /** Advisories, ends of life and other things to know. */
  readonly warnings: readonly Problem[];
  readonly problems: readonly Problem[];
}

/** An engine that a model begins or ceases to need. */
export interface EngineNeed {
  /** Name of the model in the stack. */
  readonly model: string;
  /** `llava-1.5-7b/3f9a…`, as in the engine store. */
  readonly engine: string;
  /** Whether the other plan has an engine with the same key: nothing is built, or nothing becomes unused. */
  readonly elsewhere: boolean;
}

export interface EngineRebuild {
  readonly model: string;
  readonly before: string;
  readonly after: string;
  /** Every field of the key that changed. */
  readonly reasons: readonly KeyChange[];
}

export interface FitState {
  readonly gpu: string;
  readonly verdict: Verdict;
  readonly needGiB: number;
  readonly capacityGiB: number;
}

export interface FitChange {
  readonly pool: string;
  readonly tenants: readonly string[];
  /** null: these tenants did not land on one GPU of the pool. */
  readonly before: FitState | null;
  readonly after: FitState | null;
}

export interface Amount {
  /** US dollars; null: nothing of it has a price. */
  readonly usd: number | null;
  /** Whether some of it has no price, and `usd` is a lower bound. */
  readonly isAtLeast: boolean;
}

export interface AmountChange {
  readonly what: "hourlyUsd" | "monthlyUsd" | "asleepMonthlyUsd";
  /** null: there was no plan. */
  readonly before: Amount | null;
  readonly after: Amount;
}

export interface ColdStartChange {
  readonly model: string;
  /** null: the model was not served. */
  readonly beforeSeconds: number | null;
  readonly afterSeconds: number | null;
}

export interface ProblemChanges {
  readonly appeared: readonly Problem[];
  readonly gone: readonly Problem[];
}

export interface PlanDifferences {
  readonly engines: {
    readonly added: readonly EngineNeed[];
    readonly removed: readonly EngineNeed[];
    readonly rebuilt: readonly EngineRebuild[];
    /** Names of the models whose engine stays as it is; no difference by themselves. */
    readonly unchanged: readonly string[];
  };
  readonly fit: readonly FitChange[];
  readonly cost: readonly AmountChange[];
  /** Builds of engines that the plan before did not have: what this change spends once. Estimates. */
  readonly newBuilds: GpuCost["builds"];
  /** Sum over `newBuilds` of what has a price. */
  readonly newBuildUsd: number;
  readonly coldStarts: readonly ColdStartChange[];
  readonly warnings: ProblemChanges;
  readonly problems: ProblemChanges;
}

const NO_PLAN: Omit<ComparablePlan, "cost"> = { models: [], fit: [], warnings: [], problems: [] };

/**
 * Differences from one plan to the next; everything is sorted by name. What is alike is left out, but for
 * `engines.unchanged`.
 *
 * @param before null: nothing was planned yet, so all of `after` is new.
 */
export function planDifferences(before: ComparablePlan | null, after: ComparablePlan): PlanDifferences {
  const earlier = before ?? NO_PLAN;
  const builtBefore = new Set(before?.cost.builds.map(({ engine }) => engine));
  const newBuilds = after.cost.builds
    .filter(({ engine }) => !builtBefore.has(engine))
    .sort((a, b) => byText(a.engine, b.engine));
  return {
    engines: engineChanges(earlier.models, after.models),
    fit: fitChanges(earlier.fit, after.fit),
    cost: costChanges(before?.cost ?? null, after.cost),
    newBuilds,
    newBuildUsd: Math.round(newBuilds.reduce((sum, { usd }) => sum + (usd ?? 0), 0) * 10_000) / 10_000,
    coldStarts: coldStartChanges(earlier.models, after.models),
    warnings: problemChanges(earlier.warnings, after.warnings),
    problems: problemChanges(earlier.problems, after.problems),
  };
}

type Models = ComparablePlan["models"];
type Engine = NonNullable<Models[number]["engine"]>;

function engineChanges(before: Models, after: Models): PlanDifferences["engines"] {
  const [left, right] = [enginesByModel(before), enginesByModel(after)];
  const pairs = sortedKeys(left, right).map((model) => ({
    model,
    before: left.get(model),
    after: right.get(model),
  }));
  const need = (model: string, engine: Engine, others: ReadonlyMap<string, Engine>): EngineNeed => ({
    model,
    engine: engineName(engine),
    elsewhere: [...others.values()].some(({ key }) => key === engine.key),
  });
  return {
    added: pairs.flatMap((pair) =>
      pair.before === undefined && pair.after !== undefined ? [need(pair.model, pair.after, left)] : [],
    ),
    removed: pairs.flatMap((pair) =>
      pair.before !== undefined && pair.after === undefined ? [need(pair.model, pair.before, right)] : [],
    ),
    rebuilt: pairs.flatMap((pair) =>
      pair.before !== undefined && pair.after !== undefined && pair.before.key !== pair.after.key
        ? [
            {
              model: pair.model,
              before: engineName(pair.before),
              after: engineName(pair.after),
              reasons: explainKeyChange(pair.before.keyFields, pair.after.keyFields),
            },
          ]
        : [],
    ),
    unchanged: pairs.flatMap((pair) =>
      pair.before !== undefined && pair.before.key === pair.after?.key ? [pair.model] : [],
    ),
  };
}

function enginesByModel(models: Models): ReadonlyMap<string, Engine> {
  return new Map(models.flatMap(({ name, engine }) => (engine === null ? [] : [[name, engine] as const])));
}

/** As {@link GpuCost.builds} names it. */
function engineName({ model, shortKey }: Engine): string {
  return `${model}/${shortKey}`;
}

/** GPUs are told apart by pool and tenants: a GPU of another kind under the same tenants is a change, not another one. */
function fitChanges(before: ComparablePlan["fit"], after: ComparablePlan["fit"]): readonly FitChange[] {
  const [left, right] = [fitsByTenants(before), fitsByTenants(after)];
  return sortedKeys(left, right).flatMap((key) => {
    const [was, is] = [left.get(key), right.get(key)];
    const [from, to] = [was === undefined ? null : fitState(was), is === undefined ? null : fitState(is)];
    const named = is ?? was;
    if (named === undefined || canonicalJson(from) === canonicalJson(to)) return [];
    return [{ pool: named.pool, tenants: named.tenants, before: from, after: to }];
  });
}

function fitsByTenants(fits: ComparablePlan["fit"]): ReadonlyMap<string, ComparablePlan["fit"][number]> {
  const byKey = new Map<string, ComparablePlan["fit"][number]>();
  for (const fit of fits) {
    const tenants = canonicalJson([fit.pool, ...fit.tenants]);
    // Ranks of one model have the same tenants; their order is that of the plan.
    let ordinal = 0;
    while (byKey.has(`${tenants} ${ordinal}`)) ordinal += 1;
    byKey.set(`${tenants} ${ordinal}`, fit);
  }
  return byKey;
}

function fitState({ gpu, verdict, needGiB, capacityGiB }: ComparablePlan["fit"][number]): FitState {
  return { gpu, verdict, needGiB, capacityGiB };
}

const AMOUNTS = ["hourlyUsd", "monthlyUsd", "asleepMonthlyUsd"] as const;

function costChanges(
  before: ComparablePlan["cost"] | null,
  after: ComparablePlan["cost"],
): readonly AmountChange[] {
  return AMOUNTS.flatMap((what) => {
    const [was, is] = [before === null ? null : amountOf(before, what), amountOf(after, what)];
    return was?.usd === is.usd && was.isAtLeast === is.isAtLeast ? [] : [{ what, before: was, after: is }];
  });
}

/** By the lines, since older plans have 0 for a sum of which nothing is known. */
function amountOf(cost: ComparablePlan["cost"], what: (typeof AMOUNTS)[number]): Amount {
  const parts = cost.lines.map((line) =>
    what === "asleepMonthlyUsd" ? line.asleepHourlyUsd : line.hourlyUsd,
  );
  const isAtLeast = parts.includes(null);
  const isKnown = !isAtLeast || parts.some((part) => part !== null);
  return { usd: isKnown ? cost[what] : null, isAtLeast };
}

function coldStartChanges(before: Models, after: Models): readonly ColdStartChange[] {
  const seconds = (models: Models) => new Map(models.map(({ name, coldStart }) => [name, coldStart.seconds]));
  const [left, right] = [seconds(before), seconds(after)];
  return sortedKeys(left, right).flatMap((model) => {
    const [beforeSeconds, afterSeconds] = [left.get(model) ?? null, right.get(model) ?? null];
    return beforeSeconds === afterSeconds ? [] : [{ model, beforeSeconds, afterSeconds }];
  });
}

function problemChanges(before: readonly Problem[], after: readonly Problem[]): ProblemChanges {
  const [left, right] = [problemsByText(before), problemsByText(after)];
  const only = (mine: ReadonlyMap<string, Problem>, others: ReadonlyMap<string, Problem>) =>
    [...mine]
      .filter(([text]) => !others.has(text))
      .sort(([a], [b]) => byText(a, b))
      .map(([, problem]) => problem);
  return { appeared: only(right, left), gone: only(left, right) };
}

function problemsByText(problems: readonly Problem[]): ReadonlyMap<string, Problem> {
  return new Map(
    problems.map((problem) => [
      canonicalJson([problem.path, problem.value, problem.reason, problem.fix]),
      problem,
    ]),
  );
}

function sortedKeys(...maps: readonly ReadonlyMap<string, unknown>[]): readonly string[] {
  return [...new Set(maps.flatMap((map) => [...map.keys()]))].sort(byText);
}

/** Code units, not a locale: the same order on every machine. */
function byText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
