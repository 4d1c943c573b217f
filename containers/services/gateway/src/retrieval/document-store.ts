/** Documents in MongoDB. A row has text, metadata and picture: all inputs of the vectors. */
import { createHash } from "node:crypto";
import {
  BSON,
  type Collection,
  type Filter,
  type FindCursor,
  type FindOptions,
  MongoBulkWriteError,
  MongoClient,
  MongoNetworkError,
  MongoServerSelectionError,
  MongoTopologyClosedError,
  type WithId,
} from "mongodb";
import type { CallContext } from "../limits.ts";
import type { RetrievalMetrics } from "../metrics.ts";
import { databaseCalls } from "./databases.ts";

/** A page of a list ends with the document that reaches this size. */
const PAGE_BYTES = 2 * 1024 * 1024;
/** Documents that one reply of MongoDB brings for a list: with the longest texts and metadata some 5 MB. */
const LISTED_AT_ONCE = 64;

/** A picture as it is kept and embedded. */
export interface StoredImage {
  /** Hash of the JPEG, in hexadecimal. */
  readonly sha256: string;
  readonly contentType: "image/jpeg";
  /** Pixels. */
  readonly width: number;
  readonly height: number;
  /** The JPEG; undefined if it was not asked for. */
  readonly bytes?: Uint8Array;
}

/** Content of a document. */
export interface DocumentContent {
  readonly id: string;
  readonly text: string | null;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly image: StoredImage | null;
  /** See {@link contentHash}. */
  readonly contentHash: string;
}

export interface StoredDocument extends DocumentContent {
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

/** Hashes of contents, by id of document; the vector database has them too. */
export type Hashes = ReadonlyMap<string, string>;

type Row = Omit<StoredDocument, "id"> & { readonly _id: string };

/** SHA-256, in hexadecimal, of a content's canonical JSON: the order of metadata's keys does not count. */
export function contentHash({
  text,
  metadata,
  image,
}: Pick<DocumentContent, "text" | "metadata" | "image">): string {
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

/** A server on the same network answers within milliseconds; a longer time means that it is unavailable. */
const SELECTION_MS = 2000;
/** Longer than any command here may take; ends calls of a server that hangs. */
const SOCKET_MS = 30_000;
/** A read that takes longer is stopped by the server. */
const READ_MS = 10_000;
/** Also how many replies are read at one time: of the largest match's documents each has up to 8.4 MB. */
export const MOST_CONNECTIONS = 6;

/** Codes of a server that is stopping, stepping down, or too slow: the same command works later, or elsewhere. */
const PASSING_CODES: readonly unknown[] = [50, 91, 189, 262, 10107, 11600, 11602, 13435, 13436];

/** Holds all that a comparison reads, so that MongoDB does not read the pictures for it. */
const HASH_INDEX = { _id: 1, contentHash: 1 } as const;
const HASH_ONLY = { contentHash: 1 } as const;
const WITHOUT_BYTES = { "image.bytes": 0 } as const;
/** A gateway of the layout before may still write pictures until its rollout is over. */
const OLD_IMAGE_MS = 3_600_000;

export class DocumentStore {
  readonly #client: MongoClient;
  readonly #rows: Collection<Row>;
  /** Pictures in the earlier layout, with their own collection. */
  readonly #oldImages: Collection<{ _id: string; bytes: Uint8Array; usedAt: Date }>;
  readonly #run: ReturnType<typeof databaseCalls>;

  /**
   * Connects with the first command.
   * @param uri - May hold a password.
   * @throws Error when it can't be read.
   */
  constructor(uri: string, databaseName: string, metrics: RetrievalMetrics) {
    this.#client = new MongoClient(uri, {
      appName: "engine-room-gateway",
      serverSelectionTimeoutMS: SELECTION_MS,
      connectTimeoutMS: SELECTION_MS,
      socketTimeoutMS: SOCKET_MS,
      waitQueueTimeoutMS: SOCKET_MS,
      maxPoolSize: MOST_CONNECTIONS,
      promoteBuffers: true,
      // Acknowledged means on disk, of a majority if there are several servers.
      writeConcern: { w: "majority", journal: true },
    });
    const database = this.#client.db(databaseName);
    this.#rows = database.collection("documents");
    this.#oldImages = database.collection("images");
    this.#run = databaseCalls("mongo", metrics, failureKind);
  }

