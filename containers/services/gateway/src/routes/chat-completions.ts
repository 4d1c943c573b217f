/** POST /v1/chat/completions. */
import type { Gateway, GatewayApp } from "../context.ts";
import { invalidRequest } from "../errors.ts";
import { answerHead, CHAT_CHUNKS, chatCompletion } from "../openai/answers.ts";
import { chatGeneration, readChat } from "../openai/generation.ts";
import { chatCompletionRequest, chatCompletionResponse, errorResponse } from "../openai/schemas.ts";
import { callContext } from "../request-life.ts";
import { countTokens, sendStream } from "./generation.ts";

export function chatCompletionsRoute(app: GatewayApp, gateway: Gateway): void {
  app.post(
    "/chat/completions",
    {
      schema: {
        tags: ["openai"],
        summary: "Answer a chat",
        description:
          "With `stream: true` the answer is a text/event-stream of chat.completion.chunk objects, ended by [DONE].",
        body: chatCompletionRequest,
        response: { 200: chatCompletionResponse, "4xx": errorResponse, "5xx": errorResponse },
      },
    },
    async (request, reply) => {
      const { body } = request;
      const { config, model, chatTemplate } = gateway.catalogue.textModel(body.model);
      request.servedModel = config.name;
      if (chatTemplate === undefined) {
        throw invalidRequest(
          `${config.name} has no chat template; use it with /v1/completions.`,
          "model",
          "unsupported_model",
        );
      }
      const { turns, images } = readChat(body.messages, config);
      const generation = chatGeneration(body, chatTemplate.render(turns), images, config);
      const head = answerHead("chatcmpl", config.name);
      const call = callContext(request);
      if (body.stream) {
        return sendStream(gateway, request, reply, [await model.stream(generation, call)], {
          head,
          format: CHAT_CHUNKS,
          includeUsage: body.stream_options?.include_usage ?? false,
        });
      }
      const answer = chatCompletion(head, await model.complete(generation, call));
      countTokens(gateway, config.name, answer.usage);
      return answer;
    },
  );
}
