/** From a text, an image, or both, to the documents that fit best: one embedding, one vector query, one look into MongoDB. */
import type { CallContext } from "../limits.ts";
import type { StoredDocument } from "./document-store.ts";
import type { Retrieval } from "./retrieval.ts";
import {
  type FilterInput,
  LONGEST_METADATA_BYTES,
  LONGEST_TEXT_BYTES,
  type Match,
  type MatchResponse,
  MOST_MATCHES,
} from "./schemas.ts";
import type { Search } from "./vector-store.ts";

/** A query with text, image, or both. */
export interface MatchQuery {
  readonly text?: string | undefined;
  /** JPEG. */
  readonly image?: Uint8Array | undefined;
  /** Matches at most. */
  readonly topK: number;
  readonly filter?: FilterInput | undefined;
  /** Maximum characters of each text; by default all. */
  readonly textCharacters?: number | undefined;
}

/**
 * Qdrant's constant of reciprocal rank fusion is 2 with ranks from 0, and so 1 with ranks from 1
 * (lib/segment/src/common/reciprocal_rank_fusion.rs).
 */
const RRF_K = 1;

/** Hits beyond topK, for those that are just being written or deleted and so are left out. */
const SPARE_HITS = 5;

/** Maximum bytes of all documents that a match reads from MongoDB. */
export const LARGEST_MATCH_BYTES =
  (MOST_MATCHES + SPARE_HITS) * (LONGEST_TEXT_BYTES + LONGEST_METADATA_BYTES);

/** Best matches first, without those whose vectors are of another content than MongoDB has. @throws ApiError */
export async function findMatches(
  { encoder, documents, vectors }: Pick<Retrieval, "encoder" | "documents" | "vectors">,
  { text, image, topK, filter, textCharacters }: MatchQuery,
  call: CallContext,
): Promise<Pick<MatchResponse, "matches" | "fusion">> {
  const [made = {}] = await encoder.embed("query", [{ text, image }], call);
  const searches = (["text", "image"] as const).flatMap((using): Search[] => {
    const vector = made[using];
    return vector === undefined ? [] : [{ using, vector }];
  });
  const { fused, lists } = await vectors.query(searches, filter, topK + SPARE_HITS, call);
  const ids = fused.map(({ documentId }) => documentId);
  const found = await documents.read(ids, call);
  const byId = new Map(found.map((document) => [document.id, document]));
  const placesOf = (id: string): Match["scores"] =>
    Object.fromEntries(
      [...lists].flatMap(([name, hits]) => {
        const index = hits.findIndex(({ documentId }) => documentId === id);
        return index < 0 ? [] : [[name, { score: hits[index]?.score ?? 0, rank: index + 1 }]];
      }),
    );
  const matches = fused.flatMap(({ documentId, contentHash, score }) => {
    const document = byId.get(documentId);
    if (document === undefined || document.contentHash !== contentHash) return [];
    const { id, text: whole, metadata } = document;
    const words = whole && truncated(whole, textCharacters);
    const textTruncated = words !== whole;
    return {
      id,
      score,
      scores: placesOf(id),
      text: words,
      textTruncated,
      metadata,
      image: imagePath(document),
    };
  });
  return {
    matches: matches.slice(0, topK),
    fusion: searches.length > 1 ? { method: "rrf", k: RRF_K } : null,
  };
}

/** A text's first characters, never half of one that UTF-16 writes as two. */
function truncated(text: string, characters = text.length): string {
  return text.slice(0, characters).replace(/[\ud800-\udbff]$/, "");
}

/** Path of a document's image; it names the content, so that what it leads to never changes. */
export function imagePath({ id, image }: Pick<StoredDocument, "id" | "image">): string | null {
  return image && `/v1/documents/${encodeURIComponent(id)}/image?sha256=${image.sha256}`;
}
