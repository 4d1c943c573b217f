/** From the body of POST /v1/documents to documents with decoded images, and from what came of them to the answer. */
import { randomUUID } from "node:crypto";
import type { FastifyBaseLogger } from "fastify";
import type { z } from "zod";
import type { CallContext } from "../call-context.ts";
import { validationError } from "../error-handler.ts";
import { ApiError, invalidRequest } from "../errors.ts";
import type { DocumentInput } from "./documents.ts";
import { readRequestImage } from "./request-images.ts";
import type { Retrieval } from "./retrieval.ts";
import {
  type DocumentRequest,
  documentId,
  documentRequest,
  type WriteRequest,
  type writeResponse,
} from "./schemas.ts";

type Result = z.infer<typeof writeResponse>["documents"][number];

/** A document on its way: what it is to be, or why it can't be. */
type Prepared = DocumentInput | { readonly id: string | null; readonly error: ApiError };

/** Images of one request that are read at a time: they share the gateway's places for decoding with everybody. */
const IMAGES_AT_A_TIME = 2;

/**
 * Writes what a request holds.
 * @returns A result for each document, in their order.
 * @throws ApiError of a single document that fails; of several when all of them fail and the reason is not theirs, so
 * that clients try again.
 */
export async function writeDocuments(
  retrieval: Retrieval,
  body: WriteRequest,
  call: CallContext,
  log: FastifyBaseLogger,
): Promise<Result[]> {
  const isBatch = "documents" in body;
  const requests = isBatch ? readBatch(body.documents) : [body];
  const prepared = await prepareAll(retrieval, requests, isBatch, call);
  const inputs = prepared.filter((one): one is DocumentInput => !("error" in one));
  const written = new Map(
    (await retrieval.documents.write(inputs, call)).map((outcome) => [outcome.id, outcome]),
  );
  const outcomes = prepared.map((one) =>
    "error" in one
      ? { id: one.id, status: "failed" as const, error: one.error }
      : (written.get(one.id) ?? { id: one.id, status: "failed" as const }),
  );
  for (const { status } of outcomes) retrieval.metrics.countDocument(status);
  const errors = outcomes.flatMap(({ error }) => error ?? []);
  const passing = errors.find(({ details }) => !isBatch || details.status >= 500);
  if (passing !== undefined && errors.length === outcomes.length) throw passing;
  // What is not the document's own fault; one line for each kind, of which all documents of a request may have the same.
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

type Read = DocumentRequest | { readonly id: string | null; readonly error: ApiError };

/** Each document on its own; of two with the same id the second is refused, because which one was meant is unknown. */
function readBatch(documents: readonly unknown[]): Read[] {
  const seen = new Set<string>();
  return documents.map((document, index) => {
    const at = `documents[${index}]`;
    const parsed = documentRequest.safeParse(document);
    if (!parsed.success) {
      const { id } = (document ?? {}) as { readonly id?: unknown };
      return { id: documentId.safeParse(id).data ?? null, error: validationError(parsed.error.issues, at) };
    }
    const { id } = parsed.data;
    if (id === undefined || !seen.has(id)) {
      if (id !== undefined) seen.add(id);
      return parsed.data;
    }
    return {
      id,
      error: invalidRequest(
        `${at}.id: ${id} is twice in this request; send it once.`,
        `${at}.id`,
        "duplicate_id",
      ),
    };
  });
}

async function prepareAll(
  retrieval: Retrieval,
  requests: readonly Read[],
  isBatch: boolean,
  call: CallContext,
): Promise<Prepared[]> {
  const prepared: Prepared[] = [];
  const queue = requests.entries();
  const worker = async () => {
    for (const [index, request] of queue) {
      prepared[index] =
        "error" in request
          ? request
          : await prepare(retrieval, request, isBatch ? `documents[${index}].` : "", call);
    }
  };
  await Promise.all(Array.from({ length: IMAGES_AT_A_TIME }, worker));
  return prepared;
}

async function prepare(
  { encoder, images }: Retrieval,
  request: DocumentRequest,
  prefix: string,
  call: CallContext,
): Promise<Prepared> {
  const { id = randomUUID(), text = null, metadata = {}, image } = request;
  try {
    if (text === null && encoder.imageDimension === undefined) {
      throw invalidRequest(
        `${prefix}text: it is required here, because this stack has no image encoder by which a picture alone could be found.`,
        `${prefix}text`,
        "no_image_encoder",
      );
    }
    return {
      id,
      text,
      metadata,
      image: (await readRequestImage(image, `${prefix}image`, images, call)) ?? null,
    };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { id, error };
  }
}
