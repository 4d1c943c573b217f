/**
 * Writes, reads and deletes documents. A write goes through the states of document-store.ts in this order: embed, MongoDB
 * `pending`, vector database, MongoDB `ready`; a deletion: MongoDB `deleting`, vector database, MongoDB. Wherever it is
 * interrupted, settlement.ts can finish it, and until then the document is not shown.
 */
import type { CallContext } from "../call-context.ts";
import { ApiError, unavailable } from "../errors.ts";
import { Deadline } from "../limits.ts";
import type { Vectors } from "../triton/document-encoder.ts";
import { contentHash, type Metadata } from "./content.ts";
import { type DocumentVersion, laterThan, type StoredDocument } from "./document-store.ts";
import type { StoredImage } from "./image-store.ts";
import type { KeyedLocks } from "./locks.ts";
import type { Settlement, Stores } from "./settlement.ts";

/** A document as it is to be; its image decoded. */
export interface DocumentInput {
  readonly id: string;
  readonly text: string | null;
  readonly metadata: Metadata;
  readonly image: StoredImage | null;
}

export type WriteStatus = "created" | "updated" | "unchanged" | "failed";

interface WriteOutcome {
  readonly id: string;
  readonly status: WriteStatus;
  /** Of `failed`. */
  readonly error?: ApiError;
}

/** Often enough against other gateways that write the same document. */
const MOST_ATTEMPTS = 5;
/** A write that was begun is not broken off with its request: this ends it. */
const WRITE_SECONDS = 60;

interface Embedded {
  readonly input: DocumentInput;
  readonly vectors: Vectors | ApiError;
}

interface DocumentServiceSettings {
  readonly stores: Stores;
  readonly settlement: Settlement;
  readonly locks: KeyedLocks;
  /** Told when a write or deletion is left unfinished. */
  readonly onUnfinished: () => void;
}

export class DocumentService {
  readonly #settings: DocumentServiceSettings;

  constructor(settings: DocumentServiceSettings) {
    this.#settings = settings;
  }

