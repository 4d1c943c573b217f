/**
 * Fetches an image from a host of the configuration, and from nothing that only looks like one: the name is resolved
 * once, every address must be public, and the connection goes to these addresses without a second look at the name.
 */
import type { LookupAddress } from "node:dns";
import { lookup } from "node:dns/promises";
import type { LookupFunction } from "node:net";
import { Client, type Dispatcher } from "undici";
import { ImageError } from "./image-error.ts";
import { type ImageHosts, portOf } from "./image-hosts.ts";
import { checkImageUrl, checkRedirect } from "./image-url.ts";
import { checkBytes, type ImageLimits } from "./limits.ts";
import { isPublicAddress } from "./public-address.ts";

/** How names become connections. Tests give their own; the program knows INTERNET only. */
export interface Network {
  /** All addresses of a name. Called once for every URL that is fetched. */
  resolve(hostname: string): Promise<readonly LookupAddress[]>;
  mayConnect(address: string, port: number): boolean;
  /** PEM certificates to trust instead of Node's own. */
  readonly certificateAuthorities?: string;
}

export const INTERNET: Network = {
  resolve: (hostname) => lookup(hostname, { all: true, verbatim: true }),
  mayConnect: isPublicAddress,
};

export interface FetchImageOptions {
  readonly hosts: ImageHosts;
  readonly limits: ImageLimits;
  /** Ends the fetch; its reason is what the caller gets. */
  readonly signal: AbortSignal;
  readonly network?: Network;
}

export interface FetchedImage {
  readonly bytes: Buffer;
  /** The server's Content-Type; empty where it sends none. */
  readonly declaredType: string;
}

/** Sent with every request. No cookies, no authorization, no referrer. */
const REQUEST_HEADERS = {
  accept: "image/jpeg, image/png, image/webp",
  // Images are compressed already, and a compressed body would have no size until it is unpacked.
  "accept-encoding": "identity",
  "user-agent": "engine-room-gateway",
};

const REDIRECT_STATUS = new Set([301, 302, 303, 307, 308]);

/**
 * Fetches what is at a URL; what it is, the decoder finds out.
 * @throws ImageError 400 for a URL, host or address that is not allowed (of any redirect, too), 413 for too many bytes,
 * 502 when the server can't be reached or answers with anything but 200, 504 after ImageLimits.fetchSeconds; the
 * signal's reason when it is aborted.
 */
export async function fetchImage(
  url: string,
  { hosts, limits, signal, network = INTERNET }: FetchImageOptions,
): Promise<FetchedImage> {
  const first = checkImageUrl(url, hosts);
  const clock = AbortSignal.timeout(Math.ceil(limits.fetchSeconds * 1000));
  const fetching = new Fetching(hosts, limits, network, AbortSignal.any([signal, clock]));
  try {
    return await fetching.follow(first);
  } catch (error) {
    if (error instanceof ImageError) throw error;
    if (signal.aborted) throw signal.reason;
    if (clock.aborted) {
      throw new ImageError(
        "image_fetch_timeout",
        `${first.host} did not send the image within ${limits.fetchSeconds} s; try again, or send the image itself.`,
        error,
      );
    }
    throw new ImageError(
      "image_fetch_failed",
      `The image can't be fetched from ${first.host}: it can't be reached, or breaks off; check the URL, or send the image itself.`,
      error,
    );
  }
}

/** One image on its way, over all redirects. */
class Fetching {
  readonly #hosts: ImageHosts;
  readonly #limits: ImageLimits;
  readonly #network: Network;
  readonly #signal: AbortSignal;

  constructor(hosts: ImageHosts, limits: ImageLimits, network: Network, signal: AbortSignal) {
    this.#hosts = hosts;
    this.#limits = limits;
    this.#network = network;
    this.#signal = signal;
  }

  async follow(first: URL): Promise<FetchedImage> {
    let url = first;
    for (let redirects = 0; redirects <= this.#limits.redirects; redirects++) {
      const answer = await this.#get(url);
      if (!(answer instanceof URL)) return answer;
      url = answer;
    }
    throw new ImageError(
      "image_redirect_refused",
      `${first.host} redirects more than ${this.#limits.redirects} times; give the URL of the image itself.`,
    );
  }

