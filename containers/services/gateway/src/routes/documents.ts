/** POST, GET and DELETE /v1/documents. */
import type { FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import type { Gateway, GatewayApp } from "../context.ts";
import { ApiError } from "../errors.ts";
import type { CallContext } from "../limits.ts";
import { failures } from "../openai/schemas.ts";
import { callContext } from "../request-lifecycle.ts";
import type { StoredDocument } from "../retrieval/document-store.ts";
import { removeDocument, writeDocuments } from "../retrieval/documents.ts";
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
import { UPLOAD_TYPES, uploadOptions } from "./uploads.ts";

const tags = ["retrieval"];
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
        summary: "Write documents",
        description:
          "Takes one document, or several as `documents`. Answered when both databases have stored them. The same id with the same content is `unchanged`, so that a retry is safe. Each of several documents has its own status; a single document that fails is an error.",
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
      const page = await retrieval.documents.list(after, limit, callContext(request));
      return { documents: page.documents.map(describeDocument), next: page.next };
    },
  );

  app.get(
    "/documents/:id",
    {
      schema: { tags, summary: "Read a document", params, response: { 200: documentResponse, ...failures } },
    },
    async (request) =>
      describeDocument(await readDocument(retrieval, request.params.id, callContext(request))),
  );

  app.delete(
    "/documents/:id",
    {
      schema: {
        tags,
        summary: "Remove a document",
        description: "204 also if the document does not exist.",
        params,
        response: { 204: z.null(), ...failures },
      },
    },
    async (request, reply) => {
      await removeDocument(retrieval, request.params.id, callContext(request));
      retrieval.metrics.documents.inc({ status: "removed" });
      return reply.code(204).send(null);
    },
  );

  app.get(
    "/documents/:id/image",
    {
      schema: {
        tags,
        summary: "Read a document's image",
        description:
          "image/jpeg, with the SHA-256 of its content as ETag; with `sha256` in the address it may be cached forever.",
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
      const { id } = request.params;
      const document = await readDocument(retrieval, id, callContext(request), true);
      return sendImage(document, request.query.sha256, request, reply);
    },
  );
}

/** @param asked - SHA-256 of the image that is wanted; undefined: whichever the document has. */
function sendImage(
  { id, image }: StoredDocument,
  asked: string | undefined,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  if (image === null || (asked ?? image.sha256) !== image.sha256) {
    throw notFound(`The document ${id} has no ${asked === undefined ? "" : "such "}image.`);
  }
  reply
    .header("etag", `"${image.sha256}"`)
    .header("cache-control", asked === undefined ? "private, no-cache" : IMMUTABLE);
  if (request.headers["if-none-match"]?.includes(`"${image.sha256}"`)) return reply.code(304).send();
  if (image.bytes === undefined)
    throw notFound(`The image of the document ${id} is missing; delete the document and write it again.`);
  return reply.type(image.contentType).send(image.bytes);
}

async function readDocument(
  { documents }: Retrieval,
  id: string,
  call: CallContext,
  withBytes = false,
): Promise<StoredDocument> {
  const [document] = await documents.read([id], call, withBytes);
  if (document !== undefined) return document;
  throw notFound(`Document not found: ${id}.`);
}

function describeDocument(document: StoredDocument) {
  const { id, text, metadata, image, createdAt, updatedAt } = document;
  return {
    id,
    text,
    metadata,
    image: image && { url: imagePath(document) ?? "", width: image.width, height: image.height },
    createdAt: createdAt.toISOString(),
    updatedAt: updatedAt.toISOString(),
  };
}

function notFound(message: string): ApiError {
  return new ApiError(message, {
    status: 404,
    param: "id",
    code: "document_not_found",
  });
}
