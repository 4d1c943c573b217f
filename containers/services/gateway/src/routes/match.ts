/** POST /v1/match. */
import type { Gateway, GatewayApp } from "../context.ts";
import { errorResponse } from "../openai/schemas.ts";
import { callContext } from "../request-life.ts";
import { describeImage } from "../retrieval/answer.ts";
import { describingModel } from "../retrieval/language-models.ts";
import { readRequestImage, requireImageEncoder } from "../retrieval/request-images.ts";
import type { Retrieval } from "../retrieval/retrieval.ts";
import { matchRequest, matchResponse } from "../retrieval/schemas.ts";
import { UPLOAD_TYPES, uploadOptions } from "./upload-budget.ts";

export function matchRoute(app: GatewayApp, gateway: Gateway, retrieval: Retrieval): void {
  const { topK: defaultTopK, maxTopK } = gateway.config.retrieval;
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
        body: matchRequest(maxTopK),
        response: { 200: matchResponse, "4xx": errorResponse, "5xx": errorResponse },
      },
    },
    async (request) => {
      const { text, image: source, topK = defaultTopK, filter, via } = request.body;
      const call = callContext(request);
      if (via === "describe") {
        // Before the image is decoded: without such a model there is nothing to do.
        request.servedModel = describingModel(gateway.catalogue).config.name;
      } else if (source !== undefined) requireImageEncoder(retrieval.encoder);
      const image = (await readRequestImage(source, "image", retrieval.images, call))?.bytes;
      if (via === "describe" && image !== undefined) {
        const description = await describeImage(gateway.catalogue, image, call);
        return {
          ...(await retrieval.matcher.match({ text: description, topK, filter }, call)),
          via,
          description,
        };
      }
      return { ...(await retrieval.matcher.match({ text, image, topK, filter }, call)), via };
    },
  );
}
