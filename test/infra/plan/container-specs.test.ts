import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import * as schemas from "../../../infra/plan/container-spec-schemas.ts";
import {
  cpuServerSpec,
  encoderBuildSpec,
  encoderServerSpec,
  engineBuildSpec,
  serverSpec,
} from "../../../infra/plan/container-specs.ts";
import { encoderTarget } from "../../../infra/plan/encoders/encoder-plan.ts";
import type { DockerGpuPlan } from "../../../infra/plan/gpu-stack.ts";
import { canonicalJson } from "../../../infra/plan/plain-data.ts";
import { cpuEncoders, cpuLanguageModel } from "../../../infra/plan/repository/cpu-models.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { cpuValues, dockerPlan, exampleValues, gpuValues, type Values } from "./docker/stacks.ts";

function gpuPlan(values: Values): DockerGpuPlan {
  const plan = dockerPlan(values);
  if (plan.tier === "cpu") throw new Error("no GPU");
  return plan;
}

function modelOf(values: Values) {
  const [model] = gpuPlan(values).models;
  if (model === undefined) throw new Error("no model");
  return model;
}

const llava = exampleValues("llava-1.5");

describe("engine.json", () => {
  const text = engineBuildSpec(modelOf(llava));
  const spec = JSON.parse(text);

  test("engine.json has model, release, GPU, weights and golden answer", () => {
    expect(spec).toMatchObject({
      version: 1,
      model: "llava-1.5-7b",
      release: { tag: "25.07", tensorRtLlm: "0.20.0", tensorRt: "10.10.0.31" },
      gpu: { name: "A10G", computeCapability: "8.6", migProfile: null },
      weights: {
        source: { kind: "hub", repository: "llava-hf/llava-1.5-7b-hf" },
        directory: expect.stringMatching(/^\/store\/weights\/llava-1\.5-7b\/[0-9a-f]{40}$/),
        include: expect.arrayContaining(["*.safetensors"]),
        exclude: expect.any(Array),
      },
      golden: { image: "coffee", answerContains: expect.any(Array) },
    });
  });

  test("engine.json has the engine's plan with every step as an argv", () => {
    const { engine } = modelOf(llava);
    expect(spec.plan).toMatchObject({ key: engine?.key, directory: engine?.directory, worldSize: 1 });
    expect(spec.plan.steps.map(({ name, argv }: { name: string; argv: string[] }) => [name, argv])).toEqual(
      engine?.steps.map(({ name, argv }) => [name, argv]),
    );
    for (const step of spec.plan.steps) {
      expect(Object.keys(step)).toEqual(["argv", "environment", "inKey", "name", "summary"]);
    }
  });

  test("engine.json of a model without engine has only its weights", () => {
    const values = {
      ...gpuValues,
      models: [{ name: "chat", model: "llama-2-7b-chat", runtime: "llmapi" }],
      hub: { tokenFile: "/etc/hub-token" },
    };
    expect(JSON.parse(engineBuildSpec(modelOf(values)))).toMatchObject({
      plan: null,
      weights: { source: { repository: "meta-llama/Llama-2-7b-chat-hf" } },
    });
  });

  test("engine.json is canonical: sorted keys, no space", () => {
    expect(text).toBe(canonicalJson(spec));
    expect(Object.keys(spec)).toEqual(["golden", "gpu", "model", "plan", "release", "version", "weights"]);
  });
});

test("server.json has Triton's repository and the engine's folder", () => {
  const model = modelOf(llava);
  const spec = JSON.parse(serverSpec(model));
  expect(spec).toMatchObject({
    version: 2,
    model: "llava",
    release: { tag: "25.07" },
    gpu: { name: "A10G" },
    engineDirectory: model.engine?.directory,
    repository: { path: "/model-repository", clientModel: "llava-1.5" },
  });
  // The tutorials' model finds the visual engine by a variable.
  expect(spec.launch.environment.TRT_ENGINE_LOCATION).toBe(`${model.engine?.directory}/vision/model.engine`);
});

test("server.json of the encoders has every config.pbtxt, and the store's path of each file", () => {
  const plan = gpuPlan(exampleValues("gpt2-medium-encoders"));
  const { encoders, release, spec } = plan;
  const gpu = spec.pools[0]?.gpu;
  if (encoders === null || gpu === null || gpu === undefined) throw new Error("no encoders");
  const server = JSON.parse(encoderServerSpec(encoders, release, { gpu }));
  expect(server).toMatchObject({
    version: 2,
    model: "encoders",
    gpu: { name: "A10G" },
    engineDirectory: encoders.directory,
  });
  const models: { name: string; config: string; files: Record<string, string> }[] = server.repository.models;
  expect(models.map(({ name }) => name)).toContain("llava_ensemble");
  for (const { name, config } of models) expect(config).toContain(`name: "${name}"`);
  expect(models.find(({ name }) => name === "vision_tower")?.files).toEqual({
    "1/model.plan": "vision_encoder/model.plan",
  });
  const build = JSON.parse(encoderBuildSpec(encoders, release, { gpu }));
  expect(build).toMatchObject({ version: 1, plan: { key: encoders.key, directory: encoders.directory } });
  expect(JSON.parse(encoderBuildSpec(encoders, release, null)).gpu).toBeNull();
});

