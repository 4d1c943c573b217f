/** Requests and answers word for word as public walkthroughs show them. */
import {
  AnswerError,
  buildGenerateRequest,
  imageProfile,
  parseGenerateResponse,
  parseStreamEvent,
  requestProfile,
  wrapQuestion,
} from "@engine-room/triton-requests";
import { describe, expect, test } from "vitest";
import { bodyOf, dataUrl, MERLION } from "./support.ts";

describe("the LLaVA-1.5 walkthrough for 25.07", () => {
  const profile = requestProfile("llava");

  test("its request", () => {
    const request = buildGenerateRequest(profile, {
      text: wrapQuestion(profile, "which city is this?", 1),
      images: [MERLION],
      maxTokens: 64,
      temperature: 0,
      topK: 1,
      frequencyPenalty: 0,
      seed: 0,
    });
    expect(request.path).toBe("/v2/models/llava-1.5/generate");
    expect(bodyOf(request)).toEqual({
      prompt: "USER: <image>\nQuestion: which city is this? Answer:",
      image: MERLION,
      max_tokens: 64,
      temperature: 0,
      top_k: 1,
      frequency_penalty: 0,
      seed: 0,
    });
  });

  test("its answer", () => {
    const json = JSON.parse(
      '{"completion_tokens":1,"finish_reason":"stop","model_name":"llava-1.5","model_version":"1","prompt_tokens":592,"text":"Singapore","total_tokens":593}',
    );
    expect(parseGenerateResponse(profile, json)).toEqual({
      text: "Singapore",
      promptTokens: 592,
      completionTokens: 1,
      finishReason: "stop",
    });
  });
});

describe("the Kubernetes walkthrough for Llama-2-7b-chat", () => {
  const profile = requestProfile("inflight_batcher_llm", { endId: 2, padId: 2 });

  test("its request", () => {
    const request = buildGenerateRequest(profile, { text: "What is machine learning?", maxTokens: 100 });
    expect(request.path).toBe("/v2/models/ensemble/generate");
    expect(request.headers).toEqual({ "content-type": "application/json" });
    expect(bodyOf(request)).toEqual({
      text_input: "What is machine learning?",
      max_tokens: 100,
      bad_words: "",
      stop_words: "",
      pad_id: 2,
      end_id: 2,
    });
  });

  test("its answer, among log probabilities that are all zero", () => {
    const text =
      "\n\nMachine learning is a subfield of artificial intelligence (AI) that involves the use of algorithms and statistical models to enable machines to learn from data, make decisions, and improve their performance on a specific task over time.";
    const json = {
      context_logits: 0.0,
      cum_log_probs: 0.0,
      generation_logits: 0.0,
      model_name: "ensemble",
      model_version: "1",
      output_log_probs: Array.from({ length: 100 }, () => 0.0),
      sequence_end: false,
      sequence_id: 0,
      sequence_start: false,
      text_output: text,
    };
    expect(parseGenerateResponse(profile, json)).toEqual({ text });
  });
});

describe("the Llama-2 tutorial of Triton", () => {
  test("asks the model that triton import made at /generate, where one answer comes though it is decoupled", () => {
    const profile = requestProfile("tritonCli", { tritonModel: "llama-2-7b", endId: 2, padId: 2 });
    const request = buildGenerateRequest(profile, { text: "What is ML?", maxTokens: 50 });
    expect(profile.decoupled).toBe(true);
    expect(request.path).toBe("/v2/models/llama-2-7b/generate");
    expect(bodyOf(request)).toEqual({
      text_input: "What is ML?",
      max_tokens: 50,
      bad_words: "",
      stop_words: "",
      pad_id: 2,
      end_id: 2,
    });
  });

  test("gets the prompt back where the repository does not exclude it", () => {
    const profile = requestProfile("inflight_batcher_llm", { promptEcho: "repeated" });
    const text_output = "What is ML?\nML is a branch of AI that allows computers to learn from data";
    expect(parseGenerateResponse(profile, { context_logits: 0.0, text_output }).text).toBe(text_output);
  });
});

