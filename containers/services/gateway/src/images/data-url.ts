/** Images inside a request's text: `data:image/png;base64,...` (RFC 2397). */
import { formatOfMediaType, MEDIA_TYPES, sniff } from "./formats.ts";
import { ImageError } from "./image-error.ts";
import { checkBytes, type ImageLimits } from "./limits.ts";

interface DataUrlImage {
  readonly bytes: Buffer;
  /** As it is written in the URL; empty where there is none. */
  readonly declaredType: string;
}

/** A media type with parameters is far shorter. */
const LONGEST_HEAD_CHARACTERS = 256;

export function isDataUrl(url: string): boolean {
  return /^data:/i.test(url);
}

/**
 * Takes the bytes out of a base64 data URL. The size is known, and checked, before anything is decoded.
 * @throws ImageError 400 for another form or alphabet, 413 for too many bytes, 415 for a type that the content belies.
 */
export function parseDataUrl(url: string, limits: ImageLimits): DataUrlImage {
  const head = url.slice(0, LONGEST_HEAD_CHARACTERS);
  const comma = head.indexOf(",");
  const [declaredType = "", ...parameters] = head.slice("data:".length, Math.max(comma, 0)).split(";");
  if (comma < 0 || parameters.at(-1)?.toLowerCase() !== "base64") {
    throw new ImageError(
      "invalid_data_url",
      "The data URL is not base64; write data:image/jpeg;base64, and then the image's bytes in base64.",
    );
  }
  const bytes = decodeBase64(url.slice(comma + 1), limits);
  checkDeclaredType(declaredType, bytes);
  return { bytes, declaredType };
}

/** Node's own decoder skips what it does not know, and would make some other bytes of a damaged text. */
function decodeBase64(text: string, limits: ImageLimits): Buffer {
  const padding = /={0,2}$/.exec(text.slice(-2))?.[0].length ?? 0;
  const digits = text.length - padding;
  checkBytes(Math.floor((digits * 3) / 4), limits);
  const wrong = text.search(/[^A-Za-z0-9+/]/);
  if (wrong >= 0 && wrong < digits) {
    throw new ImageError(
      "invalid_data_url",
      `Character ${wrong + 1} of the base64 text is ${JSON.stringify(text[wrong])}; only A-Z, a-z, 0-9, + and / are taken, without line breaks (base64 -w0).`,
    );
  }
  if (text.length % 4 !== 0) {
    throw new ImageError(
      "invalid_data_url",
      `The base64 text has ${text.length} characters, which is no multiple of 4; send all of it, with its = at the end.`,
    );
  }
  return Buffer.from(text, "base64");
}

/** Whoever writes a data URL writes its type, so a wrong one is a mistake of a program that its author wants to know. */
function checkDeclaredType(declaredType: string, bytes: Buffer): void {
  const found = sniff(bytes)?.format;
  // The decoder refuses what is no image, and says what it is.
  if (found === undefined || SAYS_NOTHING.has(declaredType.trim().toLowerCase())) return;
  if (formatOfMediaType(declaredType) === found) return;
  throw new ImageError(
    "image_type_mismatch",
    `The data URL says ${JSON.stringify(declaredType.slice(0, 100))} and its content is ${MEDIA_TYPES[found]}; write data:${MEDIA_TYPES[found]};base64, in front.`,
  );
}

const SAYS_NOTHING: ReadonlySet<string> = new Set(["", "application/octet-stream"]);
