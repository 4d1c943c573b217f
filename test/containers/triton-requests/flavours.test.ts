import {
  buildGenerateRequest,
  type GenerationRequest,
  NAMED_PROFILES,
  parseGenerateResponse,
  parseStreamEvent,
  type RequestFlavour,
  requestProfile,
  takesStopWords,
} from "@engine-room/triton-requests";
import { describe, expect, test } from "vitest";
import { bodyOf, MERLION } from "./support.ts";

const plain: GenerationRequest = { text: "a", maxTokens: 5 };
const sampled: GenerationRequest = { ...plain, temperature: 0.7, topP: 0.9, topK: 40, seed: 3 };
const greedy: GenerationRequest = { ...sampled, temperature: 0 };
const words = { bad_words: "", stop_words: "" };

const body = (flavour: RequestFlavour, request: GenerationRequest) =>
  bodyOf(
    buildGenerateRequest(
      requestProfile(flavour, flavour === "tritonCli" ? { tritonModel: "m" } : {}),
      request,
    ),
  );

describe("inflight_batcher_llm", () => {
  test("samples with all that is said, and takes the most probable token at temperature 0", () => {
    const text = { text_input: "a", max_tokens: 5, ...words };
    expect(body("inflight_batcher_llm", sampled)).toEqual({
      ...text,
      temperature: 0.7,
      top_p: 0.9,
      top_k: 40,
      seed: 3,
    });
    expect(body("inflight_batcher_llm", greedy)).toEqual({ ...text, top_k: 1 });
  });

  test("takes penalties, word lists, beams and token counts, and leaves out what asks for nothing", () => {
    const request = {
      ...plain,
      minTokens: 2,
      frequencyPenalty: 0.5,
      presencePenalty: 0,
      repetitionPenalty: 1.2,
      stopWords: ["</s>", "\n"],
      badWords: ["x"],
      beamWidth: 2,
      countTokens: true,
    };
    expect(body("inflight_batcher_llm", request)).toEqual({
      text_input: "a",
      max_tokens: 5,
      bad_words: ["x"],
      stop_words: ["</s>", "\n"],
      min_tokens: 2,
      frequency_penalty: 0.5,
      repetition_penalty: 1.2,
      beam_width: 2,
      return_num_input_tokens: true,
      return_num_output_tokens: true,
    });
  });

  test("streams from the streaming model, with one event where the model can't", () => {
    const profile = requestProfile("inflight_batcher_llm", { streamingModel: "tensorrt_llm_bls" });
    const stream = buildGenerateRequest(profile, { ...plain, stream: true });
    expect(stream.path).toBe("/v2/models/tensorrt_llm_bls/generate_stream");
    expect(bodyOf(stream)).toMatchObject({ stream: true });
    const whole = buildGenerateRequest({ ...profile, decoupled: false }, { ...plain, stream: true });
    expect(whole.path).toBe("/v2/models/tensorrt_llm_bls/generate_stream");
    expect(bodyOf(whole)).not.toHaveProperty("stream");
  });

  test("knows the names of releases until 25.04", () => {
    const request = { ...sampled, minTokens: 1 };
    const { inflight_batcher_llm_legacy: legacy } = NAMED_PROFILES;
    expect(bodyOf(buildGenerateRequest(legacy, request))).toMatchObject({ random_seed: 3, min_length: 1 });
    expect(body("inflight_batcher_llm", request)).toMatchObject({ seed: 3, min_tokens: 1 });
  });

  test("counts tokens where the answer has them, of the first beam", () => {
    const profile = requestProfile("inflight_batcher_llm");
    expect(
      parseGenerateResponse(profile, {
        text_output: ["a", "b"],
        num_input_tokens: 3,
        num_output_tokens: [4, 5],
      }),
    ).toEqual({ text: "a", promptTokens: 3, completionTokens: 4 });
    for (const nothing of [{}, null, "text", { text_output: 3 }]) {
      expect(() => parseGenerateResponse(profile, nothing)).toThrow("Triton's answer has no text_output");
    }
  });
});

describe("tritonCli", () => {
  test("speaks like the BLS of its templates", () => {
    expect(body("tritonCli", { ...sampled, countTokens: true })).toEqual({
      text_input: "a",
      max_tokens: 5,
      ...words,
      temperature: 0.7,
      top_p: 0.9,
      top_k: 40,
      random_seed: 3,
      return_num_input_tokens: true,
      return_num_output_tokens: true,
    });
  });

  test("has no name of its own", () => {
    expect(() => requestProfile("tritonCli")).toThrow("a profile of flavour tritonCli needs tritonModel");
  });
});

