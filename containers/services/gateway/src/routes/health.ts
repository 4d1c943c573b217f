/**
 * GET /healthz: the process lives. GET /readyz and /status: every Triton and database behind it is ready, in short and
 * with its state. GET /metrics, for Prometheus.
 */
import { z } from "zod";
import type { ServedTextModel } from "../catalogue.ts";
import type { DatabasesConfig, EncodersConfig } from "../config.ts";
import type { Gateway, GatewayApp } from "../context.ts";
import { type ApiError, unavailable } from "../errors.ts";
import { takesImages } from "../retrieval/answer.ts";
import type { Retrieval } from "../retrieval/retrieval.ts";
import { ENCODER_MODELS } from "../triton/document-encoder.ts";

/** A healthy service answers its probe within milliseconds. */
const PROBE_MILLISECONDS = 1000;
/** While all services are ready, a result is reused for so long, so that many watchers cost no more than one. */
const KEPT_MILLISECONDS = 2000;
/** Seconds until the next probe of a client: about the interval of an orchestrator's probes. */
const PROBE_AGAIN_SECONDS = 5;

const service = z.object({
  name: z.string(),
  kind: z
    .enum([
      "text-encoder",
      "image-encoder",
      "language-model",
      "vision-language-model",
      "completion-model",
      "document-database",
      "vector-database",
    ])
    .describe("`completion-model`: a language model that does not chat."),
  state: z
    .enum(["ready", "starting", "unavailable"])
    .describe("`starting`: its server is running, but does not accept requests yet, or no more vectors."),
  latencyMilliseconds: z
    .number()
    .nullable()
    .describe("Duration of the probe; null if the service is not ready."),
  detail: z.string().describe("The content that it serves, or the reason why it is not ready."),
});
type ServiceState = z.infer<typeof service>;

interface Service extends Pick<ServiceState, "name" | "kind" | "detail"> {
  /** Returns the first of its addresses that is not ready. Throws when the service is unavailable. */
  probe(signal: AbortSignal): Promise<string | undefined>;
}

/** Adds the routes that need no API key. */
export function healthRoutes(app: GatewayApp, gateway: Gateway): void {
  const probeAll = sharedProbe(servicesOf(gateway));
  const tags = ["health"];
  app.get(
    "/healthz",
    {
      schema: {
        tags,
        summary: "Liveness of the process",
        response: { 200: z.object({ status: z.literal("ok") }) },
      },
    },
    () => ({ status: "ok" as const }),
  );
  app.get(
    "/readyz",
    {
      schema: {
        tags,
        summary: "Readiness of every Triton and database behind the gateway",
        description: "503 names those that are not ready. Also 503 while the gateway is being stopped.",
        response: { 200: z.object({ status: z.literal("ready") }) },
      },
    },
    async () => {
      if (gateway.isDraining) throw notReady("The gateway is being stopped.");
      const waiting = (await probeAll()).filter(({ state }) => state !== "ready");
      if (waiting.length > 0)
        throw notReady(waiting.map(({ name, detail }) => `${name}: ${detail}`).join("; "));
      return { status: "ready" as const };
    },
  );
  app.get(
    "/status",
    {
      schema: {
        tags,
        summary: "State of every service behind the gateway",
        description: `Each is probed with a time-out of ${PROBE_MILLISECONDS} ms; a result is kept for ${KEPT_MILLISECONDS} ms while all are ready.`,
        response: { 200: z.array(service) },
      },
    },
    async (_request, reply) => {
      reply.header("cache-control", "no-store");
      return probeAll();
    },
  );
  const { registry } = gateway.metrics;
  app.get(
    "/metrics",
    { schema: { tags, summary: "Metrics in Prometheus' text format" } },
    async (_request, reply) => reply.type(registry.contentType).send(await registry.metrics()),
  );
}

function notReady(message: string): ApiError {
  return unavailable(message, "not_ready", PROBE_AGAIN_SECONDS);
}

function servicesOf({ config, catalogue, retrieval }: Gateway): Service[] {
  return [
    ...encoderServices(config.encoders),
    ...catalogue.textModels.map(modelService),
    ...(config.databases && retrieval ? databaseServices(config.databases, retrieval) : []),
  ];
}

