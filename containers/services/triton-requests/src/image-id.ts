/** The id by which TensorRT-LLM's KV cache tells images apart. */
import { createHash, type Hash } from "node:crypto";
import { RequestError } from "./errors.ts";
import type { SentImage } from "./images.ts";
import type { GenerationRequest, PixelTensor } from "./request.ts";

/**
 * `prompt_table_extra_id` of a request: the caller's, or one made from the content of its images and their order.
 * @throws RequestError when it is no whole number of 1 to 2^53 - 1, or can't be made.
 */
export function promptTableExtraId(request: GenerationRequest, images: readonly SentImage[]): number {
  const { promptTableExtraId: given, videoFrames } = request;
  if (given === undefined) return contentId(images, videoFrames);
  if (Number.isSafeInteger(given) && given >= 1) return given;
  throw new RequestError(
    "invalid_request",
    "promptTableExtraId",
    `promptTableExtraId is ${given}; it must be a whole number of 1 to ${Number.MAX_SAFE_INTEGER}.`,
  );
}

/**
 * 53 bits of a SHA-256, which JSON carries exactly. The last bit is set: where a prompt is split at its image marks,
 * preprocessing narrows the id to 32 bits, and 0 would mean "no image".
 */
function contentId(images: readonly SentImage[], videoFrames: PixelTensor | undefined): number {
  const hash = createHash("sha256");
  images.forEach((image, index) => {
    if (image.kind === "httpUrl") {
      throw new RequestError(
        "prompt_table_extra_id_missing",
        "promptTableExtraId",
        `This model keeps its KV cache between requests and needs an id of each image's content, which is not known of images[${index}], a URL; give promptTableExtraId, or send the image itself.`,
      );
    }
    if (image.kind === "dataUrl") hash.update(`file ${image.base64.length}\n`).update(image.base64);
    else addTensor(hash, image.tensor);
  });
  if (videoFrames !== undefined) addTensor(hash, videoFrames);
  return Number((hash.digest().readBigUInt64BE() >> 11n) | 1n);
}

function addTensor(hash: Hash, { datatype, shape, data }: PixelTensor): void {
  hash.update(`${datatype} ${shape.join("x")}\n`).update(data);
}
