import { expect, test } from "vitest";
import { stackCost } from "../../../infra/plan/cost/cost.ts";
import { coldStart } from "../../../infra/plan/cost/times.ts";
import { enginePlan } from "../../../infra/plan/engine/engine-plan.ts";
import { memoryFit } from "../../../infra/plan/fit/memory-fit.ts";
import type { GpuStackSpec } from "../../../infra/plan/spec.ts";
import type { Problem } from "../../../infra/problems.ts";
import { planDifferences } from "../../../scripts/diff/plan-differences.ts";
import { type ComparablePlan, comparablePlan } from "../../../scripts/diff/rendered-tree.ts";
import { modelOf, poolOf, stackOf } from "../../infra/plan/fit/stacks.ts";
import { noPlanDifferences } from "./diffs.ts";

function planOf(stack: GpuStackSpec, warnings: readonly Problem[] = []): ComparablePlan {
  const models = stack.models.map((spec) => {
    const engine = spec.serving.runtime === "engine" ? enginePlan(spec.engine) : null;
    return { name: spec.serving.name, spec, engine, coldStart: coldStart(spec, stack, engine) };
  });
  const built = models.flatMap(({ spec, engine }) => (engine === null ? [] : [{ model: spec, engine }]));
  return comparablePlan(
    { models, spec: stack, fit: memoryFit(stack), cost: stackCost(stack, built) },
    warnings,
  );
}

const warning = (reason: string): Problem => ({ path: "release", value: '"25.07"', reason, fix: "Update." });

const pools = [poolOf("g5.2xlarge")];
const llava = modelOf("llava-1.5-7b", { name: "llava" });
const llama = modelOf("llama-2-7b", { name: "llama" });
const plan = planOf(stackOf([llava, llama], pools), [warning("old")]);

test("a plan has no differences from itself", () => {
  const same = planDifferences(plan, structuredClone(plan));
  const engines = { ...noPlanDifferences.engines, unchanged: ["llama", "llava"] };
  const { servers, pricesAsOf } = same;
  expect(same).toEqual({ ...noPlanDifferences, engines, servers, pricesAsOf });
  expect(servers.map(({ model }) => model)).toEqual(["llama", "llava"]);
});

test("a first plan is reported completely", () => {
  const first = planDifferences(null, plan);
  expect(first.engines.added.map(({ model, elsewhere }) => [model, elsewhere])).toEqual([
    ["llama", false],
    ["llava", false],
  ]);
  expect(first.newBuilds.map(({ usd }) => usd)).toHaveLength(2);
  expect(first.newBuildUsd).toBeCloseTo(
    plan.cost.builds.reduce((sum, { usd }) => sum + (usd ?? 0), 0),
    4,
  );
  expect(first.cost).toContainEqual({
    what: "hourlyUsd",
    before: null,
    after: { usd: plan.cost.hourlyUsd, isAtLeast: false },
  });
  expect(first.fit.map(({ tenants, before }) => [tenants[0], before])).toEqual([
    ["llama", null],
    ["llava", null],
  ]);
  expect(first.coldStarts).toHaveLength(2);
  expect(first.warnings.appeared).toEqual([warning("old")]);
});

test("a rebuild is explained by the fields of its key, and only it is priced", () => {
  const larger = modelOf("llama-2-7b", { name: "llama", limits: { maxBatchSize: 8 } });
  const changed = planDifferences(plan, planOf(stackOf([llava, larger], pools), [warning("old")]));
  expect(changed.engines.unchanged).toEqual(["llava"]);
  const [rebuilt, ...others] = changed.engines.rebuilt;
  expect(others).toEqual([]);
  expect(rebuilt).toMatchObject({
    model: "llama",
    before: expect.stringMatching(/^llama-2-7b\/[0-9a-f]{12}$/),
    after: expect.stringMatching(/^llama-2-7b\/[0-9a-f]{12}$/),
  });
  expect(rebuilt?.reasons.map(({ field }) => field)).toEqual(["steps.llm --max_batch_size"]);
  expect(changed.newBuilds.map(({ engine }) => engine)).toEqual([rebuilt?.after]);
  expect(changed.newBuildUsd).toBe(changed.newBuilds[0]?.usd);
  expect(changed.fit.map(({ tenants }) => tenants)).toEqual([["llama"]]);
  expect(changed.cost).toEqual([]);
  expect(changed.warnings).toEqual({ appeared: [], gone: [] });
});

