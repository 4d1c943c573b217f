import { describe, expect, test } from "vitest";
import { gpuPart, hostGpuIndices, placements, usableGiB } from "../../../../infra/plan/fit/placement.ts";
import {
  canSurge,
  packPool,
  type Room,
  serverRequest,
  shortages,
  waitingBuilds,
} from "../../../../infra/plan/pool-space.ts";
import type { GpuStackSpec, ModelSpec, PoolSpec, ServingSpec } from "../../../../infra/plan/spec.ts";
import { engineSpec, servedModel } from "../model-specs.ts";
import { encodersOf, modelOf, poolOf, present, stackOf } from "./stacks.ts";

/** @param sizes - By name. */
function placed(stack: GpuStackSpec, sizes: Readonly<Record<string, number>> = {}) {
  return stack.pools.flatMap((pool) => placements(stack, pool, ({ name }) => sizes[name] ?? 0));
}

function tenantsOf(stack: GpuStackSpec, sizes: Readonly<Record<string, number>> = {}): readonly string[][] {
  return placed(stack, sizes).map(({ tenants }) => tenants.map((tenant) => tenant.name));
}

test("each rank and the encoders have a GPU of their own, and replicas are counted once", () => {
  const stack = stackOf(
    [
      modelOf("gpt2-medium", { name: "small", serving: { replicas: 3 } }),
      modelOf("llama-2-7b", { name: "large", engine: { tensorParallel: 2, pipelineParallel: 2 } }),
    ],
    [poolOf("g5.12xlarge")],
    { encoders: encodersOf() },
  );
  expect(tenantsOf(stack)).toEqual([["small"], ["large"], ["large"], ["encoders"]]);
  const leaders = placed(stack).flatMap(({ tenants }) =>
    tenants.flatMap(({ model, leader }) => (model === null ? [] : [leader])),
  );
  expect(leaders).toEqual([true, true, false]);
});

test("pools are placed apart, and encoders on a CPU have no GPU", () => {
  const stack = stackOf(
    [modelOf("gpt2-medium", { name: "a", pool: "one" }), modelOf("gpt2-medium", { name: "b", pool: "two" })],
    [poolOf("g5.xlarge", { name: "two" }), poolOf("g6.xlarge", { name: "one" })],
    { encoders: encodersOf({ device: "cpu", pool: "one" }) },
  );
  expect(placed(stack).map(({ label, tenants }) => [label, tenants[0]?.name])).toEqual([
    ["A10G 22.35 GiB", "b"],
    ["L4 22.35 GiB", "a"],
  ]);
});

describe("placement on shared GPUs", () => {
  const models = ["a", "b", "c"].map((name) => modelOf("gpt2-medium", { name, serving: { replicas: 2 } }));

  test("time slicing puts the largest pods together, and every other pod with the largest", () => {
    const pool = poolOf("g5.xlarge", { sharing: { mode: "timeSlicing", replicas: 3 } });
    const stack = stackOf(models, [pool], { encoders: encodersOf() });
    expect(tenantsOf(stack, { a: 1, b: 5, c: 3, encoders: 2 })).toEqual([
      ["b", "b", "c"],
      ["encoders", "b", "b"],
      ["a", "b", "b"],
    ]);
  });

  test("time slicing places no more pods than exist", () => {
    const pool = poolOf("g5.xlarge", { sharing: { mode: "timeSlicing", replicas: 8 } });
    expect(tenantsOf(stackOf([modelOf("gpt2-medium")], [pool]))).toEqual([["gpt2-medium"]]);
  });

  test("MPS gives each pod its part of the memory", () => {
    const pool = poolOf("g5.xlarge", { sharing: { mode: "mps", replicas: 4 } });
    const [whole] = placed(stackOf(models, [poolOf("g5.xlarge")]));
    const shared = placed(stackOf(models, [pool]));
    expect(shared.map(({ tenants }) => tenants.length)).toEqual([1, 1, 1]);
    expect(shared[0]?.label).toBe("A10G 22.35 GiB, 1/4 by MPS");
    expect(shared[0]?.capacityGiB).toBeCloseTo(present(whole, "placement").capacityGiB / 4, 9);
  });

  test("MIG gives each pod its partition, and a profile that the GPU lacks has no memory", () => {
    const on = (profile: string) =>
      placed(stackOf(models, [poolOf("p4d.24xlarge", { sharing: { mode: "mig", profile } })]))[0];
    const { gpu } = poolOf("p4d.24xlarge");
    const [profile, memoryGiB] = present(
      Object.entries(present(gpu, "GPU").migProfiles).find(([name]) => name.startsWith("3g")),
      "profile of three slices",
    );
    expect(on(profile)?.capacityGiB).toBeCloseTo(memoryGiB * 0.98, 9);
    expect(on("9g.90gb")?.capacityGiB).toBe(0);
    expect(gpuPart(present(gpu, "GPU"), { mode: "mig", profile }).slots).toBe(2);
    expect(gpuPart(present(gpu, "GPU"), { mode: "mig", profile: "9g.90gb" }).slots).toBe(0);
  });
});

