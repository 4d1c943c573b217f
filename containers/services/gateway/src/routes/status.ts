/** GET /status: every service behind the gateway, with its state and the time that it took to answer. */
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import type { ServedTextModel, Upstream } from "../catalogue.ts";
import type { EncodersConfig } from "../config.ts";
import type { Gateway, GatewayApp } from "../context.ts";
import { takesImages } from "../retrieval/language-models.ts";

/** A service that is well answers its probe within milliseconds. */
const PROBE_MILLISECONDS = 1000;
/** For as long a result is given again, so that many watchers cost the services no more than one. */
const KEPT_MILLISECONDS = 2000;

const SERVICE_KINDS = [
  "text-encoder",
  "image-encoder",
  "language-model",
  "vision-language-model",
  "completion-model",
  "document-database",
  "vector-database",
] as const;
type ServiceKind = (typeof SERVICE_KINDS)[number];

const serviceState = z.object({
  name: z.string(),
  kind: z.enum(SERVICE_KINDS).describe("`completion-model`: a language model that does not chat."),
  state: z
    .enum(["ready", "starting", "away"])
    .describe("`starting`: its server answers, and it takes no requests yet."),
  latencyMilliseconds: z.number().nullable().describe("Of the probe; null where the service is not ready."),
  detail: z.string().describe("What it serves; what is the matter, where it is not ready."),
});
type ServiceState = z.infer<typeof serviceState>;

/** What a probe found: ready, or why not. Throwing means that the service is away. */
type Finding = { readonly state: "ready" } | { readonly state: "starting" | "away"; readonly reason: string };

interface Service {
  readonly name: string;
  readonly kind: ServiceKind;
  /** What it serves. */
  readonly detail: string;
  probe(signal: AbortSignal): Promise<Finding>;
}

export function statusRoute(app: GatewayApp, { config, catalogue, retrieval }: Gateway): void {
  const services = [
    ...encoderServices(config.encoders),
    ...catalogue.textModels.map(modelService),
    ...(retrieval?.upstreams ?? []).map(databaseService),
  ];
  const probeAll = keptFor(KEPT_MILLISECONDS, () => Promise.all(services.map(stateOf)));
  app.get(
    "/status",
    {
      schema: {
        tags: ["health"],
        summary: "State of every service behind the gateway",
        description: `Each is probed with a time-out of ${PROBE_MILLISECONDS} ms; a result is kept for ${KEPT_MILLISECONDS} ms.`,
        response: { 200: z.array(serviceState) },
      },
    },
    async (_request, reply) => {
      reply.header("cache-control", "no-store");
      return probeAll();
    },
  );
}

function encoderServices(encoders: EncodersConfig | undefined): Service[] {
  if (encoders === undefined) return [];
  const { http, modelName, textModel, dimension, visionModel, imageDimension } = encoders;
  const text: Service = {
    name: textModel,
    kind: "text-encoder",
    detail: `${modelName}: text to ${dimension} numbers`,
    probe: modelProbe(http, [textModel]),
  };
  if (imageDimension === undefined) return [text];
  const image: Service = {
    name: visionModel,
    kind: "image-encoder",
    detail: `image to ${imageDimension} numbers`,
    probe: modelProbe(http, [visionModel]),
  };
  return [text, image];
}

function modelService(served: ServedTextModel): Service {
  const { name, http, contextTokens, profile } = served.config;
  const { kind, does } = abilityOf(served);
  return {
    name,
    kind,
    detail: `${does}, ${contextTokens} tokens with its answer`,
    probe: modelProbe(http, [...new Set([profile.tritonModel, profile.streamingModel])]),
  };
}

function abilityOf(served: ServedTextModel): { readonly kind: ServiceKind; readonly does: string } {
  if (takesImages(served)) return { kind: "vision-language-model", does: "chats about text and images" };
  if (served.chatTemplate === undefined) return { kind: "completion-model", does: "completes text" };
  return { kind: "language-model", does: "chats" };
}

function databaseService({ name, notReady }: Upstream): Service {
  return {
    name,
    ...(name === "mongo"
      ? { kind: "document-database", detail: "documents and pictures" }
      : { kind: "vector-database", detail: "vectors of texts and pictures" }),
    probe: async () => {
      const reason = await notReady();
      return reason === undefined ? { state: "ready" } : { state: "away", reason };
    },
  };
}

/** Asks one Triton for the first of its models that is not ready. */
function modelProbe(origin: string, models: readonly string[]): Service["probe"] {
  return async (signal) => {
    const answers = await Promise.all(
      models.map(async (model) => {
        const response = await fetch(`${origin}/v2/models/${model}/ready`, { signal });
        await response.arrayBuffer();
        return { model, isReady: response.ok };
      }),
    );
    const waiting = answers.find(({ isReady }) => !isReady);
    return waiting === undefined
      ? { state: "ready" }
      : { state: "starting", reason: `Triton answers, and its model ${waiting.model} is not ready` };
  };
}

async function stateOf({ name, kind, detail, probe }: Service): Promise<ServiceState> {
  const ending = new AbortController();
  const started = performance.now();
  try {
    const finding = await Promise.race([probe(ending.signal), timeOut(ending.signal)]);
    const latencyMilliseconds = Math.round((performance.now() - started) * 10) / 10;
    if (finding.state === "ready") return { name, kind, state: "ready", latencyMilliseconds, detail };
    return { name, kind, state: finding.state, latencyMilliseconds: null, detail: finding.reason };
  } catch (error) {
    return { name, kind, state: "away", latencyMilliseconds: null, detail: reasonOf(error) };
  } finally {
    ending.abort();
  }
}

class ProbeTimedOut extends Error {}

async function timeOut(signal: AbortSignal): Promise<never> {
  await delay(PROBE_MILLISECONDS, undefined, { signal });
  throw new ProbeTimedOut();
}

/** A code at most: the words of a driver may hold addresses and names of users. */
function reasonOf(error: unknown): string {
  if (error instanceof ProbeTimedOut) return `no answer within ${PROBE_MILLISECONDS} ms`;
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (typeof code === "string" && /^[A-Z_]+$/.test(code)) return `can't be reached (${code})`;
  }
  return "can't be reached; the gateway's log may say why";
}

/** Callers share the call that runs, and its result for a while. */
function keptFor<T>(milliseconds: number, load: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined;
  let freshUntil = 0;
  return () => {
    if (result !== undefined && performance.now() < freshUntil) return result;
    freshUntil = Number.POSITIVE_INFINITY;
    result = load().finally(() => {
      freshUntil = performance.now() + milliseconds;
    });
    return result;
  };
}