  /** The image, or where it is said to be. */
  async #get(url: URL): Promise<FetchedImage | URL> {
    const addresses = await this.#addressesOf(url);
    // A client of its own for every URL: a kept connection could be one that was checked under other rules.
    const client = new Client(url.origin, {
      connect: {
        lookup: fixedLookup(addresses),
        // Tries one address after the other, so that one family without a route does not fail the fetch.
        autoSelectFamily: true,
        timeout: this.#limits.fetchSeconds * 1000,
        // Said here, because an environment variable may have turned it off for the process.
        rejectUnauthorized: true,
        ...(this.#network.certificateAuthorities && { ca: this.#network.certificateAuthorities }),
      },
    });
    try {
      const response = await client.request({
        method: "GET",
        path: url.pathname + url.search,
        headers: REQUEST_HEADERS,
        signal: this.#signal,
      });
      // A body that is refused unread ends with the client, and its error would otherwise be an uncaught exception.
      response.body.on("error", () => {});
      if (REDIRECT_STATUS.has(response.statusCode)) {
        return checkRedirect(headerOf(response, "location"), url, this.#hosts);
      }
      return await this.#read(response, url);
    } finally {
      await client.destroy();
    }
  }

  /** Resolves the name, the only time. One address that is not allowed is enough to refuse all: it is no mistake of DNS. */
  async #addressesOf(url: URL): Promise<readonly LookupAddress[]> {
    const addresses = await unlessAborted(this.#network.resolve(url.hostname), this.#signal);
    const port = portOf(url) ?? 0;
    const refused = addresses.find(({ address }) => !this.#network.mayConnect(address, port));
    if (refused === undefined) return addresses;
    // The address itself is for the log: it would tell a stranger about the network here.
    throw new ImageError(
      "image_address_not_public",
      `${url.host} has an address that is not on the public internet, and images are fetched from nowhere else; send the image itself as a base64 data URL.`,
      new Error(`${url.hostname} resolves to ${refused.address}`),
    );
  }

  async #read(response: Dispatcher.ResponseData, url: URL): Promise<FetchedImage> {
    const { statusCode, body } = response;
    if (statusCode !== 200) {
      throw new ImageError(
        "image_fetch_failed",
        `${url.host} answers with status ${statusCode} instead of the image; check the URL, or send the image itself.`,
      );
    }
    const encoding = headerOf(response, "content-encoding") ?? "identity";
    if (encoding.toLowerCase() !== "identity") {
      throw new ImageError(
        "image_fetch_failed",
        `${url.host} sends the image with the content encoding ${JSON.stringify(encoding.slice(0, 40))} although none is accepted; send the image itself.`,
      );
    }
    checkBytes(Number(headerOf(response, "content-length") ?? 0), this.#limits);
    const chunks: Buffer[] = [];
    let received = 0;
    for await (const chunk of body as AsyncIterable<Buffer>) {
      received += chunk.byteLength;
      if (received > this.#limits.bytes) throw tooLarge(url.host, this.#limits);
      chunks.push(chunk);
    }
    return { bytes: Buffer.concat(chunks), declaredType: headerOf(response, "content-type") ?? "" };
  }
}

/** Unlike checkBytes, this can't say how many bytes there would have been. */
function tooLarge(host: string, { bytes }: ImageLimits): ImageError {
  return new ImageError(
    "image_too_large",
    `${host} sends more than the ${bytes} bytes that an image may have; scale it down, or save it as JPEG.`,
  );
}

/** What a connection asks instead of DNS: always the addresses that were checked. */
function fixedLookup(addresses: readonly LookupAddress[]): LookupFunction {
  return (_hostname, _options, callback) => callback(null, [...addresses]);
}

/** A name's resolution can't be stopped; the wait for it can. */
function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const leave = () => reject(signal.reason);
    if (signal.aborted) return leave();
    signal.addEventListener("abort", leave, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", leave));
  });
}

/** Undici gives a list for a repeated header; the first one counts. */
function headerOf({ headers }: Dispatcher.ResponseData, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value[0] : value;
}
