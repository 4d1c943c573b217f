import { buildGenerateRequest, type RequestProfile } from "@engine-room/triton-requests";
import { expect, test } from "vitest";
import { type LanguageModelName, languageModels } from "../../../../infra/plan/catalogue/language-models.ts";
import { releases } from "../../../../infra/plan/catalogue/releases.ts";
import { TEMPLATE_REFS } from "../../../../infra/plan/catalogue/templates.ts";
import type { LanguageModel, Release } from "../../../../infra/plan/catalogue/types.ts";
import { enginePlan } from "../../../../infra/plan/engine/engine-plan.ts";
import { repositoryPlan } from "../../../../infra/plan/repository/repository-plan.ts";
import { pipelineProfile, requestProfile } from "../../../../infra/plan/requests/request-profile.ts";
import type { ModelSpec, ServingSpec } from "../../../../infra/plan/spec.ts";
import { engineSpec, servedModel } from "../model-specs.ts";

interface Wish {
  readonly model: LanguageModelName;
  readonly serving: Partial<ServingSpec> & Pick<ServingSpec, "flavour">;
  readonly release?: Partial<Release>;
  readonly maxImagesPerRequest?: number;
}

function spec({ model, serving, release, maxImagesPerRequest }: Wish): ModelSpec {
  const engine = engineSpec(model, {
    release: { ...releases["25.07"], ...release },
    limits: maxImagesPerRequest === undefined ? {} : { maxImagesPerRequest },
  });
  return servedModel(engine, { name: "mine", ...serving });
}

function profile(wish: Wish): RequestProfile {
  const model = spec(wish);
  const engine = model.serving.runtime === "engine" ? enginePlan(model.engine) : null;
  return requestProfile(model, repositoryPlan(model, engine, 0.5));
}

test("the profile of a text model has its repository's names, ids and answers", () => {
  expect(profile({ model: "gpt2-medium", serving: { flavour: "inflight_batcher_llm" } })).toEqual({
    flavour: "inflight_batcher_llm",
    tritonModel: "ensemble",
    streamingModel: "ensemble",
    seedField: "seed",
    promptEcho: "excluded",
    streamedText: "delta",
    decoupled: false,
    endId: 50_256,
    padId: 50_256,
    image: null,
    kvCacheReuse: false,
  });
});

test("the profile has a repeated prompt and cache reuse if the repository has them", () => {
  const wish: Wish = {
    model: "llama-2-7b-chat",
    serving: { flavour: "inflight_batcher_llm", excludeInputInOutput: false, kvCacheReuse: true },
  };
  expect(profile(wish)).toMatchObject({ promptEcho: "repeated", kvCacheReuse: true, endId: 2, padId: 2 });
});

test("the profile streams cumulative text from the BLS if it accumulates tokens", () => {
  const streaming = { flavour: "inflight_batcher_llm", streaming: true } as const;
  expect(profile({ model: "llama-2-7b-chat", serving: streaming })).toMatchObject({
    streamingModel: "ensemble",
    streamedText: "delta",
    decoupled: true,
  });
  expect(
    profile({ model: "llama-2-7b-chat", serving: { ...streaming, accumulateTokens: true } }),
  ).toMatchObject({
    tritonModel: "ensemble",
    streamingModel: "tensorrt_llm_bls",
    streamedText: "cumulative",
  });
});

test.each([
  ["inflight_batcher_llm", "llama-2-7b-chat", "0.20.0", true],
  ["multimodal", "llava-onevision-qwen2-7b", "0.20.0", true],
  ["multimodal", "llava-onevision-qwen2-7b", "0.15.0", false],
] as const)(
  "%s of %s on %s is asked through the ensemble or the BLS by choice",
  (flavour, name, version, takesFiles) => {
    const serving = { flavour, streaming: true, accumulateTokens: true } as const;
    const served = spec({ model: name, serving, release: { tensorRtLlm: version } });
    const repository = repositoryPlan(served, enginePlan(served.engine), 0.5);
    const request = requestProfile(served, repository);
    const streamsThroughBls = flavour !== "multimodal" || takesFiles;
    expect(request.streamingModel).toBe(streamsThroughBls ? "tensorrt_llm_bls" : "ensemble");
    expect(request.streamedText).toBe(streamsThroughBls ? "cumulative" : "delta");
    expect(pipelineProfile(request, served, repository, "ensemble")).toEqual({
      ...request,
      streamingModel: "ensemble",
      streamedText: "delta",
    });
    const bls = { tritonModel: "tensorrt_llm_bls", streamingModel: "tensorrt_llm_bls" };
    expect(pipelineProfile(request, served, repository, "bls")).toEqual({
      ...request,
      ...bls,
      streamedText: "cumulative",
      image: request.image && { ...request.image, takesFiles },
    });
  },
);

test.each([
  ["gpt", "gpt2-medium"],
  ["tritonCli", "llama-2-7b"],
] as const)("a repository of %s has one pipeline only", (flavour, name) => {
  const served = spec({ model: name, serving: { flavour } });
  const repository = repositoryPlan(served, enginePlan(served.engine), 0.5);
  const request = requestProfile(served, repository);
  expect(pipelineProfile(request, served, repository, "bls")).toBeUndefined();
});

test("the profile of a Triton CLI repository has the model's own name, decoupled and without the prompt", () => {
  expect(
    profile({ model: "llama-2-7b", serving: { flavour: "tritonCli", excludeInputInOutput: false } }),
  ).toMatchObject({ tritonModel: "mine", streamingModel: "mine", decoupled: true, promptEcho: "excluded" });
});

test("the profile of all_models/gpt repeats the prompt whatever the stack asks for", () => {
  expect(profile({ model: "gpt2-medium", serving: { flavour: "gpt" } })).toMatchObject({
    promptEcho: "repeated",
    decoupled: false,
  });
});