describe("the multimodal guide of tensorrtllm_backend", () => {
  const mllama = requestProfile("multimodal", {
    endId: 128_001,
    padId: 128_004,
    image: imageProfile("mllama", "multimodal", { maxImages: 1, tokensPerImage: 0 }),
  });
  const haiku = wrapQuestion(mllama, "If I had to write a haiku for this one", 1);

  test("its curl request for Llama-3.2-11B-Vision, with the nested parameters at the top", () => {
    const { id, text_input, image_url_input, parameters } = JSON.parse(
      `{"id": "42", "text_input": "<|image|>If I had to write a haiku for this one", "image_url_input": "${MERLION}", "parameters": {"max_tokens": 16, "beam_width": 1, "end_id": 128001, "pad_id": 128004, "top_k": 1, "top_p": 0, "stream": false, "temperature": 0}}`,
    );
    const request = buildGenerateRequest(mllama, {
      id: "42",
      text: haiku,
      images: [MERLION],
      maxTokens: 16,
      beamWidth: 1,
      temperature: 0,
    });
    // Greedy is top_k 1 by itself, false is the default of stream, and the empty word lists mean none.
    const { top_p, temperature, stream, ...meaningful } = parameters;
    expect({ top_p, temperature, stream }).toEqual({ top_p: 0, temperature: 0, stream: false });
    expect(bodyOf(request)).toEqual({
      id,
      text_input,
      image_url_input,
      ...meaningful,
      bad_words: "",
      stop_words: "",
    });
  });

  test("its answer, an event of generate_stream", () => {
    const json = JSON.parse(
      String.raw`{"batch_index":0,"context_logits":0.0,"cum_log_probs":0.0,"generation_logits":0.0,"id":"42","model_name":"ensemble","model_version":"1","output_log_probs":[0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0],"sequence_end":false,"sequence_id":0,"sequence_index":0,"sequence_start":false,"text_output":"If I had to write a haiku for this one, it would be:.\\nMerlion spouts water.\\nMarina"}`,
    );
    expect(parseStreamEvent(mllama, json)).toEqual({
      text: String.raw`If I had to write a haiku for this one, it would be:.\nMerlion spouts water.\nMarina`,
    });
  });

  test("an image in base64 instead of its URL", () => {
    const image = dataUrl("jpeg");
    const request = buildGenerateRequest(mllama, { text: haiku, images: [image], maxTokens: 16 });
    expect(bodyOf(request).image_url_input).toBe(image);
  });

  test("its prompts for the other models", () => {
    const profileOf = (modelType: "llava" | "blip2" | "vila" | "llava_onevision", maxImages: number) =>
      requestProfile("multimodal", {
        image: imageProfile(modelType, "multimodal", { maxImages, tokensPerImage: 1 }),
      });
    expect(wrapQuestion(profileOf("blip2", 1), "which city is this?", 1)).toBe(
      "Question: which city is this? Answer:",
    );
    expect(wrapQuestion(profileOf("vila", 4), "Please elaborate what you see in the images?", 2)).toBe(
      "<image>\n<image>\n Please elaborate what you see in the images?",
    );
    // LLaVA's "USER:" and LLaVA-OneVision's "<|im_start|>user" are put around it by Triton's preprocessing.
    expect(wrapQuestion(profileOf("llava", 1), "Which city is this?", 1)).toBe("\n Which city is this?");
    expect(wrapQuestion(profileOf("llava_onevision", 1), "Why is this video funny?", 0)).toBe(
      "Why is this video funny?",
    );
  });
});

test("an error in the middle of a stream is Triton's own words", () => {
  const profile = requestProfile("inflight_batcher_llm");
  const event = { error: "Streaming is only supported if model is deployed using decoupled mode." };
  expect(() => parseStreamEvent(profile, event)).toThrow(new AnswerError(event.error));
});
