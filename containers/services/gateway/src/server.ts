/** The gateway as a Fastify server, put together step by step. */
import { readFileSync } from "node:fs";
import helmet from "@fastify/helmet";
import swagger from "@fastify/swagger";
import Fastify, { LogController } from "fastify";
import { jsonSchemaTransform, type ZodTypeProvider } from "fastify-type-provider-zod";
import { Catalogue } from "./catalogue.ts";
import type { GatewayConfig } from "./config.ts";
import type { Gateway, GatewayApp } from "./context.ts";
import { installErrorHandlers, refuseUnreadable, refuseUnroutable } from "./errors.ts";
import { createImageContext } from "./images/source.ts";
import { ConcurrencyLimiter, limitConnections, RequestMemory } from "./limits.ts";
import { gatewayMetrics } from "./metrics.ts";
import { guardRequests, observeRequests, requestId } from "./request-lifecycle.ts";
import { createRetrieval } from "./retrieval/retrieval.ts";
import { healthRoutes } from "./routes/health.ts";
import { generationRoutes, modelRoutes } from "./routes/openai.ts";
import { pageRoutes } from "./routes/page.ts";
import { retrievalRoutes } from "./routes/retrieval.ts";

/** Maximum time of a client to send its request; then 408. */
export const RECEIVE_SECONDS = 60;

/** A gateway that does not listen yet. */
export interface GatewayServer {
  readonly app: GatewayApp;
  readonly gateway: Gateway;
}

/** Builds the server; `app.listen` starts it. */
export async function createServer(config: GatewayConfig): Promise<GatewayServer> {
  const app = createApp(config);
  const gateway = createGateway(config, app);
  limitConnections(app, config.limits.connections, gateway.metrics.droppedConnections);
  app.addHook("onListen", async () => gateway.retrieval?.indexer.start());
  app.addHook("onClose", async () => {
    await gateway.retrieval?.close();
    await gateway.catalogue.close();
  });
  installErrorHandlers(app);
  observeRequests(app, gateway);
  await app.register(helmet, {
    contentSecurityPolicy: {
      useDefaults: false,
      directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] },
    },
    // The gateway speaks plain HTTP; HSTS is up to the TLS proxy in front of it.
    strictTransportSecurity: false,
  });
  await describeApi(app);
  healthRoutes(app, gateway);
  pageRoutes(app);
  await app.register((v1: GatewayApp) => openAiApi(v1, gateway), { prefix: "/v1" });
  await app.ready();
  return { app, gateway };
}

/** Bodies of the largest size for which there is room, however large that is. */
const LARGEST_BODIES = 4;

function createGateway(config: GatewayConfig, { log }: GatewayApp): Gateway {
  const limiter = new ConcurrencyLimiter(config.limits.concurrentRequests, config.limits.queuedRequests);
  const { bodyBytes, memoryBytes } = config.limits;
  const memory = new RequestMemory(Math.max(memoryBytes, LARGEST_BODIES * bodyBytes));
  const metrics = gatewayMetrics({
    limiter,
    memory,
    pending: () => gateway.catalogue.pendingRequests,
    inFlight: () => gateway.inFlight,
  });
  const catalogue = new Catalogue(config, (upstream, kind) => metrics.upstreamErrors.inc({ upstream, kind }));
  const images = createImageContext({ hosts: config.imageHosts });
  const retrieval = createRetrieval(config, catalogue.documentEncoder, images, metrics.registry, log);
  const parts = { config, catalogue, metrics, limiter, memory, images, retrieval };
  const gateway: Gateway = { ...parts, isDraining: false, inFlight: 0 };
  return gateway;
}

/** More than what infra/plan/aws/edge.ts adds to the longest answer. */
const KEEP_ALIVE_MARGIN_SECONDS = 20;

function createApp({ limits, log }: GatewayConfig): GatewayApp {
  const app = Fastify({
    bodyLimit: limits.bodyBytes,
    // Ids of documents are longer than the 100 characters of the router's default, and each may be written as %XX.
    routerOptions: { maxParamLength: 1024 },
    // Longer than a load balancer before it keeps an idle connection, which allows itself the longest answer and a little
    // more: it would send a request into a connection that is being closed, and answer 502 by itself.
    keepAliveTimeout: (limits.requestSeconds + KEEP_ALIVE_MARGIN_SECONDS) * 1000,
    requestTimeout: Math.min(RECEIVE_SECONDS, limits.requestSeconds) * 1000,
    // drain() closes the server when no answer is on its way: what is left are idle connections.
    forceCloseConnections: true,
    genReqId: requestId,
    clientErrorHandler: refuseUnreadable,
    frameworkErrors: refuseUnroutable,
    // request-lifecycle.ts writes one line a request, without headers.
    logController: new LogController({ requestIdLogLabel: "requestId", disableRequestLogging: true }),
    logger: { level: log.level, base: { service: "gateway" } },
  }).withTypeProvider<ZodTypeProvider>();
  // Answers are built by typed code; parsing each vector again before it leaves would cost more than making it.
  app.setSerializerCompiler(() => (answer) => JSON.stringify(answer));
  return app;
}

async function openAiApi(v1: GatewayApp, gateway: Gateway): Promise<void> {
  v1.addHook("onRoute", (route) => {
    if (gateway.config.apiKeys.length > 0 && route.schema)
      route.schema = { ...route.schema, security: [{ apiKey: [] }] };
  });
  await guardRequests(v1, gateway);
  modelRoutes(v1, gateway);
  generationRoutes(v1, gateway);
  retrievalRoutes(v1, gateway);
}

/** GET /openapi.json: the API's description, which /docs shows. Must come before the first route that is described. */
async function describeApi(app: GatewayApp): Promise<void> {
  const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
  await app.register(swagger, {
    openapi: {
      openapi: "3.1.0",
      info: {
        title: "engine-room gateway",
        version,
        description:
          "The OpenAI API and retrieval in front of NVIDIA Triton Inference Servers. Errors have the format of OpenAI's API.",
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
  app.get("/openapi.json", { schema: { hide: true } }, () => app.swagger());
}
