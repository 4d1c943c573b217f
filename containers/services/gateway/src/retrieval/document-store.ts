/** Documents in MongoDB, with the state of their writes. Every change but the last step of a write gets a later `updatedAt`. */
import type { Collection, Filter } from "mongodb";
import type { CallContext } from "../call-context.ts";
import type { DocumentContent } from "./content.ts";
import type { MongoConnection } from "./mongo.ts";

/**
 * - `pending`: its content is here; the vector database may have it or not.
 * - `ready`: both databases have it. Only these are shown.
 * - `deleting`: it is to go from both; the vector database may still have it.
 */
type DocumentState = "pending" | "ready" | "deleting";

export interface StoredDocument extends DocumentContent {
  readonly id: string;
  readonly contentHash: string;
  readonly state: DocumentState;
  readonly createdAt: Date;
  /** Tells one version of a document from the next: no two have the same. */
  readonly updatedAt: Date;
}

/** What tells whether a document is still the one that was seen. */
export type DocumentVersion = Pick<
  StoredDocument,
  "id" | "contentHash" | "state" | "createdAt" | "updatedAt"
>;

/** A change that only applies to the version that was seen. */
interface Replacement {
  readonly document: StoredDocument;
  /** undefined: there was none. */
  readonly seen: DocumentVersion | undefined;
}

type Row = Omit<StoredDocument, "id"> & { readonly _id: string };

const VERSION_FIELDS = { contentHash: 1, state: 1, createdAt: 1, updatedAt: 1 } as const;
const DUPLICATE_KEY = 11000;

export class DocumentStore {
  readonly #mongo: MongoConnection;
  readonly #rows: Collection<Row>;

  constructor(mongo: MongoConnection) {
    this.#mongo = mongo;
    this.#rows = mongo.database.collection<Row>("documents");
  }