function encoderServices(encoders: EncodersConfig | undefined): Service[] {
  if (encoders === undefined) return [];
  const { http, modelName, dimension, imageDimension } = encoders;
  const { text, image, both } = ENCODER_MODELS;
  return [
    {
      name: text,
      kind: "text-encoder",
      detail: `${modelName}: text to ${dimension} numbers`,
      probe: modelProbe(http, [text]),
    },
    {
      name: image,
      kind: "image-encoder",
      detail: `image to ${imageDimension} numbers`,
      probe: modelProbe(http, [image, both]),
    },
  ];
}

function modelService(served: ServedTextModel): Service {
  const { name, http, contextTokens, profile } = served.config;
  const [kind, does] = takesImages(served)
    ? (["vision-language-model", "chat with images"] as const)
    : served.chatTemplate === undefined
      ? (["completion-model", "text completion"] as const)
      : (["language-model", "chat"] as const);
  return {
    name,
    kind,
    detail: `${does}, ${contextTokens.toLocaleString("en")}-token context`,
    probe: modelProbe(http, [...new Set([profile.tritonModel, profile.streamingModel])]),
  };
}

function databaseServices(
  { vector }: DatabasesConfig,
  { documents, vectors, indexer }: Retrieval,
): Service[] {
  const ready = httpProbe(vector.url, ["/readyz"]);
  return [
    {
      name: "mongo",
      kind: "document-database",
      detail: "documents and pictures",
      probe: async (signal) => {
        await documents.ping(signal);
        return undefined;
      },
    },
    {
      name: "vector",
      kind: "vector-database",
      detail: "vectors of texts and pictures",
      // With a full memory or disk it still answers searches, but refuses vectors of documents that MongoDB has.
      probe: async (signal) =>
        (await ready(signal)) ??
        (vectors.refusesPoints && indexer.hasFailed ? "a write of vectors" : undefined),
    },
  ];
}

function modelProbe(origin: string, models: readonly string[]): Service["probe"] {
  return httpProbe(
    origin,
    models.map((model) => `/v2/models/${model}/ready`),
  );
}

function httpProbe(origin: string, paths: readonly string[]): Service["probe"] {
  return async (signal) => {
    const answers = await Promise.all(
      paths.map(async (path) => {
        const response = await fetch(origin + path, { signal });
        await response.arrayBuffer();
        return response.ok ? undefined : path;
      }),
    );
    return answers.find((path) => path !== undefined);
  };
}

async function stateOf({ name, kind, detail, probe }: Service): Promise<ServiceState> {
  const clock = AbortSignal.timeout(PROBE_MILLISECONDS);
  const started = performance.now();
  try {
    const path = await probe(clock);
    if (path !== undefined) {
      const waiting = `its server is running, but ${path} is not ready`;
      return { name, kind, state: "starting", latencyMilliseconds: null, detail: waiting };
    }
    const latencyMilliseconds = Math.round((performance.now() - started) * 10) / 10;
    return { name, kind, state: "ready", latencyMilliseconds, detail };
  } catch (error) {
    // A code or the error's name: the words of a driver may hold addresses and names of users.
    const { code, name: kindOfError } = ((error as Error).cause ?? error) as NodeJS.ErrnoException;
    const reason = clock.aborted
      ? `no answer within ${PROBE_MILLISECONDS} ms`
      : `can't be reached (${code ?? kindOfError})`;
    return { name, kind, state: "unavailable", latencyMilliseconds: null, detail: reason };
  }
}

/** Callers share running probes, and their result for a while. */
function sharedProbe(services: readonly Service[]): () => Promise<ServiceState[]> {
  let result: Promise<ServiceState[]> | undefined;
  let freshUntil = 0;
  return () => {
    if (result !== undefined && performance.now() < freshUntil) return result;
    freshUntil = Number.POSITIVE_INFINITY;
    result = Promise.all(services.map(stateOf)).then((states) => {
      const areReady = states.every(({ state }) => state === "ready");
      freshUntil = areReady ? performance.now() + KEPT_MILLISECONDS : 0;
      return states;
    });
    return result;
  };
}
