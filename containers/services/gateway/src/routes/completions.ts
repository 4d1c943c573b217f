/** POST /v1/completions. */
import type { Gateway, GatewayApp } from "../context.ts";
import { answerHead, COMPLETION_CHUNKS, completion } from "../openai/answers.ts";
import { completionGenerations } from "../openai/generation.ts";
import { completionRequest, completionResponse, errorResponse } from "../openai/schemas.ts";
import { callContext } from "../request-life.ts";
import { countTokens, sendStream } from "./generation.ts";

export function completionsRoute(app: GatewayApp, gateway: Gateway): void {
  app.post(
    "/completions",
    {
      schema: {
        tags: ["openai"],
        summary: "Continue a text, or several at once",
        description:
          "With `stream: true` the answer is a text/event-stream of text_completion objects, ended by [DONE].",
        body: completionRequest,
        response: { 200: completionResponse, "4xx": errorResponse, "5xx": errorResponse },
      },
    },
    async (request, reply) => {
      const { body } = request;
      const { config, model } = gateway.catalogue.textModel(body.model);
      request.servedModel = config.name;
      const generations = completionGenerations(body, config);
      const head = answerHead("cmpl", config.name);
      const call = callContext(request);
      if (body.stream) {
        const streams = await Promise.all(generations.map((generation) => model.stream(generation, call)));
        return sendStream(gateway, request, reply, streams, {
          head,
          format: COMPLETION_CHUNKS,
          includeUsage: body.stream_options?.include_usage ?? false,
        });
      }
      const answer = completion(
        head,
        await Promise.all(generations.map((generation) => model.complete(generation, call))),
      );
      countTokens(gateway, config.name, answer.usage);
      return answer;
    },
  );
}
