/** Images of requests, decoded within limits. */
import type { CallContext } from "../call-context.ts";
import { invalidRequest } from "../errors.ts";
import { ImageError } from "../images/image-error.ts";
import { type ImageContext, readImage } from "../images/source.ts";
import type { DocumentEncoder } from "../triton/document-encoder.ts";
import type { StoredImage } from "./image-store.ts";
import type { ImageSource } from "./schemas.ts";

/**
 * The image as it is kept and embedded; undefined where there is none.
 * @param param - Where in the request it is, for the error.
 * @throws ApiError for an image that is not taken, and the reason of the call's signal.
 */
export async function readRequestImage(
  source: ImageSource | undefined,
  param: string,
  context: ImageContext,
  { signal }: CallContext,
): Promise<StoredImage | undefined> {
  if (source === undefined) return undefined;
  try {
    const { jpeg, sha256, width, height } = await readImage(sourceOf(source), context, signal);
    return { sha256, bytes: jpeg, contentType: "image/jpeg", width, height };
  } catch (error) {
    throw error instanceof ImageError ? error.toApiError(param) : error;
  }
}

/** @throws ApiError 400 where nothing can be found by an image. */
export function requireImageEncoder({ imageDimension }: DocumentEncoder): void {
  if (imageDimension !== undefined) return;
  throw invalidRequest(
    "This stack has no image encoder, and so nothing is found by an image; ask with text, or add imageDimension to the encoders of its configuration.",
    "image",
    "no_image_encoder",
  );
}

function sourceOf(source: ImageSource): Parameters<typeof readImage>[0] {
  if (typeof source === "string") return { url: source };
  return source instanceof Uint8Array ? { bytes: source } : source;
}
