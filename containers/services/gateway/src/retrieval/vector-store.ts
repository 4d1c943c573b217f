/** Vectors in Qdrant over its REST API: https://api.qdrant.tech/api-reference */
import { z } from "zod";
import type { CallContext } from "../call-context.ts";
import type { Vectors } from "../triton/document-encoder.ts";
import { fp32Values } from "../triton/tensors.ts";
import { pointId } from "./content.ts";
import { databaseMisfit } from "./database-errors.ts";
import type { VectorFilter } from "./filter.ts";
import { MissingCollection, type QdrantClient, type QdrantRequest } from "./qdrant-client.ts";

/** Names of the vectors of a point. */
export type VectorName = "text" | "image";

/** What is stored beside a document's vectors. */
interface VectorPayload {
  readonly documentId: string;
  readonly contentHash: string;
  readonly metadata: Readonly<Record<string, unknown>>;
}

/** One search for the nearest points. */
export interface Search {
  readonly using: VectorName;
  readonly vector: Buffer;
}

/** A document that a search found. */
export interface Hit {
  readonly documentId: string;
  readonly contentHash: string;
  readonly score: number;
}

/** Which content a point stands for. */
type PointVersion = Pick<Hit, "documentId" | "contentHash">;

const identity = z.object({ documentId: z.string(), contentHash: z.string() });
const done = z.object({ status: z.string() });
const points = z.object({ points: z.array(z.object({ score: z.number(), payload: identity })) });
const records = z.array(z.object({ payload: identity }));
const scrolled = z.object({
  points: z.array(z.object({ payload: z.unknown() })),
  next_page_offset: z.union([z.string(), z.number()]).nullish(),
});
const description = z.object({
  config: z.object({
    params: z.object({ vectors: z.record(z.string(), z.unknown()) }),
  }),
});
const vectorParams = z.object({ size: z.int(), distance: z.string() });

const IDENTITY_FIELDS = ["documentId", "contentHash"];
/** Of each list that is fused: enough that a document which is good in both is found, wherever it is in either. */
const LEAST_PREFETCH = 50;

interface VectorStoreSettings {
  readonly collection: string;
  /** Length of each vector; image absent: none. */
  readonly dimensions: { readonly text: number; readonly image?: number | undefined };
}

export class VectorStore {
  readonly #client: QdrantClient;
  readonly #collection: string;
  readonly #sizes: Readonly<Record<string, number>>;
  #isPrepared = false;

  constructor(client: QdrantClient, { collection, dimensions: { text, image } }: VectorStoreSettings) {
    this.#client = client;
    this.#collection = collection;
    this.#sizes = image === undefined ? { text } : { text, image };
  }

  /** Adds points, or puts them in the place of those of the same documents. */
  async upsert(
    entries: readonly { readonly payload: VectorPayload; readonly vectors: Vectors }[],
    call: CallContext,
  ): Promise<void> {
    if (entries.length === 0) return;
    const body = {
      points: entries.map(({ payload, vectors }) => ({
        id: pointId(payload.documentId),
        vector: Object.fromEntries(
          Object.entries(vectors).map(([name, vector]) => [name, fp32Values(vector as Buffer)]),
        ),
        payload,
      })),
    };
    await this.#call("upsert", { method: "PUT", path: "/points?wait=true", body }, done, call);
  }

  /** Removes the points of documents; those that are not there are no error. */
  async remove(documentIds: readonly string[], call: CallContext): Promise<void> {
    if (documentIds.length === 0) return;
    const body = { points: documentIds.map(pointId) };
    await this.#call("delete", { method: "POST", path: "/points/delete?wait=true", body }, done, call);
  }

  /** Hash of the content that each document has here; without those that are not here. */
  async contentHashes(
    documentIds: readonly string[],
    call: CallContext,
  ): Promise<ReadonlyMap<string, string>> {
    const body = { ids: documentIds.map(pointId), with_payload: IDENTITY_FIELDS, with_vector: false };
    const found = await this.#call("retrieve", { method: "POST", path: "/points", body }, records, call);
    return new Map(found.map(({ payload }) => [payload.documentId, payload.contentHash]));
  }