test("an engine that another model already has is not built again", () => {
  const renamed = modelOf("llama-2-7b", { name: "llama-of-another-name" });
  const changed = planDifferences(plan, planOf(stackOf([llava, renamed], pools), [warning("new")]));
  expect(changed.engines.added).toMatchObject([{ model: "llama-of-another-name", elsewhere: true }]);
  expect(changed.engines.removed).toMatchObject([{ model: "llama", elsewhere: true }]);
  expect(changed.newBuilds).toEqual([]);
  expect(changed.coldStarts.map(({ model, afterSeconds }) => [model, afterSeconds === null])).toEqual([
    ["llama", true],
    ["llama-of-another-name", false],
  ]);
  expect(changed.warnings).toEqual({ appeared: [warning("new")], gone: [warning("old")] });
});

test("another machine changes verdict, price and cold start of the same tenants", () => {
  const changed = planDifferences(
    plan,
    planOf(stackOf([llava, llama], [poolOf("g6e.xlarge")]), [warning("old")]),
  );
  expect(changed.fit.map(({ before, after }) => [before?.gpu, after?.gpu])).toEqual([
    ["A10G 22.35 GiB", "L40S 44.70 GiB"],
    ["A10G 22.35 GiB", "L40S 44.70 GiB"],
  ]);
  expect(changed.cost.map(({ what }) => what)).toEqual(["hourlyUsd", "monthlyUsd"]);
});

test("costs without a price are unknown, and sums that lack a price are lower bounds", () => {
  const inRegion = (region: string, changes = {}) =>
    planOf(stackOf([llava, llama], [poolOf("g5.2xlarge", changes)], { region }), [warning("old")]);
  const none = planDifferences(plan, inRegion("eu-central-1")).cost;
  expect(none.map(({ what, after }) => [what, after])).toEqual([
    ["hourlyUsd", { usd: null, isAtLeast: true }],
    ["monthlyUsd", { usd: null, isAtLeast: true }],
    ["asleepMonthlyUsd", { usd: 0, isAtLeast: true }],
  ]);
  const some = planDifferences(plan, inRegion("eu-central-1", { hourlyUsd: 1 })).cost;
  expect(some[0]?.after).toEqual({ usd: expect.any(Number), isAtLeast: true });
});

test("costs asleep are compared if the stack can sleep, so not those of a Docker host", () => {
  const on = (platform: "docker" | "kubernetes") => {
    const after = planOf(stackOf([llava, llama], [poolOf("g5.2xlarge", { hourlyUsd: 9 })], { platform }), []);
    return planDifferences(plan, after).cost.map(({ what }) => what);
  };
  expect(on("docker")).toEqual(["hourlyUsd", "monthlyUsd"]);
  expect(on("kubernetes")).toEqual(["hourlyUsd", "monthlyUsd", "asleepMonthlyUsd"]);
});

test("ranks of one model are one difference with their number", () => {
  const split = (memory: number, tensorParallel = 2) => {
    const pool = poolOf("g5.12xlarge");
    const gpu = pool.gpu === null ? null : { ...pool.gpu, memoryGiB: memory };
    const model = modelOf("llava-1.5-7b", { engine: { tensorParallel } });
    return planOf(stackOf([model], [{ ...pool, gpu }]));
  };
  expect(planDifferences(split(24), split(48)).fit).toMatchObject([{ gpusBefore: 2, gpusAfter: 2 }]);
  expect(planDifferences(split(24), split(24)).fit).toEqual([]);
  expect(planDifferences(split(24), split(24, 4)).fit).toMatchObject([{ gpusBefore: 2, gpusAfter: 4 }]);
});

test("differences do not depend on the order of models", () => {
  const other = planOf(stackOf([llava], pools));
  const shuffled = (of: ComparablePlan): ComparablePlan => ({
    ...of,
    models: [...of.models].reverse(),
    fit: [...of.fit].reverse(),
    cost: { ...of.cost, builds: [...of.cost.builds].reverse() },
  });
  for (const before of [other, null]) {
    expect(JSON.stringify(planDifferences(before, shuffled(plan)))).toBe(
      JSON.stringify(planDifferences(before, plan)),
    );
  }
});
