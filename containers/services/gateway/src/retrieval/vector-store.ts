/** Vectors in Qdrant over its REST API: https://api.qdrant.tech/api-reference */
import { createHash } from "node:crypto";
import { Pool } from "undici";
import { z } from "zod";
import type { DatabasesConfig } from "../config.ts";
import { ApiError } from "../errors.ts";
import type { CallContext } from "../limits.ts";
import type { RetrievalMetrics } from "../metrics.ts";
import { isBrokenConnection } from "../triton/client.ts";
import type { DocumentEncoder, Vectors } from "../triton/document-encoder.ts";
import { fp32Values } from "../triton/tensors.ts";
import { databaseCalls } from "./databases.ts";
import type { DocumentContent, Hashes } from "./document-store.ts";
import type { FilterInput, Scalar } from "./schemas.ts";

/** Names of the vectors of a point. */
type VectorName = "text" | "image";

/** One search for the nearest points. */
export interface Search {
  readonly using: VectorName;
  readonly vector: Buffer;
}

/** A document that a search found. */
interface Hit {
  readonly documentId: string;
  readonly contentHash: string;
  readonly score: number;
}

/** Payload of a point, without the metadata. */
const identity = z.object({ documentId: z.string(), contentHash: z.string() });
const records = z.array(z.object({ payload: identity }));
const scrolled = z.object({
  points: z.array(z.object({ payload: z.unknown() })),
  next_page_offset: z.union([z.string(), z.number()]).nullish(),
});
const found = z.array(z.object({ points: z.array(z.object({ score: z.number(), payload: identity })) }));
const done = z.object({ status: z.string() });
const description = z.object({
  config: z.object({ params: z.object({ vectors: z.record(z.string(), z.unknown()) }) }),
});
const vectorParams = z.object({ size: z.int(), distance: z.string() });

/** Method and path below the collection; each can be repeated without harm. */
const REQUESTS = {
  describe: ["GET", ""],
  create: ["PUT", ""],
  upsert: ["PUT", "/points?wait=true"],
  delete: ["POST", "/points/delete?wait=true"],
  retrieve: ["POST", "/points"],
  scroll: ["POST", "/points/scroll"],
  query: ["POST", "/points/query/batch"],
} as const;

const IDENTITY_ONLY = { with_payload: ["documentId", "contentHash"], with_vector: false };
/** Minimum hits of each fused list, so that a document with good ranks in both lists is in both. */
const LEAST_PREFETCH = 50;

/** A server on the same network answers within milliseconds; a longer time means that it is unavailable. */
const CONNECT_MS = 2000;
/** Longer than any request here may take. */
const ANSWER_MS = 30_000;
const MOST_CONNECTIONS = 64;
/** Characters of its errors that are kept for the log. */
const LONGEST_ERROR_CHARACTERS = 500;

class MissingCollection extends Error {}
/** Its answer does not fit the request. */
class WrongAnswer extends Error {}

export class VectorStore {
  readonly #collection: string;
  /** Length of each vector. */
  readonly #sizes: readonly (readonly [VectorName, number])[];
  readonly #onCreated: () => void;
  readonly #pool: Pool;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #run: ReturnType<typeof databaseCalls>;
  #isPrepared = false;
  #refusesPoints = false;

