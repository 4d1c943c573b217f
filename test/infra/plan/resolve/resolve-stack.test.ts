import { describe, expect, test } from "vitest";
import { type GpuStackConfig, parseConfig } from "../../../../infra/config/config.ts";
import { languageModels } from "../../../../infra/plan/catalogue/language-models.ts";
import { releases } from "../../../../infra/plan/catalogue/releases.ts";
import { resolveStack } from "../../../../infra/plan/resolve-stack.ts";
import type { ModelSpec } from "../../../../infra/plan/spec.ts";
import {
  awsValues,
  clusterModel,
  clusterValues,
  customModel,
  dockerCustom,
  dockerModel,
  dockerValues,
} from "../checks/stacks.ts";

type Values = Readonly<Record<string, unknown>>;

function resolve(values: Values) {
  return resolveStack(parseConfig(values) as GpuStackConfig);
}

function machine(vcpus: number, memoryGiB: number, gpus = 1): Values {
  return { gpu: "A10G", gpus, vcpus, memoryGiB };
}

function gpuPool(name: string, rest: Values = {}): Values {
  return { name, machine: machine(16, 64), ...rest };
}

function cpuPool(name: string, rest: Values = {}): Values {
  return { name, machine: machine(8, 32, 0), ...rest };
}

function onlyModel(values: Values): ModelSpec {
  const { spec, problems } = resolve(values);
  expect(problems).toEqual([]);
  const [model, ...others] = spec.models;
  if (model === undefined || others.length > 0) throw new Error("The stack has not one model");
  return model;
}

