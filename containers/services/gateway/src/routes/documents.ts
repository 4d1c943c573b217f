/** POST, GET and DELETE /v1/documents. */
import type { FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import type { CallContext } from "../call-context.ts";
import type { Gateway, GatewayApp } from "../context.ts";
import { ApiError } from "../errors.ts";
import { errorResponse } from "../openai/schemas.ts";
import { callContext } from "../request-life.ts";
import type { StoredDocument } from "../retrieval/document-store.ts";
import { imagePath } from "../retrieval/match.ts";
import type { Retrieval } from "../retrieval/retrieval.ts";
import {
  documentId,
  documentResponse,
  listQuery,
  listResponse,
  writeRequest,
  writeResponse,
} from "../retrieval/schemas.ts";
import { writeDocuments } from "../retrieval/write-request.ts";
import { UPLOAD_TYPES, uploadOptions } from "./upload-budget.ts";

const tags = ["retrieval"];
const failures = { "4xx": errorResponse, "5xx": errorResponse };
const params = z.object({ id: documentId });
/** A path with the content's hash never leads to other bytes. */
const IMMUTABLE = "private, max-age=31536000, immutable";

export function documentRoutes(app: GatewayApp, gateway: Gateway, retrieval: Retrieval): void {
  app.post(
    "/documents",
    {
      ...uploadOptions(gateway),
      schema: {
        tags,
        summary: "Write a document, or several at once",
        description:
          "Answered when both databases have it. The same id with the same content is `unchanged`, so that a retry is safe. Of several documents each has a status of its own; a single one that fails is an error.",
        consumes: UPLOAD_TYPES,
        body: writeRequest,
        response: { 200: writeResponse, ...failures },
      },
    },
    async (request) => ({
      documents: await writeDocuments(retrieval, request.body, callContext(request), request.log),
    }),
  );

  app.get(
    "/documents",
    {
      schema: {
        tags,
        summary: "List documents by id",
        querystring: listQuery,
        response: { 200: listResponse, ...failures },
      },
    },
    async (request) => {
      const { limit, after } = request.query;
      const found = await retrieval.stores.documents.list(after, limit + 1, callContext(request));
      const page = found.slice(0, limit);
      return {
        documents: page.map(describeDocument),
        next: found.length > limit ? (page.at(-1)?.id ?? null) : null,
      };
    },
  );

  app.get(
    "/documents/:id",
    {
      schema: { tags, summary: "Read a document", params, response: { 200: documentResponse, ...failures } },
    },
    async (request) =>
      describeDocument(await readyDocument(retrieval, request.params.id, callContext(request))),
  );

  app.delete(
    "/documents/:id",
    {
      schema: {
        tags,
        summary: "Remove a document",
        description: "204 also where there is none.",
        params,
        response: { 204: z.null(), ...failures },
      },
    },
    async (request, reply) => {
      await retrieval.documents.remove(request.params.id, callContext(request));
      retrieval.metrics.countDocument("removed");
      return reply.code(204).send(null);
    },
  );

  imageRoute(app, retrieval);
}

function imageRoute(app: GatewayApp, retrieval: Retrieval): void {
  app.get(
    "/documents/:id/image",
    {
      schema: {
        tags,
        summary: "Read a document's image",
        description:
          "image/jpeg, with the SHA-256 of its content as ETag; with `sha256` in the address it may be kept for ever.",
        params,
        querystring: z.strictObject({
          sha256: z
            .string()
            .regex(/^[0-9a-f]{64}$/, "must be 64 hexadecimal digits")
            .optional(),
        }),
        response: failures,
      },
    },
    async (request, reply) => {
      const { sha256 } = request.query;
      return sendImage(retrieval, request.params.id, sha256, request, reply);
    },
  );
}

async function sendImage(
  retrieval: Retrieval,
  id: string,
  sha256: string | undefined,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const call = callContext(request);
  const { image } = await readyDocument(retrieval, id, call);
  if (image === null || (sha256 !== undefined && sha256 !== image.sha256)) {
    throw notFound(`The document ${id} has no ${sha256 === undefined ? "" : "such "}image.`);
  }
  reply
    .header("etag", `"${image.sha256}"`)
    .header("cache-control", sha256 === undefined ? "private, no-cache" : IMMUTABLE);
  if (request.headers["if-none-match"]?.includes(`"${image.sha256}"`)) return reply.code(304).send();
  const bytes = (await retrieval.stores.images.read([image.sha256], call)).get(image.sha256);
  if (bytes === undefined) throw notFound(`The document ${id} has lost its image; write it again.`);
  return reply.type(image.contentType).send(Buffer.from(bytes));
}

async function readyDocument({ stores }: Retrieval, id: string, call: CallContext): Promise<StoredDocument> {
  const [document] = await stores.documents.read([id], call, ["ready"]);
  if (document !== undefined) return document;
  throw notFound(`There is no document ${id}.`);
}

function describeDocument(document: StoredDocument) {
  const { id, text, metadata, image, createdAt, updatedAt } = document;
  return {
    id,
    text,
    metadata: { ...metadata },
    image: image && { url: imagePath(document) ?? "", width: image.width, height: image.height },
    createdAt: createdAt.toISOString(),
    updatedAt: updatedAt.toISOString(),
  };
}

function notFound(message: string): ApiError {
  return new ApiError(message, {
    status: 404,
    type: "not_found_error",
    param: "id",
    code: "document_not_found",
  });
}