  /** Hashes of the documents that exist. */
  async hashes(ids: readonly string[], call: CallContext): Promise<Hashes> {
    return hashesOf(await this.#find({ _id: { $in: [...ids] } }, { projection: HASH_ONLY }, call));
  }

  /** Hashes of all, a page at a time. */
  async *pages(pageSize: number, call: CallContext): AsyncGenerator<Hashes, void, void> {
    await this.#run("createIndexes", call.signal, () => this.#rows.createIndex(HASH_INDEX, commented(call)));
    const { signal } = call;
    const options = {
      ...commented(call),
      signal,
      projection: HASH_ONLY,
      hint: HASH_INDEX,
      batchSize: pageSize,
    };
    for await (const rows of this.#batches(this.#rows.find({}, options), pageSize, call))
      yield hashesOf(rows);
  }

  /** Rows as they come from MongoDB. An early end of the iteration closes the cursor. */
  async *#batches(
    cursor: FindCursor<WithId<Row>>,
    size: number,
    { signal }: CallContext,
  ): AsyncGenerator<readonly Row[], void, void> {
    try {
      for (;;) {
        await this.#run("find", signal, () => cursor.hasNext());
        const rows = cursor.readBufferedDocuments(size);
        if (rows.length === 0) return;
        yield rows;
      }
    } finally {
      await cursor.close().catch(() => undefined);
    }
  }

  /** Documents that exist, in any order. @param withBytes - Whether with their pictures' bytes. */
  async read(ids: readonly string[], call: CallContext, withBytes = false): Promise<StoredDocument[]> {
    const projection = withBytes ? {} : WITHOUT_BYTES;
    const rows = await this.#find({ _id: { $in: [...ids] } }, { projection }, call);
    return rows.map(toDocument);
  }

  /**
   * A page of documents by id, beginning after `after`, without the bytes of their pictures. It ends early behind the
   * document with which it reaches PAGE_BYTES.
   *
   * @returns Also `after` of the next page; null at the end.
   */
  async list(after: string | undefined, limit: number, call: CallContext) {
    const filter = after === undefined ? {} : { _id: { $gt: after } };
    const cursor = this.#rows.find(filter, {
      ...commented(call),
      signal: call.signal,
      maxTimeMS: READ_MS,
      projection: WITHOUT_BYTES,
      sort: { _id: 1 },
      limit: limit + 1,
      batchSize: LISTED_AT_ONCE,
    });
    const documents: StoredDocument[] = [];
    let bytes = 0;
    for await (const rows of this.#batches(cursor, LISTED_AT_ONCE, call)) {
      for (const row of rows) {
        if (documents.length === limit || bytes >= PAGE_BYTES)
          return { documents, next: documents.at(-1)?.id ?? null };
        documents.push(toDocument(row));
        bytes += BSON.calculateObjectSize(row);
      }
    }
    return { documents, next: null };
  }

  /** Creates or replaces documents. @returns Ids of the created documents. */
  async upsert(documents: readonly DocumentContent[], call: CallContext): Promise<ReadonlySet<string>> {
    const updatedAt = new Date();
    const writes = documents.map(({ id, text, metadata, image, contentHash: hash }) => ({
      updateOne: {
        filter: { _id: id },
        update: {
          $set: { text, metadata, image, contentHash: hash, updatedAt },
          $setOnInsert: { createdAt: updatedAt },
        },
        upsert: true,
      },
    }));
    const { upsertedIds } = await this.#run("bulkWrite", call.signal, () =>
      this.#rows.bulkWrite(writes, { ...commented(call), ordered: false }),
    );
    return new Set<string>(Object.values(upsertedIds));
  }

  /** Removes a document, if it exists. */
  async remove(id: string, call: CallContext): Promise<void> {
    await this.#run("delete", call.signal, () => this.#rows.deleteOne({ _id: id }, commented(call)));
  }

  /** Moves pictures of the layout before into the documents that show them. */
  async adoptOldImages(call: CallContext): Promise<void> {
    await this.#run("adoptImages", call.signal, async () => {
      if ((await this.#oldImages.findOne({}, { ...commented(call), projection: HASH_ONLY })) === null) return;
      const before = new Date(Date.now() - OLD_IMAGE_MS);
      const lacking = { image: { $ne: null }, "image.bytes": { $exists: false } };
      for await (const { _id, image } of this.#rows.find(lacking, commented(call))) {
        const old = image && (await this.#oldImages.findOne({ _id: image.sha256 }, commented(call)));
        if (old === null) continue;
        const same = { ...lacking, _id, "image.sha256": old._id };
        await this.#rows.updateOne(same, { $set: { "image.bytes": old.bytes } }, commented(call));
      }
      await this.#oldImages.deleteMany({ usedAt: { $lt: before } }, commented(call));
    });
  }

  /** @throws Error when MongoDB does not answer. */
  async ping(signal: AbortSignal): Promise<void> {
    await this.#client.db("admin").command({ ping: 1 }, { signal });
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  /** A read ends with its caller; a write does not: whether it has been done would then be unknown. */
  #find(filter: Filter<Row>, options: FindOptions, call: CallContext): Promise<WithId<Row>[]> {
    const { signal } = call;
    const reading = { ...options, ...commented(call), signal, maxTimeMS: READ_MS };
    return this.#run("find", signal, () => this.#rows.find(filter, reading).toArray());
  }
}

/** The request id is shown in the server's log and profiler. */
function commented({ requestId }: CallContext) {
  return { comment: requestId };
}

function hashesOf(rows: readonly Row[]): Hashes {
  return new Map(rows.map(({ _id, contentHash: hash }) => [_id, hash]));
}

function toDocument({ _id, ...fields }: Row): StoredDocument {
  return { id: _id, ...fields };
}

function failureKind(thrown: unknown): "unavailable" | "failed" {
  // The driver wraps whatever ended a bulk write.
  const error: unknown = thrown instanceof MongoBulkWriteError ? thrown.errorResponse : thrown;
  const isUnavailable =
    error instanceof MongoNetworkError ||
    error instanceof MongoServerSelectionError ||
    error instanceof MongoTopologyClosedError ||
    // The driver does not export its class.
    (error as Error).name === "MongoWaitQueueTimeoutError" ||
    PASSING_CODES.includes((error as { readonly code?: unknown }).code);
  return isUnavailable ? "unavailable" : "failed";
}
