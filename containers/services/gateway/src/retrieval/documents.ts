/**
 * Writes and removes documents: first in MongoDB, whose content counts, then in the vector database, whose vectors are made
 * from that content. A request is answered when both are done.
 */
import { randomUUID } from "node:crypto";
import type { FastifyBaseLogger } from "fastify";
import type { z } from "zod";
import { ApiError, invalidRequest, unavailable, validationError } from "../errors.ts";
import { imageErrorAt } from "../images/limits.ts";
import { type ImageSource, readImage } from "../images/source.ts";
import { type CallContext, Deadline } from "../limits.ts";
import { checked } from "../schema-problems.ts";
import { contentHash, type DocumentContent, type StoredImage } from "./document-store.ts";
import type { Retrieval } from "./retrieval.ts";
import { batchRequest, documentId, documentRequest, type writeResponse } from "./schemas.ts";

type Stores = Pick<Retrieval, "documents" | "vectors" | "indexer">;

type Result = z.infer<typeof writeResponse>["documents"][number];

/** Result of a document of a request; `error` comes with the status `failed`. */
interface Outcome {
  readonly id: string | null;
  readonly status: Result["status"];
  readonly error?: ApiError;
}

/** Images of one request that are read at a time: all requests share the gateway's places for decoding. */
const IMAGES_AT_A_TIME = 2;

/**
 * Writes the documents of a request.
 * @returns A result for each document, in their order.
 * @throws ApiError of a single document that fails; of several when all of them fail and the reason is not theirs, so
 * that clients try again.
 */
export async function writeDocuments(
  retrieval: Retrieval,
  body: unknown,
  call: CallContext,
  log: FastifyBaseLogger,
): Promise<Result[]> {
  const isBatch = typeof body === "object" && body !== null && "documents" in body;
  const batch = isBatch ? checked(batchRequest, body) : { data: { documents: [body] } };
  if (batch.data === undefined) throw validationError(batch.error.issues);
  const prepared: (DocumentContent | Outcome)[] = [];
  const seen = new Set<string>();
  const queue = batch.data.documents.entries();
  const worker = async () => {
    for (const [index, request] of queue) {
      const at = isBatch ? `documents[${index}]` : undefined;
      prepared[index] = await prepare(retrieval, request, at, seen, call);
    }
  };
  await Promise.all(Array.from({ length: IMAGES_AT_A_TIME }, worker));
  const contents = prepared.filter((one): one is DocumentContent => "contentHash" in one);
  const written = await storeDocuments(retrieval, contents, call);
  const outcomes = prepared.flatMap((one) => ("contentHash" in one ? (written.get(one.id) ?? []) : one));
  for (const { status } of outcomes) retrieval.metrics.documents.inc({ status });
  const errors = outcomes.flatMap(({ error }) => error ?? []);
  const passing = errors.find(({ details }) => !isBatch || details.status >= 500);
  if (passing !== undefined && errors.length === outcomes.length) throw passing;
  // Failures that are not the document's own fault, logged once for each kind: all documents may share it.
  const faults = new Map(
    errors.filter(({ details }) => details.status >= 500).map((error) => [error.message, error]),
  );
  for (const [message, error] of faults) log.error({ err: error.cause ?? error }, message);
  return outcomes.map(({ id, status, error }) => ({
    id,
    status,
    ...(error && {
      error: { message: error.message, param: error.details.param ?? null, code: error.details.code ?? null },
    }),
  }));
}

/**
 * Reads one document of a request. A second document with the same id is refused: which was meant is unknown.
 * @param at - Its place in the request; undefined when it is the whole request.
 * @param seen - Ids of the documents before it.
 */
async function prepare(
  { images }: Retrieval,
  document: unknown,
  at: string | undefined,
  seen: Set<string>,
  call: CallContext,
): Promise<DocumentContent | Outcome> {
  const parsed = checked(documentRequest, document);
  if (!parsed.success) {
    const { id } = (document ?? {}) as { readonly id?: unknown };
    return failed(documentId.safeParse(id).data ?? null, validationError(parsed.error.issues, at));
  }
  const { id = randomUUID(), text = null, metadata = {}, image } = parsed.data;
  const prefix = at === undefined ? "" : `${at}.`;
  try {
    if (seen.has(id)) {
      const message = `${prefix}id: ${id} is a duplicate in this request; send it once.`;
      throw invalidRequest(message, `${prefix}id`, "duplicate_id");
    }
    seen.add(id);
    const stored = (await readRequestImage(image, `${prefix}image`, images, call)) ?? null;
    return { id, text, metadata, image: stored, contentHash: contentHash({ text, metadata, image: stored }) };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return failed(id, error);
  }
}

