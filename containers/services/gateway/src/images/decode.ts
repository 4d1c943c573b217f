/**
 * Decodes untrusted bytes to a picture that is safe to keep: upright, sRGB, without alpha and metadata.
 *
 * sharp's settings belong to the whole process, and importing this module makes them: of libvips' loaders only those for
 * JPEG, PNG and WebP in memory are left, so that no other format is parsed and no file is opened; nothing is cached; one
 * image uses one thread, so that ImageLimits.concurrentDecodes is the bound of both processors and memory.
 *
 * These three are what cameras, browsers and phones send; SVG, TIFF, PDF and HEIF run far more code on a stranger's bytes
 * than a photograph is worth. Names and declared types are only claims of the sender: libvips looks at the bytes.
 */
import { createHash } from "node:crypto";
import sharp, { type Metadata, type Sharp } from "sharp";
import { checkBytes, ImageError, type ImageLimits } from "./limits.ts";

sharp.block({ operation: ["VipsForeignLoad"] });
sharp.unblock({
  operation: ["VipsForeignLoadJpegBuffer", "VipsForeignLoadPngBuffer", "VipsForeignLoadWebpBuffer"],
});
sharp.cache(false);
sharp.concurrency(1);

/** An image as the gateway keeps it and sends it on. */
export interface DecodedImage {
  /** Baseline JPEG in sRGB without metadata. The same bytes in give the same bytes out with one version of sharp. */
  readonly jpeg: Buffer;
  /** Size of `jpeg`, in pixels. */
  readonly width: number;
  readonly height: number;
  /** Of `jpeg`, in hexadecimal. */
  readonly sha256: string;
}

/** JPEG quality of the stored form, 1 to 100. */
const STORED_QUALITY = 90;

/**
 * Decodes an image of any content. Run at most ImageLimits.concurrentDecodes at a time: readImage does.
 * @throws ImageError, and nothing else, for whatever is wrong with the bytes.
 */
export async function decodeImage(bytes: Uint8Array, limits: ImageLimits): Promise<DecodedImage> {
  if (bytes.byteLength === 0) {
    throw new ImageError(400, "empty_image", "The image is empty; send the bytes of a picture.");
  }
  checkBytes(bytes.byteLength, limits);
  try {
    checkHeader(await open(bytes).metadata(), limits);
    const side = limits.storedSidePixels;
    // sharp scales first and turns the small picture: a full-size one would be held in memory to be turned.
    const { data: jpeg, info } = await open(bytes)
      .resize({ width: side, height: side, fit: "inside", withoutEnlargement: true })
      .flatten({ background: "white" })
      .jpeg({ quality: STORED_QUALITY })
      // A clock on this side would give the place to the next image while libvips still works on this one.
      .timeout({ seconds: limits.decodeSeconds })
      .toBuffer({ resolveWithObject: true });
    const sha256 = createHash("sha256").update(jpeg).digest("hex");
    return { jpeg, width: info.width, height: info.height, sha256 };
  } catch (error) {
    throw error instanceof ImageError ? error : refusal(error as Error, limits);
  }
}

/**
 * Truncated and damaged files fail; mere warnings of libjpeg do not, because cameras cause them (Samsung's "Invalid SOS
 * parameters for sequential JPEG"). sharp's own pixel limit is off: checkHeader says how many there are, and how many may be.
 */
function open(bytes: Uint8Array): Sharp {
  return sharp(bytes, { failOn: "error", limitInputPixels: false, autoOrient: true });
}

/** Bytes of the decoded picture when libvips can't decode it line by line; 0 when it can. */
function wholeBytes({
  width,
  height,
  format,
  isProgressive,
  channels,
  depth,
  chromaSubsampling,
}: Metadata): number {
  const pixels = width * height;
  if (format === "webp") return pixels * 4;
  if (isProgressive !== true) return 0;
  // libjpeg keeps two bytes for each coefficient until the last scan; 4:2:0 has half of the other formats'.
  if (format === "jpeg") return pixels * (chromaSubsampling === "4:2:0" ? 3 : 2 * channels);
  return pixels * channels * (depth === "ushort" ? 2 : 1);
}

function checkHeader(metadata: Metadata, limits: ImageLimits): void {
  const { width, height, pages = 1 } = metadata;
  if (Math.max(width, height) > limits.sidePixels || width * height > limits.pixels) {
    throw new ImageError(
      413,
      "image_too_many_pixels",
      `The image is too large: ${width} × ${height} pixels, and the limits are ${limits.pixels} pixels and ${limits.sidePixels} per side. Scale it down.`,
    );
  }
  const bytes = wholeBytes(metadata);
  if (bytes > limits.wholeBytes) {
    throw new ImageError(
      413,
      "image_too_many_pixels",
      `The image is too large: decoding its ${width} × ${height} pixels in this format takes ${bytes} bytes of memory, and the limit is ${limits.wholeBytes}. Scale it down, or save it as baseline JPEG.`,
    );
  }
  // No model here looks at a second frame, and an animation is the cheapest way to make a decoder work.
  if (pages > 1) {
    throw new ImageError(
      422,
      "image_animated",
      `The image is an animation of ${pages} frames, and only still images are supported; send one frame as JPEG, PNG or WebP.`,
    );
  }
}

/** Translates an error of sharp. */
function refusal(error: Error, { decodeSeconds }: ImageLimits): ImageError {
  if (/^timeout:/m.test(error.message)) {
    return new ImageError(
      422,
      "image_decode_timeout",
      `Decoding the image took longer than the limit of ${decodeSeconds} s; scale it down, or save it as JPEG.`,
      error,
    );
  }
  if (!error.message.includes("unsupported image format")) {
    return new ImageError(
      422,
      "image_unreadable",
      "The image can't be decoded: it is truncated or damaged; save it again and send all of its bytes.",
      error,
    );
  }
  return new ImageError(
    415,
    "unsupported_image_type",
    "Unsupported image format; send a JPEG, PNG or WebP image.",
  );
}