  /**
   * Writes documents with different ids: all at once, so a request must not hold more than a database takes.
   * @returns An outcome for each, in their order. What can't be done for one of them is its `failed`.
   */
  async write(inputs: readonly DocumentInput[], call: CallContext): Promise<WriteOutcome[]> {
    const unlock = await this.#settings.locks.lock(
      inputs.map(({ id }) => id),
      call.signal,
    );
    try {
      const outcomes = new Map<string, WriteOutcome>();
      let left = inputs;
      for (let attempt = 0; attempt < MOST_ATTEMPTS && left.length > 0; attempt++) {
        await this.#attempt(left, outcomes, call);
        left = left.filter(({ id }) => !outcomes.has(id));
      }
      return inputs.map(({ id }) => outcomes.get(id) ?? failed(id, contended(id)));
    } finally {
      unlock();
    }
  }

  /** Removes a document, also one whose write or deletion is unfinished. One that is not there is no error. */
  async remove(id: string, call: CallContext): Promise<void> {
    const { stores, settlement, locks } = this.#settings;
    const unlock = await locks.lock([id], call.signal);
    try {
      for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
        const seen = (await stores.documents.versions([id], call)).get(id);
        if (seen === undefined) return;
        const isDeleting = await this.#changing(
          async () => seen.state === "deleting" || (await stores.documents.markDeleting(seen, call)),
        );
        if (!isDeleting) continue;
        await this.#changing(() => toTheEnd(call, (own) => settlement.settle([id], own)));
        return;
      }
      throw contended(id);
    } finally {
      unlock();
    }
  }

  /** Runs a change. One that fails may have been done in part, or as a whole: repair is told. */
  async #changing<T>(change: () => Promise<T>): Promise<T> {
    try {
      return await change();
    } catch (error) {
      this.#settings.onUnfinished();
      throw error;
    }
  }

  /** One try at all; documents that somebody else changed meanwhile have no outcome after it. */
  async #attempt(
    inputs: readonly DocumentInput[],
    outcomes: Map<string, WriteOutcome>,
    call: CallContext,
  ): Promise<void> {
    const { stores, settlement } = this.#settings;
    const seen = await stores.documents.versions(
      inputs.map(({ id }) => id),
      call,
    );
    const same = inputs.filter((input) => {
      const version = seen.get(input.id);
      return version?.state === "ready" && version.contentHash === contentHash(input);
    });
    // Storing a document again is how a lost image comes back.
    const images = await stores.images.present(
      same.flatMap(({ image }) => image?.sha256 ?? []),
      call,
    );
    for (const { id, image } of same) {
      if (image === null || images.has(image.sha256)) outcomes.set(id, { id, status: "unchanged" });
    }
    const changed = inputs.filter(({ id }) => !outcomes.has(id));
    if (changed.length === 0) return;
    try {
      const vectors = await settlement.embed(
        changed.map(({ text, image }) => ({ text: text ?? undefined, image: image?.bytes })),
        call,
      );
      const embedded = changed.map((input, index) => ({ input, vectors: vectors[index] ?? {} }));
      // Locks must not be given back while something is still being written.
      await toTheEnd(call, (own) => this.#store(embedded, seen, outcomes, own));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      for (const { id } of changed) outcomes.set(id, failed(id, error));
    }
  }

  /** Both databases. */
  async #store(
    embedded: readonly Embedded[],
    seen: ReadonlyMap<string, DocumentVersion>,
    outcomes: Map<string, WriteOutcome>,
    call: CallContext,
  ): Promise<void> {
    const { stores, settlement } = this.#settings;
    const now = Date.now();
    const entries = embedded.flatMap(({ input, vectors }) => {
      if (!(vectors instanceof ApiError))
        return { document: pending(input, seen.get(input.id), now), input, vectors };
      outcomes.set(input.id, failed(input.id, vectors));
      return [];
    });
    if (entries.length === 0) return;
    const settled = await this.#changing(async () => {
      await stores.images.put(distinctImages(entries), call);
      const overtaken = await stores.documents.replace(
        entries.map(({ document }) => ({ document, seen: seen.get(document.id) })),
        call,
      );
      const outcome = await settlement.finish(
        entries.filter(({ document }) => !overtaken.has(document.id)),
        call,
      );
      const lost = [...outcome].flatMap(([id, what]) => (what === "overtaken" ? id : []));
      await settlement.settle(lost, call);
      return outcome;
    });
    for (const { document } of entries) {
      const { id } = document;
      // One that was overtaken after it was stored has been written, and then another one was.
      if (settled.has(id)) outcomes.set(id, { id, status: isNew(seen.get(id)) ? "created" : "updated" });
    }
  }
}

function pending(input: DocumentInput, seen: DocumentVersion | undefined, now: number): StoredDocument {
  const { id, text, metadata, image } = input;
  const updatedAt = laterThan(seen?.updatedAt, now);
  return {
    id,
    text,
    metadata,
    image: image && {
      sha256: image.sha256,
      contentType: image.contentType,
      width: image.width,
      height: image.height,
    },
    contentHash: contentHash(input),
    state: "pending",
    createdAt: seen === undefined || isNew(seen) ? updatedAt : seen.createdAt,
    updatedAt,
  };
}

function isNew(seen: DocumentVersion | undefined): boolean {
  return seen === undefined || seen.state === "deleting";
}

function distinctImages(entries: readonly { readonly input: DocumentInput }[]): StoredImage[] {
  const images = entries.flatMap(({ input }) => input.image ?? []);
  return [...new Map(images.map((image) => [image.sha256, image])).values()];
}

/** Runs what was begun to its end, also when the client has left: half of a write is of no use to anybody. */
async function toTheEnd<T>({ requestId }: CallContext, task: (call: CallContext) => Promise<T>): Promise<T> {
  const deadline = new Deadline(WRITE_SECONDS);
  try {
    return await task({ requestId, signal: deadline.signal });
  } finally {
    deadline.clear();
  }
}

function failed(id: string, error: ApiError): WriteOutcome {
  return { id, status: "failed", error };
}

function contended(id: string): ApiError {
  return unavailable(
    `The document ${id} is being changed by others all the time; try again in a second.`,
    "contended",
    1,
  );
}
