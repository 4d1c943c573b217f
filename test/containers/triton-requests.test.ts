import {
  AnswerError,
  buildGenerateRequest,
  type GenerationRequest,
  type ImageInput,
  imageProfile,
  parseGenerateResponse,
  type RequestFlavour,
  type RequestProfile,
  requestProfile,
  type TritonRequest,
  takesStopWords,
  type VisionModelType,
  wrapQuestion,
} from "@engine-room/triton-requests";
import fc from "fast-check";
import { describe, expect, test } from "vitest";

/** The picture of the LLaVA-1.5 walkthrough and of the multimodal guide. */
const MERLION = "https://storage.googleapis.com/sfr-vision-language-research/LAVIS/assets/merlion.png";

/** Heads of image files, of a length whose base64 needs no padding. */
const FILES = {
  jpeg: Buffer.from("ffd8ffe000104a4649460001", "hex"),
  png: Buffer.from("89504e470d0a1a0a0000000d", "hex"),
  webp: Buffer.concat([Buffer.from("RIFF"), Buffer.from([4, 0, 0, 0]), Buffer.from("WEBP")]),
} as const;

function dataUrl(type: keyof typeof FILES, extra = ""): string {
  return `data:image/${type};base64,${Buffer.concat([FILES[type], Buffer.from(extra)]).toString("base64")}`;
}

/** The JSON of a generate request. */
function bodyOf({ body }: TritonRequest): Record<string, unknown> {
  return JSON.parse(body) as Record<string, unknown>;
}

const profileOf = (
  modelType: VisionModelType,
  maxImages = 1,
  differences: Partial<RequestProfile> = {},
): RequestProfile =>
  requestProfile("multimodal", {
    image: imageProfile(modelType, "multimodal", { maxImages, tokensPerImage: 1 }),
    ...differences,
  });

const mllama = profileOf("mllama", 2);

const ask = (images: readonly ImageInput[], text = "<|image|>".repeat(images.length)): GenerationRequest => ({
  text,
  images,
  maxTokens: 5,
});

const refusal = (code: string, message: string | RegExp) =>
  expect.objectContaining({ name: "RequestError", code, message: expect.stringMatching(message) });

