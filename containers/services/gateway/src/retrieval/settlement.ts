/**
 * Brings both databases to the same content of a document: what the last steps of a write are, and what repair does.
 * Callers hold the locks of the documents; other gateways do not, and so every change in the vector database is followed
 * by a look at MongoDB, which decides: whoever finds that a document was changed meanwhile settles it anew.
 */
import type { CallContext } from "../call-context.ts";
import { ApiError } from "../errors.ts";
import type { DocumentEncoder, EncoderInput, Vectors } from "../triton/document-encoder.ts";
import type { DocumentStore, DocumentVersion, StoredDocument } from "./document-store.ts";
import type { ImageStore } from "./image-store.ts";
import type { VectorStore } from "./vector-store.ts";

/** `overtaken`: it was changed by somebody else meanwhile. An error: it stays as it is. */
type Settled = "settled" | "overtaken" | ApiError;

/** It can't be embedded any more: its picture was taken away, or never came. */
function lostImage({ id }: StoredDocument): ApiError {
  return new ApiError(`The picture of document ${id} is lost; store the document again with it.`, {
    status: 500,
    type: "server_error",
    code: "image_lost",
  });
}

/** Often enough against gateways that write the same document at the same time; then the next sweep comes. */
const MOST_ROUNDS = 3;

export interface Stores {
  readonly documents: DocumentStore;
  readonly images: ImageStore;
  readonly vectors: VectorStore;
}

export class Settlement {
  readonly #stores: Stores;
  readonly #encoder: DocumentEncoder;

  constructor(stores: Stores, encoder: DocumentEncoder) {
    this.#stores = stores;
    this.#encoder = encoder;
  }

  /**
   * Finishes whatever was begun with documents: writes what is pending, removes what is deleting or not there, and
   * writes the vectors of what is ready again.
   * @returns Errors of documents that can't be embedded; they are pending. @throws ApiError when a database or the encoder is away.
   */
  async settle(ids: readonly string[], call: CallContext): Promise<ReadonlyMap<string, ApiError>> {
    const errors = new Map<string, ApiError>();
    let left = ids;
    for (let round = 0; round < MOST_ROUNDS && left.length > 0; round++) {
      const found = await this.#stores.documents.read(left, call);
      const kept = found.filter(({ state }) => state !== "deleting");
      const overtaken = await this.#remove(left, found, call);
      for (const [id, outcome] of await this.finish(await this.#embedded(kept, call), call)) {
        if (outcome === "overtaken") overtaken.push(id);
        else if (outcome !== "settled") errors.set(id, outcome);
      }
      // What is ready is shown, and a write with the same content would change nothing.
      const unfit = kept.filter(({ id, state }) => state === "ready" && errors.has(id));
      await this.#stores.documents.markPending(unfit, call);
      left = overtaken;
    }
    return errors;
  }

  /**
   * The last steps of a write: vectors, then state `ready`.
   * @param embedded - Documents with their vectors, or with the reason why there are none.
   */
  async finish(
    embedded: readonly { readonly document: StoredDocument; readonly vectors: Vectors | ApiError }[],
    call: CallContext,
  ): Promise<ReadonlyMap<string, Settled>> {
    const outcomes = new Map<string, Settled>();
    const entries = embedded.flatMap(({ document, vectors }) => {
      if (!(vectors instanceof ApiError)) return { document, vectors };
      outcomes.set(document.id, vectors);
      return [];
    });
    if (entries.length === 0) return outcomes;
    await this.#stores.vectors.upsert(
      entries.map(({ document: { id, contentHash, metadata }, vectors }) => ({
        payload: { documentId: id, contentHash, metadata },
        vectors,
      })),
      call,
    );
    const documents = entries.map(({ document }) => document);
    const overtaken = await this.#stores.documents.markReady(documents, call);
    for (const { id } of documents) outcomes.set(id, overtaken.has(id) ? "overtaken" : "settled");
    return outcomes;
  }

  /** Embeds inputs; one that the encoder refuses does not keep the others from it. @throws ApiError when it is away. */
  async embed(inputs: readonly EncoderInput[], call: CallContext): Promise<(Vectors | ApiError)[]> {
    try {
      return await this.#encoder.embed(inputs, call);
    } catch (error) {
      if (!(error instanceof ApiError) || error.details.status >= 500) throw error;
      if (inputs.length === 1) return [error];
      const middle = Math.ceil(inputs.length / 2);
      return [
        ...(await this.embed(inputs.slice(0, middle), call)),
        ...(await this.embed(inputs.slice(middle), call)),
      ];
    }
  }

  async #embedded(documents: readonly StoredDocument[], call: CallContext) {
    const hashes = documents.flatMap(({ image }) => image?.sha256 ?? []);
    const images = await this.#stores.images.read(hashes, call);
    // Without its picture a document would be found by its text alone, and count as finished for ever.
    const isWhole = ({ image }: StoredDocument) => image === null || images.has(image.sha256);
    const whole = documents.filter(isWhole);
    const vectors = await this.embed(
      whole.map(({ text, image }) => ({
        text: text ?? undefined,
        image: image === null ? undefined : images.get(image.sha256),
      })),
      call,
    );
    return [
      ...whole.map((document, index) => ({ document, vectors: vectors[index] ?? {} })),
      ...documents
        .filter((document) => !isWhole(document))
        .map((document) => ({ document, vectors: lostImage(document) })),
    ];
  }

  /** Removes what is deleting or not there. @returns Ids of those that somebody else wrote meanwhile. */
  async #remove(
    ids: readonly string[],
    found: readonly StoredDocument[],
    call: CallContext,
  ): Promise<string[]> {
    const deleting: DocumentVersion[] = found.filter(({ state }) => state === "deleting");
    const known = new Set(found.map(({ id }) => id));
    const missing = ids.filter((id) => !known.has(id));
    if (deleting.length + missing.length === 0) return [];
    const { documents, vectors } = this.#stores;
    await vectors.remove([...deleting.map(({ id }) => id), ...missing], call);
    const changed = deleting.length === 0 ? [] : await documents.remove(deleting, call);
    const written = missing.length === 0 ? [] : (await documents.versions(missing, call)).keys();
    return [...changed, ...written];
  }
}
