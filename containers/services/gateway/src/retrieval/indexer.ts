/**
 * Brings the vectors to MongoDB's content. No document is locked: after each change of vectors MongoDB is read again, and
 * the vectors are made again if another writer has changed the document meanwhile. So the last change of a document's
 * vectors is always followed by a read that found them right. If that fails, all documents are compared some seconds
 * later.
 */
import { randomUUID } from "node:crypto";
import type { FastifyBaseLogger } from "fastify";
import { ApiError, invalidRequest } from "../errors.ts";
import type { CallContext } from "../limits.ts";
import type { RetrievalMetrics } from "../metrics.ts";
import type { DocumentEncoder, Vectors } from "../triton/document-encoder.ts";
import type { DocumentContent, DocumentStore, Hashes } from "./document-store.ts";
import type { ReindexResponse } from "./schemas.ts";
import type { VectorStore } from "./vector-store.ts";

/** Enough rounds against other writers of the same document. */
const MOST_ROUNDS = 5;
const RETRY_SECONDS = 5;
/** Documents that are compared at once; of those that differ all pictures are in memory. */
const PAGE_DOCUMENTS = 128;

interface IndexResult {
  /** Documents without vectors of their content, and the reasons. */
  readonly refused: ReadonlyMap<string, ApiError>;
  /** Documents that others change all the time: their vectors are compared again a little later. */
  readonly contended: readonly string[];
}

interface IndexerSettings {
  readonly documents: DocumentStore;
  readonly vectors: VectorStore;
  readonly encoder: DocumentEncoder;
  readonly metrics: RetrievalMetrics;
  readonly log: FastifyBaseLogger;
}

export class Indexer {
  readonly #settings: IndexerSettings;
  readonly #stopping = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  /** The next run, which has not begun. */
  #next: Promise<ReindexResponse> | undefined;
  #last: Promise<unknown> = Promise.resolve();
  #hasFailed = false;

  constructor(settings: IndexerSettings) {
    this.#settings = settings;
  }

  /** Compares all documents as soon as the servers behind the gateway answer. */
  start(): void {
    this.#schedule(0);
  }

  /** Compares all documents a little later: the vectors of some may be wrong. */
  retry(): void {
    this.#schedule(RETRY_SECONDS);
  }

  /** Whether the last comparison of all documents was interrupted; it is tried again until it goes through. */
  get hasFailed(): boolean {
    return this.#hasFailed;
  }