describe("llava", () => {
  const question = { text: "<image>a", images: [MERLION], maxTokens: 5 };

  test("says 0 too, since its own defaults are others", () => {
    expect(
      body("llava", { ...question, temperature: 1, topP: 1, topK: 0, seed: 0, frequencyPenalty: 0 }),
    ).toEqual({
      prompt: "<image>a",
      image: MERLION,
      max_tokens: 5,
      temperature: 1,
      // All of them: without top_p, TensorRT-LLM takes 0 for greedy.
      top_k: 1024,
      frequency_penalty: 0,
      seed: 0,
    });
  });

  test("has no stream input: generate_stream holds the one answer", () => {
    const request = buildGenerateRequest(requestProfile("llava"), { ...question, stream: true });
    expect(request.path).toBe("/v2/models/llava-1.5/generate_stream");
    expect(bodyOf(request)).toEqual({ prompt: "<image>a", image: MERLION, max_tokens: 5 });
    expect(
      parseStreamEvent(requestProfile("llava"), { text: "a", finish_reason: "length", completion_tokens: 5 }),
    ).toEqual({ text: "a", completionTokens: 5, finishReason: "length" });
  });
});

describe("gpt", () => {
  test("wants end and pad id from the request", () => {
    const profile = requestProfile("gpt", { endId: 50_256, padId: 50_256 });
    expect(bodyOf(buildGenerateRequest(profile, { ...greedy, stream: true }))).toEqual({
      text_input: "a",
      max_tokens: 5,
      ...words,
      end_id: 50_256,
      pad_id: 50_256,
      top_k: 1,
    });
    expect(() => buildGenerateRequest({ ...profile, padId: null }, plain)).toThrow("has no padId");
    expect(() => buildGenerateRequest(requestProfile("gpt"), plain)).toThrow("has no endId");
  });
});

describe("llmapi", () => {
  test("has names of its own, and no word lists", () => {
    const always = {
      text_input: "a",
      sampling_param_max_tokens: 5,
      sampling_param_exclude_input_from_output: true,
      return_finish_reason: true,
    };
    expect(body("llmapi", { ...sampled, frequencyPenalty: 1, presencePenalty: -1 })).toEqual({
      ...always,
      sampling_param_temperature: 0.7,
      sampling_param_top_p: 0.9,
      sampling_param_top_k: 40,
      sampling_param_seed: 3,
      sampling_param_frequency_penalty: 1,
      sampling_param_presence_penalty: -1,
    });
    expect(body("llmapi", greedy)).toEqual({ ...always, sampling_param_top_k: 1 });
  });

  test("streams where model.yaml says decoupled, all text so far in each event", () => {
    const profile = requestProfile("llmapi", { decoupled: true });
    const request = buildGenerateRequest(profile, { ...plain, stream: true });
    expect(request.path).toBe("/v2/models/tensorrt_llm/generate_stream");
    expect(bodyOf(request)).toMatchObject({ streaming: true });
    expect(body("llmapi", { ...plain, stream: true })).not.toHaveProperty("streaming");
    expect(profile.streamedText).toBe("cumulative");
  });

  test("says why it ended, and None while it goes on", () => {
    const profile = requestProfile("llmapi");
    const read = (finish_reason: string) => parseStreamEvent(profile, { text_output: "a", finish_reason });
    expect(read("None")).toEqual({ text: "a" });
    expect(read("length")).toEqual({ text: "a", finishReason: "length" });
  });
});

describe("options without an input", () => {
  test.each<[RequestFlavour, Partial<GenerationRequest>, string]>([
    ["llava", { topP: 0.5, temperature: 1 }, "topP"],
    ["llava", { presencePenalty: 1 }, "presencePenalty"],
    ["llava", { stopWords: ["x"] }, "stopWords"],
    ["gpt", { badWords: ["x"] }, "badWords"],
    ["llmapi", { repetitionPenalty: 1.1 }, "repetitionPenalty"],
    ["llmapi", { beamWidth: 2 }, "beamWidth"],
  ])("%s refuses %j", (flavour, option, field) => {
    const profile = requestProfile(flavour, { endId: 1, padId: 1, image: null });
    expect(() => buildGenerateRequest(profile, { ...plain, ...option })).toThrow(
      expect.objectContaining({
        code: "unsupported_option",
        field,
        message: expect.stringMatching(`^${field} is .* has no input for it; leave it out\\.$`),
      }),
    );
  });

  test("are taken with a value that asks for nothing", () => {
    const neutral = { minTokens: 0, repetitionPenalty: 1, stopWords: [], badWords: [], beamWidth: 1 };
    expect(body("llmapi", { ...plain, ...neutral })).toEqual(body("llmapi", plain));
    const question = { text: "<image>a", images: [MERLION], maxTokens: 5, presencePenalty: 0 };
    expect(body("llava", { ...question, topP: 0.5, temperature: 0 })).not.toHaveProperty("top_p");
  });

  test("are known to whoever has to cut at stop words", () => {
    const taking = (["inflight_batcher_llm", "multimodal", "llava", "gpt", "llmapi"] as const).filter(
      (flavour) => takesStopWords(requestProfile(flavour)),
    );
    expect(taking).toEqual(["inflight_batcher_llm", "multimodal"]);
  });
});

test.each([0, 1.5, Number.NaN])("maxTokens %s is refused", (maxTokens) => {
  expect(() => body("inflight_batcher_llm", { text: "a", maxTokens })).toThrow(
    `maxTokens is ${maxTokens}; it must be a whole number of 1 or more.`,
  );
});