test("a T4, whose memory is given gross, loses a sixteenth to error correction", () => {
  const t4 = present(poolOf("g4dn.xlarge").gpu, "T4");
  expect(usableGiB(t4)).toBeCloseTo(15 * 0.98, 9);
  expect(usableGiB({ ...t4, architecture: "Ampere" })).toBeCloseTo(16 * 0.98, 9);
});

test.each([
  ["1g.5gb", 7],
  ["1g.10gb", 4],
  ["2g.10gb", 3],
  ["4g.20gb", 1],
  ["7g.40gb", 1],
])("an A100 has as many %s partitions as slices and memory allow: %d", (profile, partitions) => {
  const a100 = present(poolOf("p4d.24xlarge").gpu, "A100");
  expect(gpuPart(a100, { mode: "mig", profile }).slots).toBe(partitions);
});

describe("placement on a Docker host", () => {
  const host = poolOf("g5.12xlarge", { nodes: { min: 1, max: 1 }, capacity: "owned" });
  const docker = (models: GpuStackSpec["models"], encoders: GpuStackSpec["encoders"] = null) =>
    stackOf(models, [host], { platform: "docker", encoders });

  test("models whose gpuIndices overlap share these GPUs", () => {
    const stack = docker(
      [
        modelOf("llama-2-7b", { name: "large", gpuIndices: [1, 2], engine: { tensorParallel: 2 } }),
        modelOf("gpt2-medium", { name: "small", gpuIndices: [2] }),
      ],
      encodersOf({ gpuIndices: [1] }),
    );
    expect(placed(stack).map(({ label, tenants }) => [label.slice(-7), tenants.map((t) => t.name)])).toEqual([
      ["(GPU 1)", ["large", "encoders"]],
      ["(GPU 2)", ["large", "small"]],
    ]);
  });

  test("the first of a model's GPUs has the frontend and the visual engine", () => {
    const split = modelOf("llava-1.5-7b", { gpuIndices: [3, 1], engine: { tensorParallel: 2 } });
    const leaders = placed(docker([split])).map(({ label, tenants: [tenant] }) => [
      label.at(-2),
      tenant?.leader,
    ]);
    expect(leaders).toEqual([
      ["1", false],
      ["3", true],
    ]);
  });

  test("replicas use gpuIndices in turn, and other models the free numbers", () => {
    const stack = docker(
      [
        modelOf("gpt2-medium", { name: "free" }),
        modelOf("gpt2-medium", { name: "fixed", gpuIndices: [0, 2], serving: { replicas: 3 } }),
      ],
      encodersOf(),
    );
    expect(hostGpuIndices(stack, host).map(({ indices }) => indices)).toEqual([[1], [0], [2], [0], [3]]);
  });

  test("models share from the first GPU on when all are taken", () => {
    const six = Array.from({ length: 6 }, (_, index) => modelOf("gpt2-medium", { name: `m${index}` }));
    expect(hostGpuIndices(docker(six), host).map(({ indices }) => indices[0])).toEqual([0, 1, 2, 3, 0, 1]);
  });

  test("no container has the same GPU twice", () => {
    const stack = docker([
      modelOf("gpt2-medium", { name: "fixed", gpuIndices: [1, 2, 3], serving: { replicas: 3 } }),
      modelOf("llama-2-7b", { name: "split", engine: { tensorParallel: 2 } }),
    ]);
    const split = hostGpuIndices(stack, host).find(({ model }) => model?.serving.name === "split");
    expect(split?.indices).toEqual([0, 1]);
  });
});

const wide = modelOf("llama-2-7b", { name: "wide", engine: { tensorParallel: 8 } });
const small = modelOf("gpt2-medium", { name: "small" });