describe("blanks of a stack file", () => {
  test("are filled from the model's row", () => {
    const model = onlyModel(dockerModel({ limits: { maxBatchSize: 3 } }));
    const row = languageModels["gpt2-medium"];
    expect(model.engine).toMatchObject({
      model: "gpt2-medium",
      release: releases["25.07"],
      layout: "ngc",
      dtype: row.dtype,
      quantization: "none",
      limits: { ...row.limits, maxBatchSize: 3 },
      weights: { kind: "hub", repository: row.source.repository, revision: row.source.revision },
    });
    expect(model.serving).toMatchObject({
      flavour: row.flavours[0],
      maxBatchSize: 3,
      blsInstanceCount: 3,
      concurrentRequests: 3,
      streaming: true,
      kvCacheReuse: true,
    });
  });

  test("make one pool of a Docker host", () => {
    const { spec } = resolve({ ...dockerValues, host: { instanceType: "g5.4xlarge", hourlyUsd: 2 } });
    expect(spec.pools).toMatchObject([
      {
        name: "host",
        path: "host",
        instanceType: "g5.4xlarge",
        gpu: { name: "A10G" },
        nodes: { min: 1, max: 1 },
        capacity: "owned",
        hourlyUsd: 2,
      },
    ]);
    expect(spec.models[0]).toMatchObject({ pool: "host", buildPool: "host" });
    expect(spec.store).toEqual({
      kind: "volume",
      readMBPerSecond: 1000,
      sizeGiB: null,
      provisionedMiBps: null,
    });
    const inFolder = resolve({ ...dockerValues, engineStore: { path: "/data/engine-room" } });
    expect(inFolder.spec.store.kind).toBe("folder");
  });

  test("name NVIDIA's image, and give AWS its region and store", () => {
    const { spec } = resolve(awsValues);
    expect(spec.image).toEqual({
      base: "nvcr.io/nvidia/tritonserver:25.07-trtllm-python-py3",
      layout: "ngc",
    });
    expect([spec.region, spec.store.kind]).toEqual(["us-east-1", "efs"]);
  });

  test("leave the size of a claim that exists unknown", () => {
    const sizeOf = (engineStore: Values) => resolve({ ...clusterValues, engineStore }).spec.store.sizeGiB;
    expect([sizeOf({ sizeGiB: 300 }), sizeOf({ sizeGiB: 300, existingClaim: "store" })]).toEqual([300, null]);
  });

  test.each([
    ["a text model of 0.20", { model: "gpt2-medium" }, "25.07", true],
    ["a text model of 0.18", { model: "gpt2-medium" }, "25.04", false],
    ["a model with images", { model: "llava-1.5-7b" }, "25.07", false],
    [
      "a model with images that asks for it",
      { model: "llava-1.5-7b", triton: { kvCacheReuse: true }, flavour: "multimodal" },
      "25.07",
      true,
    ],
  ])("decide on reuse of the KV cache: %s", (_title, model, release, reuses) => {
    const { engine, serving } = onlyModel(dockerModel(model, { release }));
    expect([serving.kvCacheReuse, engine.pagedContext]).toEqual([reuses, reuses]);
  });

  test("build an engine for chunked context where Triton is to read prompts in chunks", () => {
    const chunked = { model: "gpt2-medium", triton: { chunkedContext: true } };
    expect(onlyModel(dockerModel(chunked, { release: "25.04" })).engine.pagedContext).toBe(true);
  });

  test.each([
    ["25.07", languageModels["llava-1.5-7b"].flavours[0]],
    // Its all_models has no multimodal yet.
    ["24.05", "llava"],
  ])("choose the first repository that the release %s has: %s", (release, flavour) => {
    const { spec } = resolve(dockerModel({ model: "llava-1.5-7b" }, { release }));
    expect(spec.models[0]?.serving.flavour).toBe(flavour);
  });

  test("let llmapi have its own repository, and the Python runtime answer once", () => {
    expect(onlyModel(dockerModel({ model: "llama-2-7b", runtime: "llmapi" })).serving.flavour).toBe("llmapi");
    expect(onlyModel(dockerModel({ flavour: "gpt" })).serving.streaming).toBe(false);
  });

  test("give the LLaVA tutorial's repository the batch that it has written in", () => {
    const { engine, serving } = onlyModel(dockerModel({ model: "llava-1.5-7b", flavour: "llava" }));
    expect([serving.maxBatchSize, serving.concurrentRequests]).toEqual([1, 1]);
    expect(engine.limits.maxBatchSize).toBe(languageModels["llava-1.5-7b"].limits.maxBatchSize);
  });

  test.each([
    [{}, { device: "cpu", precision: "fp32", pool: "cpu" }],
    [{ device: "gpu" }, { device: "gpu", precision: "fp16", pool: "gpu" }],
    [
      { device: "gpu", precision: "int8" },
      { device: "gpu", precision: "int8", pool: "gpu" },
    ],
    [{ pool: "gpu" }, { device: "cpu", precision: "fp32", pool: "gpu" }],
  ])("place encoders %j", (encoders, expected) => {
    const pools = [...clusterValues.pools, { name: "cpu", instanceType: "m7i.xlarge" }];
    expect(resolve({ ...clusterValues, pools, encoders }).spec.encoders).toMatchObject(expected);
  });

  test.each<[string, readonly Values[], string]>([
    ["of two with GPUs the cheaper", [gpuPool("a", { hourlyUsd: 2 }), gpuPool("b", { hourlyUsd: 1 })], "b"],
    ["of equal ones the first", [gpuPool("a"), gpuPool("b")], "a"],
    ["the one with a price", [gpuPool("a", { capacity: "spot" }), gpuPool("b", { hourlyUsd: 9 })], "b"],
    [
      "the dearer where models fill the cheaper",
      [gpuPool("a", { hourlyUsd: 1, machine: machine(8, 10) }), gpuPool("b", { hourlyUsd: 2 })],
      "b",
    ],
    [
      "of two without GPU the cheaper",
      [gpuPool("a"), cpuPool("b", { hourlyUsd: 2 }), cpuPool("c", { hourlyUsd: 1 })],
      "c",
    ],
    [
      "of full ones the cheaper",
      [
        gpuPool("a"),
        cpuPool("b", { hourlyUsd: 2, machine: machine(1, 1, 0) }),
        cpuPool("c", { hourlyUsd: 1, machine: machine(1, 1, 0) }),
      ],
      "c",
    ],
  ])("place encoders on a CPU: %s", (_title, pools, expected) => {
    const models = [{ name: "gpt", model: "gpt2-medium", pool: "a" }];
    const { spec, problems } = resolve({ ...clusterValues, models, pools });
    expect([spec.encoders?.pool, problems]).toEqual([expected, []]);
  });

  test("leave a stack without encoders without them", () => {
    expect(resolve({ ...clusterValues, encoders: false })).toMatchObject({
      spec: { encoders: null },
      problems: [],
    });
  });
});