describe("images of a generate request", () => {
  test("a request to the tutorials' repository carries its image", () => {
    const request = buildGenerateRequest(requestProfile("llava"), ask([dataUrl("jpeg")], "<image>a"));
    expect(bodyOf(request)).toEqual({ prompt: "<image>a", image: dataUrl("jpeg"), max_tokens: 5 });
  });

  test("images are sent with the prefix that the server decodes for any file type", () => {
    for (const type of ["jpeg", "png", "webp"] as const) {
      const sent = `data:image/jpeg;base64,${FILES[type].toString("base64")}`;
      for (const image of [dataUrl(type), FILES[type], new Uint8Array(FILES[type])]) {
        expect(bodyOf(buildGenerateRequest(mllama, ask([image]))).image_url_input).toBe(sent);
      }
    }
  });

  test("several images are sent as a list, or between spaces as one text to this project's image processor", () => {
    const vila = requestProfile("multimodal", {
      image: imageProfile("vila", "multimodal", { maxImages: 4, tokensPerImage: 196, hasProcessor: true }),
    });
    const marked = ask([`${MERLION}?a b`, dataUrl("jpeg")], "<image> and <image>");
    expect(bodyOf(buildGenerateRequest(vila, marked)).image_url_input).toBe(
      `${MERLION}?a%20b ${dataUrl("jpeg")}`,
    );
    const two = ask([MERLION, dataUrl("jpeg")], "<|image|> and <|image|>");
    expect(bodyOf(buildGenerateRequest(mllama, two)).image_url_input).toEqual([MERLION, dataUrl("jpeg")]);
    expect(bodyOf(buildGenerateRequest(mllama, ask([])))).not.toHaveProperty("image_url_input");
  });

  test.each<[string, ImageInput, string]>([
    ["another scheme", "file:///etc/passwd", "invalid_image"],
    ["another media type", "data:text/html;base64,PGI+", "invalid_image"],
    ["a data URL that is not base64", "data:image/png,abc", "invalid_image"],
    ["broken base64", "data:image/jpeg;base64,/9j/4*==", "invalid_image"],
    ["base64 without its padding", "data:image/jpeg;base64,/9j/4", "invalid_image"],
    ["another file under an image's name", "data:image/png;base64,R0lGODlhAQABAIAAAAUEBA==", "invalid_image"],
    ["bytes of no image", new Uint8Array([1, 2, 3]), "invalid_image"],
    ["no bytes", new Uint8Array(), "invalid_image"],
  ])("a generate request refuses %s as an image", (_what, image, code) => {
    expect(() => buildGenerateRequest(mllama, ask([image]))).toThrow(refusal(code, /^images\[0\]/));
  });

  test.each<[string, RequestProfile, GenerationRequest, string, RegExp]>([
    [
      "images for a text model",
      requestProfile("inflight_batcher_llm"),
      ask([MERLION, MERLION], "a"),
      "images_not_supported",
      /has 2 images, and this model reads text only; leave them out, or ask a vision model\.$/,
    ],
    ["too many images", mllama, ask([MERLION, MERLION, MERLION]), "too_many_images", /has 3 images.*with 2/],
    [
      "no image where one must be",
      profileOf("llava_onevision"),
      ask([], "a"),
      "image_missing",
      /the request has no image/,
    ],
    [
      "a URL where pixels must be",
      profileOf("blip2"),
      ask([MERLION], "a"),
      "unsupported_image",
      /^images\[0\] is an http\(s\) URL.*takes only processed pixels/,
    ],
    [
      "a file where pixels must be",
      profileOf("blip2"),
      ask([dataUrl("jpeg")], "a"),
      "unsupported_image",
      /^images\[0\] is a data URL or file.*takes only processed pixels/,
    ],
  ])("a generate request refuses %s", (_what, profile, request, code, message) => {
    expect(() => buildGenerateRequest(profile, request)).toThrow(refusal(code, message));
  });
});

