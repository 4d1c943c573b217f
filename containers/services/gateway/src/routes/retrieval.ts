/** What the routes of retrieval have in common, and what stands in their place where there are no databases. */
import type { Gateway, GatewayApp } from "../context.ts";
import { ApiError } from "../errors.ts";
import { answerRoute } from "./answer.ts";
import { documentRoutes } from "./documents.ts";
import { matchRoute } from "./match.ts";
import { parseMultipart } from "./multipart.ts";
import { limitUploads } from "./upload-budget.ts";

/** Bytes of all bodies of these routes that are in memory at one time. */
const UPLOAD_BUDGET_BYTES = 512 * 1024 * 1024;
/** Mounts the routes below /v1. */
export function retrievalRoutes(v1: GatewayApp, gateway: Gateway): void {
  const { retrieval } = gateway;
  if (retrieval === undefined) {
    withoutDatabases(v1);
    return;
  }
  v1.register(async (app: GatewayApp) => {
    parseMultipart(app);
    limitUploads(app, UPLOAD_BUDGET_BYTES);
    documentRoutes(app, gateway, retrieval);
    matchRoute(app, gateway, retrieval);
    answerRoute(app, gateway, retrieval);
  });
}

function withoutDatabases(app: GatewayApp): void {
  for (const url of ["/documents", "/documents/*", "/match", "/answer"]) {
    app.all(url, {
      schema: { hide: true },
      // Before the body, whatever its type.
      onRequest: async () => {
        throw new ApiError(
          "This gateway has no databases, and so no documents; add `databases` to its configuration.",
          { status: 404, type: "not_found_error", code: "no_databases" },
        );
      },
      handler: () => undefined,
    });
  }
}
