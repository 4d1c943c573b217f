import fc from "fast-check";
import { expect, test } from "vitest";
import { type GpuStackConfig, parseConfig } from "../../../../infra/config/config.ts";
import { languageModels } from "../../../../infra/plan/catalogue/language-models.ts";
import { machineTypes } from "../../../../infra/plan/catalogue/machines.ts";
import { releases } from "../../../../infra/plan/catalogue/releases.ts";
import { platformOf } from "../../../../infra/plan/plan-stack.ts";
import { unknownInstanceType } from "../../../../infra/plan/resolve/names.ts";
import { resolveStack } from "../../../../infra/plan/resolve-stack.ts";
import type { ModelSpec } from "../../../../infra/plan/spec.ts";
import { editDistance, nearestName } from "../../../../infra/problems.ts";
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
  const config = parseConfig(values) as GpuStackConfig;
  return resolveStack(config, platformOf(config));
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

test("blanks of a model are filled from its catalogue row", () => {
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

test("a Docker host is the stack's only pool", () => {
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

test("a stack has NVIDIA's image, and on AWS a region and EFS", () => {
  const { spec } = resolve(awsValues);
  expect(spec.image).toEqual({
    base: "nvcr.io/nvidia/tritonserver:25.07-trtllm-python-py3",
    layout: "ngc",
  });
  expect([spec.region, spec.store.kind]).toEqual(["us-east-1", "efs"]);
});

test("the size of an existing claim is unknown", () => {
  const sizeOf = (engineStore: Values) => resolve({ ...clusterValues, engineStore }).spec.store.sizeGiB;
  expect([sizeOf({ sizeGiB: 300 }), sizeOf({ sizeGiB: 300, existingClaim: "store" })]).toEqual([300, null]);
});

test.each([
  ["a text model", "25.07", true, { model: "gpt2-medium" }],
  ["a text model", "25.04", false, { model: "gpt2-medium" }],
  ["a model with images", "25.07", false, { model: "llava-1.5-7b" }],
  [
    "a model with images that asks for it",
    "25.07",
    true,
    { model: "llava-1.5-7b", triton: { kvCacheReuse: true }, flavour: "multimodal" },
  ],
])("reuse of the KV cache for %s on %s is decided: %s", (_title, release, reuses, model) => {
  const { engine, serving } = onlyModel(dockerModel(model, { release }));
  expect([serving.kvCacheReuse, engine.pagedContext]).toEqual([reuses, reuses]);
});

test("chunked context is built for a release whose engines need it", () => {
  const chunked = { model: "gpt2-medium", triton: { chunkedContext: true } };
  expect(onlyModel(dockerModel(chunked, { release: "25.04" })).engine.pagedContext).toBe(true);
});

test.each([
  ["25.07", languageModels["llava-1.5-7b"].flavours[0]],
  // Its all_models has no multimodal yet.
  ["24.05", "llava"],
])("the first flavour that the release %s has is chosen: %s", (release, flavour) => {
  const { spec } = resolve(dockerModel({ model: "llava-1.5-7b" }, { release }));
  expect(spec.models[0]?.serving.flavour).toBe(flavour);
});

test("llmapi has its own flavour, and all_models/gpt does not stream", () => {
  expect(onlyModel(dockerModel({ model: "llama-2-7b", runtime: "llmapi" })).serving.flavour).toBe("llmapi");
  expect(onlyModel(dockerModel({ flavour: "gpt" })).serving.streaming).toBe(false);
});

test("the LLaVA tutorial's repository has the batch of 1 that it is written for", () => {
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
])("encoders %j are resolved to %j", (encoders, expected) => {
  const pools = [...clusterValues.pools, { name: "cpu", instanceType: "m7i.xlarge" }];
  expect(resolve({ ...clusterValues, pools, encoders }).spec.encoders).toMatchObject(expected);
});

test.each<[string, readonly Values[], string]>([
  [
    "on the cheaper of two pools with GPUs",
    [gpuPool("a", { hourlyUsd: 2 }), gpuPool("b", { hourlyUsd: 1 })],
    "b",
  ],
  ["on the first of equal pools", [gpuPool("a"), gpuPool("b")], "a"],
  ["on the pool with a price", [gpuPool("a", { capacity: "spot" }), gpuPool("b", { hourlyUsd: 9 })], "b"],
  [
    "on the dearer pool if models fill the cheaper",
    [gpuPool("a", { hourlyUsd: 1, machine: machine(8, 10) }), gpuPool("b", { hourlyUsd: 2 })],
    "b",
  ],
  [
    "on the cheaper of two pools without GPU",
    [gpuPool("a"), cpuPool("b", { hourlyUsd: 2 }), cpuPool("c", { hourlyUsd: 1 })],
    "c",
  ],
  [
    "on the cheaper of two full pools",
    [
      gpuPool("a"),
      cpuPool("b", { hourlyUsd: 2, machine: machine(1, 1, 0) }),
      cpuPool("c", { hourlyUsd: 1, machine: machine(1, 1, 0) }),
    ],
    "c",
  ],
])("encoders on a CPU are placed %s", (_title, pools, expected) => {
  const models = [{ name: "gpt", model: "gpt2-medium", pool: "a" }];
  const { spec, problems } = resolve({ ...clusterValues, models, pools });
  expect([spec.encoders?.pool, problems]).toEqual([expected, []]);
});

test("a stack with `encoders: false` has no encoders", () => {
  expect(resolve({ ...clusterValues, encoders: false })).toMatchObject({
    spec: { encoders: null },
    problems: [],
  });
});

test("a stack's own catalogue row and machine parts are found", () => {
  const model = onlyModel({
    ...dockerCustom({}),
    host: { machine: { gpu: "RTX 4090", gpus: 2, vcpus: 16, memoryGiB: 64 } },
  });
  expect(model.engine.row.title).toBe(customModel.title);
  expect(model.engine.target.gpu.name).toBe("RTX 4090");
});

test("a MIG profile is part of the engine's target", () => {
  const pool = { instanceType: "p4d.24xlarge", sharing: { mode: "mig", profile: "3g.20gb" } };
  expect(onlyModel(clusterModel({}, pool)).engine.target).toMatchObject({
    gpu: { name: "A100-SXM4-40GB" },
    migProfile: "3g.20gb",
  });
});

test.each<[string, Values, string, RegExp]>([
  ["release", { ...dockerValues, release: "25.13" }, "release", /^The nearest is 26\.01: /],
  [
    "release older than all others",
    { ...dockerValues, release: "23.12" },
    "release",
    /^The nearest is 24\.02: write `release: "24\.02"`\.$/,
  ],
  ["model", dockerModel({ model: "gpt2-medum" }), "models[0].model", /^Did you mean `gpt2-medium`\?/],
  [
    "model named like a member of Object",
    dockerModel({ model: "constructor" }),
    "models[0].model",
    /^Choose from gpt2/,
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
    "instance type unlike all others",
    { ...dockerValues, host: { instanceType: "standard_nc24ads" } },
    "host.instanceType",
    /^The catalogue has sizes of g4dn \(T4\), /,
  ],
  [
    "GPU",
    { ...dockerValues, host: { machine: { gpu: "A10X", vcpus: 8, memoryGiB: 64 } } },
    "host.machine.gpu",
    /^Did you mean `A10G?`\? Choose from T4, A10G, .*RTX 4090, H100, H200\.$/,
  ],
  [
    "GPU unlike all others",
    { ...dockerValues, host: { machine: { gpu: "Arc A770", vcpus: 8, memoryGiB: 64 } } },
    "host.machine.gpu",
    /^Choose from T4, A10G, .*H200\.$/,
  ],
  ["pool", clusterModel({ pool: "gpus" }), "models[0].pool", /^Did you mean `gpu`\?$/],
  ["pool on a Docker host", dockerModel({ pool: "gpu" }), "models[0].pool", /^Remove the key\.$/],
  [
    "pool named by one letter",
    clusterModel({ pool: "b" }, { name: "a" }),
    "models[0].pool",
    /^The only name is a\.$/,
  ],
  [
    "pool beside two pools of one name",
    { ...clusterModel({ pool: "xyz" }), pools: [clusterValues.pools[0], clusterValues.pools[0]] },
    "models[0].pool",
    /^The only name is gpu\.$/,
  ],
  ["build pool", clusterModel({ buildPool: "builds" }), "models[0].buildPool", /^The only name is gpu\.$/],
  [
    "partition",
    clusterModel({}, { instanceType: "p4d.24xlarge", sharing: { mode: "mig", profile: "3g.40gb" } }),
    "pools[0].sharing.profile",
    /3g\.20gb/,
  ],
  [
    "partition of a GPU without MIG",
    clusterModel({}, { sharing: { mode: "mig", profile: "3g.20gb" } }),
    "pools[0].sharing.profile",
    /timeSlicing/,
  ],
])("an unknown %s is reported with what exists", (_title, values, path, fix) => {
  const { problems } = resolve(values);
  expect(problems.map((problem) => problem.path)).toEqual([path]);
  expect(problems[0]?.fix).toMatch(fix);
});

test.each<[string, Values, string]>([
  ["a host without a machine", { ...dockerValues, host: {} }, "host.instanceType"],
  [
    "a host with two machines",
    { ...dockerValues, host: { instanceType: "g5.4xlarge", machine: { vcpus: 8, memoryGiB: 64 } } },
    "host.machine",
  ],
  [
    "a machine by its parts on AWS",
    { ...awsValues, pools: [{ name: "gpu", machine: { gpu: "A10G", vcpus: 8, memoryGiB: 64 } }] },
    "pools[0].instanceType",
  ],
  ["a host without a GPU", { ...dockerValues, host: { instanceType: "m7i.xlarge" } }, "host.instanceType"],
  [
    "a choice of two pools with GPUs for encoders",
    {
      ...clusterModel({ pool: "gpu" }),
      pools: [...clusterValues.pools, { name: "b", instanceType: "g5.xlarge" }],
      encoders: { device: "gpu" },
    },
    "encoders.pool",
  ],
  [
    "a stack without a pool with GPUs",
    { ...clusterModel({}, { instanceType: "m7i.xlarge" }) },
    "models[0].pool",
  ],
  [
    "a choice of two pools with GPUs for a model",
    {
      ...clusterValues,
      pools: [...clusterValues.pools, { name: "b", instanceType: "g5.xlarge" }],
      encoders: false,
    },
    "models[0].pool",
  ],
  [
    "a model on a pool without GPU",
    { ...clusterModel({ pool: "gpu" }, { instanceType: "m7i.xlarge" }) },
    "models[0].pool",
  ],
  [
    "a GPU for encoders on a pool without GPU",
    {
      ...clusterValues,
      pools: [...clusterValues.pools, { name: "cpu", instanceType: "m7i.xlarge" }],
      encoders: { device: "gpu", pool: "cpu" },
    },
    "encoders.pool",
  ],
  [
    "another repository without a commit",
    dockerModel({ weights: { from: "hub", repository: "org/fork" } }),
    "models[0].weights.revision",
  ],
  [
    "a catalogue row without a commit",
    dockerCustom({ source: { ...customModel.source, revision: null } }),
    "models[0].weights.revision",
  ],
  [
    "a model without a repository on ModelScope",
    dockerModel({ weights: { from: "modelscope" } }),
    "models[0].weights.repository",
  ],
])("%s is reported if nothing fills the blank", (_title, values, path) => {
  const { problems } = resolve(values);
  expect(problems.map((problem) => problem.path)).toEqual([path]);
  expect(problems[0]?.reason).toMatch(/\.$/);
  expect(problems[0]?.fix).toMatch(/[.?]$/);
});

test("models of a pool with an unknown machine are not reported too", () => {
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
])("weights %j are resolved to %j", (weights, expected) => {
  expect(onlyModel(dockerModel({ weights })).engine.weights).toEqual(expected);
});

const fixOf = (name: string) => unknownInstanceType("pools[0].instanceType", name, true).fix;

const meantBy = (name: string) => /^Did you mean `(.*?)`\?/.exec(fixOf(name))?.[1];

test.each([
  ["g5.xlrage", "g5.xlarge"],
  ["G5.XLarge", "g5.xlarge"],
  ["g5xlarge", "g5.xlarge"],
  ["m7i.xlagre", "m7i.xlarge"],
  ["m7i-xlarge", "m7i.xlarge"],
  ["p4d24xlarge", "p4d.24xlarge"],
  ["g.5xlarge", "g5.xlarge"],
])("the misspelt instance type %s has the suggestion %s", (name, meant) => {
  expect(meantBy(name)).toBe(meant);
});

test.each(["m5.xlarge", "p3.2xlarge", "t3.large", "m6a.xlrage", "m5xlarge", "c7g.metal", "m7i-flex.large"])(
  "the unknown instance type %s is not taken for one of another family",
  (name) => {
    expect(fixOf(name)).toMatch(/^The catalogue has sizes of g4dn \(T4\), .* and its price as `hourlyUsd`/);
  },
);

test("an unknown size of a known family is reported with the family's sizes", () => {
  expect(fixOf("m7i.8xlarge")).toMatch(
    /^The catalogue has m7i\.large, m7i\.xlarge, m7i\.2xlarge, m7i\.4xlarge\. Any/,
  );
});

test("an instance type with two swapped letters in its size has the right suggestion", () => {
  const slips = Object.keys(machineTypes)
    .filter((type) => type.endsWith("large"))
    .map((type) => [type.replace("large", "lrage"), type] as const);
  expect(slips.length).toBeGreaterThan(40);
  for (const [slip, type] of slips) expect(meantBy(slip)).toBe(type);
});

test("edit distances of known pairs are right", () => {
  expect(editDistance("kitten", "sitting")).toBe(3);
  expect(editDistance("", "abc")).toBe(3);
  expect(editDistance("us-esat-1", "us-east-1")).toBe(1);
  expect(editDistance("ab-ab", "ba-ba")).toBe(2);
});

test("edit distances are symmetric, zero only for equal words, and at most the longer length", () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), (a, b) => {
      const distance = editDistance(a, b);
      expect(distance).toBe(editDistance(b, a));
      expect(distance === 0).toBe(a === b);
      expect(distance).toBeLessThanOrEqual(Math.max(a.length, b.length));
    }),
  );
});

test.each([
  ["paralelRequests", ["models", "parallelRequests"], "parallelRequests"],
  ["LLAVA-1.5-7B", ["llava-1.5-7b"], "llava-1.5-7b"],
  ["g5.5xlarge", ["g5.xlarge", "g5.4xlarge"], "g5.xlarge"],
  ["su-east-2", ["ap-east-2", "us-east-2"], "us-east-2"],
  ["colour", ["models", "platform"], undefined],
  ["anything", [], undefined],
])("the nearest name to %s among %j is %s", (typed, names, nearest) => {
  expect(nearestName(typed, names)).toBe(nearest);
});
