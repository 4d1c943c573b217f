/** From a text, an image, or both, to the documents that fit best: one embedding, one vector query, one look into MongoDB. */
import type { CallContext } from "../call-context.ts";
import type { DocumentEncoder } from "../triton/document-encoder.ts";
import type { StoredDocument } from "./document-store.ts";
import { type FilterInput, vectorFilter } from "./filter.ts";
import type { Match, MatchResponse } from "./schemas.ts";
import type { Stores } from "./settlement.ts";
import type { Hit, Search, VectorName } from "./vector-store.ts";

/** What is looked for; at least one of text and image. */
interface MatchQuery {
  readonly text?: string | undefined;
  /** JPEG. */
  readonly image?: Uint8Array | undefined;
  /** Matches at most. */
  readonly topK: number;
  readonly filter?: FilterInput | undefined;
}

/**
 * Qdrant's constant of reciprocal rank fusion is 2 with ranks from 0, and so 1 with ranks from 1
 * (lib/segment/src/common/reciprocal_rank_fusion.rs).
 */
const RRF_K = 1;

/** Hits beyond topK, for those that are just being written or deleted and so are left out. */
const SPARE_HITS = 5;

export class Matcher {
  readonly #stores: Stores;
  readonly #encoder: DocumentEncoder;

  constructor(stores: Stores, encoder: DocumentEncoder) {
    this.#stores = stores;
    this.#encoder = encoder;
  }

  /** Best matches first. @throws ApiError */
  async match(
    { text, image, topK, filter }: MatchQuery,
    call: CallContext,
  ): Promise<Pick<MatchResponse, "matches" | "fusion">> {
    const [vectors = {}] = await this.#encoder.embed([{ text, image }], call);
    const searches = (["text", "image"] as const).flatMap((using): Search[] => {
      const vector = vectors[using];
      return vector === undefined ? [] : [{ using, vector }];
    });
    const { vectors: store, documents } = this.#stores;
    const { fused, lists } = await store.query(searches, vectorFilter(filter), topK + SPARE_HITS, call);
    const found = await documents.read(
      fused.map(({ documentId }) => documentId),
      call,
      ["ready"],
    );
    return {
      matches: explained(fused, lists, found).slice(0, topK),
      fusion: searches.length > 1 ? { method: "rrf", k: RRF_K } : null,
    };
  }
}

/** Hits with their documents and with what each list said of them; without those whose vectors are of another content. */
function explained(
  fused: readonly Hit[],
  lists: ReadonlyMap<VectorName, readonly Hit[]>,
  documents: readonly StoredDocument[],
): Match[] {
  const byId = new Map(documents.map((document) => [document.id, document]));
  const places = [...lists].map(
    ([name, hits]) =>
      [
        name,
        new Map(hits.map(({ documentId, score }, index) => [documentId, { score, rank: index + 1 }])),
      ] as const,
  );
  return fused.flatMap(({ documentId, contentHash, score }) => {
    const document = byId.get(documentId);
    if (document === undefined || document.contentHash !== contentHash) return [];
    const scores = Object.fromEntries(
      places.flatMap(([name, byDocument]) => {
        const place = byDocument.get(documentId);
        return place === undefined ? [] : [[name, place]];
      }),
    );
    return {
      id: documentId,
      score,
      scores,
      text: document.text,
      metadata: { ...document.metadata },
      image: imagePath(document),
    };
  });
}

/** Path of a document's image; it names the content, so that what it leads to never changes. */
export function imagePath({ id, image }: Pick<StoredDocument, "id" | "image">): string | null {
  return image && `/v1/documents/${encodeURIComponent(id)}/image?sha256=${image.sha256}`;
}
