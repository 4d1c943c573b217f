/** Checks that need request and profile together, before any model is asked. */
import { RequestError } from "./errors.ts";
import { checkedTensor, KIND_NAMES, type SentImage, sentImage } from "./images.ts";
import type { ImageProfile, RequestProfile } from "./profile.ts";
import { checkMarks } from "./prompts.ts";
import type { GenerationRequest } from "./request.ts";

/**
 * The request's images, ready to be sent.
 * @throws RequestError for whatever the model can't take.
 */
export function checkedImages(profile: RequestProfile, request: GenerationRequest): readonly SentImage[] {
  if (!Number.isInteger(request.maxTokens) || request.maxTokens < 1) {
    throw new RequestError(
      "invalid_request",
      "maxTokens",
      `maxTokens is ${request.maxTokens}; it must be a whole number of 1 or more.`,
    );
  }
  const images = request.images ?? [];
  const hasVideo = request.videoFrames !== undefined;
  if (profile.image === null) {
    if (images.length === 0 && !hasVideo) return [];
    throw new RequestError(
      "images_not_supported",
      hasVideo ? "videoFrames" : "images",
      `The request has ${hasVideo ? "a video" : countOf(images.length)}, and this model reads text only; leave that out, or ask a model that sees.`,
    );
  }
  if (hasVideo) checkVideo(profile.image, request);
  else checkCount(profile.image, images.length);
  checkMarks(profile.image, request.text, images.length);
  return images.map((image, index) =>
    accepted(profile, sentImage(image, `images[${index}]`), `images[${index}]`),
  );
}

function checkCount({ maxImages, isRequired }: ImageProfile, count: number): void {
  if (count === 0 && isRequired) {
    throw new RequestError(
      "image_missing",
      "images",
      "This model answers about an image, and the request has none; add one.",
    );
  }
  if (count > maxImages) {
    throw new RequestError(
      "too_many_images",
      "images",
      `The request has ${countOf(count)}, and this model takes ${maxImages} at most; send ${maxImages === 1 ? "one" : `${maxImages} or fewer`}.`,
    );
  }
}

function checkVideo({ takesVideo }: ImageProfile, { videoFrames, images }: GenerationRequest): void {
  if (!takesVideo) {
    throw new RequestError(
      "images_not_supported",
      "videoFrames",
      "The request has a video, and this model takes none; send single frames as images, if it takes several.",
    );
  }
  if (images !== undefined && images.length > 0) {
    throw new RequestError(
      "invalid_request",
      "videoFrames",
      `The request has a video and ${countOf(images.length)}; send either of them.`,
    );
  }
  if (videoFrames?.datatype !== "UINT8") {
    throw new RequestError(
      "invalid_image",
      "videoFrames",
      `videoFrames are ${videoFrames?.datatype}; they must be raw pixels, UINT8 of [frames, height, width, 3].`,
    );
  }
  checkedTensor(videoFrames, 4, "videoFrames");
}

function accepted({ flavour, image }: RequestProfile, sent: SentImage, field: string): SentImage {
  const accepts = image?.accepts ?? [];
  if (accepts.includes(sent.kind)) return sent;
  throw new RequestError(
    "unsupported_image",
    field,
    `${field} is ${KIND_NAMES[sent.kind]}, and this model (${flavour} repository) takes only ${accepts.map((kind) => KIND_NAMES[kind]).join(" or ")}; send it so.`,
  );
}

function countOf(images: number): string {
  return images === 1 ? "1 image" : `${images} images`;
}
