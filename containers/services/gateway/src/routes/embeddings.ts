/** POST /v1/embeddings. */
import type { Gateway, GatewayApp } from "../context.ts";
import { invalidRequest } from "../errors.ts";
import { promptUsage } from "../openai/answers.ts";
import { embeddingRequest, embeddingResponse, errorResponse } from "../openai/schemas.ts";
import { callContext } from "../request-life.ts";
import { fp32Values } from "../triton/tensors.ts";

export function embeddingsRoute(app: GatewayApp, { catalogue, metrics }: Gateway): void {
  app.post(
    "/embeddings",
    {
      schema: {
        tags: ["openai"],
        summary: "Turn texts into vectors",
        body: embeddingRequest,
        response: { 200: embeddingResponse, "4xx": errorResponse, "5xx": errorResponse },
      },
    },
    async (request) => {
      const { model, input, dimensions, encoding_format: encoding } = request.body;
      const { config, encoder } = catalogue.encoder(model);
      request.servedModel = config.modelName;
      if (dimensions != null && dimensions !== config.dimension) {
        throw invalidRequest(
          `dimensions is ${dimensions}, and vectors of ${config.modelName} have ${config.dimension}; leave it out.`,
          "dimensions",
          "unsupported_dimensions",
        );
      }
      const texts = typeof input === "string" ? [input] : input;
      const { vectors, promptTokens } = await encoder.embed(texts, callContext(request));
      metrics.tokens.inc({ model: config.modelName, kind: "prompt" }, promptTokens.count);
      return {
        object: "list" as const,
        data: vectors.map((vector, index) => ({
          object: "embedding" as const,
          index,
          embedding: encoding === "base64" ? vector.toString("base64") : fp32Values(vector),
        })),
        model: config.modelName,
        usage: promptUsage(promptTokens),
      };
    },
  );
}
