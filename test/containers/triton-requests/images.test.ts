import {
  buildGenerateRequest,
  buildInferRequest,
  type GenerationRequest,
  type ImageInput,
  imageProfile,
  type PixelTensor,
  parseInferResponse,
  type RequestProfile,
  requestProfile,
  type TritonRequest,
  type VisionModelType,
} from "@engine-room/triton-requests";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { bodyOf, dataUrl, FILES, MERLION } from "./support.ts";

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
const pixels = (datatype: PixelTensor["datatype"], ...shape: number[]): PixelTensor => {
  const elements = shape.reduce((product, size) => product * size, 1);
  return { datatype, shape, data: new Uint8Array(elements * (datatype === "UINT8" ? 1 : 2)).fill(7) };
};
const refusal = (code: string, message: string | RegExp) =>
  expect.objectContaining({ name: "RequestError", code, message: expect.stringMatching(message) });

describe("images of a generate request", () => {
  test("travel in the request to the tutorials' repository too, which the image has patched for it", () => {
    const request = buildGenerateRequest(requestProfile("llava"), ask([dataUrl("jpeg")], "<image>a"));
    expect(bodyOf(request)).toEqual({ prompt: "<image>a", image: dataUrl("jpeg"), max_tokens: 5 });
  });

  test("are sent as the one prefix that the server decodes, whatever the file is", () => {
    for (const type of ["jpeg", "png", "webp"] as const) {
      const sent = `data:image/jpeg;base64,${FILES[type].toString("base64")}`;
      for (const image of [dataUrl(type), FILES[type], new Uint8Array(FILES[type])]) {
        expect(bodyOf(buildGenerateRequest(mllama, ask([image]))).image_url_input).toBe(sent);
      }
    }
  });

  test("are a list where there are several, and nothing where there are none", () => {
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
    ["pixels of another size", { ...pixels("UINT8", 2, 2, 3), data: new Uint8Array(11) }, "invalid_image"],
    ["pixels of two dimensions", pixels("UINT8", 2, 2), "invalid_image"],
  ])("refuses %s", (_what, image, code) => {
    expect(() => buildGenerateRequest(mllama, ask([image]))).toThrow(refusal(code, /^images\[0\]/));
  });

  test.each<[string, RequestProfile, GenerationRequest, string, RegExp]>([
    [
      "images for a text model",
      requestProfile("inflight_batcher_llm"),
      ask([MERLION, MERLION], "a"),
      "images_not_supported",
      /has 2 images, and this model reads text only/,
    ],
    [
      "a video for a text model",
      requestProfile("inflight_batcher_llm"),
      { ...ask([]), videoFrames: pixels("UINT8", 2, 1, 1, 3) },
      "images_not_supported",
      /has a video, and this model reads text only/,
    ],
    ["too many images", mllama, ask([MERLION, MERLION, MERLION]), "too_many_images", /has 3 images.*takes 2/],
    [
      "no image where one must be",
      profileOf("llava_onevision"),
      ask([], "a"),
      "image_missing",
      /the request has none/,
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
    [
      "pixels through the generate extension",
      mllama,
      ask([pixels("UINT8", 2, 2, 3)]),
      "unsupported_image",
      /send an infer request/,
    ],
    [
      "a video that the model does not take",
      mllama,
      { ...ask([]), videoFrames: pixels("UINT8", 2, 1, 1, 3) },
      "images_not_supported",
      /has a video, and this model takes none/,
    ],
  ])("refuses %s", (_what, profile, request, code, message) => {
    expect(() => buildGenerateRequest(profile, request)).toThrow(refusal(code, message));
  });
});

describe("image marks", () => {
  const vila = profileOf("vila", 4, { decoupled: false });
  const image = pixels("FP16", 3, 2, 2);
  const send = (profile: RequestProfile, text: string, images: number) =>
    buildInferRequest(profile, ask(Array<ImageInput>(images).fill(image), text));

  test("must be as many as the images", () => {
    expect(() => send(vila, "<image>\n<image>\n a", 2)).not.toThrow();
    expect(() => send(vila, "<image>\n a", 2)).toThrow(
      refusal("image_marks_mismatch", "holds the mark <image> once, and the request has 2 images"),
    );
    expect(() => send(vila, "a", 1)).toThrow("holds the mark <image> 0 times, and the request has 1 image;");
  });

  test("must not stand side by side, where preprocessing would drop one", () => {
    expect(() => send(vila, "<image><image>", 2)).toThrow("put a line break between them");
    expect(() => buildGenerateRequest(mllama, ask([MERLION, MERLION]))).not.toThrow();
  });

  test("must not be there where the server places images by itself, nor be another model's", () => {
    const single = profileOf("vila", 1, { decoupled: false });
    expect(() => send(single, "<image>\n a", 1)).toThrow("the server places the image by itself");
    expect(() => buildGenerateRequest(mllama, ask([MERLION], "<image>"))).toThrow(
      "this model's mark is <|image|>",
    );
  });

  test("mean nothing to a text model", () => {
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

  test("follows the content and the order of the images, not the prompt or the way to send them", () => {
    expect(idOf(ask([a]))).toBe(
      idOf({ ...ask([Buffer.concat([FILES.png, Buffer.from("a")])]), maxTokens: 9 }),
    );
    const ids = [idOf(ask([a])), idOf(ask([b])), idOf(ask([a, b], two)), idOf(ask([b, a], two))];
    expect(new Set(ids).size).toBe(4);
  });

  test("is a whole number of 1 to 2^53 - 1, also when 32 bits are left of it", () => {
    fc.assert(
      fc.property(fc.string(), (extra) => {
        const id = idOf(ask([dataUrl("jpeg", extra)])) as number;
        return Number.isSafeInteger(id) && id >= 1 && (id | 0) !== 0;
      }),
    );
  });

  test("is the caller's where there is one", () => {
    expect(idOf({ ...ask([MERLION]), promptTableExtraId: 7 })).toBe(7);
    for (const promptTableExtraId of [0, 1.5, 2 ** 53]) {
      expect(() => idOf({ ...ask([MERLION]), promptTableExtraId })).toThrow("must be a whole number of 1 to");
    }
  });

  test("can't be made of an address", () => {
    expect(() => idOf(ask([a, MERLION], two))).toThrow(
      refusal("prompt_table_extra_id_missing", /not known of images\[1\], a URL; give promptTableExtraId/),
    );
  });

  test("is left out without images, and without reuse", () => {
    expect(idOf(ask([]))).toBeUndefined();
    expect(bodyOf(buildGenerateRequest(mllama, ask([a])))).not.toHaveProperty("prompt_table_extra_id");
  });
});

/** The JSON in front of an infer request, and the bytes behind it. */
function parts({ headers, body }: TritonRequest) {
  const bytes = Buffer.from(body);
  const length = Number(headers["inference-header-content-length"]);
  return { json: JSON.parse(bytes.toString("utf8", 0, length)), binary: bytes.subarray(length) };
}

describe("infer requests", () => {
  const onevision = profileOf("llava_onevision", 1, { decoupled: false, endId: 151_645 });

  test("carry processed pixels behind their JSON, as image_input of five dimensions", () => {
    const profile = profileOf("vila", 4, { decoupled: false, tritonModel: "tensorrt_llm_bls" });
    const images = [
      pixels("FP16", 3, 2, 2),
      { ...pixels("FP16", 3, 2, 2), data: new Uint8Array(24).fill(9) },
    ];
    const request = buildInferRequest(profile, {
      ...ask(images, "<image>\n<image>\n a"),
      id: "1",
      temperature: 0.5,
      seed: 3,
      stopWords: ["x", "y"],
    });
    expect(request.path).toBe("/v2/models/tensorrt_llm_bls/infer");
    expect(request.headers["content-type"]).toBe("application/octet-stream");
    const { json, binary } = parts(request);
    expect(json).toEqual({
      id: "1",
      inputs: [
        { name: "text_input", shape: [1, 1], datatype: "BYTES", data: ["<image>\n<image>\n a"] },
        { name: "max_tokens", shape: [1, 1], datatype: "INT32", data: [5] },
        { name: "bad_words", shape: [1, 1], datatype: "BYTES", data: [""] },
        { name: "stop_words", shape: [1, 2], datatype: "BYTES", data: ["x", "y"] },
        { name: "temperature", shape: [1, 1], datatype: "FP32", data: [0.5] },
        { name: "seed", shape: [1, 1], datatype: "UINT64", data: [3] },
        {
          name: "image_input",
          shape: [1, 2, 3, 2, 2],
          datatype: "FP16",
          parameters: { binary_data_size: 48 },
        },
      ],
      outputs: [{ name: "text_output" }],
    });
    expect([...binary]).toEqual([...new Uint8Array(24).fill(7), ...new Uint8Array(24).fill(9)]);
  });

  test("carry raw pixels as image_bytes_input and frames as video_bytes_input", () => {
    const image = parts(buildInferRequest(onevision, ask([pixels("UINT8", 2, 2, 3)], "a"))).json.inputs.at(
      -1,
    );
    expect(image).toMatchObject({ name: "image_bytes_input", datatype: "UINT8", shape: [1, 1, 2, 2, 3] });
    const video = { ...ask([], "Why is this video funny?"), videoFrames: pixels("UINT8", 8, 2, 2, 3) };
    const { json, binary } = parts(buildInferRequest(onevision, video));
    expect(json.inputs.at(-1)).toEqual({
      name: "video_bytes_input",
      datatype: "UINT8",
      shape: [1, 8, 2, 2, 3],
      parameters: { binary_data_size: 96 },
    });
    expect(binary).toHaveLength(96);
  });

  test("have an id of the frames for the KV cache", () => {
    const reusing = { ...onevision, kvCacheReuse: true };
    const idOf = (frames: PixelTensor) =>
      parts(buildInferRequest(reusing, { ...ask([], "a"), videoFrames: frames })).json.inputs.find(
        ({ name }: { name: string }) => name === "prompt_table_extra_id",
      );
    const frames = pixels("UINT8", 2, 2, 2, 3);
    expect(idOf(frames)).toMatchObject({ datatype: "UINT64", shape: [1, 1] });
    expect(idOf(frames)).not.toEqual(idOf({ ...frames, data: new Uint8Array(24) }));
    expect(idOf(frames)).not.toEqual(idOf({ ...frames, shape: [1, 4, 2, 3] }));
  });

  test.each<[string, RequestProfile, GenerationRequest, RegExp]>([
    ["a decoupled model", mllama, ask([pixels("UINT8", 2, 2, 3)]), /decoupled.*use gRPC/],
    ["another kind of repository", requestProfile("gpt"), ask([], "a"), /gpt repository takes no tensors/],
    [
      "images of two sizes",
      { ...mllama, decoupled: false },
      ask([pixels("UINT8", 2, 2, 3), pixels("UINT8", 1, 2, 3)], "<|image|>\n<|image|>"),
      /differ in kind, datatype or shape/,
    ],
    [
      "pixels beside a URL",
      { ...mllama, decoupled: false },
      ask([pixels("UINT8", 2, 2, 3), MERLION], "<|image|>\n<|image|>"),
      /differ in kind, datatype or shape/,
    ],
    [
      "frames beside an image",
      onevision,
      { ...ask([MERLION], "a"), videoFrames: pixels("UINT8", 2, 2, 2, 3) },
      /has a video and 1 image/,
    ],
    [
      "processed frames",
      onevision,
      { ...ask([], "a"), videoFrames: pixels("FP16", 2, 2, 2, 3) },
      /videoFrames are FP16; they must be raw pixels/,
    ],
  ])("refuse %s", (_what, profile, request, message) => {
    expect(() => buildInferRequest(profile, request)).toThrow(
      expect.objectContaining({ name: "RequestError", message: expect.stringMatching(message) }),
    );
  });

  test("are answered by a list of outputs, or by an error", () => {
    const outputs = [{ name: "text_output", datatype: "BYTES", shape: [1], data: ["Singapore"] }];
    expect(parseInferResponse(onevision, { model_name: "ensemble", outputs })).toEqual({ text: "Singapore" });
    expect(() => parseInferResponse(onevision, { error: "no" })).toThrow(
      expect.objectContaining({ name: "AnswerError", message: "no" }),
    );
    expect(() => parseInferResponse(onevision, null)).toThrow("no text_output");
  });
});
