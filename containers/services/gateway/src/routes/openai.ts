/** The OpenAI API: GET /v1/models and /v1/models/{id}, POST /v1/embeddings, /v1/chat/completions and /v1/completions. */
import { Readable } from "node:stream";
import type { FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import type { ServedTextModel } from "../catalogue.ts";
import type { Gateway, GatewayApp } from "../context.ts";
import { invalidRequest, modelNotFound, streamFailure } from "../errors.ts";
import type { CallContext } from "../limits.ts";
import {
  type AnswerFormat,
  answerHead,
  CHAT_FORMAT,
  COMPLETION_FORMAT,
  eventStream,
  type Usage,
  wholeAnswer,
} from "../openai/answers.ts";
import { chatGeneration, completionGenerations, readChat, readChatImages } from "../openai/generation.ts";
import {
  type ChatCompletionRequest,
  type CompletionRequest,
  chatCompletionRequest,
  chatCompletionResponse,
  completionRequest,
  completionResponse,
  embeddingRequest,
  embeddingResponse,
  errorResponse,
  failures,
  modelListResponse,
  modelResponse,
} from "../openai/schemas.ts";
import { answerBegun, answerWaits, callContext } from "../request-lifecycle.ts";
import type { GenerateRequest } from "../triton/generate.ts";
import { fp32Values } from "../triton/tensors.ts";

const tags = ["openai"];

export function modelRoutes(app: GatewayApp, { catalogue, metrics }: Gateway): void {
  // The API requires a time of creation; for clients a model exists since the gateway's start.
  const created = Math.floor(Date.now() / 1000);
  const describe = (id: string) => ({ id, object: "model" as const, created, owned_by: "engine-room" });

  app.get(
    "/models",
    { schema: { tags, summary: "List models", response: { 200: modelListResponse } } },
    () => ({ object: "list" as const, data: catalogue.ids.map(describe) }),
  );

  app.get(
    "/models/:id",
    {
      schema: {
        tags,
        summary: "Describe a model",
        params: z.object({ id: z.string() }),
        response: { 200: modelResponse, 404: errorResponse },
      },
    },
    async ({ params: { id } }) => {
      if (!catalogue.ids.includes(id)) throw modelNotFound(id, catalogue.ids);
      return describe(id);
    },
  );

  app.post(
    "/embeddings",
    {
      schema: {
        tags,
        summary: "Turn texts into vectors",
        body: embeddingRequest,
        response: { 200: embeddingResponse, ...failures },
      },
    },
    async (request) => {
      const { model, input, dimensions, encoding_format: encoding } = request.body;
      const encoder = catalogue.encoder(model);
      request.servedModel = model;
      if (dimensions != null && dimensions !== encoder.textDimension) {
        throw invalidRequest(
          `dimensions is ${dimensions}, and vectors of ${model} have ${encoder.textDimension}; leave it out.`,
          "dimensions",
          "unsupported_dimensions",
        );
      }
      const { vectors, promptTokens } = await encoder.embedTexts([input].flat(), callContext(request));
      metrics.tokens.inc({ model, kind: "prompt" }, promptTokens);
      return {
        object: "list" as const,
        data: vectors.map(({ text = Buffer.alloc(0) }, index) => ({
          object: "embedding" as const,
          index,
          embedding: encoding === "base64" ? text.toString("base64") : fp32Values(text),
        })),
        model,
        usage: { prompt_tokens: promptTokens, total_tokens: promptTokens },
      };
    },
  );
}

export function generationRoutes(app: GatewayApp, gateway: Gateway): void {
  app.post(
    "/chat/completions",
    routeSchema("Answer a chat", CHAT_FORMAT, chatCompletionRequest, chatCompletionResponse),
    async (request, reply) => {
      const { body } = request;
      const served = gateway.catalogue.textModel(body.model);
      const { config, chatTemplate, model } = served;
      request.servedModel = config.name;
      if (chatTemplate === undefined) {
        throw invalidRequest(
          `${config.name} has no chat template; use it with /v1/completions.`,
          "model",
          "unsupported_model",
        );
      }
      const { turns, images, video } = readChat(body.messages, config);
      const prompt = chatTemplate.render(turns);
      model.checkImages(
        prompt,
        images.map(({ url }) => url),
        video,
      );
      const files = await readChatImages(images, gateway.images, callContext(request));
      const generations = [chatGeneration(body, prompt, files, config, video)];
      return answer(gateway, request, reply, { format: CHAT_FORMAT, served, generations, body });
    },
  );

  app.post(
    "/completions",
    routeSchema(
      "Continue a text, or several at once",
      COMPLETION_FORMAT,
      completionRequest,
      completionResponse,
    ),
    async (request, reply) => {
      const { body } = request;
      const served = gateway.catalogue.textModel(body.model);
      request.servedModel = served.config.name;
      const generations = completionGenerations(body, served.config);
      return answer(gateway, request, reply, { format: COMPLETION_FORMAT, served, generations, body });
    },
  );
}

function routeSchema<Body, Answer>(summary: string, format: AnswerFormat, body: Body, answer: Answer) {
  const description = `With \`stream: true\` the answer is a text/event-stream of ${format.chunkType} objects, ended by [DONE].`;
  const response = { 200: answer, ...failures };
  return { schema: { tags: ["openai"], summary, description, body, response } };
}

interface Asked<Type extends string, Choice extends object> {
  readonly format: AnswerFormat<Type, Choice>;
  readonly served: ServedTextModel;
  /** One a prompt; they all run at once. */
  readonly generations: readonly GenerateRequest[];
  readonly body: ChatCompletionRequest | CompletionRequest;
}

async function answer<Type extends string, Choice extends object>(
  gateway: Gateway,
  request: FastifyRequest,
  reply: FastifyReply,
  { format, served: { config, model }, generations, body }: Asked<Type, Choice>,
) {
  const head = answerHead(format, config.name);
  const left = new AbortController();
  const asked = callContext(request);
  const call: CallContext = { ...asked, signal: AbortSignal.any([asked.signal, left.signal]) };
  try {
    if (body.stream) {
      const streams = await Promise.all(generations.map((generation) => model.stream(generation, call)));
      const events = eventStream(streams, {
        head,
        format,
        includeUsage: body.stream_options?.include_usage ?? false,
        onUsage: (usage) => countTokens(gateway, config.name, usage),
        toApiError: (error) => streamFailure(error, request.log),
      });
      // A failure before the first text becomes an ordinary error answer, which clients retry.
      const first = await events.next();
      gateway.metrics.firstTokenSeconds.observe({ model: config.name }, reply.elapsedTime / 1000);
      return sendEvents(gateway, request, reply, resume(first, events, left));
    }
    const answers = await Promise.all(generations.map((generation) => model.complete(generation, call)));
    const whole = wholeAnswer(format, head, answers);
    countTokens(gateway, config.name, whole.usage);
    return whole;
  } catch (error) {
    // The answers to the other prompts of the request are no longer needed.
    left.abort(error);
    throw error;
  }
}

/** Sends a text/event-stream as it is made: a reader that is behind keeps neither a place nor Triton waiting. */
export function sendEvents(
  gateway: Gateway,
  request: FastifyRequest,
  reply: FastifyReply,
  events: AsyncGenerator<string>,
): FastifyReply {
  const body = new Readable({ read: () => undefined });
  const unreadBytes = () => body.readableLength + reply.raw.writableLength;
  const make = async () => {
    for await (const event of events) {
      if (body.destroyed) return;
      // Before the event is added: a reader that has read all others is not behind.
      answerWaits(request, reply, gateway, unreadBytes());
      body.push(event);
    }
    body.push(null);
    answerBegun(request, reply, gateway, unreadBytes());
  };
  make().catch((error: Error) => body.destroy(error));
  return reply
    .type("text/event-stream; charset=utf-8")
    .header("cache-control", "no-cache, no-transform")
    .header("x-accel-buffering", "no")
    .send(body);
}

/** Counts a request's tokens for Prometheus. */
export function countTokens({ metrics }: Gateway, model: string, usage: Usage): void {
  metrics.tokens.inc({ model, kind: "prompt" }, usage.prompt_tokens);
  metrics.tokens.inc({ model, kind: "completion" }, usage.completion_tokens ?? 0);
}

/** @param left - Ends the requests to Triton when the reader leaves. */
async function* resume(
  first: IteratorResult<string, void>,
  rest: AsyncGenerator<string, void, void>,
  left: AbortController,
): AsyncGenerator<string, void, void> {
  try {
    if (!first.done) yield first.value;
    yield* rest;
  } finally {
    left.abort();
  }
}
