/** From what a client sends as an image to the picture that is kept. */
import { ConcurrencyLimiter } from "../limits.ts";
import { isDataUrl, parseDataUrl } from "./data-url.ts";
import { type DecodedImage, decodeImage } from "./decode.ts";
import { fetchImage, INTERNET, type Network } from "./fetch-image.ts";
import { ImageHosts } from "./image-hosts.ts";
import { DEFAULT_IMAGE_LIMITS, type ImageLimits } from "./limits.ts";

/** An image as a request holds it. */
type ImageSource =
  /** `data:image/...;base64,`, or http and https of a host in `gateway.imageHosts`. */
  | { readonly url: string }
  /** A part of a multipart body. Browsers and curl guess its type from the file's name, so it is never held against it. */
  | { readonly bytes: Uint8Array; readonly declaredType?: string };

/** What all images of one gateway share. */
export interface ImageContext {
  readonly limits: ImageLimits;
  readonly hosts: ImageHosts;
  readonly network: Network;
  /** Places for decoding. */
  readonly decodes: ConcurrencyLimiter;
  /** Places for fetching. A fetched image keeps its place until it is decoded. */
  readonly fetches: ConcurrencyLimiter;
}

interface ImageContextOptions {
  /** Entries of `gateway.imageHosts`; none by default, and then no URL is fetched. */
  readonly hosts?: readonly string[];
  /** What differs from DEFAULT_IMAGE_LIMITS. */
  readonly limits?: Partial<ImageLimits>;
  readonly network?: Network;
}

/** Made once: two contexts would decode twice as many images at a time. @throws Error for a wrong host entry. */
export function createImageContext({
  hosts = [],
  limits: changed = {},
  network = INTERNET,
}: ImageContextOptions = {}): ImageContext {
  const limits = { ...DEFAULT_IMAGE_LIMITS, ...changed };
  return {
    limits,
    hosts: new ImageHosts(hosts),
    network,
    decodes: new ConcurrencyLimiter(limits.concurrentDecodes, limits.queuedDecodes),
    fetches: new ConcurrencyLimiter(limits.concurrentFetches, limits.queuedFetches),
  };
}

/**
 * Reads an image from wherever it is.
 * @param signal - Ends the wait and the fetch; a decoding that has begun is finished.
 * @throws ImageError for everything that is wrong with the image or its URL; ApiError 503 when too many images wait;
 * the signal's reason when it is aborted.
 */
export function readImage(
  source: ImageSource,
  context: ImageContext,
  signal: AbortSignal,
): Promise<DecodedImage> {
  const { limits, hosts, network, decodes, fetches } = context;
  if ("bytes" in source) {
    return inTurn(decodes, signal, () => decodeImage(source.bytes, limits, source.declaredType));
  }
  if (isDataUrl(source.url)) {
    // The text is there anyway; its bytes are made when their turn has come.
    return inTurn(decodes, signal, () => {
      const { bytes, declaredType } = parseDataUrl(source.url, limits);
      return decodeImage(bytes, limits, declaredType);
    });
  }
  return inTurn(fetches, signal, async () => {
    const { bytes, declaredType } = await fetchImage(source.url, { hosts, limits, signal, network });
    return inTurn(decodes, signal, () => decodeImage(bytes, limits, declaredType));
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
