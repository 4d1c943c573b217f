/** The API over its port: answers without models, requests that are refused, and images in chats. */
import { createServer, request as httpRequest, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { imageProfile, type RequestProfile, requestProfile } from "@engine-room/triton-requests";
import { Validator } from "@seriousme/openapi-schema-validator";
import OpenAI from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { createImageContext } from "../../../containers/services/gateway/src/images/source.ts";
import { readChatImages } from "../../../containers/services/gateway/src/openai/generation.ts";
import { freePort } from "../../harness/ports.ts";
import { networkOf, type Site, startSite } from "../gateway-images/web.ts";
import { until } from "../service-process.ts";
import { CHAT, configOf, errorOf, type RunningGateway, sha256, startGateway } from "./support.ts";

describe("api", () => {
  let gateway: RunningGateway;

  beforeAll(async () => {
    const port = await freePort();
    gateway = await startGateway(configOf({ encoders: port, model: port }));
  });

  afterAll(() => gateway.app.close());

  const chat = (more: object) => gateway.post("/v1/chat/completions", { ...CHAT, ...more });

  test("while Triton is unavailable, every endpoint that needs it answers 503 with Retry-After", async () => {
    const answers = [
      await chat({}),
      await chat({ stream: true }),
      await gateway.post("/v1/completions", { model: "smollm2", prompt: ["a", "b"], stream: true }),
      await gateway.post("/v1/embeddings", { model: "all-MiniLM-L6-v2", input: "a" }),
    ];
    for (const response of answers) {
      expect(response.headers.get("retry-after")).toBe("5");
      expect(await errorOf(response)).toMatchObject({ status: 503, code: "upstream_unavailable" });
    }
  });

  test("while Triton is unavailable, the gateway lives, is not ready, and names the missing servers", async () => {
    expect((await fetch(`${gateway.url}/healthz`)).status).toBe(200);
    const response = await fetch(`${gateway.url}/readyz`);
    expect(response.status).toBe(503);
    expect(response.headers.get("retry-after")).toBe("5");
    const unavailable = ["text_encoder", "vision_encoder", "smollm2", "base-model"];
    expect(await errorOf(response)).toMatchObject({
      code: "not_ready",
      message: unavailable.map((name) => `${name}: can't be reached (ECONNREFUSED)`).join("; "),
    });
  });

  test("the metrics count requests that failed because Triton is unavailable", async () => {
    await chat({});
    const text = await (await fetch(`${gateway.url}/metrics`)).text();
    expect(text).toMatch(/^gateway_upstream_errors_total\{upstream="smollm2",kind="unavailable"\} [1-9]/m);
    expect(text).toMatch(
      /^gateway_http_requests_total\{route="\/v1\/chat\/completions",model="smollm2",status="503"\} [1-9]/m,
    );
    expect(text).not.toContain("gpt-4o");
  });

  describe("the official OpenAI client", () => {
    const client = () => new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: "none", maxRetries: 0 });

    test("the official OpenAI client lists the models", async () => {
      const ids: string[] = [];
      for await (const model of client().models.list()) ids.push(model.id);
      expect(ids).toEqual(["all-MiniLM-L6-v2", "smollm2", "base-model"]);
      expect(await client().models.retrieve("smollm2")).toMatchObject({
        id: "smollm2",
        object: "model",
        owned_by: "engine-room",
      });
    });

    test("the official OpenAI client throws the exceptions that its users catch", async () => {
      const messages = [{ role: "user" as const, content: "hi" }];
      await expect(client().models.retrieve("nope")).rejects.toBeInstanceOf(OpenAI.NotFoundError);
      await expect(
        client().chat.completions.create({ model: "smollm2", messages: [] }),
      ).rejects.toBeInstanceOf(OpenAI.BadRequestError);
      await expect(client().chat.completions.create({ model: "smollm2", messages })).rejects.toBeInstanceOf(
        OpenAI.InternalServerError,
      );
      await expect(
        client().embeddings.create({ model: "all-MiniLM-L6-v2", input: "" }),
      ).rejects.toMatchObject({
        status: 400,
        param: "input",
        requestID: expect.any(String),
      });
    });
  });

  test("every response has a request id and security headers, and does not name the software", async () => {
    const given = await fetch(`${gateway.url}/v1/models`, { headers: { "x-request-id": "trace-42" } });
    expect(given.headers.get("x-request-id")).toBe("trace-42");
    for (const path of ["/healthz", "/v1/models", "/nothing", "/v1/nothing"]) {
      const { headers } = await fetch(gateway.url + path);
      expect(headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("content-security-policy")).toContain("default-src 'none'");
      expect(headers.has("x-powered-by")).toBe(false);
      expect(headers.has("server")).toBe(false);
    }
  });

  test("the API description is a valid OpenAPI 3.1 document with every endpoint", async () => {
    const document = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as {
      openapi: string;
      paths: object;
    };
    expect(await new Validator().validate(document)).toMatchObject({ valid: true });
    expect(document.openapi).toBe("3.1.0");
    expect(Object.keys(document.paths).sort()).toEqual([
      "/healthz",
      "/metrics",
      "/readyz",
      "/status",
      "/v1/chat/completions",
      "/v1/completions",
      "/v1/embeddings",
      "/v1/models",
      "/v1/models/{id}",
    ]);
  });

  test("the page of the API description loads nothing from other hosts", async () => {
    const page = await fetch(`${gateway.url}/docs`);
    expect(page.status).toBe(200);
    const html = await page.text();
    const assets = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, address]) => address ?? "");
    expect(assets.length).toBeGreaterThan(3);
    for (const address of assets) {
      const asset = await fetch(new URL(address, page.url));
      expect(new URL(asset.url).origin).toBe(gateway.url);
      expect(asset.status).toBe(200);
    }
    expect(page.headers.get("content-security-policy")).toContain("script-src 'self'");
  });

  describe("API keys", () => {
    let guarded: RunningGateway;
    beforeAll(async () => {
      const port = await freePort();
      guarded = await startGateway(
        configOf(
          { encoders: port, model: port },
          { apiKeys: [{ name: "alice", sha256: sha256("sk-alice") }], limits: { bodyBytes: 1024 } },
        ),
      );
    });
    afterAll(() => guarded.app.close());

    test("the gateway checks the key under /v1 before the body", async () => {
      for (const headers of [{}, { authorization: "Bearer sk-bob" }, { authorization: "Basic sk-alice" }]) {
        const response = await guarded.post(
          "/v1/chat/completions",
          "{broken",
          headers as Record<string, string>,
        );
        expect(response.headers.get("www-authenticate")).toContain("Bearer");
        expect(await errorOf(response)).toMatchObject({ status: 401, type: "authentication_error" });
      }
      expect((await fetch(`${guarded.url}/v1/models`)).status).toBe(401);
    });

    test("the gateway accepts a request with a known key", async () => {
      const response = await fetch(`${guarded.url}/v1/models`, {
        headers: { authorization: "Bearer sk-alice" },
      });
      expect(response.status).toBe(200);
    });

    test("probes, metrics and documentation need no key", async () => {
      for (const path of ["/healthz", "/metrics", "/docs", "/openapi.json"])
        expect((await fetch(guarded.url + path)).status).toBe(200);
      const document = await (await fetch(`${guarded.url}/openapi.json`)).json();
      expect(document).toMatchObject({ paths: { "/v1/models": { get: { security: [{ apiKey: [] }] } } } });
    });

    test("a body larger than the configured limit is refused with 413", async () => {
      const response = await guarded.post(
        "/v1/embeddings",
        { model: "m", input: "x".repeat(2000) },
        { authorization: "Bearer sk-alice" },
      );
      expect(await errorOf(response)).toMatchObject({
        status: 413,
        message: expect.stringContaining("1024 bytes"),
      });
    });
  });

  test("the rate limit counts requests over all endpoints, for each key separately", async () => {
    const port = await freePort();
    const apiKeys = ["alice", "bob"].map((name) => ({ name, sha256: sha256(`sk-${name}`) }));
    const limited = await startGateway(
      configOf({ encoders: port, model: port }, { apiKeys, rateLimit: { requestsPerMinute: 2 } }),
    );
    try {
      const as = (name: string) => ({ authorization: `Bearer sk-${name}` });
      expect((await fetch(`${limited.url}/v1/models`, { headers: as("alice") })).status).toBe(200);
      expect((await limited.post("/v1/chat/completions", CHAT, as("alice"))).status).toBe(503);
      const third = await fetch(`${limited.url}/v1/models`, { headers: as("alice") });
      expect(Number(third.headers.get("retry-after"))).toBeGreaterThan(0);
      expect(Number(third.headers.get("retry-after"))).toBeLessThanOrEqual(60);
      expect(await errorOf(third)).toMatchObject({
        status: 429,
        type: "rate_limit_error",
        code: "rate_limit_exceeded",
      });
      expect((await fetch(`${limited.url}/v1/models`, { headers: as("bob") })).status).toBe(200);
      expect((await fetch(`${limited.url}/healthz`)).status).toBe(200);
    } finally {
      await limited.app.close();
    }
  });
});

