/** The page on a server whose API a test controls, with the real page, policy and form parser. */
import helmet from "@fastify/helmet";
import Fastify, { type FastifyReply } from "fastify";
import sharp from "sharp";
import type { GatewayApp } from "../../../containers/services/gateway/src/context.ts";
import type {
  AnswerHead,
  Match,
  MatchResponse,
} from "../../../containers/services/gateway/src/retrieval/schemas.ts";
import { pageRoutes } from "../../../containers/services/gateway/src/routes/page.ts";
import { parseMultipart } from "../../../containers/services/gateway/src/routes/uploads.ts";

/** A row of /status. */
export interface FakeService {
  readonly name: string;
  readonly kind: string;
  readonly state: "ready" | "starting" | "unavailable";
  readonly latencyMilliseconds: number | null;
  readonly detail: string;
}

/** An error of the API. */
export class Refusal extends Error {
  readonly status: number;
  readonly param: string | null;
  constructor(status: number, message: string, param: string | null = null) {
    super(message);
    this.status = status;
    this.param = param;
  }
}

/** Content of a request of the page. */
export interface Asked {
  readonly path: string;
  readonly authorization: string | undefined;
  readonly fields: Readonly<Record<string, unknown>>;
  /** Bytes of the image; undefined without an image. */
  readonly imageBytes: number | undefined;
}

/** Events of a streamed answer: name, and data. */
export type AnswerEvents = AsyncIterable<readonly [string, unknown]> | Iterable<readonly [string, unknown]>;

/** Fields of a sample's document that the page reads. */
export interface FakeSample {
  readonly id: string;
  readonly image: object | null;
  readonly metadata: Readonly<Record<string, unknown>>;
}

export interface Scenario {
  services: readonly FakeService[];
  documents: number;
  /** Documents whose ids come after `sample-`. */
  samples: readonly FakeSample[];
  /** Key without which /v1 answers 401. */
  key: string | undefined;
  match: (asked: Asked) => MatchResponse;
  answer: (asked: Asked) => AnswerEvents;
  write: (asked: Asked) => Promise<{ readonly id: string; readonly status: string }>;
}

export interface FakeGateway {
  readonly url: string;
  /** Replaced by {@link reset}. */
  scenario: Scenario;
  /** Received POSTs. */
  asked: Asked[];
  /** Number of requests for /status. */
  statusRequests: number;
  /** Number of requests for lists of samples. */
  sampleLists: number;
  /** Number of streamed answers whose client left before their end. */
  leftAnswers: number;
  /** Ids of documents in requests for deletion. */
  deleted: string[];
  reset(): void;
  close(): Promise<void>;
}

export async function startFakeGateway(): Promise<FakeGateway> {
  const app = Fastify({
    bodyLimit: 2 ** 24,
    forceCloseConnections: true,
    routerOptions: { maxParamLength: 1024 },
  }) as unknown as GatewayApp;
  await app.register(helmet, {
    contentSecurityPolicy: { useDefaults: false, directives: { defaultSrc: ["'none'"] } },
  });
  const fake: FakeGateway = {
    url: "",
    scenario: usualScenario(),
    asked: [],
    statusRequests: 0,
    sampleLists: 0,
    leftAnswers: 0,
    deleted: [],
    reset() {
      const counts = { statusRequests: 0, sampleLists: 0, leftAnswers: 0 };
      Object.assign(fake, { scenario: usualScenario(), asked: [], deleted: [], ...counts });
    },
    close: () => app.close(),
  };
  app.setErrorHandler((error, _request, reply) => {
    const { status = 500, message, param = null } = error as Partial<Refusal>;
    return reply.code(status).send({ error: { message, type: "invalid_request_error", param, code: null } });
  });
  pageRoutes(app);
  parseMultipart(app);
  app.get("/healthz", async () => ({ status: "ok" }));
  app.get("/status", async () => {
    fake.statusRequests += 1;
    return fake.scenario.services;
  });
  app.register(async (v1) => v1Routes(v1 as unknown as GatewayApp, fake), { prefix: "/v1" });
  const url = await app.listen({ host: "127.0.0.1", port: 0 });
  return Object.assign(fake, { url });
}

