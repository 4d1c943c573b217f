/**
 * A stranger's bytes to a picture that is safe to keep: upright, sRGB, without alpha and without metadata.
 *
 * sharp's settings belong to the whole process, and importing this module makes them: of libvips' loaders only those for
 * JPEG, PNG and WebP in memory are left, so that no other format is parsed and no file is opened; nothing is cached; one
 * image uses one thread, so that ImageLimits.concurrentDecodes is the bound of both processors and memory.
 */
import { createHash } from "node:crypto";
import sharp, { type Metadata, type Sharp } from "sharp";
import { MEDIA_TYPES, type Sniffed, sniff } from "./formats.ts";
import { ImageError } from "./image-error.ts";
import { checkBytes, type ImageFormat, type ImageLimits } from "./limits.ts";

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
  /** What came in. Its width and height are those of the upright picture. */
  readonly original: {
    readonly contentType: string;
    readonly width: number;
    readonly height: number;
    readonly bytes: number;
  };
}

/**
 * Decodes an image of any content. Run at most ImageLimits.concurrentDecodes at a time: readImage does.
 * @param declaredType - Media type that came with the bytes. It decides nothing; a refusal names it.
 * @throws ImageError, and nothing else, for whatever is wrong with the bytes.
 */
export async function decodeImage(
  bytes: Uint8Array,
  limits: ImageLimits,
  declaredType?: string,
): Promise<DecodedImage> {
  const format = checkedFormat(bytes, limits, declaredType);
  const metadata = await readHeader(bytes, format);
  checkHeader(metadata, limits);
  const { data, info } = await render(open(bytes), format, limits);
  return {
    jpeg: data,
    width: info.width,
    height: info.height,
    sha256: createHash("sha256").update(data).digest("hex"),
    original: {
      contentType: MEDIA_TYPES[format],
      width: metadata.autoOrient.width,
      height: metadata.autoOrient.height,
      bytes: bytes.byteLength,
    },
  };
}

function checkedFormat(
  bytes: Uint8Array,
  limits: ImageLimits,
  declaredType: string | undefined,
): ImageFormat {
  if (bytes.byteLength === 0) {
    throw new ImageError("empty_image", "The image is empty; send the bytes of a picture.");
  }
  checkBytes(bytes.byteLength, limits);
  const sniffed = sniff(bytes);
  if (sniffed?.format === undefined || !limits.formats.includes(sniffed.format)) {
    throw unsupported(sniffed, limits, declaredType);
  }
  return sniffed.format;
}

function unsupported(
  sniffed: Sniffed | undefined,
  { formats }: ImageLimits,
  declaredType: string | undefined,
): ImageError {
  const found =
    sniffed === undefined ? "The bytes are no image that is known here" : `The content is ${sniffed.label}`;
  // As JSON and cut off, because it is the client's or another server's text.
  const declared = declaredType ? `, although declared as ${JSON.stringify(declaredType.slice(0, 100))}` : "";
  const taken = formats.map((format) => MEDIA_TYPES[format]).join(", ");
  return new ImageError("unsupported_image_type", `${found}${declared}; send one of ${taken}.`);
}

/**
 * Truncated and damaged files fail; mere warnings of libjpeg do not, because cameras cause them (Samsung's "Invalid SOS
 * parameters for sequential JPEG"). sharp's own pixel limit is off: checkHeader says how many there are, and how many may be.
 */
function open(bytes: Uint8Array): Sharp {
  return sharp(bytes, { failOn: "error", limitInputPixels: false, autoOrient: true });
}

async function readHeader(bytes: Uint8Array, format: ImageFormat): Promise<Metadata> {
  try {
    return await open(bytes).metadata();
  } catch (error) {
    throw unreadable(format, error);
  }
}

function checkHeader({ width, height, pages = 1 }: Metadata, limits: ImageLimits): void {
  if (Math.max(width, height) > limits.sidePixels || width * height > limits.pixels) {
    throw new ImageError(
      "image_too_many_pixels",
      `The image is ${width} × ${height} pixels, and at most ${limits.pixels} pixels with no side above ${limits.sidePixels} are taken; scale it down.`,
    );
  }
  if (pages > limits.frames) {
    throw new ImageError(
      "image_animated",
      `The image is an animation of ${pages} frames, and at most ${limits.frames} is taken; send one frame as JPEG, PNG or WebP.`,
    );
  }
}

async function render(
  image: Sharp,
  format: ImageFormat,
  { storedSidePixels, storedQuality, decodeSeconds }: ImageLimits,
): Promise<{ data: Buffer; info: { width: number; height: number } }> {
  try {
    // sharp scales first and turns the small picture: a full-size one would be held in memory to be turned.
    return await image
      .resize({ width: storedSidePixels, height: storedSidePixels, fit: "inside", withoutEnlargement: true })
      .flatten({ background: "white" })
      .jpeg({ quality: storedQuality })
      .timeout({ seconds: decodeSeconds })
      .toBuffer({ resolveWithObject: true });
  } catch (error) {
    // A clock on this side would give the place to the next image while libvips still works on this one.
    if (/^timeout:/m.test((error as Error).message)) {
      throw new ImageError(
        "image_decode_timeout",
        `The image took longer than the ${decodeSeconds} s that decoding may take; scale it down, or save it as JPEG.`,
        error,
      );
    }
    throw unreadable(format, error);
  }
}

function unreadable(format: ImageFormat, cause: unknown): ImageError {
  return new ImageError(
    "image_unreadable",
    `The image begins as ${format.toUpperCase()} and can't be decoded: it is cut off or damaged; save it anew and send all of its bytes.`,
    cause,
  );
}