test("the server of this machine listens on its given address, with an existing repository", () => {
  const { launch, repository } = JSON.parse(
    cpuServerSpec("encoders", null, 7, { repository: ".stacks/a/repositories/b", address: "127.0.0.1" }),
  );
  expect(repository).toEqual({ flavour: "cpu", path: ".stacks/a/repositories/b", models: null });
  expect(launch).toEqual({
    environment: {},
    exitTimeoutSeconds: 7,
    mpirun: [],
    ranks: [
      [
        "tritonserver",
        "--model-repository=.stacks/a/repositories/b",
        ...["--http-port=8000", "--grpc-port=8001", "--metrics-port=8002"],
        ...["--http-address=127.0.0.1", "--grpc-address=127.0.0.1", "--metrics-address=127.0.0.1"],
        "--allow-gpu-metrics=false",
        "--backend-config=python,stub-timeout-seconds=120",
        "--log-format=ISO8601",
        "--disable-auto-complete-config",
        "--exit-timeout-secs=7",
      ],
    ],
  });
});

test("an unknown field of engine.json is refused at every level", () => {
  const known = readFileSync(join(projectRoot, "test/recorded/engine-specs/llava-1.5.llava.json"), "utf8");
  const spec = JSON.parse(known);
  expect(schemas.engineBuildSpec.safeParse(spec).success).toBe(true);
  for (const level of [spec, spec.plan, spec.plan.places, spec.plan.steps[0], spec.weights.source]) {
    level.more = 1;
    expect(schemas.engineBuildSpec.safeParse(spec).success).toBe(false);
    delete level.more;
  }
});

test.each(["/store/../etc", "store", "/a b", "/.", ""])(
  "the weights folder %o is refused in engine.json",
  (directory) => {
    const known = readFileSync(join(projectRoot, "test/recorded/engine-specs/llava-1.5.llava.json"), "utf8");
    const spec = JSON.parse(known);
    spec.weights.directory = directory;
    expect(schemas.engineBuildSpec.safeParse(spec).success).toBe(false);
  },
);

/** The tests of the programs that read server.json and encoders.json take the same files. */
const RECORDED = join(projectRoot, "test/recorded");

const host = { instanceType: "g5.12xlarge" };

const model: Values = {
  platform: "docker",
  host: { instanceType: "g5.4xlarge" },
  hub: { tokenFile: "/etc/hub-token" },
  encoders: false,
};

/** Every example, and the flavours, releases and devices that no example has. */
const STACKS: Readonly<Record<string, Values>> = {
  "gpt2-medium-encoders": exampleValues("gpt2-medium-encoders"),
  "llama-2-7b-chat-kubernetes": exampleValues("llama-2-7b-chat-kubernetes"),
  "llama-2-7b-tutorial": exampleValues("llama-2-7b-tutorial"),
  "llava-1.5": exampleValues("llava-1.5"),
  "multimodal-guide": exampleValues("multimodal-guide"),
  "gpt-flavour": {
    ...model,
    models: [{ name: "gpt", model: "gpt2-medium", flavour: "gpt", triton: { streaming: false } }],
  },
  llmapi: {
    ...model,
    models: [{ name: "chat", model: "llama-2-7b-chat", runtime: "llmapi" }],
  },
  "llmapi-2-ranks": {
    ...model,
    release: "25.12",
    host,
    models: [{ name: "chat", model: "llama-2-7b-chat", runtime: "llmapi", tensorParallel: 2 }],
  },
  "llmapi-pictures": {
    ...model,
    release: "26.07",
    acceptUnverified: true,
    models: [{ name: "eyes", model: "qwen2.5-vl-3b", runtime: "llmapi" }],
  },
  "4-ranks": {
    ...model,
    host,
    models: [{ name: "chat", model: "llama-2-7b-chat", tensorParallel: 4 }],
  },
  "encoders-cpu": { ...gpuValues, encoders: { device: "cpu" } },
  "cpu-tier": cpuValues,
};

function specs(values: Values): readonly (readonly [string, string])[] {
  const { plan } = checkedPlan(values);
  if (plan.tier === "cpu") {
    const models = plan.models.map(
      (model) => [model.name, cpuServerSpec(model.name, cpuLanguageModel(model), 20)] as const,
    );
    return [...models, ["encoders", cpuServerSpec("encoders", cpuEncoders(plan.encoders), 20)]];
  }
  const { encoders, release } = plan;
  const models = plan.models.map((model) => [model.name, serverSpec(model)] as const);
  if (encoders === null) return models;
  return [...models, ["encoders", encoderServerSpec(encoders, release, encoderTarget(plan.spec))]];
}

async function expectRecorded(folder: string, name: string, text: string): Promise<void> {
  const readable = `${JSON.stringify(JSON.parse(text), null, 2)}\n`;
  await expect(readable).toMatchFileSnapshot(join(RECORDED, folder, `${name}.json`));
}

describe.each(Object.entries(STACKS))("the recorded stack %s", (stack, values) => {
  test.each(specs(values))("server.json of %s is as recorded", async (name, text) => {
    schemas.serverSpec.parse(JSON.parse(text));
    await expectRecorded("server-specs", `${stack}.${name}`, text);
  });

  test("encoders.json is as recorded", async () => {
    const { plan } = checkedPlan(values);
    if (plan.tier === "cpu" || plan.encoders === null) return;
    const text = encoderBuildSpec(plan.encoders, plan.release, encoderTarget(plan.spec));
    schemas.encoderBuildSpec.parse(JSON.parse(text));
    await expectRecorded("encoder-specs", stack, text);
  });
});