function v1Routes(app: GatewayApp, fake: FakeGateway): void {
  app.addHook("onRequest", async ({ headers: { authorization } }) => {
    const { key } = fake.scenario;
    if (key === undefined || authorization === `Bearer ${key}`) return;
    throw new Refusal(
      401,
      authorization === undefined
        ? "Missing API key; send it as Authorization: Bearer KEY."
        : "Unknown API key; check it for typing errors.",
    );
  });
  const record = (path: string, authorization: string | undefined, body: unknown): Asked => {
    const { image, ...fields } = body as Record<string, unknown>;
    const imageBytes = image instanceof Uint8Array ? image.length : undefined;
    const asked = { path, authorization, fields, imageBytes };
    fake.asked.push(asked);
    return asked;
  };
  app.get<{ Querystring: { after?: string } }>("/documents", async ({ query: { after } }) => {
    if (after === undefined)
      return { documents: fake.scenario.documents > 0 ? [{ id: "a" }] : [], next: null };
    fake.sampleLists += 1;
    return { documents: fake.scenario.samples, next: null };
  });
  app.get<{ Params: { id: string } }>("/documents/:id/image", async ({ params }, reply) => {
    if (params.id === "lost") throw new Refusal(404, "Document not found: lost.");
    return reply.type("image/jpeg").send(await pictureOf(params.id));
  });
  app.post("/documents", async ({ url, headers, body }) => ({
    documents: [await fake.scenario.write(record(url, headers.authorization, body))],
  }));
  app.delete<{ Params: { id: string } }>("/documents/:id", async ({ params }, reply) => {
    fake.deleted.push(params.id);
    return reply.code(204).send();
  });
  app.post("/match", async ({ url, headers, body }) =>
    fake.scenario.match(record(url, headers.authorization, body)),
  );
  app.post("/answer", async ({ url, headers, body }, reply) => {
    const events = fake.scenario.answer(record(url, headers.authorization, body));
    return streamEvents(events, fake, reply);
  });
}

async function streamEvents(events: AnswerEvents, fake: FakeGateway, reply: FastifyReply): Promise<void> {
  reply.hijack();
  const { raw } = reply;
  raw.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
  raw.once("close", () => {
    if (!raw.writableFinished) fake.leftAnswers += 1;
  });
  for await (const [event, data] of events) {
    if (raw.destroyed) return;
    raw.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  }
  raw.end();
}

const pictures = new Map<string, Promise<Buffer>>();

/** A picture whose colour depends on the id. */
function pictureOf(id: string): Promise<Buffer> {
  const picture = pictures.get(id) ?? paint(id);
  pictures.set(id, picture);
  return picture;
}

function paint(id: string): Promise<Buffer> {
  const hue = [...id].reduce((sum, letter) => sum + letter.charCodeAt(0) * 47, 0) % 360;
  const background = `hsl(${hue}, 40%, 70%)`;
  return sharp({ create: { width: 640, height: 420, channels: 3, background } })
    .jpeg()
    .toBuffer();
}

export const READY: readonly FakeService[] = [
  service("text_encoder", "text-encoder", 2.4, "all-MiniLM-L6-v2: text to 384 numbers"),
  service("vision_encoder", "image-encoder", 3.1, "image to 512 numbers"),
  service("smollm2", "language-model", 4.7, "chat, 2,048-token context"),
  service("mongo", "document-database", 1.2, "documents and pictures"),
  service("vector", "vector-database", 0.9, "vectors of texts and pictures"),
];

function service(name: string, kind: string, latencyMilliseconds: number, detail: string): FakeService {
  return { name, kind, state: "ready", latencyMilliseconds, detail };
}

export function documentMatch(id: string, text: string, more: Partial<Match> = {}): Match {
  return {
    id,
    score: 0.5,
    scores: { text: { score: 0.5, rank: 1 } },
    text,
    textTruncated: false,
    metadata: {},
    image: `/v1/documents/${encodeURIComponent(id)}/image`,
    ...more,
  };
}

const CAT = documentMatch("cat", "A tabby cat sits on a windowsill and looks out into the garden.", {
  score: 0.9,
  scores: { text: { score: 0.712, rank: 1 }, image: { score: 0.934, rank: 1 } },
  metadata: { licence: "CC0-1.0", source: "sample collection", tags: ["animal", "indoors"] },
});
const HARBOUR = documentMatch("harbour", "Fishing boats lie in the harbour of Nagasaki, seen from a hill.", {
  score: 0.45,
  scores: { text: { score: 0.301, rank: 3 }, image: { score: 0.402, rank: 2 } },
});
const CANYON = documentMatch("black-canyon", "Steep dark walls of a canyon above a river.", {
  score: 0.3,
  scores: { text: { score: 0.322, rank: 2 } },
});

export const SOURCES: AnswerHead = {
  sources: [CAT, HARBOUR].map(({ id, text, score, image }) => ({ id, text: text ?? "", score, image })),
  model: "smollm2",
  imageUsed: false,
};

export const END = {
  usage: { prompt_tokens: 90, completion_tokens: 12, total_tokens: 102 },
  finishReason: "stop",
};

function usualScenario(): Scenario {
  return {
    services: READY,
    documents: 3,
    samples: [],
    key: undefined,
    match: ({ fields, imageBytes }) => {
      const isFused = fields.text !== undefined && imageBytes !== undefined;
      const all = [CAT, HARBOUR, CANYON];
      if (isFused) return { matches: all, fusion: { method: "rrf", k: 1 }, via: "vectors" };
      const byText = all.map((match) => {
        const { text } = match.scores;
        return { ...match, score: text?.score ?? 0, scores: text ? { text } : {} };
      });
      return { matches: byText.toSorted((a, b) => b.score - a.score), fusion: null, via: "vectors" };
    },
    answer: () => [
      ["sources", SOURCES],
      ["delta", { text: "The animal is a tabby cat, " }],
      ["delta", { text: "which sits on a windowsill." }],
      ["done", END],
    ],
    write: async ({ fields }) => ({ id: String(fields.id ?? "made-up"), status: "created" }),
  };
}