describe("names of a stack file", () => {
  test("may stand for rows of its own, and for machines by their parts", () => {
    const model = onlyModel({
      ...dockerCustom({}),
      host: { machine: { gpu: "RTX 4090", gpus: 2, vcpus: 16, memoryGiB: 64 } },
    });
    expect(model.engine.row.title).toBe(customModel.title);
    expect(model.engine.target.gpu.name).toBe("RTX 4090");
  });

  test("become a target that knows its partition", () => {
    const pool = { instanceType: "p4d.24xlarge", sharing: { mode: "mig", profile: "3g.20gb" } };
    expect(onlyModel(clusterModel({}, pool)).engine.target).toMatchObject({
      gpu: { name: "A100-SXM4-40GB" },
      migProfile: "3g.20gb",
    });
  });

  test.each<[string, Values, string, RegExp]>([
    ["release", { ...dockerValues, release: "25.13" }, "release", /^The nearest is 26\.01: /],
    [
      "release before all others",
      { ...dockerValues, release: "23.12" },
      "release",
      /^The nearest is 24\.02: write `release: "24\.02"`\.$/,
    ],
    ["model", dockerModel({ model: "gpt2-medum" }), "models[0].model", /^Did you mean `gpt2-medium`\?/],
    [
      "model like a member of Object",
      dockerModel({ model: "constructor" }),
      "models[0].model",
      /^There are gpt2/,
    ],
    [
      "instance type",
      { ...dockerValues, host: { instanceType: "g5.5xlarge" } },
      "host.instanceType",
      /^The catalogue has g5\.xlarge, g5\.2xlarge, .*g5\.48xlarge\. Any other can be described by its parts under `machine`, /,
    ],
    [
      "instance type of a family that the catalogue lacks",
      { ...awsValues, pools: [{ name: "gpu", instanceType: "m5.xlarge" }] },
      "pools[0].instanceType",
      /^The catalogue has sizes of g4dn \(T4\), g5 \(A10G\), .*c7i \(no GPU\)\. Any other stays in instanceType, /,
    ],
    [
      "instance type like no other",
      { ...dockerValues, host: { instanceType: "standard_nc24ads" } },
      "host.instanceType",
      /^The catalogue has sizes of g4dn \(T4\), /,
    ],
    [
      "GPU",
      { ...dockerValues, host: { machine: { gpu: "A10X", vcpus: 8, memoryGiB: 64 } } },
      "host.machine.gpu",
      /^Did you mean `A10G?`\? There are T4, A10G, .*RTX 4090, H100, H200\.$/,
    ],
    [
      "GPU like no other",
      { ...dockerValues, host: { machine: { gpu: "Arc A770", vcpus: 8, memoryGiB: 64 } } },
      "host.machine.gpu",
      /^There are T4, A10G, .*H200\.$/,
    ],
    ["pool", clusterModel({ pool: "gpus" }), "models[0].pool", /^Did you mean `gpu`\?$/],
    ["pool of a host", dockerModel({ pool: "gpu" }), "models[0].pool", /^Remove the key\.$/],
    [
      "pool of a letter",
      clusterModel({ pool: "b" }, { name: "a" }),
      "models[0].pool",
      /^There is a alone\.$/,
    ],
    [
      "one of pools with one name",
      { ...clusterModel({ pool: "xyz" }), pools: [clusterValues.pools[0], clusterValues.pools[0]] },
      "models[0].pool",
      /^There is gpu alone\.$/,
    ],
    [
      "pool that builds",
      clusterModel({ buildPool: "builds" }),
      "models[0].buildPool",
      /^There is gpu alone\.$/,
    ],
    [
      "partition",
      clusterModel({}, { instanceType: "p4d.24xlarge", sharing: { mode: "mig", profile: "3g.40gb" } }),
      "pools[0].sharing.profile",
      /3g\.20gb/,
    ],
    [
      "partition of a GPU without any",
      clusterModel({}, { sharing: { mode: "mig", profile: "3g.20gb" } }),
      "pools[0].sharing.profile",
      /timeSlicing/,
    ],
  ])("that stand for nothing are reported with what exists: %s", (_title, values, path, fix) => {
    const { problems } = resolve(values);
    expect(problems.map((problem) => problem.path)).toEqual([path]);
    expect(problems[0]?.fix).toMatch(fix);
  });

  test.each<[string, Values, string]>([
    ["no machine", { ...dockerValues, host: {} }, "host.instanceType"],
    [
      "two machines",
      { ...dockerValues, host: { instanceType: "g5.4xlarge", machine: { vcpus: 8, memoryGiB: 64 } } },
      "host.machine",
    ],
    [
      "parts instead of an instance type on AWS",
      { ...awsValues, pools: [{ name: "gpu", machine: { gpu: "A10G", vcpus: 8, memoryGiB: 64 } }] },
      "pools[0].instanceType",
    ],
    ["no GPU of a host", { ...dockerValues, host: { instanceType: "m7i.xlarge" } }, "host.instanceType"],
    [
      "two pools with GPUs for encoders on one",
      {
        ...clusterModel({ pool: "gpu" }),
        pools: [...clusterValues.pools, { name: "b", instanceType: "g5.xlarge" }],
        encoders: { device: "gpu" },
      },
      "encoders.pool",
    ],
    ["no pool with GPUs", { ...clusterModel({}, { instanceType: "m7i.xlarge" }) }, "models[0].pool"],
    [
      "two pools with GPUs",
      {
        ...clusterValues,
        pools: [...clusterValues.pools, { name: "b", instanceType: "g5.xlarge" }],
        encoders: false,
      },
      "models[0].pool",
    ],
    [
      "a pool without GPU",
      { ...clusterModel({ pool: "gpu" }, { instanceType: "m7i.xlarge" }) },
      "models[0].pool",
    ],
    [
      "encoders on the GPU of a pool without",
      {
        ...clusterValues,
        pools: [...clusterValues.pools, { name: "cpu", instanceType: "m7i.xlarge" }],
        encoders: { device: "gpu", pool: "cpu" },
      },
      "encoders.pool",
    ],
    [
      "no commit of another repository",
      dockerModel({ weights: { from: "hub", repository: "org/fork" } }),
      "models[0].weights.revision",
    ],
    [
      "no commit of an own row",
      dockerCustom({ source: { ...customModel.source, revision: null } }),
      "models[0].weights.revision",
    ],
    [
      "no copy on ModelScope",
      dockerModel({ weights: { from: "modelscope" } }),
      "models[0].weights.repository",
    ],
  ])("and blanks that nothing fills are reported: %s", (_title, values, path) => {
    const { problems } = resolve(values);
    expect(problems.map((problem) => problem.path)).toEqual([path]);
    expect(problems[0]?.reason).toMatch(/\.$/);
    expect(problems[0]?.fix).toMatch(/[.?]$/);
  });

  test("of a pool that could not be resolved are not reported again", () => {
    const { spec, problems } = resolve({
      ...clusterValues,
      models: [
        { name: "a", model: "gpt2-medium" },
        { name: "b", model: "gpt2-medium", pool: "gpu" },
      ],
      pools: [{ name: "gpu", instanceType: "g5.5xlarge" }],
    });
    expect(problems.map(({ path }) => path)).toEqual(["pools[0].instanceType"]);
    expect([spec.models, spec.pools, spec.encoders]).toEqual([[], [], null]);
  });
});

describe("weights", () => {
  test.each([
    [
      { from: "hub", revision: "1".repeat(40) },
      { kind: "hub", repository: "openai-community/gpt2-medium", revision: "1".repeat(40) },
    ],
    [
      { from: "s3", uri: "s3://bucket/prefix", revision: "v2" },
      { kind: "s3", uri: "s3://bucket/prefix", revision: "v2" },
    ],
    [
      { from: "folder", path: "/data/gpt2", revision: "v2" },
      { kind: "folder", path: "/data/gpt2", revision: "v2" },
    ],
    [
      { from: "modelscope", repository: "org/gpt2" },
      { kind: "modelscope", repository: "org/gpt2", revision: "master" },
    ],
  ])("of a source of the stack's own: %j", (weights, expected) => {
    expect(onlyModel(dockerModel({ weights })).engine.weights).toEqual(expected);
  });
});