describe("refused requests", () => {
  let gateway: RunningGateway;

  beforeAll(async () => {
    const port = await freePort();
    gateway = await startGateway(configOf({ encoders: port, model: port }));
  });

  afterAll(() => gateway.app.close());

  const chat = (more: object) => gateway.post("/v1/chat/completions", { ...CHAT, ...more });

  test.each([
    ["broken JSON", '{"model": "smol', "invalid_json"],
    ["no body", "", "empty_body"],
  ])("a request with %s is refused", async (_what, body, code) => {
    expect(await errorOf(await gateway.post("/v1/chat/completions", body))).toMatchObject({
      status: 400,
      type: "invalid_request_error",
      code,
    });
  });

  test("a request that is not JSON is refused with 415", async () => {
    const response = await gateway.post("/v1/embeddings", "model=x", {
      "content-type": "application/x-www-form-urlencoded",
    });
    expect(await errorOf(response)).toMatchObject({ status: 415, code: "unsupported_media_type" });
  });

  test.each([
    [{ messages: "hi" }, "messages"],
    [{ messages: [] }, "messages"],
    [{ messages: [{ role: "robot", content: "hi" }] }, "messages[0].role"],
    [{ messages: [{ role: "user", content: 3 }] }, "messages[0].content"],
    [{ messages: [{ role: "user", content: [{ type: "text", text: 3 }] }] }, "messages[0].content[0].text"],
    [{ max_tokens: "many" }, "max_tokens"],
    [{ max_tokens: 0 }, "max_tokens"],
    [{ temperature: 3 }, "temperature"],
    [{ top_p: 0 }, "top_p"],
    [{ n: 2 }, "n"],
    [{ stop: ["a", "b", "c", "d", "e"] }, "stop"],
    [{ stream: "yes" }, "stream"],
    [{ tools: [{ type: "function" }] }, "tools"],
    [{ response_format: { type: "json_object" } }, "response_format.type"],
    [{ max_token: 5 }, "max_token"],
    [{ model: 5 }, "model"],
  ])("the refusal of %j names the parameter", async (more, param) => {
    const error = await errorOf(await chat(more));
    expect(error).toMatchObject({ status: 400, type: "invalid_request_error", param });
    expect(error.message).toContain(param);
  });

  test("the refusal of several wrong parameters lists them all", async () => {
    const { message } = await errorOf(await chat({ temperature: 9, top_p: 9, seed: -1 }));
    expect(message).toMatch(/temperature: .*; top_p: .*; seed: /);
  });

  test("a null parameter counts as not given", async () => {
    const nothing = {
      temperature: null,
      top_p: null,
      stop: null,
      max_tokens: null,
      seed: null,
      stream: null,
      stream_options: null,
      n: null,
      tools: null,
      user: null,
    };
    expect((await chat(nothing)).status).toBe(503);
  });

  test("an image for a model that reads only text is refused", async () => {
    const content = [
      { type: "text", text: "What is this?" },
      { type: "image_url", image_url: { url: "data:image/png;base64,AA==" } },
    ];
    const error = await errorOf(await chat({ messages: [{ role: "user", content }] }));
    expect(error).toMatchObject({ status: 400, code: "images_not_supported" });
    expect(error.message).toContain("this model reads text only");
  });

  test("max_tokens of a thousand million is refused with the model's limit", async () => {
    const error = await errorOf(await chat({ max_tokens: 1_000_000_000 }));
    expect(error).toMatchObject({ status: 400, param: "max_tokens" });
    expect(error.message).toContain("1000000000");
    expect(error.message).toContain("1024");
  });

  test("a chat with a model without chat template is refused", async () => {
    expect(await errorOf(await chat({ model: "base-model" }))).toMatchObject({
      status: 400,
      param: "model",
      code: "unsupported_model",
    });
  });

  test.each([
    ["an empty text", { input: "" }, "input"],
    ["an empty list", { input: [] }, "input"],
    ["an empty text in a list", { input: ["a", ""] }, "input[1]"],
    ["token ids", { input: [1, 2, 3] }, "input[0]"],
    ["2,049 texts", { input: Array(2049).fill("a") }, "input"],
    ["another dimension", { input: "a", dimensions: 128 }, "dimensions"],
    ["an unknown encoding", { input: "a", encoding_format: "hex" }, "encoding_format"],
    ["a model that makes text", { input: "a", model: "smollm2" }, "model"],
  ])("the embedding input of %s is refused", async (_what, more, param) => {
    const response = await gateway.post("/v1/embeddings", { model: "all-MiniLM-L6-v2", ...more });
    expect(await errorOf(response)).toMatchObject({ status: 400, param });
  });

  test.each([
    ["an empty prompt", { prompt: "" }, "prompt"],
    ["17 prompts", { prompt: Array(17).fill("a") }, "prompt"],
    ["token ids", { prompt: [1, 2] }, "prompt[0]"],
    ["no prompt", {}, "prompt"],
    ["echo", { prompt: "a", echo: true }, "echo"],
    ["a model that makes vectors", { prompt: "a", model: "all-MiniLM-L6-v2" }, "model"],
  ])("a completion request with %s is refused", async (_what, more, param) => {
    expect(await errorOf(await gateway.post("/v1/completions", { model: "smollm2", ...more }))).toMatchObject(
      { status: 400, param },
    );
  });

  test("a body of 50 MB is refused before it is read", async () => {
    const received = await new Promise<{ status: number | undefined; body: string }>((resolve, reject) => {
      const request = httpRequest(`${gateway.url}/v1/embeddings`, {
        method: "POST",
        headers: { "content-type": "application/json", "content-length": 50_000_000 },
      });
      request.on("response", (response) => {
        response.setEncoding("utf8");
        let body = "";
        response
          .on("data", (text: string) => {
            body += text;
          })
          .on("end", () => {
            request.destroy();
            resolve({ status: response.statusCode, body });
          });
      });
      request.on("error", reject);
      // Only the headers are sent: the answer must not wait for the body.
      request.flushHeaders();
    });
    expect(received.status).toBe(413);
    expect(JSON.parse(received.body).error).toMatchObject({
      code: "body_too_large",
      message: expect.stringContaining("4194304 bytes"),
    });
  });

  test("a client that is still sending a large body receives the refusal", async () => {
    const { hostname, port } = new URL(gateway.url);
    const part = Buffer.alloc(5_000_000, "x");
    const parts = 10;
    const socket = connect(Number(port), hostname);
    const errors: Error[] = [];
    let answer = "";
    socket.on("error", (error) => errors.push(error));
    socket.on("data", (data: Buffer) => {
      answer += data.toString();
    });
    socket.write(`POST /v1/embeddings HTTP/1.1\r\nhost: ${hostname}\r\n`);
    socket.write(`content-type: application/json\r\ncontent-length: ${parts * part.length}\r\n\r\n`);
    for (let sent = 0; sent < parts; sent++) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      await new Promise((resolve) => socket.write(part, resolve));
    }
    socket.destroy();
    expect(answer).toMatch(/^HTTP\/1\.1 413 /);
    expect(errors).toEqual([]);
  });

  test("a large body without a stated size is refused", async () => {
    const chunk = new TextEncoder().encode("x".repeat(1024 * 1024));
    const body = new ReadableStream<Uint8Array>({ pull: (controller) => controller.enqueue(chunk) });
    const refusal = await fetch(`${gateway.url}/v1/embeddings`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
      duplex: "half",
    }).then(
      (response) => response.status,
      // The gateway closes the connection while the client still sends; some clients see only that.
      () => "closed",
    );
    expect([413, "closed"]).toContain(refusal);
  });

  test("an unknown model is model_not_found on every endpoint", async () => {
    const answers = [
      await chat({ model: "gpt-4o" }),
      await gateway.post("/v1/completions", { model: "gpt-4o", prompt: "a" }),
      await gateway.post("/v1/embeddings", { model: "gpt-4o", input: "a" }),
      await fetch(`${gateway.url}/v1/models/gpt-4o`),
    ];
    for (const response of answers) {
      expect(await errorOf(response)).toMatchObject({
        status: 404,
        type: "invalid_request_error",
        param: "model",
        code: "model_not_found",
      });
    }
  });

  test("an unknown path is 404, and its query is not repeated", async () => {
    for (const path of ["/v1/nothing", "/nothing"]) {
      const error = await errorOf(await fetch(`${gateway.url}${path}?key=secret`));
      expect(error).toMatchObject({ status: 404, code: "not_found" });
      expect(error.message).toContain(`Route not found: GET ${path}.`);
    }
  });
});

