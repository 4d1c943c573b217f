/** What the two endpoints that generate text have in common. */
import { Readable } from "node:stream";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Gateway } from "../context.ts";
import { toApiError } from "../error-handler.ts";
import { ClientGone } from "../limits.ts";
import type { Usage } from "../openai/answers.ts";
import {
  type AnswerStream,
  type EventStreamOptions,
  eventStream,
  mergeStreams,
  type StreamEvent,
} from "../openai/stream.ts";

/**
 * Answers with an event stream. Waits for the first text before the status is sent, so that whatever fails until then is
 * an ordinary error answer, which clients retry.
 */
export async function sendStream(
  gateway: Gateway,
  request: FastifyRequest,
  reply: FastifyReply,
  streams: readonly AnswerStream[],
  options: Pick<EventStreamOptions, "head" | "format" | "includeUsage">,
): Promise<FastifyReply> {
  const model = request.servedModel;
  const events = mergeStreams(streams);
  const first = await events.next();
  gateway.metrics.firstTokenSeconds.observe({ model }, reply.elapsedTime / 1000);
  const text = eventStream(resume(first, events), {
    ...options,
    onUsage: (usage) => countTokens(gateway, model, usage),
    toApiError: (error) => {
      if (!(error instanceof ClientGone))
        request.log.error({ err: error }, "the answer broke off in the middle of its stream");
      return toApiError(error as Error, gateway.config.limits.bodyBytes);
    },
  });
  return reply
    .type("text/event-stream; charset=utf-8")
    .header("cache-control", "no-cache, no-transform")
    .header("x-accel-buffering", "no")
    .send(Readable.from(text, { objectMode: false }));
}

/** Counts a request's tokens for Prometheus. */
export function countTokens({ metrics }: Gateway, model: string, usage: Usage): void {
  metrics.tokens.inc({ model, kind: "prompt" }, usage.prompt_tokens);
  metrics.tokens.inc({ model, kind: "completion" }, usage.completion_tokens ?? 0);
}

async function* resume(
  first: IteratorResult<StreamEvent, void>,
  rest: AsyncGenerator<StreamEvent, void, void>,
): AsyncGenerator<StreamEvent, void, void> {
  try {
    if (!first.done) yield first.value;
    yield* rest;
  } finally {
    await rest.return();
  }
}