  /** Makes the indexes that {@link unfinished} and {@link ImageStore.unused} need; does nothing where they are. */
  async prepare(call: CallContext): Promise<void> {
    await this.#mongo.write("createIndexes", call, (options) =>
      this.#rows.createIndexes([{ key: { state: 1 } }, { key: { "image.sha256": 1 } }], options),
    );
  }

  /** Versions of those that are there, by id, in any state. */
  async versions(ids: readonly string[], call: CallContext): Promise<ReadonlyMap<string, DocumentVersion>> {
    const rows = await this.#mongo.read("find", call, (options) =>
      this.#rows.find({ _id: { $in: [...ids] } }, { ...options, projection: VERSION_FIELDS }).toArray(),
    );
    return new Map(rows.map(({ _id, ...version }) => [_id, { id: _id, ...version }]));
  }

  /** Those that are there, in no order. */
  async read(
    ids: readonly string[],
    call: CallContext,
    states?: readonly DocumentState[],
  ): Promise<StoredDocument[]> {
    const filter: Filter<Row> = {
      _id: { $in: [...ids] },
      ...(states && { state: { $in: [...states] } }),
    };
    const rows = await this.#mongo.read("find", call, (options) =>
      this.#rows.find(filter, options).toArray(),
    );
    return rows.map(toDocument);
  }

  /** Ready documents by id, from the one after `after`. */
  async list(after: string | undefined, limit: number, call: CallContext): Promise<StoredDocument[]> {
    const filter: Filter<Row> = { state: "ready", ...(after !== undefined && { _id: { $gt: after } }) };
    const rows = await this.#mongo.read("find", call, (options) =>
      this.#rows.find(filter, { ...options, sort: { _id: 1 }, limit }).toArray(),
    );
    return rows.map(toDocument);
  }

  /**
   * Puts documents in the place of the versions that were seen.
   * @returns Ids of those that somebody else changed meanwhile; nothing was done to them.
   */
  async replace(replacements: readonly Replacement[], call: CallContext): Promise<ReadonlySet<string>> {
    const result = await this.#mongo.write("bulkWrite", call, (options) =>
      this.#rows
        .bulkWrite(
          replacements.map(({ document, seen }) =>
            seen === undefined
              ? { insertOne: { document: toRow(document) } }
              : {
                  replaceOne: {
                    filter: { _id: document.id, updatedAt: seen.updatedAt },
                    replacement: toRow(document),
                  },
                },
          ),
          { ...options, ordered: false },
        )
        .catch(onlyDuplicates),
    );
    const done = result.insertedCount + result.matchedCount;
    if (done === replacements.length) return new Set();
    return this.#overtaken(
      replacements.map(({ document }) => document),
      call,
    );
  }

  /**
   * Marks versions as ready.
   * @returns Ids of those that somebody else changed meanwhile; nothing was done to them.
   */
  async markReady(documents: readonly DocumentVersion[], call: CallContext): Promise<ReadonlySet<string>> {
    const { matchedCount } = await this.#mongo.write("bulkWrite", call, (options) =>
      this.#rows.bulkWrite(
        // Documents of one write have the same time: one statement is enough for them.
        [...idsByTime(documents)].map(([milliseconds, ids]) => ({
          updateMany: {
            filter: { _id: { $in: ids }, updatedAt: new Date(milliseconds) },
            update: { $set: { state: "ready" as const } },
          },
        })),
        { ...options, ordered: false },
      ),
    );
    return matchedCount === documents.length ? new Set() : this.#overtaken(documents, call);
  }

  /** Takes ready versions back whose vectors can't be made; one that somebody else changed meanwhile stays as it is. */
  async markPending(documents: readonly DocumentVersion[], call: CallContext): Promise<void> {
    if (documents.length === 0) return;
    await this.#mongo.write("bulkWrite", call, (options) =>
      this.#rows.bulkWrite(
        documents.map(({ id, updatedAt }) => ({
          updateOne: {
            filter: { _id: id, updatedAt },
            update: { $set: { state: "pending" as const, updatedAt: laterThan(updatedAt) } },
          },
        })),
        { ...options, ordered: false },
      ),
    );
  }

  /** Marks the version that was seen as one to go. @returns The new version; undefined when somebody else changed it. */
  async markDeleting(seen: DocumentVersion, call: CallContext): Promise<DocumentVersion | undefined> {
    const updatedAt = laterThan(seen.updatedAt);
    const { matchedCount } = await this.#mongo.write("update", call, (options) =>
      this.#rows.updateOne(
        { _id: seen.id, updatedAt: seen.updatedAt },
        { $set: { state: "deleting", updatedAt } },
        options,
      ),
    );
    return matchedCount === 1 ? { ...seen, state: "deleting", updatedAt } : undefined;
  }

  /** Removes versions. @returns Ids of those that are there in another version. */
  async remove(documents: readonly DocumentVersion[], call: CallContext): Promise<ReadonlySet<string>> {
    const { deletedCount } = await this.#mongo.write("bulkWrite", call, (options) =>
      this.#rows.bulkWrite(
        documents.map(({ id, updatedAt }) => ({ deleteOne: { filter: { _id: id, updatedAt } } })),
        { ...options, ordered: false },
      ),
    );
    if (deletedCount === documents.length) return new Set();
    return new Set((await this.versions(idsOf(documents), call)).keys());
  }

  /** Ids of documents whose write or deletion has not come to its end, from the one after `after`. */
  async unfinished(after: string, limit: number, call: CallContext): Promise<string[]> {
    const rows = await this.#mongo.read("find", call, (options) =>
      this.#rows
        .find(
          { state: { $in: ["pending", "deleting"] }, _id: { $gt: after } },
          { ...options, projection: { _id: 1 }, sort: { _id: 1 }, limit },
        )
        .toArray(),
    );
    return rows.map(({ _id }) => _id);
  }

  /** All ready documents, a page at a time. */
  async *readyVersions(pageSize: number, call: CallContext): AsyncGenerator<DocumentVersion[], void, void> {
    const cursor = this.#rows.find(
      { state: "ready" },
      { comment: call.requestId, signal: call.signal, projection: VERSION_FIELDS, batchSize: pageSize },
    );
    try {
      let page: DocumentVersion[] = [];
      for await (const { _id, ...version } of cursor) {
        page.push({ id: _id, ...version });
        if (page.length < pageSize) continue;
        yield page;
        page = [];
      }
      if (page.length > 0) yield page;
    } catch (error) {
      throw this.#mongo.failure(error, call.signal);
    } finally {
      await cursor.close().catch(() => undefined);
    }
  }

  async #overtaken(documents: readonly DocumentVersion[], call: CallContext): Promise<ReadonlySet<string>> {
    const versions = await this.versions(idsOf(documents), call);
    const changed = documents.filter(
      ({ id, updatedAt }) => versions.get(id)?.updatedAt.getTime() !== updatedAt.getTime(),
    );
    return new Set(idsOf(changed));
  }
}

/** Now, or a millisecond after what was seen where the clock says otherwise. */
export function laterThan(seen: Date | undefined, now = Date.now()): Date {
  return new Date(Math.max(now, (seen?.getTime() ?? 0) + 1));
}

function idsOf(documents: readonly DocumentVersion[]): string[] {
  return documents.map(({ id }) => id);
}

function idsByTime(documents: readonly DocumentVersion[]): ReadonlyMap<number, string[]> {
  const found = new Map<number, string[]>();
  for (const { id, updatedAt } of documents) {
    const ids = found.get(updatedAt.getTime());
    if (ids === undefined) found.set(updatedAt.getTime(), [id]);
    else ids.push(id);
  }
  return found;
}

function toRow({ id, ...fields }: StoredDocument): Row {
  return { _id: id, ...fields };
}

function toDocument({ _id, ...fields }: Row): StoredDocument {
  return { id: _id, ...fields };
}

interface BulkCounts {
  readonly insertedCount: number;
  readonly matchedCount: number;
}

/** A duplicate means that somebody else was first, which the counts tell; any other error is one. */
function onlyDuplicates(error: unknown): BulkCounts {
  const { code, writeErrors, result } = error as {
    readonly code?: unknown;
    readonly writeErrors?: readonly { readonly code: number }[];
    readonly result?: BulkCounts;
  };
  if (code === DUPLICATE_KEY && result && writeErrors?.every((one) => one.code === DUPLICATE_KEY))
    return result;
  throw error;
}
