/** What the tests of requests share: small images that look like files, and bodies as JSON. */
import type { TritonRequest } from "@engine-room/triton-requests";

/** The picture of the LLaVA-1.5 walkthrough and of the multimodal guide. */
export const MERLION = "https://storage.googleapis.com/sfr-vision-language-research/LAVIS/assets/merlion.png";

/** Heads of image files, of a length whose base64 needs no padding. */
export const FILES = {
  jpeg: Buffer.from("ffd8ffe000104a4649460001", "hex"),
  png: Buffer.from("89504e470d0a1a0a0000000d", "hex"),
  webp: Buffer.concat([Buffer.from("RIFF"), Buffer.from([4, 0, 0, 0]), Buffer.from("WEBP")]),
} as const;

export function dataUrl(type: keyof typeof FILES, extra = ""): string {
  return `data:image/${type};base64,${Buffer.concat([FILES[type], Buffer.from(extra)]).toString("base64")}`;
}

/** The JSON of a generate request. */
export function bodyOf({ body }: TritonRequest): Record<string, unknown> {
  if (typeof body !== "string") throw new Error("the body is binary");
  return JSON.parse(body) as Record<string, unknown>;
}
