/** Reads a client's image into the picture that is kept. */
import { ConcurrencyLimiter } from "../limits.ts";
import { type DecodedImage, decodeImage } from "./decode.ts";
import { fetchImage, INTERNET, parseImageHost } from "./fetch-image.ts";
import { checkBytes, DEFAULT_IMAGE_LIMITS, ImageError, type ImageLimits } from "./limits.ts";

/** An image as a request holds it: the bytes of a file of a form, or a URL: data, or of a host in `gateway.imageHosts`. */
export type ImageSource = string | { readonly url: string } | Uint8Array;

/** Limits and queues that all images of a gateway share. */
export type ImageContext = ReturnType<typeof createImageContext>;

/**
 * Made once: two contexts would decode twice as many images at a time. Hosts are entries of `gateway.imageHosts`, which
 * the configuration has checked, and without any no URL is fetched; limits are what differs from DEFAULT_IMAGE_LIMITS.
 */
export function createImageContext({
  hosts = [] as readonly string[],
  limits: changed = {} as Partial<ImageLimits>,
  network = INTERNET,
} = {}) {
  const limits = { ...DEFAULT_IMAGE_LIMITS, ...changed };
  return {
    limits,
    hosts: hosts.flatMap((entry) => parseImageHost(entry) ?? []),
    network,
    /** Places for decoding. */
    decodes: new ConcurrencyLimiter(limits.concurrentDecodes, limits.queueLength),
    /** Places for fetching. A fetched image keeps its place until it is decoded. */
    fetches: new ConcurrencyLimiter(limits.concurrentFetches, limits.queueLength),
  };
}

/**
 * Reads an image from wherever it is.
 * @param signal - Ends the wait and the fetch; a decoding that has begun is finished.
 * @throws ImageError for everything that is wrong with the image or its URL; ApiError 503 when too many images wait;
 * the signal's reason when it is aborted.
 */
export async function readImage(
  source: ImageSource,
  context: ImageContext,
  signal: AbortSignal,
): Promise<DecodedImage> {
  return (await readImageFile(source, context, signal)).decoded;
}

/** The file as it came, for models with an image processor of their own, once it is decoded. @throws As {@link readImage}. */
export function readImageFile(
  source: ImageSource,
  context: ImageContext,
  signal: AbortSignal,
): Promise<{ readonly file: Uint8Array; readonly decoded: DecodedImage }> {
  const { limits, decodes, fetches } = context;
  // Data URLs are decoded only in their turn: their text is in memory anyway.
  const decode = (bytes: () => Uint8Array) =>
    inTurn(decodes, signal, async () => {
      const file = bytes();
      return { file, decoded: await decodeImage(file, limits) };
    });
  if (source instanceof Uint8Array) return decode(() => source);
  const url = typeof source === "string" ? source : source.url;
  if (/^data:/i.test(url)) return decode(() => parseDataUrl(url, limits));
  return inTurn(fetches, signal, async () => {
    const bytes = await fetchImage(url, context, signal);
    return decode(() => bytes);
  });
}

async function inTurn<T>(
  places: ConcurrencyLimiter,
  signal: AbortSignal,
  work: () => Promise<T>,
): Promise<T> {
  const release = await places.acquire(signal);
  try {
    return await work();
  } finally {
    release();
  }
}

/**
 * Takes the bytes out of a base64 data URL (RFC 2397), of any media type. Their number is known, and checked, before
 * anything is decoded. Node's own decoder skips what it does not know, and would make some other bytes of a damaged text.
 *
 * @throws ImageError 400 for another form or alphabet, 413 for too many bytes.
 */
export function parseDataUrl(url: string, limits: ImageLimits): Buffer {
  const invalid = (problem: string) => {
    const fix = "write data:image/jpeg;base64, and then all of the image's bytes as base64 -w0 gives them";
    return new ImageError(400, "invalid_data_url", `${problem}; ${fix}.`);
  };
  // A media type with parameters is far shorter.
  const [head] = /^data:[^,]{0,250};base64,/i.exec(url) ?? [];
  if (head === undefined) throw invalid("The data URL is not base64");
  const text = url.slice(head.length);
  checkBytes(Buffer.byteLength(text, "base64"), limits);
  if (text.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) {
    throw invalid(`The ${text.length} characters of the data URL are not base64 with padding`);
  }
  return Buffer.from(text, "base64");
}
