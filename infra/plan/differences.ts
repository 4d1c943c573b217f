/**
 * Changes between two plans of a stack: engines and why they are rebuilt, memory, cost, time to the first answer, warnings.
 * Same plans, same bytes.
 */
import type { Problem } from "../problems.ts";
import { canonicalJson } from "./canonical-json.ts";
import type { ColdStart, CostLine, GpuCost } from "./cost/types.ts";
import { explainKeyChange, type KeyChange } from "./engine/explain-key-change.ts";
import type { EnginePlan } from "./engine/types.ts";
import type { MemoryFit } from "./fit/memory-fit.ts";

export type FitState = Pick<MemoryFit, "gpu" | "verdict" | "needGiB" | "capacityGiB">;

/** The compared parts of a plan. */
export interface ComparablePlan {
  readonly models: readonly {
    /** In the stack. */
    readonly name: string;
    /** null where the model runs without an engine. */
    readonly engine: Pick<EnginePlan, "model" | "key" | "shortKey" | "keyFields"> | null;
    readonly coldStart: Pick<ColdStart, "seconds">;
  }[];
  readonly fit: readonly (FitState & Pick<MemoryFit, "pool" | "tenants">)[];
  readonly cost: Pick<GpuCost, AmountName | "builds"> & {
    readonly lines: readonly Pick<CostLine, "hourlyUsd" | "asleepHourlyUsd">[];
  };
  /** Advisories, ends of life and others. */
  readonly warnings: readonly Problem[];
  readonly problems: readonly Problem[];
}

const AMOUNT_NAMES = ["hourlyUsd", "monthlyUsd", "asleepMonthlyUsd"] as const;
type AmountName = (typeof AMOUNT_NAMES)[number];

/** An engine that a model begins or ceases to need. */
interface EngineNeed {
  /** Name of the model in the stack. */
  readonly model: string;
  /** `llava-1.5-7b/3f9a…`, as in the engine store and in {@link GpuCost.builds}. */
  readonly engine: string;
  /** Whether the other plan has an engine with the same key: nothing is built, or nothing becomes unused. */
  readonly elsewhere: boolean;
}

export interface Amount {
  /** US dollars; null: no part has a price. */
  readonly usd: number | null;
  /** Whether some parts have no price, so that `usd` is a lower bound. */
  readonly isAtLeast: boolean;
}

export interface AmountChange {
  readonly what: AmountName;
  /** null: there was no plan. */
  readonly before: Amount | null;
  readonly after: Amount;
}

interface ProblemChanges {
  readonly appeared: readonly Problem[];
  readonly gone: readonly Problem[];
}

/** Everything is sorted by name. */
export interface PlanDifferences {
  readonly engines: {
    readonly added: readonly EngineNeed[];
    readonly removed: readonly EngineNeed[];
    /** With every field of the key that changed. */
    readonly rebuilt: readonly {
      readonly model: string;
      readonly before: string;
      readonly after: string;
      readonly reasons: readonly KeyChange[];
    }[];
    /** Names of models with the same engine in both plans; all other parts have differences only. */
    readonly unchanged: readonly string[];
  };
  /** null: these tenants did not share a GPU of the pool. */
  readonly fit: readonly {
    readonly pool: string;
    readonly tenants: readonly string[];
    readonly before: FitState | null;
    readonly after: FitState | null;
  }[];
  readonly cost: readonly AmountChange[];
  /** Builds of engines that the plan before did not have, which this change spends once. Estimates. */
  readonly newBuilds: GpuCost["builds"];
  /** Sum over `newBuilds` with a price. */
  readonly newBuildUsd: number;
  /** null: the model was not served. */
  readonly coldStarts: readonly {
    readonly model: string;
    readonly beforeSeconds: number | null;
    readonly afterSeconds: number | null;
  }[];
  readonly warnings: ProblemChanges;
  readonly problems: ProblemChanges;
}