  /**
   * @param encoder - Makes the vectors.
   * @param onCreated - Called when the collection was absent and has been created, empty.
   */
  constructor(
    { url, collection }: DatabasesConfig["vector"],
    apiKey: string | undefined,
    { textDimension, imageDimension }: Pick<DocumentEncoder, "textDimension" | "imageDimension">,
    metrics: RetrievalMetrics,
    onCreated: () => void,
  ) {
    this.#collection = collection;
    this.#sizes = [
      ["text", textDimension],
      ["image", imageDimension],
    ];
    this.#onCreated = onCreated;
    this.#headers = {
      "content-type": "application/json",
      ...(apiKey !== undefined && { "api-key": apiKey }),
    };
    this.#pool = new Pool(url, {
      connections: MOST_CONNECTIONS,
      connect: { timeout: CONNECT_MS },
      headersTimeout: ANSWER_MS,
      bodyTimeout: ANSWER_MS,
    });
    this.#run = databaseCalls("vector", metrics, (error) => {
      if (error instanceof MissingCollection) return undefined;
      return error instanceof WrongAnswer ? "failed" : "unavailable";
    });
  }

  /** Whether it refused the last points, as when its memory or disk is full. */
  get refusesPoints(): boolean {
    return this.#refusesPoints;
  }

  /** Adds points, or replaces those of the same documents. */
  async upsert(
    entries: readonly { readonly document: DocumentContent; readonly vectors: Vectors }[],
    call: CallContext,
  ): Promise<void> {
    if (entries.length === 0) return;
    const points = entries.map(({ document: { id, contentHash, metadata }, vectors }) => ({
      id: pointId(id),
      vector: Object.fromEntries(
        Object.entries(vectors).map(([name, vector]) => [name, fp32Values(vector as Buffer)]),
      ),
      payload: { documentId: id, contentHash, metadata },
    }));
    await this.#send("upsert", { points }, done, call);
  }

  /** Removes the points of documents, if they exist. */
  async remove(documentIds: readonly string[], call: CallContext): Promise<void> {
    if (documentIds.length === 0) return;
    const body = { points: documentIds.map(pointId) };
    await this.#send("delete", body, done, call);
  }

  /** Hashes of the contents that the documents' vectors were made from; documents without vectors are left out. */
  async hashes(documentIds: readonly string[], call: CallContext): Promise<Hashes> {
    if (documentIds.length === 0) return new Map();
    const body = { ids: documentIds.map(pointId), ...IDENTITY_ONLY };
    const points = await this.#send("retrieve", body, records, call);
    return new Map(points.map(({ payload }) => [payload.documentId, payload.contentHash]));
  }

  /** Hashes of all, a page at a time; points that no gateway wrote are passed over. */
  async *pages(pageSize: number, call: CallContext): AsyncGenerator<Hashes, void, void> {
    let offset: string | number | null | undefined = null;
    do {
      const body = { limit: pageSize, offset, ...IDENTITY_ONLY };
      const page: z.infer<typeof scrolled> = await this.#send("scroll", body, scrolled, call);
      const own = page.points.flatMap(({ payload }) => identity.safeParse(payload).data ?? []);
      yield new Map(own.map(({ documentId, contentHash }) => [documentId, contentHash]));
      offset = page.next_page_offset;
    } while (offset !== null && offset !== undefined);
  }

  /**
   * The nearest documents of each search, and with two searches their fusion by reciprocal rank in front: one request.
   * @param limit - Documents of each list at most.
   */
  async query(
    searches: readonly Search[],
    filter: FilterInput | undefined,
    limit: number,
    call: CallContext,
  ): Promise<{ readonly fused: readonly Hit[]; readonly lists: ReadonlyMap<VectorName, readonly Hit[]> }> {
    const isFused = searches.length > 1;
    const wanted = vectorFilter(filter);
    const parts = searches.map(({ using, vector }) => ({
      query: fp32Values(vector),
      using,
      limit: isFused ? Math.max(limit, LEAST_PREFETCH) : limit,
      ...(wanted && { filter: wanted }),
    }));
    const fusion = { prefetch: parts, query: { fusion: "rrf" }, limit };
    const body = {
      searches: [...(isFused ? [fusion] : []), ...parts].map((one) => ({ ...one, ...IDENTITY_ONLY })),
    };
    const answers = await this.#send("query", body, found, call);
    const hits = answers.map(({ points }) => points.map(({ score, payload }) => ({ ...payload, score })));
    const lists = hits.slice(-searches.length);
    return {
      fused: hits[0] ?? [],
      lists: new Map(searches.map(({ using }, index) => [using, lists[index] ?? []])),
    };
  }

  close(): Promise<void> {
    return this.#pool.close();
  }

  /** Runs a request on the collection, which is created when absent. */
  async #send<T>(
    operation: keyof typeof REQUESTS,
    body: object,
    result: z.ZodType<T>,
    call: CallContext,
  ): Promise<T> {
    if (!this.#isPrepared) await this.#prepare(call);
    return this.#request(operation, body, result, call).catch(async (error: unknown) => {
      if (!(error instanceof MissingCollection)) throw error;
      await this.#prepare(call);
      return this.#request(operation, body, result, call);
    });
  }

  /** Makes the collection if it is absent. @throws ApiError 500 if its vectors are not those of the encoder. */
  async #prepare(call: CallContext): Promise<void> {
    const describe = () => this.#request("describe", undefined, description, call);
    const existing = await describe().catch(async (error: unknown) => {
      if (!(error instanceof MissingCollection)) throw error;
      const vectors = Object.fromEntries(
        this.#sizes.map(([name, size]) => [name, { size, distance: "Cosine" }]),
      );
      const failure = await this.#request("create", { vectors }, z.literal(true), call).catch(
        (reason: unknown) => reason,
      );
      this.#onCreated();
      // After a failure, another gateway may have created it.
      return describe().catch((reason: unknown) => {
        throw failure === true ? reason : failure;
      });
    });
    for (const [name, size] of this.#sizes) {
      const present = vectorParams.safeParse(existing.config.params.vectors[name]).data;
      if (present?.size === size && present?.distance === "Cosine") continue;
      throw new ApiError(
        `The collection ${this.#collection} has ${present === undefined ? "no" : `${present.distance} ${present.size}-d`} vectors named ${name}, and those of the encoder are Cosine ${size}-d; set databases.vector.collection to another name, and the gateway fills that collection.`,
        { status: 500, code: "vector_misfit" },
      );
    }
    this.#isPrepared = true;
  }

  /**
   * @param schema - Schema of `result` in the answer.
   * @throws MissingCollection, ApiError 503 or 502, or the reason of the call's signal.
   */
  #request<T>(
    operation: keyof typeof REQUESTS,
    body: object | undefined,
    schema: z.ZodType<T>,
    { requestId, signal }: CallContext,
  ): Promise<T> {
    const [method, path] = REQUESTS[operation];
    const attempt = async () => {
      const response = await this.#pool.request({
        method,
        path: `/collections/${this.#collection}${path}`,
        headers: { ...this.#headers, "x-request-id": requestId },
        body: body === undefined ? null : JSON.stringify(body),
        signal,
      });
      return { status: response.statusCode, text: await response.body.text() };
    };
    return this.#run(operation, signal, async () => {
      const { status, text } = await attempt().catch((error: unknown) => {
        if (isBrokenConnection(error)) return attempt();
        throw error;
      });
      if (operation === "upsert") this.#refusesPoints = status >= 500;
      const words = `Qdrant answered ${status}: ${text.slice(0, LONGEST_ERROR_CHARACTERS)}`;
      if (status === 404) throw new MissingCollection(words);
      if (status === 503) throw new Error(words);
      if (status !== 200) throw new WrongAnswer(words);
      const parsed = schema.safeParse(resultOf(text));
      if (!parsed.success) throw new WrongAnswer(parsed.error.message);
      return parsed.data;
    });
  }
}

