/** Requests of Triton's generate extension: text in, text out, tensors of one dimension at most. */
import { checkedImages } from "./check.ts";
import { RequestError } from "./errors.ts";
import { FLAVOURS, refuseMissingOptions } from "./flavours/index.ts";
import type { RequestProfile } from "./profile.ts";
import type { GenerationRequest, TritonRequest } from "./request.ts";

/**
 * A POST to `/generate`, or to `/generate_stream` where the request says `stream`.
 * A model that can't stream answers `/generate_stream` with a single event.
 * @throws RequestError for what this model can't take; pixels and video frames go through `buildInferRequest`.
 */
export function buildGenerateRequest(profile: RequestProfile, request: GenerationRequest): TritonRequest {
  const images = checkedImages(profile, request);
  refuseMissingOptions(profile, request);
  const tensor = images.findIndex(({ kind }) => kind === "pixels" || kind === "processedPixels");
  if (tensor !== -1 || request.videoFrames !== undefined) {
    const field = tensor === -1 ? "videoFrames" : `images[${tensor}]`;
    throw new RequestError(
      "unsupported_image",
      field,
      `${field} is a tensor of several dimensions, which Triton's generate extension can't carry; send an infer request.`,
    );
  }
  const [model, endpoint] = request.stream
    ? [profile.streamingModel, "generate_stream"]
    : [profile.tritonModel, "generate"];
  return {
    path: `/v2/models/${model}/${endpoint}`,
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      ...(request.id === undefined ? {} : { id: request.id }),
      ...FLAVOURS[profile.flavour].fields(profile, request, images),
    }),
  };
}