test.each([true, false])(
  "the profile of llmapi excludes the prompt if the stack asks for it: %s",
  (excludeInputInOutput) => {
    const wish: Wish = {
      model: "llama-2-7b-chat",
      serving: { flavour: "llmapi", runtime: "llmapi", excludeInputInOutput },
      release: { tag: "25.12", tensorRtLlm: "1.1.0", templates: "v1.1.0" },
    };
    expect(profile(wish)).toMatchObject({
      tritonModel: "tensorrt_llm",
      promptEcho: excludeInputInOutput ? "excluded" : "repeated",
      streamedText: "cumulative",
    });
  },
);

test("the profile of llmapi has the pictures of a model that sees", () => {
  const wish: Wish = {
    model: "qwen2.5-vl-3b",
    serving: { flavour: "llmapi", runtime: "llmapi" },
    release: { tag: "26.07", tensorRtLlm: "1.2.1", templates: null, hasLlmapiPictures: true },
  };
  expect(profile(wish).image).toEqual({
    takesFiles: true,
    isRequired: false,
    mark: "<|vision_start|><|image_pad|><|vision_end|>",
    prompt: expect.stringContaining("<|im_start|>user\n{marks}{question}<|im_end|>\n"),
    maxImages: 4,
    tokensPerImage: 1280,
  });
});

const model = spec({ model: "gpt2-medium", serving: { flavour: "inflight_batcher_llm" } });
const july2025 = repositoryPlan(model, enginePlan(model.engine), 0.5);
const renamed = TEMPLATE_REFS.slice(TEMPLATE_REFS.indexOf("v0.20.0"));

test.each(TEMPLATE_REFS)("the name of the seed is that of templates %s", (templates) => {
  const { seedField } = requestProfile(model, { ...july2025, templates });
  expect(seedField).toBe(renamed.includes(templates) ? "seed" : "random_seed");
});

test("the name of the seed is an error for unknown templates", () => {
  expect(() => requestProfile(model, { ...july2025, templates: "r99.01" })).toThrow(/r99\.01/);
});

test("the profile of LLaVA-1.5's tutorial has one required image", () => {
  expect(profile({ model: "llava-1.5-7b", serving: { flavour: "llava" } })).toMatchObject({
    tritonModel: "llava-1.5",
    decoupled: true,
    promptEcho: "excluded",
    image: {
      takesFiles: true,
      maxImages: 1,
      isRequired: true,
      mark: "<image>",
      tokensPerImage: 576,
    },
  });
});

test.each([
  ["blip2-opt-2.7b", "24.10", false],
  ["blip2-opt-2.7b", "24.11", true],
  ["llava-1.5-7b", "25.07", true],
  ["vila1.5-3b", "26.02", true],
  ["llava-onevision-qwen2-7b", "24.12", true],
  ["llama-3.2-11b-vision-instruct", "25.07", true],
] as const)("files and addresses as pictures of %s on %s: %s", (model, tag, takesFiles) => {
  const wish: Wish = { model, serving: { flavour: "multimodal" }, release: releases[tag] };
  expect(profile(wish).image).toMatchObject({ takesFiles });
});

test.each([
  ["24.12", true],
  ["25.01", true],
  ["25.02", false],
  ["25.03", true],
  ["25.04", true],
  ["25.05", false],
  ["26.02", false],
] as const)(
  "Llama 3.2 Vision needs a picture in each request to the templates of %s: %s",
  (tag, isRequired) => {
    const wish: Wish = {
      model: "llama-3.2-11b-vision-instruct",
      serving: { flavour: "multimodal" },
      release: releases[tag],
    };
    expect(profile(wish).image).toMatchObject({ isRequired });
  },
);

test("a user's own model accepts files if its row has an image processor", () => {
  const row: LanguageModel = languageModels["vila1.5-3b"];
  const takesFiles = (vision: LanguageModel["vision"]) => {
    const served = servedModel(engineSpec("vila1.5-3b", { row: { ...row, vision } }), {
      flavour: "multimodal",
    });
    return requestProfile(served, repositoryPlan(served, enginePlan(served.engine), 0.5)).image?.takesFiles;
  };
  expect(takesFiles(row.vision)).toBe(true);
  expect(takesFiles(row.vision && { ...row.vision, imageProcessor: undefined })).toBe(false);
});

test("the profile accepts as many images as the engine is built for", () => {
  const wish: Wish = {
    model: "vila1.5-3b",
    serving: { flavour: "multimodal" },
    maxImagesPerRequest: 4,
  };
  expect(profile(wish).image).toMatchObject({ maxImages: 4, tokensPerImage: 196 });
});

test("images with cross-attention do not use tokens of the context", () => {
  expect(profile({ model: "llama-3.2-11b-vision", serving: { flavour: "multimodal" } })).toMatchObject({
    endId: 128_001,
    padId: 128_004,
    image: { mark: "<|image|>", tokensPerImage: 0 },
  });
});

test("the profile of LLaVA-1.5's tutorial creates the tutorial's request", () => {
  const request = buildGenerateRequest(profile({ model: "llava-1.5-7b", serving: { flavour: "llava" } }), {
    text: "USER: <image>\nQuestion: which city is this? Answer:",
    images: ["https://storage.googleapis.com/sfr-vision-language-research/LAVIS/assets/merlion.png"],
    maxTokens: 64,
  });
  expect(request.path).toBe("/v2/models/llava-1.5/generate");
  expect(JSON.parse(String(request.body))).toMatchObject({
    prompt: "USER: <image>\nQuestion: which city is this? Answer:",
    image: "https://storage.googleapis.com/sfr-vision-language-research/LAVIS/assets/merlion.png",
    max_tokens: 64,
  });
});
