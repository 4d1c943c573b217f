/**
 * Fetches an image from a host of the configuration, and from nothing that only looks like one: a URL's host must be a
 * name in the list, and whenever a connection looks that name up, all of its addresses must be public.
 */
import type { LookupAddress } from "node:dns";
import { lookup } from "node:dns/promises";
import { isIP, type LookupFunction } from "node:net";
import { domainToASCII } from "node:url";
import ipaddr from "ipaddr.js";
import { Agent, errors, request } from "undici";
import { checkBytes, ImageError, type ImageLimits } from "./limits.ts";

/** Two labels at least, since one is a machine of the local network, and the last no number, since that is an address. */
const HOST_NAME =
  /^(?:\*\.)?(?=.{1,253}$)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)+(?!localhost$)[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/** Problem of an entry that parseImageHost refuses. */
export const IMAGE_HOST_PROBLEM =
  "is not the name of a public host; write it like images.example.org, *.example.org or images.example.org:8443";

/**
 * @param entry - An entry of `gateway.imageHosts`: `name`, or `*.name` for any name below it, each with or without `:port`.
 * @returns The entry in lower case and punycode; undefined for another form.
 */
export function parseImageHost(entry: string): string | undefined {
  const [, name = "", port = ""] = /^([^:/\\?#@\s]+)(:[1-9]\d{0,4})?$/.exec(entry) ?? [];
  const ascii = domainToASCII(name);
  return HOST_NAME.test(ascii) && URL.canParse(`http://x${port}`) ? ascii + port : undefined;
}

/** Longer ones hold data, and servers refuse them: RFC 9110 asks for 8000 to be supported. */
const LONGEST_URL_CHARACTERS = 8000;

/**
 * Reads a URL once, with the parser whose result is connected to, and compares its host with the list only then: the
 * parser has one way to write decimal, octal, hexadecimal and short IPv4, escapes and full-width letters. Messages show
 * only hosts: paths and queries may hold secrets.
 *
 * @param hosts - As parseImageHost gives them.
 * @param from - For a redirect, the URL that answered with it.
 * @throws ImageError 400; 502 for a redirect from https to http.
 */
export function checkImageUrl(text = "", hosts: readonly string[], from?: URL): URL {
  const refused = (status: number, code: string, problem: string) => {
    const subject = from === undefined ? "The image's URL" : `The redirect of ${from.host}`;
    return new ImageError(status, code, `${subject} ${problem} send the image itself as a base64 data URL.`);
  };
  const isReadable = text !== "" && text.length <= LONGEST_URL_CHARACTERS && URL.canParse(text, from?.href);
  const url = isReadable ? new URL(text, from) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || `${url.username}${url.password}` !== "") {
    const problem = `(${text.length} characters) is not an http or https URL of at most ${LONGEST_URL_CHARACTERS} characters without user name and password`;
    throw refused(400, "invalid_image_url", `${problem}; correct it, or`);
  }
  // Without a port an entry means 80 and 443, which `host` leaves out.
  const names = [url.host, `${url.hostname}:${url.port || (url.protocol === "https:" ? 443 : 80)}`];
  const isAllowed = hosts.some((entry) =>
    names.some((name) => (entry.startsWith("*.") ? name.endsWith(entry.slice(1)) : name === entry)),
  );
  if (!isAllowed) {
    const problem = `points to ${url.host}, which is not in gateway.imageHosts`;
    throw refused(400, "image_host_not_allowed", `${problem}; have the host added, or`);
  }
  if (from?.protocol === "https:" && url.protocol === "http:") {
    const problem = "points from https to http, which does not protect the image from changes";
    throw refused(502, "image_redirect_refused", `${problem}; give another https URL, or`);
  }
  return url;
}

/** The only IPv6 block that is given out to the internet: https://www.iana.org/assignments/ipv6-address-space. */
const GLOBAL_IPV6 = ipaddr.IPv6.parseCIDR("2000::/3");

/** Azure's platform, reachable from its virtual machines only, although in a public block. */
const AZURE_PLATFORM = "168.63.129.16";

/**
 * Whether an address belongs to the public internet. "unicast" is what IANA's special-purpose registries leave: neither
 * private, link-local, carrier-grade NAT, reserved or multicast, nor IPv6 with an IPv4 address inside (mapped, translated,
 * NAT64, 6to4, Teredo). ipaddr.js would also read zones, and short, octal and decimal forms: none of them is public.
 */
export function isPublicAddress(text: string): boolean {
  if (isIP(text) === 0 || text.includes("%") || text === AZURE_PLATFORM) return false;
  const address = ipaddr.parse(text);
  return address.range() === "unicast" && (address.kind() === "ipv4" || address.match(GLOBAL_IPV6));
}

/** How names become connections. Tests give their own; the program knows INTERNET only. */
export interface Network {
  /** All addresses of a name. Called once for every connection. */
  resolve(hostname: string): Promise<readonly LookupAddress[]>;
  mayConnect(address: string): boolean;
  /** PEM certificates to trust instead of Node's own. */
  readonly ca?: string;
}

export const INTERNET: Network = {
  resolve: (hostname) => lookup(hostname, { all: true, verbatim: true }),
  mayConnect: isPublicAddress,
};

/** Resolves a connection's host. One address that is not allowed refuses all: such a record is intentional. */
function checkedLookup({ resolve, mayConnect }: Network): LookupFunction {
  return (hostname, _options, callback) => {
    resolve(hostname).then(
      (addresses) => {
        const isAllowed = addresses.length > 0 && addresses.every(({ address }) => mayConnect(address));
        // Without the address, which would tell a stranger about the network here.
        const message = `${hostname} has no address, or one that is not public, and images are fetched from public addresses only; send the image itself as a base64 data URL.`;
        callback(isAllowed ? null : new ImageError(400, "image_address_not_public", message), [...addresses]);
      },
      (error) => callback(error, []),
    );
  };
}

/** Sent with every request. No cookies, no authorization, no referrer. */
const HEADERS = {
  accept: "image/jpeg, image/png, image/webp",
  // Images are compressed already, and a compressed body would have no size until it is unpacked.
  "accept-encoding": "identity",
  "user-agent": "engine-room-gateway",
};

/**
 * Fetches the bytes at a URL, of any format.
 * @param signal - Ends the fetch with its reason.
 * @throws ImageError 400 for a URL, host or address that is not allowed (of any redirect, too), 413 for too many bytes,
 * 502 when the server can't be reached or answers with anything but 200, 504 after ImageLimits.fetchSeconds.
 */
export async function fetchImage(
  text: string,
  {
    hosts,
    limits,
    network,
  }: { readonly hosts: readonly string[]; readonly limits: ImageLimits; readonly network: Network },
  signal: AbortSignal,
): Promise<Buffer> {
  let url = checkImageUrl(text, hosts);
  const failed = (status: number, code: string, problem: string, cause?: unknown) =>
    new ImageError(status, code, `${url.host} ${problem}; check the URL, or send the image itself.`, cause);
  const agent = new Agent({
    // No connection is kept, so that the addresses for each request, redirects too, are looked up and checked.
    pipelining: 0,
    maxResponseSize: limits.bytes,
    connect: {
      lookup: checkedLookup(network),
      // Tries one address after the other: a family may have no route.
      autoSelectFamily: true,
      // An environment variable may have turned it off for the process.
      rejectUnauthorized: true,
      ...(network.ca && { ca: network.ca }),
    },
  });
  const clock = AbortSignal.timeout(Math.ceil(limits.fetchSeconds * 1000));
  const ended = AbortSignal.any([signal, clock]);
  // The agent, because a request's own signal does not end a lookup; and that signal, because the agent forgets a request
  // that a redirect began while the connection before was being closed.
  ended.addEventListener("abort", () => agent.destroy(ended.reason));
  try {
    ended.throwIfAborted();
    for (let redirects = 0; redirects <= limits.redirects; redirects++) {
      const { statusCode, headers, body } = await request(url, {
        dispatcher: agent,
        headers: HEADERS,
        signal: ended,
      });
      // A body that is refused unread ends with the agent, and its error would otherwise be an uncaught exception.
      body.on("error", () => {});
      if (statusCode === 200) {
        checkBytes(Number(headers["content-length"] ?? 0), limits);
        return Buffer.from(await body.arrayBuffer());
      }
      if (![301, 302, 303, 307, 308].includes(statusCode)) {
        throw failed(502, "image_fetch_failed", `answers with status ${statusCode} instead of the image`);
      }
      url = checkImageUrl([headers.location].flat()[0], hosts, url);
    }
    throw failed(502, "image_redirect_refused", `is reached after more than ${limits.redirects} redirects`);
  } catch (error) {
    if (error instanceof ImageError) throw error;
    if (signal.aborted) throw signal.reason;
    if (clock.aborted)
      throw failed(504, "image_fetch_timeout", `sent no image within ${limits.fetchSeconds} s`);
    if (error instanceof errors.ResponseExceededMaxSizeError) {
      throw failed(
        413,
        "image_too_large",
        `sends more than the ${limits.bytes} bytes that an image may have`,
      );
    }
    throw failed(502, "image_fetch_failed", "can't be reached, or breaks off", error);
  } finally {
    await agent.destroy();
  }
}