test.each(["docker", "kubernetes"] as const)(
  "on %s a model with more ranks than a machine has GPUs is not placed, and the others are",
  (platform) => {
    const pool = poolOf("g5.12xlarge", { nodes: { min: 1, max: 1 } });
    expect(tenantsOf(stackOf([wide, small], [pool], { platform }))).toEqual([["small"]]);
    expect(tenantsOf(stackOf([wide], [pool], { platform }))).toEqual([]);
    const fourRanks = { ...wide, engine: { ...wide.engine, tensorParallel: 4 } };
    expect(tenantsOf(stackOf([fourRanks], [pool], { platform }))).not.toEqual([]);
  },
);

/** A machine of which everything is left to pods. */
function machine(gpus: number, vcpus: number, memoryGiB: number): PoolSpec {
  const { machine: parts, ...pool } = poolOf("g6.4xlarge", { nodes: { min: 1, max: 1 } });
  const { allocatable: _, ...rest } = parts;
  return { ...pool, instanceType: null, machine: { ...rest, gpus, vcpus, memoryGiB } };
}

const model = modelOf("gpt2-medium");

function stack(
  pool: PoolSpec,
  changes: Partial<GpuStackSpec> = {},
  models: readonly ModelSpec[] = [model],
): GpuStackSpec {
  return stackOf(models, [pool], { platform: "kubernetes", ...changes });
}

function surgeShortages(spec: GpuStackSpec, pool: PoolSpec, pod: Room) {
  return shortages(packPool(spec, pool).machines, pod);
}

// A server takes 2500m of CPU and 8 GiB, its build 2000m.
test.each<[string, PoolSpec, readonly unknown[]]>([
  ["has room for another", machine(2, 5, 16), []],
  ["lacks a GPU", machine(1, 16, 64), [["gpu", 1, 0]]],
  ["lacks CPUs", machine(2, 4, 32), [["cpu", 2500, 1500]]],
  ["lacks memory", machine(2, 16, 12), [["memory", 8192, 4096]]],
  [
    "lacks CPUs and memory",
    machine(2, 4, 12),
    [
      ["cpu", 2500, 1500],
      ["memory", 8192, 4096],
    ],
  ],
])("an update beside one server %s", (_, pool, short) => {
  const spec = stack(pool);
  const found = surgeShortages(spec, pool, serverRequest(model));
  expect(found.map(({ resource, needed, free }) => [resource, needed, free])).toEqual(short);
  expect(canSurge(spec, pool, serverRequest(model))).toBe(short.length === 0);
});

test.each<[string, PoolSpec, readonly string[]]>([
  ["has room", machine(2, 5, 32), []],
  ["lacks a GPU", machine(1, 16, 64), ["gpu"]],
  ["lacks CPUs", machine(2, 4, 32), ["cpu"]],
  ["lacks memory", machine(2, 16, 12), ["memory"]],
])("a build beside one server %s", (_, pool, short) => {
  const waiting = waitingBuilds(stack(pool), pool);
  expect(
    waiting.flatMap((build) => shortages(build.machines, build).map(({ resource }) => resource)),
  ).toEqual(short);
  expect(waitingBuilds(stack(pool, { whenFull: "stopServer" }), pool)).toEqual([]);
});

test("shortages of several machines are those of the machine with the most room", () => {
  const pool = { ...machine(2, 5, 12), nodes: { min: 2, max: 2 } };
  const servers = [modelOf("gpt2-medium", { serving: { replicas: 2 } })];
  const found = surgeShortages(stack(pool, {}, servers), pool, {
    ...serverRequest(model),
    slots: 2,
  });
  expect(found.map(({ resource }) => resource)).toEqual(["gpu", "memory"]);
  expect(surgeShortages(stack(pool), pool, serverRequest(model))).toEqual([]);
});

describe("the encoders' build on a GPU", () => {
  const encoders = encodersOf({ device: "gpu", pool: "gpu" });
  const names = (pool: PoolSpec, models: readonly ModelSpec[]) =>
    waitingBuilds(stack(pool, { encoders }, models), pool).map(({ name }) => name);
  const elsewhere = modelOf("gpt2-medium", { buildPool: "other" });

  test("the encoders' build waits if servers have all GPUs, also without builds of engines", () => {
    const llmapi = modelOf("llama-2-7b-chat", { serving: { runtime: "llmapi" } });
    expect(names(machine(2, 16, 64), [llmapi])).toEqual(["encoders"]);
    expect(names(machine(2, 16, 64), [elsewhere])).toEqual(["encoders"]);
    expect(names(machine(3, 16, 64), [elsewhere])).toEqual([]);
  });

  test("the encoders' build waits for a machine without servers if GPUs are shared in time", () => {
    const shared = {
      ...machine(2, 16, 64),
      sharing: { mode: "timeSlicing", replicas: 2 } as const,
    };
    expect(names(shared, [elsewhere])).toEqual(["encoders"]);
    expect(names({ ...shared, nodes: { min: 1, max: 2 } }, [elsewhere])).toEqual([]);
  });

  test("a build of encoders on CPUs needs no GPU", () => {
    const onCpu = stack(machine(1, 16, 64), { encoders: encodersOf({ device: "cpu", pool: "gpu" }) }, [
      elsewhere,
    ]);
    expect(waitingBuilds(onCpu, machine(1, 16, 64))).toEqual([]);
  });
});