/** @param before null: nothing was planned yet, so all of `after` is new. */
export function planDifferences(before: ComparablePlan | null, after: ComparablePlan): PlanDifferences {
  const { models, fit, warnings, problems }: Omit<ComparablePlan, "cost"> = before ?? {
    models: [],
    fit: [],
    warnings: [],
    problems: [],
  };
  const builtBefore = new Set(before?.cost.builds.map(({ engine }) => engine));
  const newBuilds = after.cost.builds
    .filter(({ engine }) => !builtBefore.has(engine))
    .sort((a, b) => byText(a.engine, b.engine));
  return {
    engines: engineChanges(models, after.models),
    fit: pairs(fitsByTenants(fit), fitsByTenants(after.fit)).flatMap(([, was, is]) => {
      const { pool, tenants } = (is ?? was) as ComparablePlan["fit"][number];
      const change = { pool, tenants, before: fitState(was), after: fitState(is) };
      return isSame(change.before, change.after) ? [] : [change];
    }),
    cost: AMOUNT_NAMES.flatMap((what) => {
      const change = {
        what,
        before: before === null ? null : amountOf(before.cost, what),
        after: amountOf(after.cost, what),
      };
      return isSame(change.before, change.after) ? [] : [change];
    }),
    newBuilds,
    newBuildUsd: Math.round(newBuilds.reduce((sum, { usd }) => sum + (usd ?? 0), 0) * 10_000) / 10_000,
    coldStarts: pairs(coldStarts(models), coldStarts(after.models))
      .filter(([, beforeSeconds, afterSeconds]) => beforeSeconds !== afterSeconds)
      .map(([model, beforeSeconds, afterSeconds]) => ({ model, beforeSeconds, afterSeconds })),
    warnings: problemChanges(warnings, after.warnings),
    problems: problemChanges(problems, after.problems),
  };
}

/** Values of two maps by key, sorted by key; null where a map lacks the key. */
function pairs<Value>(
  before: ReadonlyMap<string, Value>,
  after: ReadonlyMap<string, Value>,
): readonly (readonly [key: string, before: Value | null, after: Value | null])[] {
  return [...new Set([...before.keys(), ...after.keys()])]
    .sort(byText)
    .map((key) => [key, before.get(key) ?? null, after.get(key) ?? null]);
}

function isSame(a: unknown, b: unknown): boolean {
  return canonicalJson(a) === canonicalJson(b);
}

/** Code units, not a locale: the same order on every machine. */
function byText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

type Models = ComparablePlan["models"];
type Engine = NonNullable<Models[number]["engine"]>;

function engineChanges(before: Models, after: Models): PlanDifferences["engines"] {
  const [left, right] = [enginesByModel(before), enginesByModel(after)];
  const need = (model: string, engine: Engine, others: ReadonlyMap<string, Engine>): EngineNeed => ({
    model,
    engine: engineName(engine),
    elsewhere: [...others.values()].some(({ key }) => key === engine.key),
  });
  const changes = pairs(left, right);
  return {
    added: changes.flatMap(([model, was, is]) =>
      was === null && is !== null ? [need(model, is, left)] : [],
    ),
    removed: changes.flatMap(([model, was, is]) =>
      was !== null && is === null ? [need(model, was, right)] : [],
    ),
    rebuilt: changes.flatMap(([model, was, is]) => {
      if (was === null || is === null || was.key === is.key) return [];
      const reasons = explainKeyChange(was.keyFields, is.keyFields);
      return [{ model, before: engineName(was), after: engineName(is), reasons }];
    }),
    unchanged: changes.flatMap(([model, was, is]) => (was?.key === is?.key ? [model] : [])),
  };
}

function enginesByModel(models: Models): ReadonlyMap<string, Engine> {
  return new Map(models.flatMap(({ name, engine }) => (engine === null ? [] : [[name, engine] as const])));
}

function engineName({ model, shortKey }: Engine): string {
  return `${model}/${shortKey}`;
}

function coldStarts(models: Models): ReadonlyMap<string, number> {
  return new Map(models.map(({ name, coldStart }) => [name, coldStart.seconds]));
}

/**
 * A GPU is identified by pool and tenants: a GPU of another kind under the same tenants is a change of it. Ranks of one model
 * have the same tenants, and are numbered in the order of the plan.
 */
function fitsByTenants(fits: ComparablePlan["fit"]): ReadonlyMap<string, ComparablePlan["fit"][number]> {
  const keys = fits.map(({ pool, tenants }) => canonicalJson([pool, ...tenants]));
  return new Map(
    fits.map((fit, index) => {
      const rank = keys.slice(0, index).filter((key) => key === keys[index]).length;
      return [`${keys[index]} ${rank}`, fit];
    }),
  );
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

function problemChanges(before: readonly Problem[], after: readonly Problem[]): ProblemChanges {
  const changes = pairs(problemsByText(before), problemsByText(after));
  return {
    appeared: changes.flatMap(([, was, is]) => (was === null && is !== null ? [is] : [])),
    gone: changes.flatMap(([, was, is]) => (was !== null && is === null ? [was] : [])),
  };
}

function problemsByText(problems: readonly Problem[]): ReadonlyMap<string, Problem> {
  return new Map(
    problems.map((problem) => [
      canonicalJson([problem.path, problem.value, problem.reason, problem.fix]),
      problem,
    ]),
  );
}
