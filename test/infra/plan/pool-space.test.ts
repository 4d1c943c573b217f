import { describe, expect, test } from "vitest";
import { waitingBuilds } from "../../../infra/plan/pool-builds.ts";
import { canSurge, packPool, serverRoom, surgeShortages } from "../../../infra/plan/pool-space.ts";
import type { GpuStackSpec, ModelSpec, PoolSpec } from "../../../infra/plan/spec.ts";
import { encodersOf, modelOf, poolOf, stackOf } from "./fit/stacks.ts";

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

/** A server takes 2500m of CPU and 8 GiB, its build 2000m. */
describe("beside one server", () => {
  test.each<[string, PoolSpec, readonly unknown[]]>([
    ["there is room for another", machine(2, 5, 16), []],
    ["GPUs are missing", machine(1, 16, 64), [["gpu", 1, 0]]],
    ["CPUs are missing", machine(2, 4, 32), [["cpu", 2500, 1500]]],
    ["memory is missing", machine(2, 16, 12), [["memory", 8192, 4096]]],
    [
      "two things are missing",
      machine(2, 4, 12),
      [
        ["cpu", 2500, 1500],
        ["memory", 8192, 4096],
      ],
    ],
  ])("%s", (_, pool, short) => {
    const spec = stack(pool);
    const found = surgeShortages(spec, pool, serverRoom(model));
    expect(found.map(({ resource, needed, free }) => [resource, needed, free])).toEqual(short);
    expect(canSurge(spec, pool, serverRoom(model))).toBe(short.length === 0);
  });

  test.each<[string, PoolSpec, readonly string[]]>([
    ["an engine finds room", machine(2, 5, 32), []],
    ["an engine lacks a GPU", machine(1, 16, 64), ["gpu"]],
    ["an engine lacks CPUs", machine(2, 4, 32), ["cpu"]],
    ["an engine lacks memory", machine(2, 16, 12), ["memory"]],
  ])("%s", (_, pool, short) => {
    const waiting = waitingBuilds(stack(pool), pool);
    expect(waiting.flatMap((build) => build.short.map(({ resource }) => resource))).toEqual(short);
    expect(waitingBuilds(stack(pool, { whenFull: "stopServer" }), pool)).toEqual([]);
  });

  test("several machines are told by the one that comes closest", () => {
    const pool = { ...machine(2, 5, 12), nodes: { min: 2, max: 2 } };
    const servers = [modelOf("gpt2-medium", { serving: { replicas: 2 } })];
    const found = surgeShortages(stack(pool, {}, servers), pool, {
      ...serverRoom(model),
      slots: 2,
    });
    expect(found.map(({ resource }) => resource)).toEqual(["gpu", "memory"]);
    expect(surgeShortages(stack(pool), pool, serverRoom(model))).toEqual([]);
  });
});

describe("the encoders' build on a GPU", () => {
  const encoders = encodersOf({ device: "gpu", pool: "gpu" });
  const names = (pool: PoolSpec, models: readonly ModelSpec[]) =>
    waitingBuilds(stack(pool, { encoders }, models), pool).map(({ name }) => name);
  const elsewhere = modelOf("gpt2-medium", { buildPool: "other" });

  test("waits where the servers have all GPUs, whoever builds the engines", () => {
    const llmapi = modelOf("llama-2-7b-chat", { serving: { runtime: "llmapi" } });
    expect(names(machine(2, 16, 64), [llmapi])).toEqual(["encoders"]);
    expect(names(machine(2, 16, 64), [elsewhere])).toEqual(["encoders"]);
    expect(names(machine(3, 16, 64), [elsewhere])).toEqual([]);
  });

  test("waits for a machine on whose GPUs nobody serves where they are shared in time", () => {
    const shared = {
      ...machine(2, 16, 64),
      sharing: { mode: "timeSlicing", replicas: 2 } as const,
    };
    expect(names(shared, [elsewhere])).toEqual(["encoders"]);
    expect(names({ ...shared, nodes: { min: 1, max: 2 } }, [elsewhere])).toEqual([]);
  });

  test("of encoders on CPUs wants CPUs and memory only", () => {
    const onCpu = stack(machine(1, 16, 64), { encoders: encodersOf({ device: "cpu", pool: "gpu" }) }, [
      elsewhere,
    ]);
    expect(waitingBuilds(onCpu, machine(1, 16, 64))).toEqual([]);
  });
});

test("weights that are served without an engine take a place too; those of a folder are there", () => {
  const pool = machine(1, 4, 64);
  const of = (weights: ModelSpec["engine"]["weights"]) =>
    waitingBuilds(
      stack(pool, {}, [modelOf("llama-2-7b-chat", { serving: { runtime: "llmapi" }, engine: { weights } })]),
      pool,
    ).map(({ short }) => short);
  const repository = { repository: "org/llama", revision: "main" };
  expect(of({ kind: "hub", ...repository })).toEqual([[{ resource: "cpu", needed: 2000, free: 1500 }]]);
  expect(of({ kind: "folder", path: "/store/own/llama", revision: "1" })).toEqual([]);
});

describe("gateway and databases", () => {
  const gpu = poolOf("g6.4xlarge");
  const cpu: PoolSpec = { ...machine(0, 2, 6), name: "cpu", gpu: null, path: "pools[1]" };
  const spec = (pools: readonly PoolSpec[]): GpuStackSpec => ({
    ...stackOf([model], pools),
    platform: "kubernetes",
    encoders: encodersOf({ device: "cpu", pool: "cpu" }),
    front: { gateways: 2, databases: ["mongo", "vector"] },
  });

  test("take room of the first pool without GPUs", () => {
    // 3, 2 and 1 GiB: the second database and the second gateway have none.
    const { homeless, machines } = packPool(spec([gpu, cpu]), cpu);
    expect(homeless.map(({ name }) => name)).toEqual(["vector", "gateway"]);
    expect(machines).toEqual([{ slots: 0, cpuMillis: 500, memoryMiB: 0 }]);
    expect(packPool(spec([gpu, { ...cpu, name: "first" }, cpu]), cpu).homeless).toEqual([]);
  });

  test("are counted on no pool where all have GPUs", () => {
    const [room] = packPool(spec([gpu]), gpu).machines.toSorted((a, b) => a.cpuMillis - b.cpuMillis);
    const { cpuMillis = 0 } = gpu.machine.allocatable ?? {};
    expect(room?.cpuMillis).toBe(cpuMillis - 2500);
  });
});

test("images that are pulled before take their part of every machine", () => {
  const pool = machine(2, 5, 16);
  const pulling = { ...pool, prePullsImages: true };
  expect(
    surgeShortages(stack(pulling), pulling, serverRoom(model)).map(({ resource, free }) => [resource, free]),
  ).toEqual([
    ["cpu", 2490],
    ["memory", 8192 - 32],
  ]);
});