describe("unknown paths", () => {
  test("an unknown path is 404 with any body, such as the empty body of the OpenAI client's DELETE", async () => {
    const port = await freePort();
    const gateway = await startGateway(configOf({ encoders: port, model: port }));
    const type = { "content-type": "application/json" };
    for (const request of [
      { method: "DELETE", headers: type },
      { method: "POST", headers: type, body: "{" },
    ]) {
      const response = await fetch(`${gateway.url}/v1/files/file-1`, request);
      expect(await errorOf(response)).toMatchObject({ status: 404, code: "not_found" });
    }
    await gateway.app.close();
  });
});

describe("requests that no route gets", () => {
  let gateway: RunningGateway;

  beforeAll(async () => {
    const port = await freePort();
    gateway = await startGateway(configOf({ encoders: port, model: port }));
  });

  afterAll(() => gateway.app.close());

  /** The response to these bytes, until the gateway or this test closes the connection. */
  async function answerTo(text: string, isWhole = (_: string) => false): Promise<string> {
    const socket = connect(Number(new URL(gateway.url).port), "127.0.0.1");
    socket.write(text);
    let answer = "";
    for await (const chunk of socket) {
      answer += chunk;
      if (isWhole(answer)) break;
    }
    return answer;
  }

  test.each([
    ["a line that is no HTTP", "HELLO\r\n\r\n", 400, "invalid_http"],
    [
      "headers of 20 KB",
      `GET / HTTP/1.1\r\nhost: x\r\na: ${"b".repeat(20_000)}\r\n\r\n`,
      431,
      "headers_too_large",
    ],
    [
      "two lengths",
      "POST /v1/match HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}",
      400,
      "invalid_http",
    ],
    [
      "a broken percent sign",
      "GET /v1/documents/%zz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
      400,
      "invalid_path",
    ],
    [
      "an id of 2,000 characters",
      `GET /v1/models/${"a".repeat(2000)} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`,
      414,
      "path_too_long",
    ],
    [
      "two Host headers",
      "GET /healthz HTTP/1.1\r\nhost: a\r\nhost: b\r\nconnection: close\r\n\r\n",
      400,
      "several_hosts",
    ],
  ])("%s: the refusal has the shape of all errors", async (_, text, status, code) => {
    const answer = await answerTo(text);
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    const body = JSON.parse(answer.slice(answer.indexOf("\r\n\r\n"))) as unknown;
    expect(body).toEqual({
      error: { message: expect.stringMatching(/\.$/), type: "invalid_request_error", param: null, code },
    });
  });

  test.each(["h2c", "websocket"])(
    "a wish for %s is answered as plain HTTP/1.1, which is allowed",
    async (protocol) => {
      const head = `GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: ${protocol}\r\n\r\n`;
      expect(await answerTo(head, (text) => text.includes("\r\n\r\n"))).toMatch(/^HTTP\/1.1 200 /);
    },
  );
});

