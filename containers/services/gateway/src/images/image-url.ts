/** Which URLs may be fetched at all: decided from their text, before any name is resolved. */
import { ImageError } from "./image-error.ts";
import type { ImageHosts } from "./image-hosts.ts";

/** Longer ones hold data, and servers refuse them: RFC 9110 asks for 8000 to be supported. */
const LONGEST_URL_CHARACTERS = 8000;

/**
 * Reads a URL once, with the same parser whose result is connected to: it writes every form of a host (decimal, octal,
 * hexadecimal and short IPv4, escapes, full-width letters) in one way, and only then the host is looked up in the list.
 * @throws ImageError 400 when it is not http or https, carries a password, or its host or port is not in the list.
 */
export function checkImageUrl(text: string, hosts: ImageHosts): URL {
  if (text.length > LONGEST_URL_CHARACTERS || !URL.canParse(text)) {
    throw new ImageError(
      "invalid_image_url",
      `The image's URL can't be read (${text.length} characters, at most ${LONGEST_URL_CHARACTERS}); write https://HOST/PATH, or a data URL.`,
    );
  }
  const url = new URL(text);
  checkTarget(url, hosts, "The image's URL");
  return url;
}

/**
 * The next URL of a redirect, under all the rules of the first one.
 * @throws ImageError 400 like checkImageUrl; 502 where it can't be read, or leads from https to http.
 */
export function checkRedirect(location: string | undefined, from: URL, hosts: ImageHosts): URL {
  if (
    location === undefined ||
    location.length > LONGEST_URL_CHARACTERS ||
    !URL.canParse(location, from.href)
  ) {
    throw new ImageError(
      "image_redirect_refused",
      `${from.host} redirects to no URL that can be read; give the URL of the image itself.`,
    );
  }
  const url = new URL(location, from);
  checkTarget(url, hosts, `The redirect of ${from.host}`);
  if (from.protocol === "https:" && url.protocol === "http:") {
    throw new ImageError(
      "image_redirect_refused",
      `${from.host} redirects from https to http, where anybody could change the image; give an https URL of the image itself.`,
    );
  }
  return url;
}

/** `subject` begins the sentence. Only hosts are shown: paths and queries may hold somebody's secrets. */
function checkTarget(url: URL, hosts: ImageHosts, subject: string): void {
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw new ImageError(
      "invalid_image_url",
      `${subject} has the scheme ${JSON.stringify(url.protocol.slice(0, 20))}, and only http, https and data are taken; send the image itself as a base64 data URL.`,
    );
  }
  if (url.username !== "" || url.password !== "") {
    throw new ImageError(
      "invalid_image_url",
      `${subject} holds a user name or a password, and none is ever sent; leave it out, or send the image itself.`,
    );
  }
  if (!hosts.allows(url)) {
    throw new ImageError(
      "image_host_not_allowed",
      `${subject} leads to ${url.host}, which is not in gateway.imageHosts; send the image itself as a base64 data URL, or have the host added.`,
    );
  }
}
