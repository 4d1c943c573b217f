/** A gateway with documents in memory, and with the failures that a load must handle. */
import type { AddressInfo } from "node:net";
import { PassThrough } from "node:stream";
import { isDeepStrictEqual } from "node:util";
import Fastify, { type FastifyInstance } from "fastify";

export interface FakeDocument {
  readonly id: string;
  readonly text?: string;
  readonly image?: Buffer;
  readonly metadata?: object;
}

export class FakeGateway {
  readonly documents = new Map<string, FakeDocument>();
  /** Number of documents of each request. */
  readonly requests: number[] = [];
  readonly keys: (string | undefined)[] = [];
  /** Number of first requests that are answered with 503 and Retry-After. */
  busy = 0;
  retryAfter = "1";
  /** Requests after this many are never answered. */
  answered = Number.POSITIVE_INFINITY;
  /** Status of every response. */
  status = 200;
  bodyLimit = 4 * 1024 * 1024;
  url = "";
  #held: (() => void) | undefined;
  readonly #app: FastifyInstance;

  constructor() {
    this.#app = Fastify({ bodyLimit: 64 * 1024 * 1024, forceCloseConnections: true });
    this.#app.addContentTypeParser(
      "multipart/form-data",
      { parseAs: "buffer" },
      async (request: { headers: Record<string, unknown> }, body: string | Buffer) => {
        const form = await new Response(new Uint8Array(Buffer.from(body)), {
          headers: { "content-type": String(request.headers["content-type"]) },
        }).formData();
        const image = form.get("image");
        return {
          id: form.get("id"),
          ...(form.has("text") && { text: form.get("text") }),
          metadata: JSON.parse(String(form.get("metadata"))),
          ...(image instanceof File && { image: Buffer.from(await image.arrayBuffer()) }),
        };
      },
    );
    this.#app.get("/v1/documents", () => ({
      documents: [...this.documents.values()].slice(0, 1),
      next: null,
    }));
    this.#app.post("/v1/documents", async (request, reply) => {
      const body = request.body as FakeDocument & { documents?: FakeDocument[] };
      const given = body.documents ?? [body];
      this.requests.push(given.length);
      this.keys.push(request.headers.authorization);
      if (this.busy > 0) {
        this.busy -= 1;
        return reply.code(503).header("retry-after", this.retryAfter).send(errorBody("models are loading"));
      }
      if (this.status !== 200) return reply.code(this.status).send(errorBody("not today"));
      if (Number(request.headers["content-length"]) > this.bodyLimit)
        return reply.code(413).send(errorBody("the body is too large"));
      if (this.answered === 0) {
        this.#held?.();
        return new Promise(() => undefined);
      }
      this.answered -= 1;
      const documents = given.map((document) => this.#put(document));
      const [only] = documents;
      if (body.documents === undefined && only?.error !== undefined)
        return reply.code(400).send({ error: only.error });
      return { documents };
    });
  }

  async start(): Promise<void> {
    await this.#app.listen({ host: "127.0.0.1", port: 0 });
    this.url = `http://127.0.0.1:${(this.#app.server.address() as AddressInfo).port}`;
  }

  close(): Promise<void> {
    return this.#app.close();
  }

  /** Resolves when a request waits that is never answered. */
  held(): Promise<void> {
    return new Promise((resolve) => {
      this.#held = resolve;
    });
  }

  #put({ image, ...rest }: FakeDocument & { image?: Buffer | string }) {
    const bytes = typeof image === "string" ? Buffer.from(image.split(",")[1] ?? "", "base64") : image;
    const document = { ...rest, ...(bytes !== undefined && { image: bytes }) };
    if (bytes?.toString("latin1").startsWith("BAD")) {
      const error = { message: "the image can't be decoded", param: "image", code: "invalid_image" };
      return { id: document.id, status: "failed", error };
    }
    const before = this.documents.get(document.id);
    this.documents.set(document.id, document);
    if (before === undefined) return { id: document.id, status: "created" };
    return { id: document.id, status: isDeepStrictEqual(before, document) ? "unchanged" : "updated" };
  }
}

function errorBody(message: string): object {
  return { error: { message, type: "server_error", param: null, code: null } };
}

/** Output of progress in a test: a stream that keeps its text, as a terminal or not. */
export function fakeOutput(isTTY: boolean): { out: NodeJS.WriteStream; text(): string } {
  const stream = new PassThrough();
  const chunks: Buffer[] = [];
  stream.on("data", (chunk: Buffer) => chunks.push(chunk));
  return {
    out: Object.assign(stream, { isTTY }) as unknown as NodeJS.WriteStream,
    text: () => Buffer.concat(chunks).toString(),
  };
}