test("downloading weights that are served without an engine uses room, and weights of a folder do not", () => {
  const pool = machine(1, 4, 64);
  const of = (weights: ModelSpec["engine"]["weights"]) =>
    waitingBuilds(
      stack(pool, {}, [modelOf("llama-2-7b-chat", { serving: { runtime: "llmapi" }, engine: { weights } })]),
      pool,
    ).map((build) => shortages(build.machines, build));
  const repository = { repository: "org/llama", revision: "main" };
  expect(of({ kind: "hub", ...repository })).toEqual([[{ resource: "cpu", needed: 2000, free: 1500 }]]);
  expect(of({ kind: "folder", path: "/store/own/llama", revision: "1" })).toEqual([]);
});

describe("room for gateway and databases", () => {
  const gpu = poolOf("g6.4xlarge");
  const cpu: PoolSpec = { ...machine(0, 2, 6), name: "cpu", gpu: null, path: "pools[1]" };
  const spec = (pools: readonly PoolSpec[]): GpuStackSpec => ({
    ...stackOf([model], pools),
    isRented: false,
    encoders: encodersOf({ device: "cpu", pool: "cpu" }),
    front: { gateways: 2, databases: ["mongo", "vector"] },
  });

  test("gateway and databases use room of the first pool without GPUs", () => {
    // 3, 2 and 1 GiB: the second database and the second gateway do not fit.
    const { unplaced, machines } = packPool(spec([gpu, cpu]), cpu);
    expect(unplaced.map(({ name }) => name)).toEqual(["vector", "gateway"]);
    expect(machines).toEqual([{ slots: 0, cpuMillis: 500, memoryMiB: 0 }]);
    expect(packPool(spec([gpu, { ...cpu, name: "first" }, cpu]), cpu).unplaced).toEqual([]);
  });

  test("gateway and databases use nothing of a pool if all pools have GPUs", () => {
    const [room] = packPool(spec([gpu]), gpu).machines.toSorted((a, b) => a.cpuMillis - b.cpuMillis);
    const { cpuMillis = 0 } = gpu.machine.allocatable ?? {};
    expect(room?.cpuMillis).toBe(cpuMillis - 2500);
  });
});

test("pulling images in advance uses a part of every machine", () => {
  const pool = machine(2, 5, 16);
  const pulling = { ...pool, prePullsImages: true };
  expect(
    surgeShortages(stack(pulling), pulling, serverRequest(model)).map(({ resource, free }) => [
      resource,
      free,
    ]),
  ).toEqual([
    ["cpu", 2490],
    ["memory", 8192 - 32],
  ]);
});

const memoryMiB = (serving: Partial<ServingSpec>) =>
  serverRequest(servedModel(engineSpec("llama-2-7b"), serving)).memoryMiB;

describe("host memory of a server", () => {
  const one = memoryMiB({ flavour: "inflight_batcher_llm" });

  test("a server's memory counts every process of tensorrt_llm_bls, preprocessing and postprocessing beyond the first", () => {
    expect(one).toBe(8 * 1024);
    expect(memoryMiB({ flavour: "inflight_batcher_llm", blsInstanceCount: 64 }) - one).toBe(63 * 256);
    expect(memoryMiB({ flavour: "inflight_batcher_llm", instanceCount: 3 }) - one).toBe(2 * 2 * 384);
    expect(memoryMiB({ flavour: "multimodal", blsInstanceCount: 8 }) - one).toBe(7 * 256);
  });

  test("a server's memory counts one process of each in a repository that has no more", () => {
    for (const flavour of ["tritonCli", "gpt", "llava", "llmapi"] as const) {
      expect(memoryMiB({ flavour, blsInstanceCount: 64, instanceCount: 64 })).toBe(one);
    }
  });
});
