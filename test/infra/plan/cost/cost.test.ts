import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { onDemandHourlyUsd, pricesAsOf, storagePrices } from "../../../../infra/plan/catalogue/prices.ts";
import { stackCost } from "../../../../infra/plan/cost/cost.ts";
import { plannedNodes } from "../../../../infra/plan/cost/pool-price.ts";
import { HOURS_PER_MONTH } from "../../../../infra/plan/cost/sums.ts";
import { enginePlan } from "../../../../infra/plan/engine/engine-plan.ts";
import type { GpuStackSpec, ModelSpec, PoolSpec } from "../../../../infra/plan/spec.ts";
import { encodersOf, modelOf, poolOf, present, stackOf } from "../fit/stacks.ts";

/** Machines and their disks alone: a volume has no price in any table. */
const volume = { kind: "volume", readMBPerSecond: 250, sizeGiB: null, provisionedMiBps: null } as const;

function costOf(whole: GpuStackSpec) {
  const stack =
    whole.store.kind === "efs" && whole.store.sizeGiB === null ? { ...whole, store: volume } : whole;
  return costWithStore(stack);
}

function costWithStore(stack: GpuStackSpec) {
  return stackCost(
    stack,
    stack.models
      .filter(({ serving }) => serving.runtime === "engine")
      .map((model) => ({ model, engine: enginePlan(model.engine) })),
  );
}

/** An hour of the machines' disks. */
function disksUsd({ lines }: ReturnType<typeof costOf>): number {
  return lines.find(({ what }) => what === "disks of the machines")?.hourlyUsd ?? 0;
}

const g5 = present(onDemandHourlyUsd("us-east-1", "g5.2xlarge"), "price of g5.2xlarge in us-east-1");

