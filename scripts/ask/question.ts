/** What a person asks, as the command line has it. */
import { readFileSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { isHttpUrl } from "@engine-room/triton-requests";
import { UsageError, UserError } from "../errors.ts";

export interface Question {
  /** Name in the stack. */
  readonly model: string;
  readonly text: string;
  readonly images: readonly AskedImage[];
  readonly maxTokens: number;
  readonly stream: boolean;
}

/** An address that the server fetches, or a file of this machine. */
export type AskedImage =
  | { readonly kind: "url"; readonly url: string }
  | {
      readonly kind: "file";
      /** As it was typed, so that a printed command finds it from the same folder. */
      readonly path: string;
      readonly base64: string;
      readonly mediaType: string;
    };

/** Above it no server of a stack takes a request: Triton's own limit is 64 MiB, and base64 makes a third more. */
const LARGEST_IMAGE_MIB = 40;

/**
 * Reads `--image`.
 * @param directory - What a relative path starts from.
 * @throws UserError for a file that is missing, too large, or no picture.
 */
export function askedImage(given: string, directory: string): AskedImage {
  if (isHttpUrl(given)) return { kind: "url", url: given };
  const path = resolve(directory, given);
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats?.isFile() !== true) {
    throw new UserError(`There is no file ${path}; give --image a picture's path or its http(s) address.`);
  }
  if (stats.size > LARGEST_IMAGE_MIB * 2 ** 20) {
    throw new UserError(
      `${path} has ${(stats.size / 2 ** 20).toFixed(0)} MiB, and no server takes more than ${LARGEST_IMAGE_MIB}; make the picture smaller.`,
    );
  }
  const bytes = readFileSync(path);
  const mediaType = mediaTypeOf(bytes);
  if (mediaType === undefined) {
    throw new UserError(`${path} does not begin like a JPEG, PNG or WebP file; send one of these.`);
  }
  return { kind: "file", path: given, base64: bytes.toString("base64"), mediaType };
}

/** @throws UsageError for what is no number of tokens. */
export function askedTokens(given: string): number {
  if (/^[1-9]\d{0,5}$/.test(given)) return Number(given);
  throw new UsageError(`--max-tokens ${given} is no number of tokens; give a whole one from 1 to 999999.`);
}

/** As a data URL, or the address itself. */
export function imageUrl(image: AskedImage): string {
  return image.kind === "url" ? image.url : `data:${image.mediaType};base64,${image.base64}`;
}

function mediaTypeOf(bytes: Uint8Array): string | undefined {
  const head = Buffer.from(bytes.subarray(0, 12)).toString("latin1");
  if (head.startsWith("\xff\xd8\xff")) return "image/jpeg";
  if (head.startsWith("\x89PNG\r\n\x1a\n")) return "image/png";
  return head.startsWith("RIFF") && head.endsWith("WEBP") ? "image/webp" : undefined;
}
