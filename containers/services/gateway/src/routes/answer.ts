/** POST /v1/answer. */
import { Readable } from "node:stream";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Gateway, GatewayApp } from "../context.ts";
import { toApiError } from "../error-handler.ts";
import { toOpenAiBody } from "../errors.ts";
import { ClientGone } from "../limits.ts";
import { type Usage, usageOf } from "../openai/answers.ts";
import { errorResponse } from "../openai/schemas.ts";
import { callContext } from "../request-life.ts";
import { chooseModel, type GroundedQuestion, groundQuestion } from "../retrieval/answer.ts";
import { takesImages } from "../retrieval/language-models.ts";
import { readRequestImage, requireImageEncoder } from "../retrieval/request-images.ts";
import type { Retrieval } from "../retrieval/retrieval.ts";
import { answerRequest, answerResponse } from "../retrieval/schemas.ts";
import { countTokens } from "./generation.ts";
import { UPLOAD_TYPES, uploadOptions } from "./upload-budget.ts";

/** Usage of an answer for which no model was asked. */
const NO_USAGE: Usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };

export function answerRoute(app: GatewayApp, gateway: Gateway, retrieval: Retrieval): void {
  const { topK: defaultTopK, maxTopK, contextDocuments } = gateway.config.retrieval;
  app.post(
    "/answer",
    {
      ...uploadOptions(gateway),
      schema: {
        tags: ["retrieval"],
        summary: "Answer a question from the documents that fit best",
        description:
          "Greedy decoding: the same question has the same answer. With `stream: true` a text/event-stream: `sources`, then `delta` { text } as often as needed, then `done` { usage, finishReason }, or `error`.",
        consumes: UPLOAD_TYPES,
        body: answerRequest(maxTopK),
        response: { 200: answerResponse, "4xx": errorResponse, "5xx": errorResponse },
      },
    },
    async (request, reply) => {
      const { question, image: source, topK = defaultTopK, filter, model, stream, maxTokens } = request.body;
      const call = callContext(request);
      const served = chooseModel(gateway.catalogue, gateway.config, model, source !== undefined);
      request.servedModel = served.config.name;
      // A model that sees the image itself needs nobody to look for it.
      if (source !== undefined && !takesImages(served)) requireImageEncoder(retrieval.encoder);
      const image = (await readRequestImage(source, "image", retrieval.images, call))?.bytes;
      const grounded = await groundQuestion(
        retrieval.matcher,
        served,
        contextDocuments,
        { question, image, topK, filter, maxTokens },
        call,
      );
      if (stream) return sendAnswer(gateway, request, reply, grounded);
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
function sendAnswer(
  gateway: Gateway,
  request: FastifyRequest,
  reply: FastifyReply,
  grounded: GroundedQuestion,
): FastifyReply {
  return reply
    .type("text/event-stream; charset=utf-8")
    .header("cache-control", "no-cache, no-transform")
    .header("x-accel-buffering", "no")
    .send(Readable.from(answerEvents(gateway, request, grounded), { objectMode: false }));
}

async function* answerEvents(
  gateway: Gateway,
  request: FastifyRequest,
  { head, served, generation }: GroundedQuestion,
): AsyncGenerator<string, void, void> {
  yield event("sources", head);
  if (generation === undefined) {
    yield event("done", { usage: NO_USAGE, finishReason: "stop" });
    return;
  }
  try {
    const pieces = await served.model.stream(generation, callContext(request));
    let next = await pieces.next();
    try {
      for (; !next.done; next = await pieces.next()) yield event("delta", { text: next.value });
    } finally {
      // The client may leave before the answer is complete.
      if (!next.done) await pieces.return(undefined as never);
    }
    const usage = usageOf([next.value]);
    countTokens(gateway, served.config.name, usage);
    yield event("done", { usage, finishReason: next.value.finishReason });
  } catch (error) {
    if (!(error instanceof ClientGone))
      request.log.error({ err: error }, "the answer broke off in the middle of its stream");
    yield event("error", toOpenAiBody(toApiError(error as Error, gateway.config.limits.bodyBytes)));
  }
}

function event(name: string, data: object): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}
