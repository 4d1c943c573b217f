/** What the gateway takes as an image, what it spends on one, and how it refuses one. */
import { ApiError } from "../errors.ts";

export const DEFAULT_IMAGE_LIMITS = {
  /** Bytes of the encoded image. The largest photographs of phones are 5 to 8 MiB. */
  bytes: 10 * 1024 * 1024,
  /** Width × height by the file's header. A picture that is decoded line by line takes 14 to 87 MiB with so many. */
  pixels: 40_000_000,
  /** Bytes of a picture that must be in memory as a whole to be decoded: interlaced PNG, progressive JPEG and WebP. */
  wholeBytes: 96 * 1024 * 1024,
  /** Longest side by the file's header. WebP has 16,383 at most; a phone's panorama stays below it. */
  sidePixels: 16_384,
  /**
   * Longest side of the stored form. Three times the 336 pixels of CLIP's largest input, and still about 200 KB: it fits in
   * a row of MongoDB, which takes 16 MiB, with the document's text and metadata.
   */
  storedSidePixels: 1024,
  /** Whole seconds for the pixels of one image. 40 million of the costliest file take one to four seconds of one core. */
  decodeSeconds: 10,
  /** Images decoded at one time. Two keep two cores busy. */
  concurrentDecodes: 2,
  /** Images fetched at one time. Each keeps its place, and `bytes` of memory, until it is decoded. */
  concurrentFetches: 4,
  /** Images that wait for either; the next one is answered with 503 and Retry-After. */
  queueLength: 64,
  /** Redirects that are followed: from http to https, to www., to a file store. */
  redirects: 3,
  /** From the name's resolution to the last byte, all redirects included. */
  fetchSeconds: 10,
};

export type ImageLimits = Readonly<typeof DEFAULT_IMAGE_LIMITS>;

/** An image that is not taken. The message is meant for the client; what may hold more than that is the `cause`. */
export class ImageError extends ApiError {
  override readonly name = "ImageError";

  constructor(status: number, code: string, message: string, cause?: unknown) {
    super(message, { status, code, cause });
  }
}

/** @throws ImageError 413 for an image that is larger than the limit; `bytes` may be what its sender promises. */
export function checkBytes(bytes: number, limits: ImageLimits): void {
  if (bytes <= limits.bytes) return;
  const mebibytes = Number((limits.bytes / 2 ** 20).toFixed(1));
  throw new ImageError(
    413,
    "image_too_large",
    `The image has ${bytes} bytes, and at most ${limits.bytes} (${mebibytes} MiB) are taken; scale it down, or save it as JPEG.`,
  );
}
