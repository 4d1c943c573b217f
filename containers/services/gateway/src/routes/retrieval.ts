/** POST /v1/match, /v1/answer and /v1/reindex, and their errors on a gateway without databases. */
import type { FastifyRequest } from "fastify";
import type { ServedTextModel } from "../catalogue.ts";
import type { Gateway, GatewayApp } from "../context.ts";
import { ApiError, streamFailure, toOpenAiBody } from "../errors.ts";
import { type Usage, usageOf } from "../openai/answers.ts";
import { failures } from "../openai/schemas.ts";
import { callContext } from "../request-lifecycle.ts";
import {
  answerModel,
  describeImage,
  describingModel,
  type GroundedQuestion,
  groundQuestion,
} from "../retrieval/answer.ts";
import { readRequestImage } from "../retrieval/documents.ts";
import { findMatches } from "../retrieval/match.ts";
import type { Retrieval } from "../retrieval/retrieval.ts";
import {
  answerRequest,
  answerResponse,
  matchRequest,
  matchResponse,
  reindexResponse,
} from "../retrieval/schemas.ts";
import { documentRoutes } from "./documents.ts";
import { countTokens, sendEvents } from "./openai.ts";
import { parseMultipart, UPLOAD_TYPES, uploadOptions } from "./uploads.ts";

/** Mounts the routes below /v1. */
export function retrievalRoutes(v1: GatewayApp, gateway: Gateway): void {
  const { retrieval } = gateway;
  if (retrieval === undefined) {
    withoutDatabases(v1);
    return;
  }
  v1.register(async (app: GatewayApp) => {
    parseMultipart(app);
    documentRoutes(app, gateway, retrieval);
    matchRoute(app, gateway, retrieval);
    answerRoute(app, gateway, retrieval);
    reindexRoute(app, retrieval);
  });
}

function matchRoute(app: GatewayApp, gateway: Gateway, retrieval: Retrieval): void {
  app.post(
    "/match",
    {
      ...uploadOptions(gateway),
      schema: {
        tags: ["retrieval"],
        summary: "Find documents by text, by image, or by both",
        description:
          "A text is compared with the documents' texts, an image with their images; with both the two lists are joined by reciprocal rank fusion.",
        consumes: UPLOAD_TYPES,
        body: matchRequest,
        response: { 200: matchResponse, ...failures },
      },
    },
    async (request) => {
      const { text, image: source, via, ...wanted } = request.body;
      const call = callContext(request);
      if (via === "describe") {
        // Before the image is decoded: without such a model there is nothing to do.
        request.servedModel = describingModel(gateway.catalogue).config.name;
      }
      const image = (await readRequestImage(source, "image", retrieval.images, call))?.bytes;
      const description =
        via === "describe" && image !== undefined
          ? await describeImage(gateway.catalogue, image, call)
          : undefined;
      const query = description === undefined ? { text, image } : { text: description };
      const found = await findMatches(retrieval, { ...query, ...wanted }, call);
      return { ...found, via, ...(description !== undefined && { description }) };
    },
  );
}

/** Usage of an answer without a model. */
const NO_USAGE: Usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };

function answerRoute(app: GatewayApp, gateway: Gateway, retrieval: Retrieval): void {
  app.post(
    "/answer",
    {
      ...uploadOptions(gateway),
      schema: {
        tags: ["retrieval"],
        summary: "Answer a question from the best matches",
        description:
          "Greedy decoding: the same question has the same answer. With `stream: true` a text/event-stream: `sources`, then any number of `delta` { text }, then `done` { usage, finishReason }, or `error`.",
        consumes: UPLOAD_TYPES,
        body: answerRequest,
        response: { 200: answerResponse, ...failures },
      },
    },
    async (request, reply) => {
      const { question, image: source, topK, filter, model, stream, maxTokens } = request.body;
      const call = callContext(request);
      // Before anything is looked for, so that a wrong one costs nothing.
      const served = answerModel(gateway.catalogue, model, source !== undefined);
      request.servedModel = served.config.name;
      const image = (await readRequestImage(source, "image", retrieval.images, call))?.bytes;
      const asked = { text: question, image, topK, filter, maxTokens };
      const grounded = await groundQuestion(retrieval, served, asked, call);
      if (stream)
        return sendEvents(gateway, request, reply, answerEvents(gateway, request, served, grounded));
      const { head, generation } = grounded;
      if (generation === undefined)
        return { ...head, answer: "", finishReason: "stop" as const, usage: NO_USAGE };
      const answer = await served.model.complete(generation, call);
      const usage = usageOf([answer]);
      countTokens(gateway, served.config.name, usage);
      return { ...head, answer: answer.text.trim(), finishReason: answer.finishReason, usage };
    },
  );
}

/** The sources go out at once: a reader has something to look at while the model begins. */
async function* answerEvents(
  gateway: Gateway,
  request: FastifyRequest,
  { model, config }: ServedTextModel,
  { head, generation }: GroundedQuestion,
): AsyncGenerator<string, void, void> {
  yield event("sources", head);
  if (generation === undefined) {
    yield event("done", { usage: NO_USAGE, finishReason: "stop" });
    return;
  }
  try {
    const pieces = await model.stream(generation, callContext(request));
    let next = await pieces.next();
    for (; !next.done; next = await pieces.next()) yield event("delta", { text: next.value });
    const usage = usageOf([next.value]);
    countTokens(gateway, config.name, usage);
    yield event("done", { usage, finishReason: next.value.finishReason });
  } catch (error) {
    yield event("error", toOpenAiBody(streamFailure(error, request.log)));
  }
}

function event(name: string, data: object): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}

function reindexRoute(app: GatewayApp, { indexer }: Retrieval): void {
  app.post(
    "/reindex",
    {
      schema: {
        tags: ["retrieval"],
        summary: "Rebuild missing and outdated vectors",
        description:
          "Compares all documents with all vectors by hash, and rebuilds those that differ. The gateway does so by itself at its start and after a write that failed in part; call it when the vector database has lost data. It continues after the time limit of the request.",
        response: { 200: reindexResponse, ...failures },
      },
    },
    async (request) => {
      const { signal } = callContext(request);
      const timeOver = new Promise<never>((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason), { once: true });
      });
      return Promise.race([indexer.reindex(), timeOver]);
    },
  );
}

function withoutDatabases(app: GatewayApp): void {
  for (const url of ["/documents", "/documents/*", "/match", "/answer", "/reindex"]) {
    app.all(url, {
      schema: { hide: true },
      // Before the body, whatever its type.
      onRequest: async () => {
        throw new ApiError(
          "No databases are configured, so there are no documents; add `databases` to the configuration of the gateway.",
          { status: 404, code: "no_databases" },
        );
      },
      handler: () => undefined,
    });
  }
}