describe("stackCost, machines", () => {
  it("prices what the replicas need, by the table of the region", () => {
    const stack = stackOf([modelOf("llama-2-7b", { serving: { replicas: 3 } })], [poolOf("g5.2xlarge")]);
    const cost = costOf(stack);
    expect(disksUsd(cost)).toBeGreaterThan(0);
    expect(Number(cost.hourlyUsd) - disksUsd(cost)).toBeCloseTo(3 * g5, 4);
    expect(cost.monthlyUsd).toBeCloseTo(Number(cost.hourlyUsd) * HOURS_PER_MONTH, 2);
    expect(cost.asleepMonthlyUsd).toBe(0);
    expect(cost.pricesAsOf).toBe(pricesAsOf("us-east-1"));
    expect(cost.lines[0]).toEqual({
      what: "pool gpu",
      arithmetic: `3 × g5.2xlarge, ${g5} USD an hour each, on demand in us-east-1`,
      hourlyUsd: 3 * g5,
      asleepHourlyUsd: 0,
    });
  });

  it("asleep, a cluster that is there keeps its least machines, and one of AWS none with GPUs", () => {
    const pool = poolOf("g5.2xlarge", { nodes: { min: 1, max: 4 }, hourlyUsd: 2 });
    const asleep = (platform: GpuStackSpec["platform"]) => costOf(stackOf([], [pool], { platform }));
    expect(asleep("kubernetes")).toMatchObject({ asleepHourlyUsd: 2, asleepMonthlyUsd: 1460 });
    expect(asleep("aws")).toMatchObject({ asleepHourlyUsd: 0, asleepMonthlyUsd: 0 });
  });

  it("leaves spot out of every sum unless the stack gives a price", () => {
    const spot = poolOf("g5.2xlarge", { capacity: "spot" });
    const models = [modelOf("llama-2-7b")];
    const unknown = costOf(stackOf(models, [spot]));
    expect(unknown).toMatchObject({ hourlyUsd: disksUsd(unknown), buildUsd: null, pricesAsOf: null });
    expect(unknown.lines[0]?.hourlyUsd).toBeNull();
    expect(unknown.builds[0]?.usd).toBeNull();
    expect(unknown.lines[0]?.arithmetic).toMatch(/^1 × g5\.2xlarge, spot without hourlyUsd/);
    expect(unknown.withoutPrice).toEqual(["pool gpu", "engine store"]);
    const given = costOf(stackOf(models, [{ ...spot, hourlyUsd: 0.5 }]));
    expect(given.hourlyUsd).toBeCloseTo(0.5 + disksUsd(given), 4);
    expect(given.pricesAsOf).toBeNull();
    expect(given.builds[0]?.usd).toBeGreaterThan(0);
  });

  it("misses no price of a pool that runs no machine", () => {
    const idle = poolOf("g5.2xlarge", { name: "idle", capacity: "spot" });
    const cost = costOf(stackOf([modelOf("llama-2-7b")], [poolOf("g5.2xlarge"), idle]));
    expect(cost.lines[1]).toMatchObject({ what: "pool idle", hourlyUsd: 0 });
    expect(cost.withoutPrice).not.toContain("pool idle");
  });

  it("takes owned machines as paid for, unless the stack gives a price", () => {
    const owned = poolOf("g5.2xlarge", { capacity: "owned", nodes: { min: 1, max: 1 } });
    const on = (pool: PoolSpec) => costOf(stackOf([modelOf("llama-2-7b")], [pool], { platform: "docker" }));
    expect(on(owned)).toMatchObject({ hourlyUsd: 0, buildUsd: 0, withoutPrice: [], besides: [] });
    expect(on({ ...owned, hourlyUsd: 2 })).toMatchObject({ hourlyUsd: 2, asleepMonthlyUsd: 1460 });
  });

  it("names what no table holds: disks, volumes, and what AWS runs besides machines", () => {
    const stack = stackOf([modelOf("gpt2-medium")], [poolOf("g5.xlarge")], {
      store: volume,
      region: "eu-west-3",
    });
    const { withoutPrice, besides, lines, hourlyUsd } = costOf(stack);
    expect(withoutPrice).toEqual(["pool gpu", "engine store", "disks of the machines"]);
    expect(hourlyUsd).toBeNull();
    // A row says already that it has no price.
    expect(besides.filter((what) => withoutPrice.some((name) => what.startsWith(`${name}:`)))).toEqual([]);
    expect(besides).toContain("data transfer, and what load balancers, NAT gateways and endpoints handle");
    expect(lines.map(({ what }) => what)).toEqual(["pool gpu", "engine store", "disks of the machines"]);
    expect(costOf({ ...stack, region: null }).pricesAsOf).toBeNull();
    expect(costOf({ ...stack, platform: "kubernetes" }).lines).toHaveLength(1);
  });

  it("prices EFS by its size, or by the weights and engines in it, awake and asleep", () => {
    const efs = storagePrices.find(
      ({ storage, region }) => storage.startsWith("EFS") && region === "us-east-1",
    );
    const perGB = present(efs?.usdPerGBMonth, "price of EFS in us-east-1");
    const models = ["a", "b"].map((name) => modelOf("llama-2-7b", { name }));
    const stack = stackOf(models, [poolOf("g5.2xlarge")]);
    const kept = costWithStore(stack);
    // 13.5 GB of weights and 12.55 GiB of engine, once for both models.
    const gb = present(models[0], "model").engine.row.source.downloadGB + (12.551 * 2 ** 30) / 1e9;
    expect(kept.asleepMonthlyUsd).toBeCloseTo(gb * perGB, 1);
    expect(Number(kept.hourlyUsd) - Number(costOf(stack).hourlyUsd)).toBeCloseTo(
      (gb * perGB) / HOURS_PER_MONTH,
      3,
    );
    const sized = costWithStore({ ...stack, store: { ...stack.store, sizeGiB: 100 } });
    expect(sized.asleepMonthlyUsd).toBeCloseTo(((100 * 2 ** 30) / 1e9) * perGB, 1);
    expect(sized.lines[1]?.arithmetic).toContain("100 GiB: 107.4 GB");
    expect(costWithStore({ ...stack, region: "eu-west-3" }).lines[1]?.hourlyUsd).toBeNull();
  });
});

describe("stackCost, builds", () => {
  it("builds one key once, though two models are served from it", () => {
    const twice = ["a", "b"].map((name) => modelOf("llama-2-7b", { name }));
    const once = costOf(stackOf(twice.slice(0, 1), [poolOf("g5.2xlarge")]));
    const both = costOf(stackOf(twice, [poolOf("g5.2xlarge")]));
    expect(both.builds).toEqual(once.builds);
    expect(both.buildUsd).toBe(once.buildUsd);
    const [build] = once.builds;
    expect(build?.usd).toBeCloseTo((present(build, "build").seconds / 3600) * g5, 3);
    expect(build?.arithmetic).toMatch(
      /^estimate: download \d+ s \+ convert \d+ s \+ llm \d+ s \+ check \d+ s$/,
    );
  });

  it("prices a build on its own pool", () => {
    const build = poolOf("g5.xlarge", { name: "build", capacity: "owned", hourlyUsd: 10 });
    const cost = costOf(
      stackOf([modelOf("llama-2-7b", { buildPool: "build" })], [poolOf("g5.2xlarge"), build]),
    );
    expect(cost.builds[0]?.usd).toBeCloseTo((present(cost.builds[0], "build").seconds / 3600) * 10, 3);
    // A pool that only builds stays at its least number, which is none.
    expect(Number(cost.hourlyUsd) - disksUsd(cost)).toBeCloseTo(g5, 4);
  });

  it("builds a shared engine on the pool of the first model that needs it", () => {
    const [cheap, dear] = [1, 100].map((hourlyUsd) =>
      poolOf("g5.2xlarge", { name: `build-${hourlyUsd}`, capacity: "owned", hourlyUsd }),
    );
    const pools = [poolOf("g5.2xlarge"), present(cheap, "pool"), present(dear, "pool")];
    const models = [1, 100].map((usd) =>
      modelOf("llama-2-7b", { name: `on-${usd}`, buildPool: `build-${usd}` }),
    );
    const cost = costOf(stackOf(models, pools));
    expect(cost.builds).toHaveLength(1);
    expect(cost.buildUsd).toBeCloseTo(present(cost.builds[0], "build").seconds / 3600, 3);
  });

  it("builds nothing for llmapi", () => {
    const llmapi = modelOf("llama-2-7b", { serving: { runtime: "llmapi", flavour: "llmapi" } });
    expect(costOf(stackOf([llmapi], [poolOf("g5.2xlarge")]))).toMatchObject({ builds: [], buildUsd: 0 });
  });

  it("refuses a build pool that is not there", () => {
    expect(() =>
      costOf(stackOf([modelOf("llama-2-7b", { buildPool: "gone" })], [poolOf("g5.2xlarge")])),
    ).toThrow(/no pool gone/);
  });
});

