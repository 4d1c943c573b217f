/** GET /openapi.json and GET /docs: the API's description, and a page that shows it without any file from elsewhere. */
import swagger from "@fastify/swagger";
import swaggerUi from "@fastify/swagger-ui";
import { jsonSchemaTransform } from "fastify-type-provider-zod";
import type { GatewayApp } from "../context.ts";

/** The project's name in place of the framework's logo. */
const LOGO =
  '<svg xmlns="http://www.w3.org/2000/svg" width="200" height="40"><text x="0" y="28" fill="#fff" font-family="sans-serif" font-size="24" font-weight="bold">engine-room</text></svg>';

/** Collects the schemas of routes; must come before the first of them. */
export async function collectOpenApi(app: GatewayApp, version: string): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: "3.1.0",
      info: {
        title: "engine-room gateway",
        version,
        description:
          "The OpenAI API and retrieval in front of NVIDIA Triton Inference Servers. Errors under /v1 have OpenAI's shape, others are problem details (RFC 9457).",
        license: { name: "Apache-2.0", identifier: "Apache-2.0" },
      },
      servers: [{ url: "/" }],
      tags: [
        { name: "openai", description: "The OpenAI API" },
        { name: "retrieval", description: "Documents, matches and answers" },
        { name: "health", description: "For orchestrators and Prometheus" },
      ],
      components: { securitySchemes: { apiKey: { type: "http", scheme: "bearer" } } },
    },
    transform: jsonSchemaTransform,
  });
}

export async function docsRoutes(app: GatewayApp): Promise<void> {
  app.get("/openapi.json", { schema: { hide: true } }, () => app.swagger());
  await app.register(swaggerUi, {
    routePrefix: "/docs",
    logo: { type: "image/svg+xml", content: Buffer.from(LOGO), href: "/docs", target: "_self" },
    theme: { title: "engine-room gateway" },
    uiConfig: { url: "/openapi.json", validatorUrl: null },
    // Swagger UI sets inline styles; scripts come from this server alone.
    staticCSP: {
      "default-src": "'none'",
      "script-src": "'self'",
      "style-src": ["'self'", "'unsafe-inline'"],
      "img-src": ["'self'", "data:"],
      "font-src": "'self'",
      "connect-src": "'self'",
      "base-uri": "'none'",
      "form-action": "'self'",
      "frame-ancestors": "'none'",
    },
  });
}
