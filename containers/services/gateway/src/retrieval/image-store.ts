/** Bytes of images in MongoDB, once for each content. */
import { Binary, type Collection } from "mongodb";
import type { CallContext } from "../call-context.ts";
import type { ImageReference } from "./content.ts";
import type { MongoConnection } from "./mongo.ts";

interface Row {
  readonly _id: string;
  readonly bytes: Binary;
  readonly contentType: "image/jpeg";
  readonly width: number;
  readonly height: number;
  /** When a document with it was last begun to be written: what no document shows is kept a while after that. */
  readonly usedAt: Date;
}

/** An image with its bytes. */
export interface StoredImage extends ImageReference {
  readonly bytes: Uint8Array;
}

export class ImageStore {
  readonly #mongo: MongoConnection;
  readonly #rows: Collection<Row>;
  readonly #documents: Collection;

  constructor(mongo: MongoConnection) {
    this.#mongo = mongo;
    this.#rows = mongo.database.collection<Row>("images");
    this.#documents = mongo.database.collection("documents");
  }

  /** Keeps images; must come before the documents that show them. */
  async put(images: readonly StoredImage[], call: CallContext): Promise<void> {
    if (images.length === 0) return;
    const usedAt = new Date();
    await this.#mongo.write("bulkWrite", call, (options) =>
      this.#rows.bulkWrite(
        images.map(({ sha256, bytes, contentType, width, height }) => ({
          updateOne: {
            filter: { _id: sha256 },
            update: {
              $set: { usedAt },
              $setOnInsert: { bytes: new Binary(bytes), contentType, width, height },
            },
            upsert: true,
          },
        })),
        { ...options, ordered: false },
      ),
    );
  }

  /** SHA-256 of those that are there. */
  async present(hashes: readonly string[], call: CallContext): Promise<ReadonlySet<string>> {
    if (hashes.length === 0) return new Set();
    const rows = await this.#mongo.read("find", call, (options) =>
      this.#rows.find({ _id: { $in: [...hashes] } }, { ...options, projection: { _id: 1 } }).toArray(),
    );
    return new Set(rows.map(({ _id }) => _id));
  }

  /** Bytes of those that are there, by SHA-256. */
  async read(hashes: readonly string[], call: CallContext): Promise<ReadonlyMap<string, Uint8Array>> {
    if (hashes.length === 0) return new Map();
    const rows = await this.#mongo.read("find", call, (options) =>
      this.#rows.find({ _id: { $in: [...hashes] } }, { ...options, projection: { bytes: 1 } }).toArray(),
    );
    return new Map(rows.map(({ _id, bytes }) => [_id, bytes.value()]));
  }

  /**
   * Removes images that no document shows. An image that is being written again has a later `usedAt`, and stays.
   * @param before - Only those that were last used before.
   * @returns How many.
   */
  async removeUnused(before: Date, call: CallContext): Promise<number> {
    let removed = 0;
    for (let after = ""; ; ) {
      const page = await this.#page(after, before, call);
      const last = page.at(-1);
      if (last === undefined) return removed;
      after = last;
      const shown = await this.#mongo.read("find", call, (options) =>
        this.#documents
          .find({ "image.sha256": { $in: page } }, { ...options, projection: { "image.sha256": 1 } })
          .toArray(),
      );
      const kept = new Set(shown.map(({ image }) => (image as ImageReference).sha256));
      const unused = page.filter((sha256) => !kept.has(sha256));
      if (unused.length === 0) continue;
      const { deletedCount } = await this.#mongo.write("delete", call, (options) =>
        this.#rows.deleteMany({ _id: { $in: unused }, usedAt: { $lt: before } }, options),
      );
      removed += deletedCount;
    }
  }

  async #page(after: string, before: Date, call: CallContext): Promise<string[]> {
    const rows = await this.#mongo.read("find", call, (options) =>
      this.#rows
        .find(
          { _id: { $gt: after }, usedAt: { $lt: before } },
          { ...options, projection: { _id: 1 }, sort: { _id: 1 }, limit: PAGE_IMAGES },
        )
        .toArray(),
    );
    return rows.map(({ _id }) => _id);
  }
}

const PAGE_IMAGES = 500;
