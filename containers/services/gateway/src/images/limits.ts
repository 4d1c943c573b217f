/** Limits of images, and their errors. */
import { type Limit, type LimitValues, limitValues } from "@engine-room/service-process";
import { ApiError } from "../errors.ts";

/** The source of docs/limits.md. */
export const IMAGE_LIMITS = {
  // The largest photographs of phones are 5 to 8 MiB.
  bytes: { value: 10 * 1024 * 1024, means: "The encoded image; larger images are answered with 413." },
  pixels: { value: 40_000_000, means: "Width × height by the file's header; beyond it 413." },
  wholeBytes: {
    value: 56 * 1024 * 1024,
    means:
      "Memory for a picture that is decoded as a whole: interlaced PNG, progressive JPEG and WebP; beyond it 413.",
  },
  // WebP has 16,383 at most; a phone's panorama stays below it.
  sidePixels: { value: 16_384, means: "Longest side by the file's header; beyond it 413." },
  // Three times the 336 pixels of CLIP's largest input, and still about 200 KB: it fits in a row of MongoDB, which takes
  // 16 MiB, with the document's text and metadata.
  storedSidePixels: {
    value: 1024,
    means: "Longest side of the stored form; a larger picture is scaled down.",
  },
  // 40 million pixels of the costliest file take one to four seconds of one core.
  decodeSeconds: { value: 10, means: "Time to decode the pixels of one image, in whole seconds; then 422." },
  concurrentDecodes: { value: 2, means: "Images decoded at one time; two keep two cores busy." },
  concurrentFetches: {
    value: 4,
    means: "Images fetched at one time; each keeps its place until it is decoded.",
  },
  queueLength: {
    value: 64,
    means: "Images that wait for either; the next one is answered with 503 and Retry-After.",
  },
  redirects: {
    value: 3,
    means: "Redirects that are followed: from http to https, to www., to a file store.",
  },
  fetchSeconds: {
    value: 10,
    means: "Time from the look-up of a name to the last byte, all redirects included; then 504.",
  },
} as const satisfies Readonly<Record<string, Limit>>;

export type ImageLimits = LimitValues<typeof IMAGE_LIMITS>;

export const DEFAULT_IMAGE_LIMITS: ImageLimits = limitValues(IMAGE_LIMITS);

/** Refusal of an image. The message is for the client; only the `cause` may hold internals. */
export class ImageError extends ApiError {
  override readonly name = "ImageError";

  constructor(status: number, code: string, message: string, cause?: unknown) {
    super(message, { status, code, cause });
  }
}

/** The error of an image with its place in the request; any other error unchanged. */
export function imageErrorAt(error: unknown, param: string): unknown {
  return error instanceof ImageError ? new ApiError(error.message, { ...error.details, param }) : error;
}

/** @throws ImageError 413 for an image that is larger than the limit; `bytes` may be what its sender promises. */
export function checkBytes(bytes: number, limits: ImageLimits): void {
  if (bytes <= limits.bytes) return;
  const mebibytes = Number((limits.bytes / 2 ** 20).toFixed(1));
  throw new ImageError(
    413,
    "image_too_large",
    `The image is too large: ${bytes} bytes, and the limit is ${limits.bytes} (${mebibytes} MiB). Scale it down, or save it as JPEG.`,
  );
}