describe("images and repositories", () => {
  /** Picture of one pixel. */
  const PNG =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

  const PNG_URL = `data:image/png;base64,${PNG}`;

  /** Joined texts of the messages. */
  const TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}";

  const BODY_BYTES = 100_000;

  const PROFILES: Readonly<Record<string, RequestProfile>> = {
    mllama: requestProfile("multimodal", {
      image: imageProfile("mllama", "multimodal", { maxImages: 2, tokensPerImage: 0 }),
    }),
    onevision: requestProfile("multimodal", {
      image: imageProfile("llava_onevision", "multimodal", { maxImages: 4, tokensPerImage: 700 }),
      kvCacheReuse: true,
    }),
    tutorial: requestProfile("llava"),
    vila: requestProfile("multimodal", {
      image: imageProfile("vila", "multimodal", { maxImages: 4, tokensPerImage: 196, hasProcessor: true }),
    }),
    processed: requestProfile("multimodal", {
      image: imageProfile("llava", "multimodal", { maxImages: 1, tokensPerImage: 576 }),
    }),
    blind: requestProfile("llava", { image: null }),
    llmapi: requestProfile("llmapi", { decoupled: true }),
    qwen: requestProfile("llmapi", {
      image: imageProfile("qwen2_5_vl", "llmapi", { maxImages: 4, tokensPerImage: 1280 }),
    }),
  };

  interface Asked {
    readonly path: string;
    readonly body: Readonly<Record<string, unknown>>;
  }

  let triton: Server;

  let site: Site;

  let gateway: RunningGateway;

  let asked: Asked[] = [];

  /** Triton's response: one object for /generate, a list of events for /generate_stream; or a function that responds. */
  let answer: object | readonly object[] | ((prompt: unknown, response: ServerResponse) => unknown) = {};

  beforeAll(async () => {
    triton = createServer(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const body = JSON.parse(Buffer.concat(chunks).toString());
      asked.push({ path: request.url ?? "", body });
      if (typeof answer === "function") return answer(body.text_input, response);
      if (Array.isArray(answer)) {
        response.setHeader("content-type", "text/event-stream");
        response.end(answer.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""));
      } else {
        response.setHeader("content-type", "application/json");
        response.end(JSON.stringify(answer));
      }
    });
    await new Promise<void>((resolve) => triton.listen(0, "127.0.0.1", resolve));
    const http = `http://127.0.0.1:${(triton.address() as AddressInfo).port}`;
    site = await startSite((_request, response) => response.end(Buffer.from(PNG, "base64")));
    gateway = await startGateway({
      models: Object.entries(PROFILES).map(([name, profile]) => ({
        name,
        http,
        profile,
        chatTemplate: TEMPLATE,
        stopWords: ["<end>"],
      })),
      imageHosts: [`pictures.test:${site.port}`],
      limits: { bodyBytes: BODY_BYTES },
      log: { level: "silent" },
    });
    gateway.gateway.images.network = networkOf({ mayConnect: () => mayReachItself });
  });

  /** Whether the address of this machine counts as public. */
  let mayReachItself = true;

  afterAll(async () => {
    await gateway.app.close();
    await site.close();
    await new Promise((resolve) => triton.close(resolve));
  });

  beforeEach(() => {
    asked = [];
    mayReachItself = true;
  });

  const image = (url: string) => ({ type: "image_url", image_url: { url } });

  const text = (words: string) => ({ type: "text", text: words });

  const chat = (model: string, content: unknown, more: object = {}) =>
    gateway.post("/v1/chat/completions", {
      model,
      messages: [{ role: "user", content }],
      max_tokens: 5,
      ...more,
    });

  test("an image reaches Triton in the form that its preprocessing decodes, with its mark in the prompt", async () => {
    answer = { text_output: "Singapore" };
    const response = await chat("mllama", [image(PNG_URL), text("Which city is this?")], {
      temperature: 0,
    });
    expect(await response.json()).toMatchObject({ choices: [{ message: { content: "Singapore" } }] });
    expect(asked).toEqual([
      {
        path: "/v2/models/ensemble/generate",
        body: {
          text_input: "<|image|>Which city is this?",
          image_url_input: `data:image/jpeg;base64,${PNG}`,
          max_tokens: 5,
          bad_words: "",
          stop_words: ["<end>"],
          top_k: 1,
        },
      },
    ]);
  });

  test("several images reach the model of llmapi as a list, with their marks in the prompt", async () => {
    answer = { text_output: "Two cups", finish_reason: "stop" };
    await chat("qwen", [image(PNG_URL), image(PNG_URL), text("What is there?")]);
    const mark = "<|vision_start|><|image_pad|><|vision_end|>";
    expect(asked[0]?.body).toMatchObject({
      text_input: `${mark}\n${mark}What is there?`,
      image_url: Array(2).fill(`data:image/jpeg;base64,${PNG}`),
    });
  });

  test("an image reaches the model of the llava tutorial as a data URL", async () => {
    answer = { text: "Singapore", finish_reason: "stop", completion_tokens: 1, prompt_tokens: 592 };
    const response = await chat("tutorial", [image(PNG_URL), text("Which city is this?")]);
    expect(await response.json()).toMatchObject({ choices: [{ message: { content: "Singapore" } }] });
    expect(asked[0]?.body).toMatchObject({
      prompt: "<image>Which city is this?",
      image: `data:image/jpeg;base64,${PNG}`,
    });
  });

  test("a chat may have several images, and its answer may be streamed", async () => {
    answer = [{ text_output: "Sing" }, { text_output: "apore" }];
    const content = [text("Compare "), image(PNG_URL), image(PNG_URL)];
    const events = (await (await chat("mllama", content, { stream: true })).text()).split("\n\n");
    expect(events.join()).toMatch(/"content":"Sing".*"content":"apore"/s);
    expect(asked[0]?.path).toBe("/v2/models/ensemble/generate_stream");
    expect(asked[0]?.body).toMatchObject({
      stream: true,
      text_input: "Compare <|image|>\n<|image|>",
      image_url_input: [expect.any(String), expect.any(String)],
    });
  });

  test.each([
    ["vila", "<image>\n<image>What differs?"],
    ["onevision", "What differs?"],
  ] as const)(
    "%s gets two pictures as one text, one of them fetched by the gateway",
    async (model, prompt) => {
      answer = { text_output: "Two." };
      const urls = [PNG_URL, `http://pictures.test:${site.port}/a.png`];
      const response = await chat(model, [...urls.map(image), text("What differs?")]);
      expect(await response.json()).toMatchObject({ choices: [{ message: { content: "Two." } }] });
      const sent = `data:image/jpeg;base64,${PNG}`;
      expect(asked[0]?.body).toMatchObject({
        text_input: prompt,
        image_url_input: `${sent} ${sent}`,
      });
    },
  );

  test("the bytes of each picture are counted, and a refused picture ends the fetches of the others", async () => {
    const silent = await startSite(() => undefined);
    try {
      const context = createImageContext({ hosts: [`pictures.test:${silent.port}`], network: networkOf() });
      const held: number[] = [];
      const call = {
        requestId: "1",
        signal: new AbortController().signal,
        hold: (bytes: number) => held.push(bytes),
      };
      const [file] = await readChatImages([{ url: PNG_URL, param: "a" }], context, call);
      expect(held).toEqual([file?.byteLength]);
      const images = [
        { url: `http://pictures.test:${silent.port}/a.png`, param: "a" },
        { url: "data:image/png;base64,AAAA", param: "b" },
      ];
      await expect(readChatImages(images, context, call)).rejects.toMatchObject({ details: { param: "b" } });
      await vi.waitFor(() => expect(context.fetches.taken).toBe(0));
    } finally {
      await silent.close();
    }
  });

  test("no picture is fetched for a chat that its model does not accept", async () => {
    const before = site.requests.length;
    const url = `http://pictures.test:${site.port}/a.png`;
    for (const [model, count] of [
      ["llmapi", 1],
      ["onevision", 5],
      ["processed", 1],
    ] as const) {
      expect((await chat(model, Array(count).fill(image(url)))).status).toBe(400);
    }
    expect(site.requests).toHaveLength(before);
  });

  test("the gateway does not connect to an address that is not public, with any name", async () => {
    mayReachItself = false;
    const url = `http://pictures.test:${site.port}/a.png`;
    expect(await errorOf(await chat("vila", [image(url)]))).toMatchObject({
      status: 400,
      code: "image_address_not_public",
      param: "messages[0].content[0]",
    });
    expect(asked).toEqual([]);
  });

  test.each<[string, string, number, string]>([
    ["cut off", PNG.slice(0, 76), 422, "image_unreadable"],
    ["of another format behind the first bytes", "/9j/4AAQSkZJRgABAQAAAQABAAD/", 422, "image_unreadable"],
  ])("a picture that is %s is refused before a model is called", async (_what, base64, status, code) => {
    for (const model of ["vila", "mllama", "tutorial"]) {
      const url = `data:image/png;base64,${base64}`;
      expect(await errorOf(await chat(model, [image(url)]))).toMatchObject({
        status,
        code,
        param: "messages[0].content[0]",
      });
    }
    expect(asked).toEqual([]);
  });

  test("an image has an id from its content if the KV cache is reused", async () => {
    answer = { text_output: "a" };
    await chat("onevision", [image(PNG_URL), text("a")]);
    await chat("onevision", [text("b"), image(PNG_URL)]);
    await chat("onevision", [image(`http://pictures.test:${site.port}/a.png`)]);
    const ids = asked.map(({ body }) => body.prompt_table_extra_id);
    expect(ids).toEqual(Array(3).fill(ids[0]));
    expect(ids[0]).toEqual(expect.any(Number));
  });

  test.each<[string, string, object[], Record<string, unknown>, string]>([
    [
      "an address of a host that the configuration lacks, in upper case too",
      "mllama",
      [text("a"), image("HTTPS://example.org/a.png")],
      { param: "messages[0].content[1]", code: "image_host_not_allowed" },
      "points to example.org, which is not in gateway.imageHosts",
    ],
    [
      "a file of the machine",
      "mllama",
      [image("file:///etc/passwd")],
      { code: "invalid_image" },
      "must be an http(s) URL or a data URL",
    ],
    [
      "no image file",
      "mllama",
      [image("data:image/png;base64,R0lGODlh")],
      { code: "invalid_image" },
      "JPEG, PNG or WebP",
    ],
    [
      "one image too many",
      "mllama",
      [image(PNG_URL), image(PNG_URL), image(PNG_URL)],
      { code: "too_many_images" },
      "has 3 images, and this model is served with 2 at most",
    ],
    [
      "a mark in a user's text",
      "mllama",
      [text("<|image|>"), image(PNG_URL)],
      { code: "image_marks_mismatch" },
      "2 times",
    ],
    [
      "no image where one must be",
      "onevision",
      [text("a")],
      { code: "image_missing" },
      "the request has no image",
    ],
    [
      "an image for a repository that takes prepared pixels",
      "processed",
      [image(PNG_URL)],
      { code: "unsupported_image" },
      "takes only processed pixels",
    ],
    [
      "an image for a text model",
      "llmapi",
      [image(PNG_URL)],
      { code: "images_not_supported" },
      "this model reads text only",
    ],
    [
      "sound",
      "mllama",
      [{ type: "input_audio", input_audio: {} }],
      { code: "invalid_value" },
      "must be a part of type text, image_url or video_url",
    ],
    [
      "an image without URL",
      "mllama",
      [{ type: "image_url", image_url: PNG_URL }],
      { param: "messages[0].content[0].image_url" },
      "messages[0].content[0].image_url",
    ],
  ])("the gateway refuses %s before it calls Triton", async (_what, model, content, error, message) => {
    for (const stream of [false, true]) {
      const received = await errorOf(await chat(model, content, { stream }));
      expect(received).toMatchObject({ status: 400, type: "invalid_request_error", ...error });
      expect(received.message).toContain(message);
    }
    expect(asked).toEqual([]);
  });

  test("the gateway refuses an image larger than the body limit before it calls Triton", async () => {
    const large = `${PNG_URL}${"A".repeat(BODY_BYTES)}`;
    expect(await errorOf(await chat("mllama", [image(large)]))).toMatchObject({
      status: 413,
      code: "body_too_large",
    });
    expect(asked).toEqual([]);
  });

  test("the gateway refuses a parameter for which the repository has no input before it calls Triton", async () => {
    expect(await errorOf(await chat("blind", "a", { top_p: 0.5 }))).toMatchObject({
      status: 400,
      param: "top_p",
      code: "unsupported_option",
    });
    expect(asked).toEqual([]);
  });

  test("an llmapi repository is called with its own input names, and its answer is cut at stop words that it does not support", async () => {
    answer = { text_output: "Paris<end> and", finish_reason: "length" };
    const response = await chat("llmapi", "Capital of France?", { seed: 3, stop: "." });
    expect(await response.json()).toMatchObject({
      choices: [{ message: { content: "Paris" }, finish_reason: "stop" }],
    });
    expect(asked).toEqual([
      {
        path: "/v2/models/tensorrt_llm/generate",
        body: {
          text_input: "Capital of France?",
          sampling_param_max_tokens: 5,
          sampling_param_temperature: 1,
          sampling_param_top_p: 1,
          sampling_param_top_k: 0,
          sampling_param_exclude_input_from_output: true,
          return_finish_reason: true,
        },
      },
    ]);
  });

  test("an llmapi stream that repeats all text in each event becomes a stream of new text with a finish reason", async () => {
    answer = [
      { text_output: "Par", finish_reason: "None" },
      { text_output: "Paris", finish_reason: "length" },
    ];
    const body = await (await chat("llmapi", "a", { stream: true })).text();
    expect([...body.matchAll(/"content":"(.*?)"/g)].map((match) => match[1]).join("")).toBe("Paris");
    expect(body).toContain('"finish_reason":"length"');
  });

  test("an unfinished character at the end of a cumulative stream reaches the client", async () => {
    answer = [{ text_output: "a" }, { text_output: "a\uFFFD" }];
    const body = await (await chat("llmapi", "a", { stream: true })).text();
    expect([...body.matchAll(/"content":"(.*?)"/g)].map((match) => match[1]).join("")).toBe("a\uFFFD");
  });

  test.each([true, false])(
    "when Triton refuses a prompt, the other prompts of the request end (stream: %s)",
    async (stream) => {
      let started = false;
      let left = false;
      answer = async (prompt: unknown, response: ServerResponse) => {
        if (prompt === "refused") {
          await until(() => started);
          return response.writeHead(400).end(JSON.stringify({ error: "too long" }));
        }
        response.on("close", () => {
          left = true;
        });
        response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
        started = true;
      };
      const prompt = ["endless", "refused"];
      const refusal = await gateway.post("/v1/completions", { model: "llmapi", prompt, stream });
      expect(await errorOf(refusal)).toMatchObject({ status: 400, code: "refused_by_model" });
      await until(() => left);
    },
  );

  test("a client that leaves a stream of several prompts ends them all", async () => {
    let left = 0;
    answer = async (_prompt: unknown, response: ServerResponse) => {
      response.on("close", () => {
        left += 1;
      });
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write('data: {"text_output":"a"}\n\n');
    };
    const leaver = new AbortController();
    const { body } = await fetch(`${gateway.url}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "llmapi", prompt: ["one", "two"], stream: true }),
      signal: leaver.signal,
    });
    await body?.getReader().read();
    leaver.abort();
    await until(() => left === 2);
  });

  test("an error of Triton in the middle of a stream ends it with an error event", async () => {
    answer = [{ text_output: "a" }, { error: "out of memory on /dev/nvidia0" }];
    const body = await (await chat("llmapi", "a", { stream: true })).text();
    expect(body).toContain('"code":"upstream_failed"');
    expect(body).not.toContain("nvidia0");
    expect(body).not.toContain("[DONE]");
  });
});