describe("plannedNodes", () => {
  const nodes = (models: readonly ModelSpec[], pool: PoolSpec, changes: Partial<GpuStackSpec> = {}) =>
    plannedNodes(stackOf(models, [pool], changes), pool);
  const of = (tensorParallel: number, replicas: number, name = `tp${tensorParallel}`) =>
    modelOf("llama-2-7b", { name, engine: { tensorParallel }, serving: { replicas } });

  it("keeps the ranks of a server on one machine", () => {
    const pool = poolOf("g5.12xlarge", { nodes: { min: 0, max: 10 } });
    expect(nodes([of(4, 1), of(1, 3)], pool)).toBe(2);
    expect(nodes([of(2, 3), of(1, 2)], pool)).toBe(2);
    expect(nodes([of(2, 3), of(1, 3)], pool)).toBe(3);
    // The small ones first would take the room of the large ones.
    const three = modelOf("llama-2-7b", {
      name: "pp3",
      engine: { pipelineParallel: 3 },
      serving: { replicas: 2 },
    });
    expect(nodes([of(1, 2), three], pool)).toBe(2);
  });

  it("counts encoders where they take a GPU, and shares", () => {
    const pool = poolOf("g5.xlarge", { nodes: { min: 0, max: 10 } });
    expect(nodes([of(1, 2)], pool, { encoders: encodersOf() })).toBe(3);
    expect(nodes([of(1, 2)], pool, { encoders: encodersOf({ device: "cpu" }) })).toBe(2);
    const shared = poolOf("g5.xlarge", {
      nodes: { min: 0, max: 10 },
      sharing: { mode: "timeSlicing", replicas: 2 },
    });
    expect(nodes([of(1, 2)], shared, { encoders: encodersOf() })).toBe(2);
    expect(nodes([], poolOf("g5.xlarge"), { encoders: encodersOf({ device: "cpu" }) })).toBe(1);
  });

  it("stays between least and most", () => {
    expect(nodes([of(1, 9)], poolOf("g5.xlarge", { nodes: { min: 0, max: 4 } }))).toBe(4);
    expect(nodes([], poolOf("g5.xlarge", { nodes: { min: 2, max: 4 } }))).toBe(2);
  });
});

describe("cost as a sum", () => {
  it("of two stacks side by side is the sum of both", () => {
    const part = fc.record({
      replicas: fc.integer({ min: 1, max: 4 }),
      min: fc.integer({ min: 0, max: 2 }),
      hourlyUsd: fc.integer({ min: 1, max: 400 }).map((cents) => cents / 100),
    });
    const stackFor = (
      name: string,
      { replicas, min, hourlyUsd }: { replicas: number; min: number; hourlyUsd: number },
    ) =>
      stackOf(
        [modelOf(name === "a" ? "gpt2-medium" : "llama-2-7b", { name, pool: name, serving: { replicas } })],
        [poolOf("g5.2xlarge", { name, nodes: { min, max: 8 }, hourlyUsd })],
      );
    fc.assert(
      fc.property(part, part, (one, other) => {
        const [a, b] = [stackFor("a", one), stackFor("b", other)];
        const both = costOf(stackOf([...a.models, ...b.models], [...a.pools, ...b.pools]));
        const [costA, costB] = [costOf(a), costOf(b)];
        for (const field of ["hourlyUsd", "buildUsd", "asleepHourlyUsd"] as const)
          expect(both[field]).toBeCloseTo(Number(costA[field]) + Number(costB[field]), 2);
        expect(both.builds).toEqual([...costA.builds, ...costB.builds]);
      }),
      { numRuns: 50 },
    );
  });
});