describe("image marks", () => {
  const vila = (maxImages: number) => {
    const profile = profileOf("vila", maxImages);
    return { ...profile, image: profile.image && { ...profile.image, takesFiles: true } };
  };
  const send = (profile: RequestProfile, text: string, images: number) =>
    buildGenerateRequest(profile, ask(Array<ImageInput>(images).fill(MERLION), text));

  test("a prompt must have as many image marks as images", () => {
    expect(() => send(vila(4), "<image>\n<image>\n a", 2)).not.toThrow();
    expect(() => send(vila(4), "<image>\n a", 2)).toThrow(
      refusal("image_marks_mismatch", "holds the mark <image> once, and the request has 2 images"),
    );
    expect(() => send(vila(4), "a", 1)).toThrow(
      "holds the mark <image> 0 times, and the request has 1 image;",
    );
  });

  test("adjacent image marks are refused if preprocessing would drop one", () => {
    expect(() => send(vila(4), "<image><image>", 2)).toThrow("put a line break between them");
    expect(() => buildGenerateRequest(mllama, ask([MERLION, MERLION]))).not.toThrow();
  });

  test("image marks are refused if the server places images, and so are another model's marks", () => {
    expect(() => send(vila(1), "<image>\n a", 1)).toThrow("the server places the image by itself");
    expect(() => buildGenerateRequest(mllama, ask([MERLION], "<image>"))).toThrow(
      "this model's mark is <|image|>",
    );
    const qwen = requestProfile("llmapi", {
      image: imageProfile("qwen2_5_vl", "llmapi", { maxImages: 2, tokensPerImage: 1280 }),
    });
    const mark = "<|vision_start|><|image_pad|><|vision_end|>";
    expect(bodyOf(buildGenerateRequest(qwen, ask([MERLION], `${mark}a`))).image_url).toBe(MERLION);
    for (const prompt of [
      `${mark}a<|image_pad|>`,
      "<|image_pad|>a",
      `${mark}<|video_pad|>`,
      `<|vision_pad|>${mark}`,
    ])
      expect(() => buildGenerateRequest(qwen, ask([MERLION], prompt))).toThrow(
        refusal("image_marks_mismatch", /holds <\|\w+_pad\|>, and this model's mark is <\|vision_start/),
      );
  });

  test("a text model accepts image marks as text", () => {
    const request = ask([], "What does <image> mean in HTML?");
    expect(() => buildGenerateRequest(requestProfile("inflight_batcher_llm"), request)).not.toThrow();
  });
});

describe("prompt_table_extra_id", () => {
  const reusing = { ...mllama, kvCacheReuse: true };
  const idOf = (request: GenerationRequest) =>
    bodyOf(buildGenerateRequest(reusing, request)).prompt_table_extra_id;
  const [a, b] = [dataUrl("png", "a"), dataUrl("png", "b")];
  const two = "<|image|>\n<|image|>";

  test("prompt_table_extra_id depends only on the images' content and order", () => {
    expect(idOf(ask([a]))).toBe(
      idOf({ ...ask([Buffer.concat([FILES.png, Buffer.from("a")])]), maxTokens: 9 }),
    );
    const ids = [idOf(ask([a])), idOf(ask([b])), idOf(ask([a, b], two)), idOf(ask([b, a], two))];
    expect(new Set(ids).size).toBe(4);
  });

  test("prompt_table_extra_id is a safe integer whose lower 32 bits are not zero", () => {
    fc.assert(
      fc.property(fc.string(), (extra) => {
        const id = idOf(ask([dataUrl("jpeg", extra)])) as number;
        return Number.isSafeInteger(id) && id >= 1 && (id | 0) !== 0;
      }),
    );
  });

  test("an image's URL is refused if the KV cache is reused", () => {
    expect(() => idOf(ask([a, MERLION], two))).toThrow(
      refusal("unsupported_image", /^images\[1\] is a URL.*send the image itself/),
    );
  });

  test("prompt_table_extra_id is left out without images or without reuse of the KV cache", () => {
    expect(idOf(ask([]))).toBeUndefined();
    expect(bodyOf(buildGenerateRequest(mllama, ask([a])))).not.toHaveProperty("prompt_table_extra_id");
  });
});

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

test("inflight_batcher_llm passes sampling options on, and is greedy at temperature 0", () => {
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

test.each([
  ["inflight_batcher_llm", { top_p: 1, top_k: 0 }],
  ["multimodal", { top_p: 1, top_k: 0 }],
  ["gpt", { top_p: 1, top_k: 0 }],
  ["llmapi", { sampling_param_top_p: 1, sampling_param_top_k: 0 }],
  ["llava", { top_k: 1024 }],
] as const)("%s samples from all tokens at a temperature above 0 without other limits", (flavour, limits) => {
  const request = {
    ...plain,
    ...(flavour === "llava" && { text: "<image>a", images: [MERLION] }),
    temperature: 1,
  };
  const profile = requestProfile(flavour, {
    endId: 1,
    padId: 1,
    ...(flavour !== "llava" && { image: null }),
  });
  expect(bodyOf(buildGenerateRequest(profile, request))).toMatchObject(limits);
});

test("inflight_batcher_llm passes on penalties, stop words and token counts, and leaves out neutral values", () => {
  const request = {
    ...plain,
    frequencyPenalty: 0.5,
    presencePenalty: 0,
    stopWords: ["</s>", "\n"],
    countTokens: true,
  };
  expect(body("inflight_batcher_llm", request)).toEqual({
    text_input: "a",
    max_tokens: 5,
    bad_words: "",
    stop_words: ["</s>", "\n"],
    frequency_penalty: 0.5,
    return_num_input_tokens: true,
    return_num_output_tokens: true,
  });
});

test("inflight_batcher_llm streams from its streaming model, in one event if it is not decoupled", () => {
  const profile = requestProfile("inflight_batcher_llm", { streamingModel: "tensorrt_llm_bls" });
  const stream = buildGenerateRequest(profile, { ...plain, stream: true });
  expect(stream.path).toBe("/v2/models/tensorrt_llm_bls/generate_stream");
  expect(bodyOf(stream)).toMatchObject({ stream: true });
  const whole = buildGenerateRequest({ ...profile, decoupled: false }, { ...plain, stream: true });
  expect(whole.path).toBe("/v2/models/tensorrt_llm_bls/generate_stream");
  expect(bodyOf(whole)).not.toHaveProperty("stream");
});

test("the legacy profile of inflight_batcher_llm uses the field names of releases until 25.04", () => {
  const legacy = requestProfile("inflight_batcher_llm", { seedField: "random_seed" });
  expect(bodyOf(buildGenerateRequest(legacy, sampled))).toMatchObject({ random_seed: 3 });
  expect(body("inflight_batcher_llm", sampled)).toMatchObject({ seed: 3 });
});

test("inflight_batcher_llm reads text and token counts of the first beam", () => {
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

test("tritonCli uses the field names of its BLS template", () => {
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

describe("llava", () => {
  const question = { text: "<image>a", images: [MERLION], maxTokens: 5 };

  test("llava sends zeros because its defaults differ", () => {
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

  test("llava streams its whole answer in one event", () => {
    const request = buildGenerateRequest(requestProfile("llava"), { ...question, stream: true });
    expect(request.path).toBe("/v2/models/llava-1.5/generate_stream");
    expect(bodyOf(request)).toEqual({ prompt: "<image>a", image: MERLION, max_tokens: 5 });
    expect(
      parseGenerateResponse(requestProfile("llava"), {
        text: "a",
        finish_reason: "length",
        completion_tokens: 5,
      }),
    ).toEqual({ text: "a", completionTokens: 5, finishReason: "length" });
  });
});

test("gpt gets endId and padId in the request", () => {
  const profile = requestProfile("gpt", { endId: 50_256, padId: 50_256 });
  expect(bodyOf(buildGenerateRequest(profile, { ...greedy, stream: true }))).toEqual({
    text_input: "a",
    max_tokens: 5,
    ...words,
    end_id: 50_256,
    pad_id: 50_256,
    top_k: 1,
  });
});

test("llmapi uses its own field names, and neither word lists nor a seed", () => {
  const always = {
    text_input: "a",
    sampling_param_max_tokens: 5,
    sampling_param_exclude_input_from_output: true,
    return_finish_reason: true,
  };
  expect(body("llmapi", sampled)).toEqual({
    ...always,
    sampling_param_temperature: 0.7,
    sampling_param_top_p: 0.9,
    sampling_param_top_k: 40,
  });
  expect(body("llmapi", greedy)).toEqual({ ...always, sampling_param_top_k: 1 });
});

test("llmapi streams cumulative text if it is decoupled", () => {
  const profile = requestProfile("llmapi", { decoupled: true });
  const request = buildGenerateRequest(profile, { ...plain, stream: true });
  expect(request.path).toBe("/v2/models/tensorrt_llm/generate_stream");
  expect(bodyOf(request)).toMatchObject({ streaming: true });
  expect(body("llmapi", { ...plain, stream: true })).not.toHaveProperty("streaming");
  expect(profile.streamedText).toBe("cumulative");
});

test("llmapi reads the finish reason, and none from None", () => {
  const profile = requestProfile("llmapi");
  const read = (finish_reason: string) => parseGenerateResponse(profile, { text_output: "a", finish_reason });
  expect(read("None")).toEqual({ text: "a" });
  expect(read("length")).toEqual({ text: "a", finishReason: "length" });
});

test.each<[RequestFlavour, Partial<GenerationRequest>, string]>([
  ["llava", { topP: 0.5, temperature: 1 }, "topP"],
  ["llava", { presencePenalty: 1 }, "presencePenalty"],
  ["llava", { stopWords: ["x"] }, "stopWords"],
  ["gpt", { stopWords: ["x"] }, "stopWords"],
  ["llmapi", { stopWords: ["x"] }, "stopWords"],
  ["llmapi", { frequencyPenalty: 1 }, "frequencyPenalty"],
  ["llmapi", { presencePenalty: -1 }, "presencePenalty"],
])("the flavour %s refuses the option %j", (flavour, option, field) => {
  const profile = requestProfile(flavour, { endId: 1, padId: 1, image: null });
  expect(() => buildGenerateRequest(profile, { ...plain, ...option })).toThrow(
    expect.objectContaining({
      code: "unsupported_option",
      field,
      message: expect.stringMatching(`^${field} is .* can't apply it; leave it out\\.$`),
    }),
  );
});

test("options without an input are accepted with a neutral value", () => {
  expect(body("llmapi", { ...plain, stopWords: [] })).toEqual(body("llmapi", plain));
  const question = { text: "<image>a", images: [MERLION], maxTokens: 5, presencePenalty: 0 };
  expect(body("llava", { ...question, topP: 0.5, temperature: 0 })).not.toHaveProperty("top_p");
});

test("takesStopWords names the flavours that take stop words", () => {
  const taking = (["inflight_batcher_llm", "multimodal", "llava", "gpt", "llmapi"] as const).filter(
    (flavour) => takesStopWords(requestProfile(flavour)),
  );
  expect(taking).toEqual(["inflight_batcher_llm", "multimodal"]);
});

describe("the LLaVA-1.5 walkthrough for 25.07", () => {
  const profile = requestProfile("llava");

  test("the request of the LLaVA-1.5 walkthrough is built word for word", () => {
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

  test("the answer of the LLaVA-1.5 walkthrough is read", () => {
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

  test("the request of the Kubernetes walkthrough is built word for word", () => {
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

  test("the answer of the Kubernetes walkthrough is read among zero log probabilities", () => {
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

test("the request of Triton's Llama-2 tutorial asks the imported model at /generate", () => {
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

test("the answer of Triton's Llama-2 tutorial keeps an echoed prompt", () => {
  const profile = requestProfile("inflight_batcher_llm", { promptEcho: "repeated" });
  const text_output = "What is ML?\nML is a branch of AI that allows computers to learn from data";
  expect(parseGenerateResponse(profile, { context_logits: 0.0, text_output }).text).toBe(text_output);
});

describe("the multimodal guide of tensorrtllm_backend", () => {
  const mllama = requestProfile("multimodal", {
    endId: 128_001,
    padId: 128_004,
    image: imageProfile("mllama", "multimodal", { maxImages: 1, tokensPerImage: 0 }),
  });
  const haiku = wrapQuestion(mllama, "If I had to write a haiku for this one", 1);

  test("the multimodal guide's request for Llama-3.2-11B-Vision is sent with its parameters at the top", () => {
    const { text_input, image_url_input, parameters } = JSON.parse(
      `{"id": "42", "text_input": "<|image|>If I had to write a haiku for this one", "image_url_input": "${MERLION}", "parameters": {"max_tokens": 16, "beam_width": 1, "end_id": 128001, "pad_id": 128004, "top_k": 1, "top_p": 0, "stream": false, "temperature": 0}}`,
    );
    const request = buildGenerateRequest(mllama, {
      text: haiku,
      images: [MERLION],
      maxTokens: 16,
      temperature: 0,
    });
    // Greedy is top_k 1 by itself, one beam and no stream are defaults, and the empty word lists mean none.
    const { beam_width, top_p, temperature, stream, ...meaningful } = parameters;
    expect({ beam_width, top_p, temperature, stream }).toEqual({
      beam_width: 1,
      top_p: 0,
      temperature: 0,
      stream: false,
    });
    expect(bodyOf(request)).toEqual({
      text_input,
      image_url_input,
      ...meaningful,
      bad_words: "",
      stop_words: "",
    });
  });

  test("the multimodal guide's answer is read from an event of generate_stream", () => {
    const json = JSON.parse(
      String.raw`{"batch_index":0,"context_logits":0.0,"cum_log_probs":0.0,"generation_logits":0.0,"id":"42","model_name":"ensemble","model_version":"1","output_log_probs":[0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0],"sequence_end":false,"sequence_id":0,"sequence_index":0,"sequence_start":false,"text_output":"If I had to write a haiku for this one, it would be:.\\nMerlion spouts water.\\nMarina"}`,
    );
    expect(parseGenerateResponse(mllama, json)).toEqual({
      text: String.raw`If I had to write a haiku for this one, it would be:.\nMerlion spouts water.\nMarina`,
    });
  });

  test("the multimodal guide's request takes an image in base64", () => {
    const image = dataUrl("jpeg");
    const request = buildGenerateRequest(mllama, { text: haiku, images: [image], maxTokens: 16 });
    expect(bodyOf(request).image_url_input).toBe(image);
  });

  const frame = dataUrl("jpeg").split(",")[1];
  const frames = (count: number) => `data:video/jpeg;base64,${Array(count).fill(frame).join(",")}`;
  const funny = { text: "Why is this video funny?", maxTokens: 30 };
  const onevision = requestProfile("multimodal", {
    endId: 151_645,
    image: imageProfile("llava_onevision", "multimodal", {
      maxImages: 4,
      tokensPerImage: 729,
      video: { defaultFrames: 8, maxFrames: 16, tokensPerFrame: 196 },
    }),
  });

  test("the multimodal guide's video is sent as the frames that preprocessing reads", () => {
    const body = bodyOf(buildGenerateRequest(onevision, { ...funny, video: frames(8) }));
    expect(body).toMatchObject({ text_input: funny.text, image_url_input: frames(8), end_id: 151_645 });
    expect(body).not.toHaveProperty("video");
    const reused = buildGenerateRequest({ ...onevision, kvCacheReuse: true }, { ...funny, video: frames(2) });
    expect(bodyOf(reused).prompt_table_extra_id).toBeGreaterThan(0);
  });

  test("several pictures stand before the text of LLaVA-OneVision without marks", () => {
    const images = [dataUrl("jpeg"), "https://example.org/a.png"];
    const text = wrapQuestion(onevision, "Which is older?", images.length);
    const body = bodyOf(buildGenerateRequest(onevision, { text, images, maxTokens: 30 }));
    expect(body).toMatchObject({ text_input: "Which is older?", image_url_input: images.join(" ") });
  });

  test.each([
    ["too many frames", onevision, { video: frames(17) }, "17 frames, and this model takes 16 at most"],
    ["no frame", onevision, { video: "data:video/jpeg;base64," }, "frames[0] is not a JPEG"],
    ["a broken frame", onevision, { video: `${frames(1)},=` }, "frames[1] is not valid base64"],
    [
      "a video file",
      onevision,
      { video: "data:video/mp4;base64,AAAA" },
      "`npx engine-room ask --video` picks 8",
    ],
    ["an address", onevision, { video: "https://example.org/v.mp4" }, "it must be data:video/jpeg;base64,"],
    ["a picture too", onevision, { video: frames(1), images: [dataUrl("jpeg")] }, "a video and 1 image"],
    ["a mark", onevision, { video: frames(1), text: "<image>" }, "leave the mark out"],
    ["another model", mllama, { video: frames(1) }, "this model takes none"],
    ["a text model", requestProfile("inflight_batcher_llm"), { video: frames(1) }, "this model takes none"],
  ] as const)("a video with %s is refused", (_what, profile, request, sentence) => {
    expect(() => buildGenerateRequest(profile, { ...funny, ...request })).toThrow(sentence);
  });

  test("questions get the multimodal guide's prompts for the other models", () => {
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

test("an error in a stream's event is reported in Triton's words", () => {
  const profile = requestProfile("inflight_batcher_llm");
  const event = { error: "Streaming is only supported if model is deployed using decoupled mode." };
  expect(() => parseGenerateResponse(profile, event)).toThrow(new AnswerError(event.error));
});