  async stop(): Promise<void> {
    clearTimeout(this.#timer);
    this.#stopping.abort(new Error("the gateway is being stopped"));
    await this.#last;
  }

  /**
   * Makes the vectors of documents.
   * @returns Documents with their vectors, and errors of the others. @throws ApiError when the encoder is unavailable.
   */
  async embed(documents: readonly DocumentContent[], call: CallContext) {
    const refused = new Map<string, ApiError>();
    // Without its picture a document would silently be found only by its text.
    const isLost = ({ image }: DocumentContent) => image !== null && image.bytes === undefined;
    for (const { id } of documents.filter(isLost))
      refused.set(
        id,
        invalidRequest("The image of the document is missing; write the document again with it."),
      );
    const whole = documents.filter((document) => !isLost(document));
    const vectors = await this.#vectorsOf(whole, call);
    const entries = whole.flatMap((document, index) => {
      const made = vectors[index] ?? {};
      if (!(made instanceof ApiError)) return { document, vectors: made };
      refused.set(document.id, made);
      return [];
    });
    return { entries, refused };
  }

  /**
   * Brings the vectors of documents to MongoDB's content, and removes those of documents that are absent.
   * @throws ApiError when a server behind the gateway is unavailable.
   */
  async index(ids: readonly string[], call: CallContext): Promise<IndexResult> {
    const { documents, vectors } = this.#settings;
    const allRefused = new Map<string, ApiError>();
    let left = ids;
    for (let round = 0; round < MOST_ROUNDS && left.length > 0; round++) {
      const found = await documents.read(left, call, true);
      const { entries, refused } = await this.embed(found, call);
      for (const [id, error] of refused) allRefused.set(id, error);
      const indexed = new Map(found.map(({ id, contentHash }) => [id, contentHash]));
      const absent = left.filter((id) => !indexed.has(id));
      await vectors.upsert(entries, call);
      await vectors.remove(absent, call);
      left = await this.#changed(left, indexed, call);
    }
    if (left.length > 0) this.retry();
    return { refused: allRefused, contended: left };
  }

  /**
   * To be called after each change of vectors: indexes documents of which MongoDB has another content.
   * @param indexed - Contents that the vectors were made from; absent if they were removed.
   */
  async settle(ids: readonly string[], indexed: Hashes, call: CallContext): Promise<IndexResult> {
    return this.index(await this.#changed(ids, indexed, call), call);
  }

  /**
   * Compares all documents with all vectors, and indexes those that differ. Callers that come before a run begins share
   * it. @throws ApiError when a server behind the gateway is unavailable; finished documents stay indexed.
   */
  reindex(): Promise<ReindexResponse> {
    if (this.#next !== undefined) return this.#next;
    const next = this.#last.then(() => {
      this.#next = undefined;
      return this.#compareAll({ requestId: `reindex-${randomUUID()}`, signal: this.#stopping.signal });
    });
    this.#next = next;
    this.#last = next.catch(() => undefined);
    return next;
  }

  #schedule(seconds: number): void {
    if (this.#timer !== undefined || this.#stopping.signal.aborted) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.reindex().catch((error: unknown) => {
        // Once for each outage.
        if (!this.#hasFailed && !this.#stopping.signal.aborted)
          this.#settings.log.warn({ err: error }, "reindexing was interrupted and will be retried");
        this.#hasFailed = true;
        this.retry();
      });
    }, seconds * 1000).unref();
  }

  async #compareAll(call: CallContext): Promise<ReindexResponse> {
    const { documents, vectors, metrics, log } = this.#settings;
    const result = { documents: 0, indexed: 0, removed: 0, refused: 0 };
    await documents.adoptOldImages(call);
    for await (const page of documents.pages(PAGE_DOCUMENTS, call)) {
      const indexed = await vectors.hashes([...page.keys()], call);
      const different = [...page].filter(([id, hash]) => indexed.get(id) !== hash).map(([id]) => id);
      const { refused } = await this.index(different, call);
      for (const [documentId, error] of refused)
        log.warn(
          { documentId, err: error.cause ?? error },
          "a document can't be embedded, so searches don't find it",
        );
      result.documents += page.size;
      result.indexed += different.length - refused.size;
      result.refused += refused.size;
    }
    for await (const page of vectors.pages(PAGE_DOCUMENTS, call)) {
      const stored = await documents.hashes([...page.keys()], call);
      const orphans = [...page.keys()].filter((id) => !stored.has(id));
      await this.index(orphans, call);
      result.removed += orphans.length;
    }
    const { indexed, removed, refused } = result;
    if (this.#hasFailed || indexed + removed + refused > 0) log.info(result, "reindexed");
    this.#hasFailed = false;
    for (const [kind, count] of Object.entries({ indexed, removed, refused }))
      metrics.reindexed.inc({ result: kind }, count);
    return result;
  }

  /** Documents of which MongoDB has another content. */
  async #changed(ids: readonly string[], hashes: Hashes, call: CallContext): Promise<string[]> {
    if (ids.length === 0) return [];
    const now = await this.#settings.documents.hashes(ids, call);
    return ids.filter((id) => now.get(id) !== hashes.get(id));
  }

  /** One document that the encoder refuses does not keep the others from it. */
  async #vectorsOf(
    documents: readonly DocumentContent[],
    call: CallContext,
  ): Promise<(Vectors | ApiError)[]> {
    try {
      const inputs = documents.map(({ text, image }) => ({ text: text ?? undefined, image: image?.bytes }));
      return await this.#settings.encoder.embed("document", inputs, call);
    } catch (error) {
      if (!(error instanceof ApiError) || error.details.status >= 500) throw error;
      if (documents.length === 1) return [error];
      const middle = Math.ceil(documents.length / 2);
      const first = await this.#vectorsOf(documents.slice(0, middle), call);
      return [...first, ...(await this.#vectorsOf(documents.slice(middle), call))];
    }
  }
}
