/** GET /v1/models and /v1/models/{id}. */
import { z } from "zod";
import type { Gateway, GatewayApp } from "../context.ts";
import { modelNotFound } from "../errors.ts";
import { errorResponse, modelListResponse, modelResponse } from "../openai/schemas.ts";

export function modelRoutes(app: GatewayApp, { catalogue }: Gateway): void {
  // The API wants a time of creation; a model is there for clients since the gateway serves it.
  const created = Math.floor(Date.now() / 1000);
  const describe = (id: string) => ({ id, object: "model" as const, created, owned_by: "engine-room" });
  const tags = ["openai"];

  app.get(
    "/models",
    { schema: { tags, summary: "List models", response: { 200: modelListResponse } } },
    () => ({
      object: "list" as const,
      data: catalogue.ids.map(describe),
    }),
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
}
