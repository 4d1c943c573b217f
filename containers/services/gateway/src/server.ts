/** The gateway as a Fastify server, put together step by step. */
import { readFileSync } from "node:fs";
import helmet from "@fastify/helmet";
import Fastify, { type FastifyBaseLogger, LogController } from "fastify";
import { validatorCompiler, type ZodTypeProvider } from "fastify-type-provider-zod";
import { Catalogue } from "./catalogue.ts";
import type { GatewayConfig } from "./config.ts";
import { limitConnections } from "./connection-limit.ts";
import type { Gateway, GatewayApp } from "./context.ts";
import { installErrorHandlers } from "./error-handler.ts";
import { ConcurrencyLimiter } from "./limits.ts";
import { GatewayMetrics } from "./metrics.ts";
import { PendingRequests } from "./pending.ts";
import { guardRequests, observeRequests, requestId } from "./request-life.ts";
import { createRetrieval } from "./retrieval/retrieval.ts";
import { chatCompletionsRoute } from "./routes/chat-completions.ts";
import { completionsRoute } from "./routes/completions.ts";
import { collectOpenApi, docsRoutes } from "./routes/docs.ts";
import { embeddingsRoute } from "./routes/embeddings.ts";
import { healthRoutes } from "./routes/health.ts";
import { metricsRoute } from "./routes/metrics.ts";
import { modelRoutes } from "./routes/models.ts";
import { pageRoutes } from "./routes/page.ts";
import { retrievalRoutes } from "./routes/retrieval.ts";
import { statusRoute } from "./routes/status.ts";

/** A client that sends its request more slowly than this is cut off (408). */
const RECEIVE_SECONDS = 60;

/** A gateway that does not listen yet. */
export interface GatewayServer {
  readonly app: GatewayApp;
  readonly gateway: Gateway;
}

/** Builds the server; `app.listen` starts it. */
export async function createServer(config: GatewayConfig): Promise<GatewayServer> {
  const app = createApp(config);
  const gateway = createGateway(config, app.log);
  limitConnections(app, config.limits.connections, gateway.metrics);
  app.addHook("onListen", async () => gateway.retrieval?.repair.start());
  app.addHook("onClose", async () => {
    await gateway.retrieval?.close();
    await gateway.catalogue.close();
  });
  installErrorHandlers(app);
  observeRequests(app, gateway);
  await securityHeaders(app);
  await collectOpenApi(app, packageVersion());
  healthRoutes(app, gateway);
  statusRoute(app, gateway);
  metricsRoute(app, gateway);
  await docsRoutes(app);
  pageRoutes(app);
  await app.register((v1: GatewayApp) => openAiApi(v1, gateway), { prefix: "/v1" });
  await app.ready();
  return { app, gateway };
}

function createGateway(config: GatewayConfig, log: FastifyBaseLogger): Gateway {
  const limiter = new ConcurrencyLimiter(config.limits.concurrentRequests, config.limits.queuedRequests);
  const pending = new PendingRequests();
  const metrics = new GatewayMetrics({ limiter, pending, inFlight: () => gateway.inFlight });
  const catalogue = new Catalogue(
    config,
    (upstream, kind) => metrics.upstreamErrors.inc({ upstream, kind }),
    pending,
  );
  const retrieval = createRetrieval(config, catalogue.documentEncoder, metrics.registry, log);
  const gateway: Gateway = { config, catalogue, metrics, limiter, retrieval, isDraining: false, inFlight: 0 };
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
    // drain.ts closes the server when no answer is on its way: what is left are idle connections.
    forceCloseConnections: true,
    genReqId: requestId,
    // request-life.ts writes one line a request, without headers.
    logController: new LogController({ requestIdLogLabel: "requestId", disableRequestLogging: true }),
    logger: { level: log.level, base: { service: "gateway" } },
  }).withTypeProvider<ZodTypeProvider>();
  app.setValidatorCompiler(validatorCompiler);
  // Answers are built by typed code; parsing each vector again before it leaves would cost more than making it.
  app.setSerializerCompiler(() => (answer) => JSON.stringify(answer));
  return app;
}

async function securityHeaders(app: GatewayApp): Promise<void> {
  await app.register(helmet, {
    contentSecurityPolicy: {
      useDefaults: false,
      directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] },
    },
    // The gateway speaks plain HTTP; whoever puts TLS in front of it decides about HSTS.
    strictTransportSecurity: false,
  });
}

async function openAiApi(v1: GatewayApp, gateway: Gateway): Promise<void> {
  v1.addHook("onRoute", (route) => {
    if (gateway.config.apiKeys.length > 0 && route.schema)
      route.schema = { ...route.schema, security: [{ apiKey: [] }] };
  });
  await guardRequests(v1, gateway);
  modelRoutes(v1, gateway);
  chatCompletionsRoute(v1, gateway);
  completionsRoute(v1, gateway);
  embeddingsRoute(v1, gateway);
  retrievalRoutes(v1, gateway);
}

function packageVersion(): string {
  const manifest = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
    readonly version: string;
  };
  return manifest.version;
}
