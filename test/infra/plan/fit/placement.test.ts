import { describe, expect, it } from "vitest";
import { slotsPerGpu, usableGiB } from "../../../../infra/plan/fit/gpu-memory.ts";
import { type GpuTenant, hostGpuIndices, placements } from "../../../../infra/plan/fit/placement.ts";
import type { GpuStackSpec } from "../../../../infra/plan/spec.ts";
import { encodersOf, modelOf, poolOf, present, stackOf } from "./stacks.ts";

/** Sizes by name, as a test wants them. */
const sized = (sizes: Readonly<Record<string, number>>) => (tenant: GpuTenant) => sizes[tenant.name] ?? 0;

function tenantsOf(stack: GpuStackSpec, sizes: Readonly<Record<string, number>> = {}): readonly string[][] {
  return placements(stack, sized(sizes)).map(({ tenants }) => tenants.map((tenant) => tenant.name));
}

describe("placements on whole GPUs", () => {
  it("gives each rank and the encoders a GPU of their own, replicas once", () => {
    const stack = stackOf(
      [
        modelOf("gpt2-medium", { name: "small", serving: { replicas: 3 } }),
        modelOf("llama-2-7b", { name: "large", engine: { tensorParallel: 2, pipelineParallel: 2 } }),
      ],
      [poolOf("g5.12xlarge")],
      { encoders: encodersOf() },
    );
    expect(tenantsOf(stack)).toEqual([["small"], ["large"], ["large"], ["encoders"]]);
    const leaders = placements(stack, sized({})).flatMap(({ tenants }) =>
      tenants.flatMap((tenant) => (tenant.kind === "rank" ? [tenant.leader] : [])),
    );
    expect(leaders).toEqual([true, true, false]);
  });

  it("keeps pools apart, and leaves out encoders on a CPU", () => {
    const stack = stackOf(
      [
        modelOf("gpt2-medium", { name: "a", pool: "one" }),
        modelOf("gpt2-medium", { name: "b", pool: "two" }),
      ],
      [poolOf("g5.xlarge", { name: "two" }), poolOf("g6.xlarge", { name: "one" })],
      { encoders: encodersOf({ device: "cpu", pool: "one" }) },
    );
    expect(placements(stack, sized({})).map(({ label, tenants }) => [label, tenants[0]?.name])).toEqual([
      ["A10G 22.35 GiB", "b"],
      ["L4 22.35 GiB", "a"],
    ]);
  });
});

describe("placements on shared GPUs", () => {
  const models = ["a", "b", "c"].map((name) => modelOf("gpt2-medium", { name, serving: { replicas: 2 } }));

  it("by time slicing: the largest pods together, and every other pod with the largest company", () => {
    const pool = poolOf("g5.xlarge", { sharing: { mode: "timeSlicing", replicas: 3 } });
    const stack = stackOf(models, [pool], { encoders: encodersOf() });
    expect(tenantsOf(stack, { a: 1, b: 5, c: 3, encoders: 2 })).toEqual([
      ["b", "b", "c"],
      ["encoders", "b", "b"],
      ["a", "b", "b"],
    ]);
  });

  it("by time slicing: no more pods than there are", () => {
    const pool = poolOf("g5.xlarge", { sharing: { mode: "timeSlicing", replicas: 8 } });
    expect(tenantsOf(stackOf([modelOf("gpt2-medium")], [pool]))).toEqual([["gpt2-medium"]]);
  });

  it("by MPS: each pod has its part of the memory", () => {
    const pool = poolOf("g5.xlarge", { sharing: { mode: "mps", replicas: 4 } });
    const [whole] = placements(stackOf(models, [poolOf("g5.xlarge")]), sized({}));
    const shared = placements(stackOf(models, [pool]), sized({}));
    expect(shared.map(({ tenants }) => tenants.length)).toEqual([1, 1, 1]);
    expect(shared[0]?.label).toBe("A10G 22.35 GiB, 1/4 by MPS");
    expect(shared[0]?.capacityGiB).toBeCloseTo(present(whole, "placement").capacityGiB / 4, 9);
  });

  it("by MIG: each pod has its partition, and a profile that the GPU lacks has no memory", () => {
    const on = (profile: string) =>
      placements(
        stackOf(models, [poolOf("p4d.24xlarge", { sharing: { mode: "mig", profile } })]),
        sized({}),
      )[0];
    const { gpu } = poolOf("p4d.24xlarge");
    const [profile, memoryGiB] = present(
      Object.entries(present(gpu, "GPU").migProfiles).find(([name]) => name.startsWith("3g")),
      "profile of three slices",
    );
    expect(on(profile)?.capacityGiB).toBeCloseTo(memoryGiB * 0.98, 9);
    expect(on("9g.90gb")?.capacityGiB).toBe(0);
    expect(slotsPerGpu(present(gpu, "GPU"), { mode: "mig", profile })).toBe(2);
    expect(slotsPerGpu(present(gpu, "GPU"), { mode: "mig", profile: "9g.90gb" })).toBe(0);
  });
});