  /** All points, a page at a time; those that no gateway wrote are passed over. */
  async *pages(pageSize: number, call: CallContext): AsyncGenerator<PointVersion[], void, void> {
    let offset: string | number | null | undefined;
    do {
      const body = {
        limit: pageSize,
        offset: offset ?? null,
        with_payload: IDENTITY_FIELDS,
        with_vector: false,
      };
      const page = await this.#call(
        "scroll",
        { method: "POST", path: "/points/scroll", body },
        scrolled,
        call,
      );
      yield page.points.flatMap(({ payload }) => identity.safeParse(payload).data ?? []);
      offset = page.next_page_offset;
    } while (offset !== null && offset !== undefined);
  }

  /**
   * The nearest documents of each search, and with two searches their fusion by reciprocal rank in front: one request.
   * @param limit - Documents of each list at most.
   */
  async query(
    searches: readonly Search[],
    filter: VectorFilter | undefined,
    limit: number,
    call: CallContext,
  ): Promise<{ readonly fused: readonly Hit[]; readonly lists: ReadonlyMap<VectorName, readonly Hit[]> }> {
    const shared = { with_payload: IDENTITY_FIELDS, with_vector: false };
    const depth = searches.length > 1 ? Math.max(limit, LEAST_PREFETCH) : limit;
    const parts = searches.map(({ using, vector }) => ({
      query: fp32Values(vector),
      using,
      limit: depth,
      ...(filter && { filter }),
    }));
    const fusion = { prefetch: parts, query: { fusion: "rrf" }, limit };
    const body = {
      searches: [...(parts.length > 1 ? [fusion] : []), ...parts].map((one) => ({ ...one, ...shared })),
    };
    const answers = await this.#call(
      "query",
      { method: "POST", path: "/points/query/batch", body },
      z.array(points).length(body.searches.length),
      call,
    );
    const hits = answers.map((answer) => answer.points.map(({ score, payload }) => ({ ...payload, score })));
    const lists = hits.slice(-searches.length);
    return {
      fused: hits[0] ?? [],
      lists: new Map(searches.map(({ using }, index) => [using, lists[index] ?? []])),
    };
  }

  /** Runs a request on the collection, which is made when it is absent. */
  async #call<T>(
    operation: string,
    request: Omit<QdrantRequest, "operation">,
    result: z.ZodType<T>,
    call: CallContext,
  ): Promise<T> {
    const path = `${this.#path}${request.path}`;
    const send = () => this.#client.send({ ...request, operation, path }, result, call);
    if (!this.#isPrepared) await this.#prepare(call);
    try {
      return await send();
    } catch (error) {
      if (!(error instanceof MissingCollection)) throw error;
      // It was removed while this process was running: repair fills it again.
      await this.#prepare(call);
      return send();
    }
  }

  get #path(): string {
    return `/collections/${this.#collection}`;
  }

  async #prepare(call: CallContext): Promise<void> {
    const existing = await this.#describe(call).catch(async (error: unknown) => {
      if (!(error instanceof MissingCollection)) throw error;
      await this.#client.createCollection(this.#path, this.#sizes, call);
      return this.#describe(call);
    });
    const { vectors } = existing.config.params;
    for (const [name, size] of Object.entries(this.#sizes)) {
      const there = vectorParams.safeParse(vectors[name]).data;
      if (there?.size === size && there.distance === "Cosine") continue;
      throw databaseMisfit(
        "vector",
        `The collection ${this.#collection} has ${there === undefined ? "no" : `${there.distance} ${there.size}-d`} vectors named ${name}, and the encoder makes Cosine ${size}-d ones; name another collection in databases.vector.collection, and the gateway fills it`,
      );
    }
    this.#isPrepared = true;
  }

  #describe(call: CallContext) {
    return this.#client.send({ operation: "describe", method: "GET", path: this.#path }, description, call);
  }
}
