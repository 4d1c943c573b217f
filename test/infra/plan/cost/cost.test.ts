import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { onDemandHourlyUsd, priceOf, pricesAsOf } from "../../../../infra/plan/catalogue/prices.ts";
import { HOURS_PER_MONTH, stackCost } from "../../../../infra/plan/cost/cost.ts";
import { plannedNodes } from "../../../../infra/plan/cost/pool-price.ts";
import { buildEstimate, coldStart } from "../../../../infra/plan/cost/times.ts";
import { enginePlan } from "../../../../infra/plan/engine/engine-plan.ts";
import type { EngineSpec, GpuStackSpec, ModelSpec, PoolSpec } from "../../../../infra/plan/spec.ts";
import { times } from "../../../harness/thorough.ts";
import { encodersOf, modelOf, PLATFORMS, poolOf, present, stackOf } from "../fit/stacks.ts";

/** Only machines and their disks cost: no table has a price of volumes. */
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

it("nodes for the replicas are priced by the region's table", () => {
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

it("asleep, an existing cluster keeps its minimum of nodes, and a cluster on AWS keeps no nodes with GPUs", () => {
  const pool = poolOf("g5.2xlarge", { nodes: { min: 1, max: 4 }, hourlyUsd: 2 });
  const asleep = (platform: "kubernetes" | "aws") => costOf(stackOf([], [pool], { platform }));
  expect(asleep("kubernetes")).toMatchObject({ asleepHourlyUsd: 2, asleepMonthlyUsd: 1460 });
  expect(asleep("aws")).toMatchObject({ asleepHourlyUsd: 0, asleepMonthlyUsd: 0 });
});

it("spot nodes are left out of the sums unless the stack file has a price", () => {
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

it("a pool with several instance types is priced by the dearest, and the plan says so", () => {
  const pool = poolOf("g5.xlarge", { otherInstanceTypes: ["g5.4xlarge", "g5.2xlarge"] });
  const g5Large = present(onDemandHourlyUsd("us-east-1", "g5.4xlarge"), "price of g5.4xlarge in us-east-1");
  const [line] = costOf(stackOf([modelOf("gpt2-medium")], [pool])).lines;
  expect(line).toMatchObject({
    arithmetic: `1 × g5.xlarge or g5.4xlarge or g5.2xlarge, ${g5Large} USD an hour each of the dearest, on demand in us-east-1`,
    hourlyUsd: g5Large,
  });
});

it("a Capacity Block has no price but the stack file's, which it costs asleep too", () => {
  const block = poolOf("p4d.24xlarge", { capacity: "capacityBlock", nodes: { min: 0, max: 1 } });
  const models = [modelOf("llama-2-7b")];
  const [unknown] = costOf(stackOf(models, [block])).lines;
  expect(unknown).toMatchObject({ hourlyUsd: null, asleepHourlyUsd: null });
  expect(unknown?.arithmetic).toContain("a Capacity Block, paid for beforehand");
  const [given] = costOf(stackOf(models, [{ ...block, hourlyUsd: 12 }])).lines;
  expect(given).toMatchObject({ hourlyUsd: 12, asleepHourlyUsd: 12 });
});

it("a pool without nodes needs no price", () => {
  const idle = poolOf("g5.2xlarge", { name: "idle", capacity: "spot" });
  const cost = costOf(stackOf([modelOf("llama-2-7b")], [poolOf("g5.2xlarge"), idle]));
  expect(cost.lines[1]).toMatchObject({ what: "pool idle", hourlyUsd: 0 });
  expect(cost.withoutPrice).not.toContain("pool idle");
});

it("owned machines cost nothing unless the stack file has a price", () => {
  const owned = poolOf("g5.2xlarge", { capacity: "owned", nodes: { min: 1, max: 1 } });
  const on = (pool: PoolSpec) => costOf(stackOf([modelOf("llama-2-7b")], [pool], { platform: "docker" }));
  expect(on(owned)).toMatchObject({ hourlyUsd: 0, buildUsd: 0, withoutPrice: [] });
  expect(on({ ...owned, hourlyUsd: 2 })).toMatchObject({ hourlyUsd: 2, asleepMonthlyUsd: 1460 });
});

it("costs without a price in any table are listed", () => {
  const stack = stackOf([modelOf("gpt2-medium")], [poolOf("g5.xlarge")], {
    store: volume,
    region: "eu-west-3",
  });
  const { withoutPrice, notIncluded, lines, hourlyUsd } = costOf(stack);
  expect(withoutPrice).toEqual(["pool gpu", "engine store", "disks of the machines"]);
  expect(hourlyUsd).toBeNull();
  // A row without a price already reports it.
  expect(notIncluded.filter((what) => withoutPrice.some((name) => what.startsWith(`${name}:`)))).toEqual([]);
  expect(notIncluded).toEqual(["data transfer"]);
  expect(lines.map(({ what }) => what)).toEqual(["pool gpu", "engine store", "disks of the machines"]);
  expect(costOf({ ...stack, region: null }).pricesAsOf).toBeNull();
  expect(costOf({ ...stack, isRented: false }).lines).toHaveLength(1);
});

it("EFS is priced by its size or by its weights and engines, awake and asleep", () => {
  const perGB = present(priceOf("EFS Standard, regional", "us-east-1")?.usd, "price of EFS in us-east-1");
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

it("an engine of two models is built and paid for once", () => {
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

it("a build is priced on its build pool", () => {
  const build = poolOf("g5.xlarge", { name: "build", capacity: "owned", hourlyUsd: 10 });
  const cost = costOf(
    stackOf([modelOf("llama-2-7b", { buildPool: "build" })], [poolOf("g5.2xlarge"), build]),
  );
  expect(cost.builds[0]?.usd).toBeCloseTo((present(cost.builds[0], "build").seconds / 3600) * 10, 3);
  // A pool that only builds stays at its minimum, which is zero.
  expect(Number(cost.hourlyUsd) - disksUsd(cost)).toBeCloseTo(g5, 4);
});

it("a shared engine is built on the pool of the first model that uses it", () => {
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

it("a model on the LLM API has no build", () => {
  const llmapi = modelOf("llama-2-7b", { serving: { runtime: "llmapi", flavour: "llmapi" } });
  expect(costOf(stackOf([llmapi], [poolOf("g5.2xlarge")]))).toMatchObject({ builds: [], buildUsd: 0 });
});

it("an unknown build pool is refused", () => {
  expect(() =>
    costOf(stackOf([modelOf("llama-2-7b", { buildPool: "gone" })], [poolOf("g5.2xlarge")])),
  ).toThrow(/no pool gone/);
});

const nodes = (models: readonly ModelSpec[], pool: PoolSpec, changes: Partial<GpuStackSpec> = {}) =>
  plannedNodes(stackOf(models, [pool], changes), pool);
const of = (tensorParallel: number, replicas: number, name = `tp${tensorParallel}`) =>
  modelOf("llama-2-7b", { name, engine: { tensorParallel }, serving: { replicas } });

it("the ranks of a server are on the same node", () => {
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

it("encoders on GPUs and GPU shares count in the number of nodes", () => {
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

it("the number of nodes stays between its minimum and maximum", () => {
  expect(nodes([of(1, 9)], poolOf("g5.xlarge", { nodes: { min: 0, max: 4 } }))).toBe(4);
  expect(nodes([], poolOf("g5.xlarge", { nodes: { min: 2, max: 4 } }))).toBe(2);
});

it("the cost of two stacks side by side is the sum of both", () => {
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
    { numRuns: times(50, 500) },
  );
});

const pool = poolOf("g5.2xlarge");

function part(spec: EngineSpec, what: "download" | "convert" | "llm" | "vision"): number {
  return buildEstimate(spec, pool).parts[what] ?? 0;
}

const gpt2 = modelOf("gpt2-medium").engine;
const llama = modelOf("llama-2-7b").engine;

it("build estimates are near the published 41 s of gpt2-medium and 129 s (int4: 55 s) of Llama 8B", () => {
  expect(Math.abs(part(gpt2, "llm") - 41)).toBeLessThanOrEqual(2);
  const llama3 = {
    ...llama.row,
    architecture: {
      ...llama.row.architecture,
      parameters: 8_030_261_248,
      embeddingParameters: 1_050_673_152,
    },
  };
  expect(part({ ...llama, row: llama3 }, "llm")).toBeGreaterThan(129 / 2);
  expect(part({ ...llama, row: llama3 }, "llm")).toBeLessThan(129 * 2);
  expect(part({ ...llama, row: llama3, quantization: "int4" }, "llm")).toBeGreaterThan(55 / 2);
  expect(part({ ...llama, row: llama3, quantization: "int4" }, "llm")).toBeLessThan(55 * 2);
  expect(Math.abs(part({ ...llama, row: llama3 }, "convert") - 24)).toBeLessThanOrEqual(3);
});

it("the build of Llama-2-7b is estimated at two to ten minutes with its download", () => {
  const { seconds, parts } = buildEstimate(llama, pool);
  expect(seconds).toBeGreaterThan(120);
  expect(seconds).toBeLessThan(600);
  expect(seconds).toBe(Object.values(parts).reduce((sum, one) => sum + one, 0));
});

it("only builds of vision-language models have a vision part", () => {
  expect(part(llama, "vision")).toBe(0);
  expect(part(modelOf("llava-1.5-7b").engine, "vision")).toBeGreaterThan(0);
});

it("weights of a folder are not downloaded, and others no faster than the network", () => {
  const folder = { kind: "folder", path: "/models/llama", revision: "1" } as const;
  expect(part({ ...llama, weights: folder }, "download")).toBe(0);
  const slow = { ...pool, machine: { ...pool.machine, networkMbps: 80 } };
  expect(buildEstimate(llama, slow).parts.download).toBe((llama.row.source.downloadGB * 1000) / 10);
});

it("build estimates grow with ranks and with quantization that needs calibration", () => {
  expect(part({ ...llama, tensorParallel: 4 }, "llm")).toBeGreaterThan(part(llama, "llm"));
  expect(part({ ...llama, quantization: "fp8" }, "convert")).toBeGreaterThan(
    part({ ...llama, quantization: "int8" }, "convert"),
  );
});

const model = modelOf("llama-2-7b");

const engine = enginePlan(model.engine);

const stack = stackOf([model], [poolOf("g5.2xlarge")]);

function stepsOf(of: ReturnType<typeof coldStart>): Readonly<Record<string, number>> {
  return Object.fromEntries(of.steps.map(({ what, seconds }) => [what, seconds]));
}

it("a cold start is the sum of node, image, copy and load", () => {
  const start = coldStart(model, stack, engine);
  expect(start.steps.map(({ what }) => what)).toEqual(["node", "imagePull", "engineCopy", "load"]);
  expect(start.seconds).toBe(start.steps.reduce((sum, { seconds }) => sum + seconds, 0));
  // 18.3 GB at 60 MB/s, and 12.55 GiB at 250 MB/s.
  expect(stepsOf(start)).toMatchObject({ imagePull: 305, engineCopy: 54 });
});

it("a cold start on owned machines does not wait for a node", () => {
  for (const platform of ["docker", "kubernetes"] as const) {
    expect(stepsOf(coldStart(model, { ...stack, ...PLATFORMS[platform] }, engine))).not.toHaveProperty(
      "node",
    );
  }
  const owned = { ...stack, pools: [poolOf("g5.2xlarge", { capacity: "owned" })] };
  expect(stepsOf(coldStart(model, owned, engine))).not.toHaveProperty("node");
});

it("an engine is copied at the store's bandwidth", () => {
  const copy = (readMBPerSecond: number) =>
    present(
      stepsOf(coldStart(model, { ...stack, store: { ...stack.store, readMBPerSecond } }, engine)).engineCopy,
      "copy",
    );
  expect(copy(100)).toBe(135);
  expect(copy(1000)).toBe(13);
});

it("the load time follows Triton's 15 s for 14.96 GiB, and ranks load in parallel", () => {
  const load = (tensorParallel: number) => {
    const split = modelOf("llama-2-7b", { engine: { tensorParallel } });
    return present(stepsOf(coldStart(split, stack, enginePlan(split.engine))).load, "load");
  };
  expect(load(1)).toBe(18);
  expect(load(2)).toBe(11);
});

it("a cold start without an engine copies the weights and starts PyTorch", () => {
  const start = coldStart(model, stack, null);
  expect(start.steps.find(({ what }) => what === "engineCopy")?.arithmetic).toMatch(/^weights of 12\.55 GiB/);
  expect(stepsOf(start).load).toBe(78);
});

it("an image of unknown size is named in the arithmetic", () => {
  const unknown = { ...stack, release: { ...stack.release, imageGB: null } };
  const pull = coldStart(model, unknown, engine).steps.find(({ what }) => what === "imagePull");
  expect(pull?.arithmetic).toContain("size unknown");
});

it("a pre-pulled image on owned machines takes disk space but no time", () => {
  const pools = [poolOf("g5.2xlarge", { prePullsImages: true, capacity: "owned" })];
  const start = coldStart(model, { ...stack, pools }, engine);
  expect(start.steps.find(({ what }) => what === "imagePull")).toEqual({
    what: "imagePull",
    seconds: 0,
    arithmetic: "18.3 GB of every machine's disk, pulled before",
  });
  expect(start.onRunningMachine).toEqual([]);
});

describe("on a rented machine", () => {
  const started = (min: number, prePullsImages = false) =>
    coldStart(
      model,
      { ...stack, pools: [poolOf("g5.2xlarge", { nodes: { min, max: 2 }, prePullsImages })] },
      engine,
    );
  // Machine 180, image 305, copy 54, load 18.
  const isNew = 557;
  const withoutImage = { hasImage: false, seconds: 377 };
  const withImage = { hasImage: true, seconds: 72 };

  it("a new rented node always waits for machine and image", () => {
    for (const start of [started(0), started(0, true), started(1), started(1, true)]) {
      expect(start.seconds).toBe(isNew);
      expect(stepsOf(start)).toMatchObject({ node: 180, imagePull: 305 });
    }
  });

  it("a running rented node needs no machine, and no image if it is kept", () => {
    expect(started(0).onRunningMachine).toEqual([]);
    expect(started(1).onRunningMachine).toEqual([withoutImage, withImage]);
    expect(started(0, true).onRunningMachine).toEqual([withImage]);
    expect(started(1, true).onRunningMachine).toEqual([withImage]);
  });
});

it("a cold start in an unknown pool is refused", () => {
  expect(() => coldStart(modelOf("llama-2-7b", { pool: "gone" }), stack, engine)).toThrow(/no pool gone/);
});
