/** What bytes are, told from the bytes alone: names and declared types are only claims of the sender. */
import type { ImageFormat } from "./limits.ts";

/** Media type of each format. */
export const MEDIA_TYPES: Readonly<Record<ImageFormat, string>> = {
  jpeg: "image/jpeg",
  png: "image/png",
  webp: "image/webp",
};

/** Bytes of a known kind; `format` is absent where it is none that is decoded. */
export interface Sniffed {
  /** As people say it: `JPEG`, `a PDF document`. */
  readonly label: string;
  readonly format?: ImageFormat;
}

interface Signature extends Sniffed {
  readonly offset: number;
  /** Latin-1: one character a byte. Any of them matches. */
  readonly magic: readonly string[];
}

/** Sources: the formats' own specifications; ISO/IEC 14496-12 for `ftyp`. */
const SIGNATURES: readonly Signature[] = [
  { label: "JPEG", format: "jpeg", offset: 0, magic: ["\xff\xd8\xff"] },
  { label: "PNG", format: "png", offset: 0, magic: ["\x89PNG\r\n\x1a\n"] },
  // Its first four bytes are RIFF's, and the four after them the length.
  { label: "WebP", format: "webp", offset: 8, magic: ["WEBPVP8 ", "WEBPVP8L", "WEBPVP8X"] },
  { label: "GIF", offset: 0, magic: ["GIF87a", "GIF89a"] },
  { label: "TIFF", offset: 0, magic: ["II*\0", "MM\0*", "II+\0", "MM\0+"] },
  { label: "HEIF or AVIF", offset: 4, magic: ["ftyphei", "ftyphev", "ftypmif1", "ftypmsf1", "ftypavi"] },
  { label: "JPEG XL", offset: 0, magic: ["\xff\x0a", "\0\0\0\x0cJXL "] },
  { label: "JPEG 2000", offset: 0, magic: ["\0\0\0\x0cjP  ", "\xff\x4f\xff\x51"] },
  { label: "BMP", offset: 0, magic: ["BM"] },
  { label: "an icon file", offset: 0, magic: ["\0\0\x01\0"] },
  { label: "a Photoshop file", offset: 0, magic: ["8BPS"] },
  { label: "a PDF document", offset: 0, magic: ["%PDF-"] },
  { label: "a ZIP archive", offset: 0, magic: ["PK\x03\x04"] },
];

/** Kinds of text, looked for behind a byte order mark, white space, an XML declaration and comments. */
const TEXTS: readonly { readonly label: string; readonly pattern: RegExp }[] = [
  { label: "SVG", pattern: /<(?:\w+:)?svg[\s>/]/i },
  { label: "an HTML page", pattern: /<(?:!doctype html|html|head|body|script)[\s>]/i },
];

/** Every signature and the head of any text fit in it. */
const HEAD_BYTES = 1024;

/** Tells what bytes are; undefined for what is none of the kinds above. */
export function sniff(bytes: Uint8Array): Sniffed | undefined {
  const head = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.byteLength, HEAD_BYTES));
  const binary = head.toString("latin1");
  const signature = SIGNATURES.find(({ offset, magic }) => magic.some((m) => binary.startsWith(m, offset)));
  if (signature) return signature;
  const text = textOf(head).trimStart();
  return text.startsWith("<") ? TEXTS.find(({ pattern }) => pattern.test(text)) : undefined;
}

/** UTF-16 only with a byte order mark, as XML has it; the decoder leaves the mark itself out. */
function textOf(head: Buffer): string {
  if (head[0] === 0xff && head[1] === 0xfe) return new TextDecoder("utf-16le").decode(head);
  if (head[0] === 0xfe && head[1] === 0xff) return new TextDecoder("utf-16be").decode(head);
  return new TextDecoder().decode(head);
}

/** The format that a media type names; undefined for any other. Parameters and case do not matter. */
export function formatOfMediaType(mediaType: string): ImageFormat | undefined {
  return DECLARED.get(mediaType.split(";", 1)[0]?.trim().toLowerCase() ?? "");
}

const DECLARED: ReadonlyMap<string, ImageFormat> = new Map([
  ["image/jpeg", "jpeg"],
  // Not registered, and common.
  ["image/jpg", "jpeg"],
  ["image/pjpeg", "jpeg"],
  ["image/png", "png"],
  ["image/webp", "webp"],
]);