function resultOf(text: string): unknown {
  try {
    return (JSON.parse(text) as { readonly result?: unknown }).result;
  } catch {
    return undefined;
  }
}

/** A filter in Qdrant's own form: https://qdrant.tech/documentation/concepts/filtering/ @returns undefined for one that asks for nothing. */
function vectorFilter(filter: FilterInput | undefined): object | undefined {
  const conditions = Object.entries(filter ?? {});
  if (conditions.length === 0) return undefined;
  return { must: conditions.map(([key, wanted]) => translate(key, wanted)) };
}

function translate(key: string, wanted: FilterInput[string]): object {
  if (typeof wanted !== "object") return equal(key, wanted);
  if (!("in" in wanted)) return { key, range: wanted };
  return { should: wanted.in.map((value) => equal(key, value)) };
}

function equal(key: string, value: Scalar): object {
  // `match` does not support fractions.
  return isFraction(value) ? { key, range: { gte: value, lte: value } } : { key, match: { value } };
}

function isFraction(value: Scalar): value is number {
  return typeof value === "number" && !Number.isSafeInteger(value);
}

/** Namespace of the points' ids; another one would orphan every vector that is stored. */
const POINT_NAMESPACE = Buffer.from("6f1d1c4e3b5a4a0f9c1e7d2b8a64f053", "hex");

/** Id of a document's point: UUID version 5 (RFC 9562, 5.5) of the document's id. */
export function pointId(documentId: string): string {
  const bytes = createHash("sha1").update(POINT_NAMESPACE).update(documentId).digest().subarray(0, 16);
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x50;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