/**
 * The image as it is kept and embedded, decoded within limits; undefined without an image.
 * @param param - Its place in the request, for the error.
 * @throws ApiError for a refused image, and the reason of the call's signal.
 */
export async function readRequestImage(
  source: ImageSource | undefined,
  param: string,
  context: Retrieval["images"],
  { signal, hold }: CallContext,
): Promise<StoredImage | undefined> {
  if (source === undefined) return undefined;
  try {
    const { jpeg, sha256, width, height } = await readImage(source, context, signal);
    hold?.(jpeg.length);
    return { sha256, bytes: jpeg, contentType: "image/jpeg", width, height };
  } catch (error) {
    throw imageErrorAt(error, param);
  }
}

function failed(id: string | null, error: ApiError): Outcome {
  return { id, status: "failed", error };
}

/** Limit of a change, which continues when its request ends. */
const CHANGE_SECONDS = 60;

/**
 * Writes documents with different ids: all at once, so a request must not hold more than a database takes.
 * @param contents - With the bytes of their pictures.
 * @returns An outcome for each, by id. A failure of a single document is its `failed`.
 */
async function storeDocuments(
  stores: Stores,
  contents: readonly DocumentContent[],
  call: CallContext,
): Promise<ReadonlyMap<string, Outcome>> {
  const { documents, vectors, indexer } = stores;
  const outcomes = new Map<string, Outcome>();
  const stored = await documents.hashes(
    contents.map(({ id }) => id),
    call,
  );
  const same = contents.filter(({ id, contentHash }) => stored.get(id) === contentHash);
  const indexed = await vectors.hashes(
    same.map(({ id }) => id),
    call,
  );
  for (const { id, contentHash } of same)
    if (indexed.get(id) === contentHash) outcomes.set(id, { id, status: "unchanged" });
  const changed = contents.filter(({ id }) => !outcomes.has(id));
  try {
    const { entries, refused } = await indexer.embed(changed, call);
    for (const [id, error] of refused) outcomes.set(id, failed(id, error));
    const hashes = new Map(entries.map(({ document: { id, contentHash } }) => [id, contentHash]));
    if (hashes.size === 0) return outcomes;
    await toTheEnd(stores, call, async (own) => {
      const created = await documents.upsert(
        entries.map(({ document }) => document),
        own,
      );
      await vectors.upsert(entries, own);
      const { contended } = await indexer.settle([...hashes.keys()], hashes, own);
      for (const id of hashes.keys())
        outcomes.set(id, { id, status: created.has(id) ? "created" : "updated" });
      for (const id of contended) outcomes.set(id, failed(id, contendedError(id)));
    });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    for (const { id } of changed) if (!outcomes.has(id)) outcomes.set(id, failed(id, error));
  }
  return outcomes;
}

/** Removes a document and its vectors; the vectors also when the document does not exist, which is not an error. */
export async function removeDocument(stores: Stores, id: string, call: CallContext): Promise<void> {
  await toTheEnd(stores, call, async (own) => {
    await stores.documents.remove(id, own);
    await stores.vectors.remove([id], own);
    const { contended } = await stores.indexer.settle([id], new Map(), own);
    if (contended.length > 0) throw contendedError(id);
  });
}

/** Runs a change of both databases. One that fails may have been done in part, or as a whole: reindexing finds out. */
async function toTheEnd(
  { indexer }: Stores,
  { requestId }: CallContext,
  change: (call: CallContext) => Promise<void>,
): Promise<void> {
  const deadline = new Deadline(CHANGE_SECONDS);
  try {
    await change({ requestId, signal: deadline.signal });
  } catch (error) {
    indexer.retry();
    throw error;
  } finally {
    deadline.clear();
  }
}

function contendedError(id: string): ApiError {
  return unavailable(
    `The document ${id} is being changed by other requests; try again in a second.`,
    "contended",
    1,
  );
}
