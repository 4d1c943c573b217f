/** What the gateway takes as an image, and what it spends on one. */
import { ImageError } from "./image-error.ts";

/** The formats that are decoded; everything else is refused by name. */
export type ImageFormat = "jpeg" | "png" | "webp";

export interface ImageLimits {
  /** Bytes of the encoded image. */
  readonly bytes: number;
  /** Width × height as the file's header gives them, checked before any pixel is decoded. */
  readonly pixels: number;
  /** Longest side as the file's header gives it, in pixels. */
  readonly sidePixels: number;
  /** Pictures in one file. Of a file within the limit the first one is used. */
  readonly frames: number;
  readonly formats: readonly ImageFormat[];
  /** Longest side of the stored form, in pixels; a smaller picture is not enlarged. */
  readonly storedSidePixels: number;
  /** JPEG quality of the stored form, 1 to 100. */
  readonly storedQuality: number;
  /** Whole seconds for the pixels of one image: libvips looks at its clock between two rows of tiles. */
  readonly decodeSeconds: number;
  /** Images decoded at one time. */
  readonly concurrentDecodes: number;
  /** Images that wait for their turn; the next one is answered with 503 and Retry-After. */
  readonly queuedDecodes: number;
  /** Images fetched at one time. Each keeps its place until it is decoded, so this also bounds the bytes in memory. */
  readonly concurrentFetches: number;
  /** Fetches that wait for their turn; the next one is answered with 503 and Retry-After. */
  readonly queuedFetches: number;
  /** Redirects that are followed. */
  readonly redirects: number;
  /** From the name's resolution to the last byte, all redirects included. */
  readonly fetchSeconds: number;
}

export const DEFAULT_IMAGE_LIMITS: ImageLimits = {
  // The largest photographs of phones are 5 to 8 MiB.
  bytes: 10 * 1024 * 1024,
  // A full-frame camera's picture. The costliest file of this size, an interlaced PNG with 16 bits a sample, takes 0.4 GB.
  pixels: 40_000_000,
  // Above WebP's own 16,383; a phone's panorama stays below it.
  sidePixels: 16_384,
  // No model here looks at a second frame, and an animation is the cheapest way to make a decoder work.
  frames: 1,
  // What cameras, browsers and phones send. GIF is left out: its pictures are drawings or animations, and every loader is
  // one more way in. SVG, TIFF, PDF and HEIF run far more code on a stranger's bytes than a photograph is worth.
  formats: ["jpeg", "png", "webp"],
  // Three times the 336 pixels of CLIP's largest input, and still about 200 KB.
  storedSidePixels: 1024,
  storedQuality: 90,
  // 40 million pixels of the costliest file take one to four seconds of one core.
  decodeSeconds: 10,
  // Memory is this many times the figure at `pixels`; two keep a machine of two cores busy.
  concurrentDecodes: 2,
  queuedDecodes: 64,
  // 80 MiB of fetched images in memory at most.
  concurrentFetches: 8,
  queuedFetches: 64,
  // From http to https, to www., to a file store.
  redirects: 3,
  fetchSeconds: 10,
};

/** @throws ImageError 413 for an image that is larger than the limit; `bytes` may be what its sender promises. */
export function checkBytes(bytes: number, limits: ImageLimits): void {
  if (bytes <= limits.bytes) return;
  throw new ImageError(
    "image_too_large",
    `The image has ${bytes} bytes, and at most ${limits.bytes} (${sizeText(limits.bytes)}) are taken; scale it down, or save it as JPEG.`,
  );
}

/** A size as people read it: `10 MiB`, `1.5 MiB`, `900 bytes`. */
function sizeText(bytes: number): string {
  const mebibytes = bytes / 2 ** 20;
  return mebibytes < 1 ? `${bytes} bytes` : `${Number(mebibytes.toFixed(1))} MiB`;
}
