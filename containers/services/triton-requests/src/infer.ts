/**
 * Requests of KServe v2 for what the generate extension can't carry: pixels and video frames, whose tensors have five
 * dimensions. Small tensors are JSON, pixels follow as binary data, because Triton takes no FP16 as JSON.
 * https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_binary_data.md
 */
import { type GenerateOutput, parseGenerateResponse } from "./answers.ts";
import { checkedImages } from "./check.ts";
import { AnswerError, RequestError } from "./errors.ts";
import { FLAVOURS, refuseMissingOptions } from "./flavours/index.ts";
import type { SentImage } from "./images.ts";
import type { RequestProfile } from "./profile.ts";
import type { Fields, FieldValue, GenerationRequest, PixelTensor, TritonRequest } from "./request.ts";

interface InputHeader {
  readonly name: string;
  readonly shape: readonly number[];
  readonly datatype: string;
  readonly data?: readonly FieldValue[];
  readonly parameters?: { readonly binary_data_size: number };
}

/**
 * A POST to `/infer` of a `multimodal` repository: `image_input` (FP16), `image_bytes_input` or `video_bytes_input` (UINT8)
 * of shape [1, images or frames, …], and the options as in a generate request.
 * @throws RequestError for what this model can't take; over HTTP, Triton infers with models that are not decoupled only.
 */
export function buildInferRequest(profile: RequestProfile, request: GenerationRequest): TritonRequest {
  if (profile.flavour !== "multimodal") {
    throw new RequestError(
      "images_not_supported",
      "images",
      `A ${profile.flavour} repository takes no tensors of pixels; send a generate request.`,
    );
  }
  if (profile.decoupled) {
    throw new RequestError(
      "unsupported_image",
      "images",
      "This model is decoupled, and Triton's HTTP port infers with other models only; send the image as URL or file, or use gRPC.",
    );
  }
  const images = checkedImages(profile, request);
  refuseMissingOptions(profile, request);
  const pixels = pixelInput(images, request.videoFrames);
  const fields = FLAVOURS.multimodal.fields(profile, request, images);
  const json = JSON.stringify({
    ...(request.id === undefined ? {} : { id: request.id }),
    inputs: [...Object.entries(fields).map(([name, value]) => jsonInput(name, value)), ...pixels.headers],
    // The others may be FP16 logits, which Triton can't write as JSON.
    outputs: [{ name: FLAVOURS.multimodal.textOutput }],
  });
  const head = Buffer.from(json);
  return {
    path: `/v2/models/${profile.tritonModel}/infer`,
    headers: {
      "content-type": "application/octet-stream",
      "inference-header-content-length": String(head.length),
    },
    body: Buffer.concat([head, ...pixels.data]),
  };
}

/**
 * Reads the JSON of an `/infer` answer.
 * @throws AnswerError with Triton's words when it is an error. @throws TypeError when it holds no text.
 */
export function parseInferResponse(profile: RequestProfile, json: unknown): GenerateOutput {
  const { error, outputs } = (json ?? {}) as {
    readonly error?: unknown;
    readonly outputs?: readonly { readonly name: string; readonly data: readonly FieldValue[] }[];
  };
  if (error !== undefined) throw new AnswerError(String(error));
  return parseGenerateResponse(
    profile,
    Object.fromEntries((outputs ?? []).map(({ name, data }) => [name, data])),
  );
}

function pixelInput(images: readonly SentImage[], videoFrames: PixelTensor | undefined): BinaryInput {
  if (videoFrames !== undefined) {
    return binaryInput("video_bytes_input", videoFrames.datatype, videoFrames.shape, [videoFrames.data]);
  }
  const tensors = images.flatMap((image) => ("tensor" in image ? [image.tensor] : []));
  const [first] = tensors;
  if (first === undefined) return { headers: [], data: [] };
  const { datatype, shape } = first;
  const isUniform = tensors.every(
    (tensor) => tensor.datatype === datatype && String(tensor.shape) === String(shape),
  );
  if (!isUniform || tensors.length < images.length) {
    throw new RequestError(
      "unsupported_image",
      "images",
      "All images of a request go into one tensor, and these differ in kind, datatype or shape; bring them to one size.",
    );
  }
  const name = datatype === "UINT8" ? "image_bytes_input" : "image_input";
  const data = tensors.map((tensor) => tensor.data);
  return binaryInput(name, datatype, [tensors.length, ...shape], data);
}

interface BinaryInput {
  readonly headers: readonly InputHeader[];
  readonly data: readonly Uint8Array[];
}

function binaryInput(
  name: string,
  datatype: PixelTensor["datatype"],
  shape: readonly number[],
  data: readonly Uint8Array[],
): BinaryInput {
  const bytes = data.reduce((sum, { length }) => sum + length, 0);
  return {
    headers: [{ name, shape: [1, ...shape], datatype, parameters: { binary_data_size: bytes } }],
    data,
  };
}

function jsonInput(name: string, value: Fields[string]): InputHeader {
  const data = typeof value === "object" ? value : [value];
  return { name, shape: [1, data.length], datatype: DATATYPES[name] ?? "BYTES", data };
}

/** Datatypes of the inputs that are not text, as in config.pbtxt of all_models/multimodal/ensemble. */
const DATATYPES: Readonly<Record<string, string>> = {
  max_tokens: "INT32",
  end_id: "INT32",
  pad_id: "INT32",
  min_tokens: "INT32",
  min_length: "INT32",
  top_k: "INT32",
  top_p: "FP32",
  temperature: "FP32",
  seed: "UINT64",
  random_seed: "UINT64",
  frequency_penalty: "FP32",
  presence_penalty: "FP32",
  repetition_penalty: "FP32",
  beam_width: "INT32",
  prompt_table_extra_id: "UINT64",
};
