import { describe, expect, test } from "vitest";
import { canonicalJson } from "../../../infra/plan/canonical-json.ts";
import {
  cpuRepositorySpec,
  encoderBuildSpec,
  encoderServerSpec,
  engineBuildSpec,
  serverSpec,
} from "../../../infra/plan/container-specs.ts";
import { encodersRepository, languageModelRepository } from "../../../infra/plan/cpu-repositories.ts";
import type { DockerGpuPlan } from "../../../infra/plan/gpu-stack.ts";
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

  test("says what is built, for which GPU, from which weights", () => {
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

  test("has the engine's plan: key, folder, and every step as an argv", () => {
    const { engine } = modelOf(llava);
    expect(spec.plan).toMatchObject({ key: engine?.key, directory: engine?.directory, worldSize: 1 });
    expect(spec.plan.steps.map(({ name, argv }: { name: string; argv: string[] }) => [name, argv])).toEqual(
      engine?.steps.map(({ name, argv }) => [name, argv]),
    );
    for (const step of spec.plan.steps) {
      expect(Object.keys(step)).toEqual(["argv", "environment", "inKey", "name", "summary"]);
    }
  });

  test("of a model without engine asks for its weights alone", () => {
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

  test("is canonical: sorted keys, no space", () => {
    expect(text).toBe(canonicalJson(spec));
    expect(Object.keys(spec)).toEqual(["golden", "gpu", "model", "plan", "release", "version", "weights"]);
  });
});

test("server.json says what Triton loads, from which engine", () => {
  const model = modelOf(llava);
  const spec = JSON.parse(serverSpec(model));
  expect(spec).toMatchObject({
    version: 1,
    model: "llava",
    release: { tag: "25.07" },
    gpu: { name: "A10G" },
    engineDirectory: model.engine?.directory,
    repository: { path: "/model-repository", clientModel: "llava-1.5" },
  });
  // The tutorials' model finds the visual engine by a variable.
  expect(spec.repository.launch.environment.TRT_ENGINE_LOCATION).toBe(
    `${model.engine?.directory}/vision/model.engine`,
  );
});

test("server.json of the encoders has the text of every config.pbtxt, and where each file lies in the store", () => {
  const plan = gpuPlan(exampleValues("gpt2-medium-encoders"));
  const { encoders, release, spec } = plan;
  const gpu = spec.pools[0]?.gpu;
  if (encoders === null || gpu === null || gpu === undefined) throw new Error("no encoders");
  const server = JSON.parse(encoderServerSpec(encoders, release, { gpu }));
  expect(server).toMatchObject({
    version: 1,
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

test("repository.json has the files and artifacts of a CPU's Triton, sources within the image", () => {
  const plan = dockerPlan(cpuValues);
  if (plan.tier === "gpu") throw new Error("no CPU tier");
  const repositories = [encodersRepository(plan.encoders), ...plan.models.map(languageModelRepository)];
  for (const repository of repositories) {
    const spec = JSON.parse(cpuRepositorySpec(repository));
    expect(spec).toEqual({ version: 1, ...JSON.parse(JSON.stringify(repository)) });
    const sources = Object.values<{ source?: string }>(spec.files).flatMap(({ source }) => source ?? []);
    expect(sources.length).toBeGreaterThan(0);
    for (const source of sources)
      expect(source).toMatch(/^containers\/cpu-models\/models\/[a-z_]+\/\w+\.py$/);
  }
});