describe("GPU memory", () => {
  it("loses a sixteenth to error correction on a T4, whose figure is gross", () => {
    const t4 = present(poolOf("g4dn.xlarge").gpu, "T4");
    expect(usableGiB(t4)).toBeCloseTo(15 * 0.98, 9);
    expect(usableGiB({ ...t4, architecture: "Ampere" })).toBeCloseTo(16 * 0.98, 9);
  });

  it.each([
    ["1g.5gb", 7],
    ["1g.10gb", 4],
    ["2g.10gb", 3],
    ["4g.20gb", 1],
    ["7g.40gb", 1],
  ])("has as many %s partitions as slices and memory allow: %d", (profile, partitions) => {
    const a100 = present(poolOf("p4d.24xlarge").gpu, "A100");
    expect(slotsPerGpu(a100, { mode: "mig", profile })).toBe(partitions);
  });
});

describe("placements on a Docker host", () => {
  const host = poolOf("g5.12xlarge", { nodes: { min: 1, max: 1 }, capacity: "owned" });
  const docker = (models: GpuStackSpec["models"], encoders: GpuStackSpec["encoders"] = null) =>
    stackOf(models, [host], { platform: "docker", encoders });

  it("adds up what overlaps by gpuIndices", () => {
    const stack = docker(
      [
        modelOf("llama-2-7b", { name: "large", gpuIndices: [1, 2], engine: { tensorParallel: 2 } }),
        modelOf("gpt2-medium", { name: "small", gpuIndices: [2] }),
      ],
      encodersOf({ gpuIndices: [1] }),
    );
    expect(
      placements(stack, sized({})).map(({ label, tenants }) => [label.slice(-8), tenants.map((t) => t.name)]),
    ).toEqual([
      ["number 1", ["large", "encoders"]],
      ["number 2", ["large", "small"]],
    ]);
  });

  it("runs the frontend and the visual engine on the first of a model's GPUs", () => {
    const split = modelOf("llava-1.5-7b", { gpuIndices: [3, 1], engine: { tensorParallel: 2 } });
    const leaders = placements(docker([split]), sized({})).map(({ label, tenants: [tenant] }) => [
      label.at(-1),
      tenant?.kind === "rank" && tenant.leader,
    ]);
    expect(leaders).toEqual([
      ["1", false],
      ["3", true],
    ]);
  });

  it("hands out gpuIndices to replicas in turns, and free numbers to the rest", () => {
    const stack = docker(
      [
        modelOf("gpt2-medium", { name: "free" }),
        modelOf("gpt2-medium", { name: "fixed", gpuIndices: [0, 2], serving: { replicas: 3 } }),
      ],
      encodersOf(),
    );
    expect(hostGpuIndices(stack, host).map(({ indices }) => indices)).toEqual([[1], [0], [2], [0], [3]]);
  });

  it("shares from the first GPU on when all are taken", () => {
    const six = Array.from({ length: 6 }, (_, index) => modelOf("gpt2-medium", { name: `m${index}` }));
    expect(hostGpuIndices(docker(six), host).map(({ indices }) => indices[0])).toEqual([0, 1, 2, 3, 0, 1]);
  });

  it("never gives one container the same GPU twice", () => {
    const stack = docker([
      modelOf("gpt2-medium", { name: "fixed", gpuIndices: [1, 2, 3], serving: { replicas: 3 } }),
      modelOf("llama-2-7b", { name: "split", engine: { tensorParallel: 2 } }),
    ]);
    const split = hostGpuIndices(stack, host).find(({ model }) => model?.serving.name === "split");
    expect(split?.indices).toEqual([0, 1]);
  });
});

describe("placements of a model with more ranks than a machine has GPUs", () => {
  const wide = modelOf("llama-2-7b", { name: "wide", engine: { tensorParallel: 8 } });
  const small = modelOf("gpt2-medium", { name: "small" });

  it.each(["docker", "kubernetes"] as const)(
    "are none on %s, and leave the others as they are",
    (platform) => {
      const pool = poolOf("g5.12xlarge", { nodes: { min: 1, max: 1 } });
      expect(tenantsOf(stackOf([wide, small], [pool], { platform }))).toEqual([["small"]]);
      expect(tenantsOf(stackOf([wide], [pool], { platform }))).toEqual([]);
      const fourRanks = { ...wide, engine: { ...wide.engine, tensorParallel: 4 } };
      expect(tenantsOf(stackOf([fourRanks], [pool], { platform }))).not.toEqual([]);
    },
  );
});
