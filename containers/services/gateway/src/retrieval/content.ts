/** What a document is made of, and what makes two of them the same. */
import { createHash } from "node:crypto";

export type Metadata = Readonly<Record<string, unknown>>;

/** An image by its content; its bytes are kept once, however many documents show it. */
export interface ImageReference {
  /** Of the JPEG that is kept, in hexadecimal. */
  readonly sha256: string;
  readonly contentType: "image/jpeg";
  /** Pixels. */
  readonly width: number;
  readonly height: number;
}

/** What a client says of a document. */
export interface DocumentContent {
  readonly text: string | null;
  readonly metadata: Metadata;
  readonly image: ImageReference | null;
}

/** SHA-256, in hexadecimal, of a content's canonical JSON: the order of metadata's keys does not count. */
export function contentHash({ text, metadata, image }: DocumentContent): string {
  const identity = { text, metadata, image: image?.sha256 ?? null };
  return createHash("sha256")
    .update(JSON.stringify(sorted(identity)))
    .digest("hex");
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, inner]) => [key, sorted(inner)]));
}

/** Namespace of the points' ids; another one would orphan every vector that is stored. */
const POINT_NAMESPACE = Buffer.from("6f1d1c4e3b5a4a0f9c1e7d2b8a64f053", "hex");

/** Id of a document's point in the vector database: UUID version 5 (RFC 9562, 5.5) of the document's id. */
export function pointId(documentId: string): string {
  const bytes = createHash("sha1").update(POINT_NAMESPACE).update(documentId).digest().subarray(0, 16);
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x50;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
