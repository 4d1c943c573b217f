/** The API over its port, as far as it needs no model: every request here is refused, or asks about the gateway itself. */
import { request as httpRequest } from "node:http";
import { validate } from "@seriousme/openapi-schema-validator";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CHAT, closedPort, configOf, type RunningGateway, sha256, startGateway } from "./support.ts";

let gateway: RunningGateway;

beforeAll(async () => {
  const port = await closedPort();
  gateway = await startGateway(configOf({ encoders: port, model: port }));
});
afterAll(() => gateway.app.close());

const chat = (more: object) => gateway.post("/v1/chat/completions", { ...CHAT, ...more });

async function errorOf(
  response: Response,
): Promise<{ status: number; message: string; type: string; param: string | null; code: string | null }> {
  expect(response.headers.get("content-type")).toMatch(/^application\/json/);
  const { error } = (await response.json()) as {
    error: { message: string; type: string; param: string | null; code: string | null };
  };
  return { status: response.status, ...error };
}

describe("bad requests", () => {
  it.each([
    ["broken JSON", '{"model": "smol', "invalid_json"],
    ["no body", "", "empty_body"],
  ])("refuses %s", async (_what, body, code) => {
    expect(await errorOf(await gateway.post("/v1/chat/completions", body))).toMatchObject({
      status: 400,
      type: "invalid_request_error",
      code,
    });
  });

  it("refuses what is not JSON", async () => {
    const response = await gateway.post("/v1/embeddings", "model=x", {
      "content-type": "application/x-www-form-urlencoded",
    });
    expect(await errorOf(response)).toMatchObject({ status: 415, code: "unsupported_media_type" });
  });

  it.each([
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
  ])("names the parameter of %j", async (more, param) => {
    const error = await errorOf(await chat(more));
    expect(error).toMatchObject({ status: 400, type: "invalid_request_error", param });
    expect(error.message).toContain(param);
  });

  it("lists all of several wrong parameters", async () => {
    const { message } = await errorOf(await chat({ temperature: 9, top_p: 9, seed: -1 }));
    expect(message).toMatch(/temperature: .*; top_p: .*; seed: /);
  });

  it("takes null for what was not given", async () => {
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

  it("refuses an image until a model here can see", async () => {
    const content = [
      { type: "text", text: "What is this?" },
      { type: "image_url", image_url: { url: "data:image/png;base64,AA==" } },
    ];
    const error = await errorOf(await chat({ messages: [{ role: "user", content }] }));
    expect(error).toMatchObject({
      status: 400,
      param: "messages[0].content[1]",
      code: "unsupported_content",
    });
    expect(error.message).toContain("smollm2 reads text only");
  });

  it("refuses a thousand million tokens, with the model's limit", async () => {
    const error = await errorOf(await chat({ max_tokens: 1_000_000_000 }));
    expect(error).toMatchObject({ status: 400, param: "max_tokens" });
    expect(error.message).toContain("1000000000");
    expect(error.message).toContain("1024");
  });

  it("refuses a chat with a model that has no chat template", async () => {
    expect(await errorOf(await chat({ model: "base-model" }))).toMatchObject({
      status: 400,
      param: "model",
      code: "unsupported_model",
    });
  });

  it.each([
    ["an empty text", { input: "" }, "input"],
    ["an empty list", { input: [] }, "input"],
    ["an empty text in a list", { input: ["a", ""] }, "input[1]"],
    ["token ids", { input: [1, 2, 3] }, "input[0]"],
    ["2,049 texts", { input: Array(2049).fill("a") }, "input"],
    ["another dimension", { input: "a", dimensions: 128 }, "dimensions"],
    ["an unknown encoding", { input: "a", encoding_format: "hex" }, "encoding_format"],
    ["a model that makes text", { input: "a", model: "smollm2" }, "model"],
  ])("refuses %s as embedding input", async (_what, more, param) => {
    const response = await gateway.post("/v1/embeddings", { model: "all-MiniLM-L6-v2", ...more });
    expect(await errorOf(response)).toMatchObject({ status: 400, param });
  });

  it.each([
    ["an empty prompt", { prompt: "" }, "prompt"],
    ["17 prompts", { prompt: Array(17).fill("a") }, "prompt"],
    ["token ids", { prompt: [1, 2] }, "prompt[0]"],
    ["no prompt", {}, "prompt"],
    ["echo", { prompt: "a", echo: true }, "echo"],
    ["a model that makes vectors", { prompt: "a", model: "all-MiniLM-L6-v2" }, "model"],
  ])("refuses %s as completion", async (_what, more, param) => {
    expect(await errorOf(await gateway.post("/v1/completions", { model: "smollm2", ...more }))).toMatchObject(
      { status: 400, param },
    );
  });

  it("refuses a body of 50 MB before reading it all", async () => {
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

  it("refuses a large body that does not say its size", async () => {
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
});

describe("unknown things", () => {
  it("are model_not_found for models, on every endpoint", async () => {
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

  it("are 404 in OpenAI's shape under /v1 and problem details elsewhere", async () => {
    expect(await errorOf(await fetch(`${gateway.url}/v1/nothing`))).toMatchObject({
      status: 404,
      code: "not_found",
    });
    const elsewhere = await fetch(`${gateway.url}/nothing?key=secret`);
    expect(elsewhere.headers.get("content-type")).toMatch(/^application\/problem\+json/);
    expect(await elsewhere.json()).toMatchObject({
      type: "about:blank",
      title: "Not Found",
      status: 404,
      instance: "/nothing",
    });
  });
});

describe("while Triton is away", () => {
  it("answers 503 with Retry-After on every endpoint that needs it", async () => {
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

  it("lives, and is not ready, and says who is missing", async () => {
    expect((await fetch(`${gateway.url}/healthz`)).status).toBe(200);
    const response = await fetch(`${gateway.url}/readyz`);
    expect(response.status).toBe(503);
    expect(response.headers.get("retry-after")).toBe("5");
    expect(await response.json()).toMatchObject({
      code: "not_ready",
      upstreams: ["encoders", "smollm2", "base-model"].map((name) => ({
        name,
        ready: false,
        reason: expect.stringContaining("ECONNREFUSED"),
      })),
    });
  });

  it("counts what failed", async () => {
    await chat({});
    const text = await (await fetch(`${gateway.url}/metrics`)).text();
    expect(text).toMatch(/^gateway_upstream_errors_total\{upstream="smollm2",kind="away"\} [1-9]/m);
    expect(text).toMatch(
      /^gateway_http_requests_total\{route="\/v1\/chat\/completions",model="smollm2",status="503"\} [1-9]/m,
    );
    expect(text).not.toContain("gpt-4o");
  });
});

describe("the official OpenAI client", () => {
  const client = () => new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: "none", maxRetries: 0 });

  it("lists the models", async () => {
    const ids: string[] = [];
    for await (const model of client().models.list()) ids.push(model.id);
    expect(ids).toEqual(["all-MiniLM-L6-v2", "smollm2", "base-model"]);
    expect(await client().models.retrieve("smollm2")).toMatchObject({
      id: "smollm2",
      object: "model",
      owned_by: "engine-room",
    });
  });

  it("throws the exceptions that its users catch", async () => {
    const messages = [{ role: "user" as const, content: "hi" }];
    await expect(client().models.retrieve("nope")).rejects.toBeInstanceOf(OpenAI.NotFoundError);
    await expect(client().chat.completions.create({ model: "smollm2", messages: [] })).rejects.toBeInstanceOf(
      OpenAI.BadRequestError,
    );
    await expect(client().chat.completions.create({ model: "smollm2", messages })).rejects.toBeInstanceOf(
      OpenAI.InternalServerError,
    );
    await expect(client().embeddings.create({ model: "all-MiniLM-L6-v2", input: "" })).rejects.toMatchObject({
      status: 400,
      param: "input",
      requestID: expect.any(String),
    });
  });
});

describe("every answer", () => {
  it("has the request id, security headers, and no word about the software", async () => {
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
});

describe("the description", () => {
  it("is a valid OpenAPI 3.1 document with every endpoint", async () => {
    const document = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as {
      openapi: string;
      paths: object;
    };
    expect(await validate(document)).toMatchObject({ valid: true });
    expect(document.openapi).toBe("3.1.0");
    expect(Object.keys(document.paths).sort()).toEqual([
      "/healthz",
      "/metrics",
      "/readyz",
      "/v1/chat/completions",
      "/v1/completions",
      "/v1/embeddings",
      "/v1/models",
      "/v1/models/{id}",
    ]);
  });

  it("has a page that loads nothing from elsewhere", async () => {
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
});

describe("API keys", () => {
  let guarded: RunningGateway;
  beforeAll(async () => {
    const port = await closedPort();
    guarded = await startGateway(
      configOf(
        { encoders: port, model: port },
        { apiKeys: [{ name: "alice", sha256: sha256("sk-alice") }], limits: { bodyBytes: 1024 } },
      ),
    );
  });
  afterAll(() => guarded.app.close());

  it("are asked for under /v1 before the body is looked at", async () => {
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

  it("let their owner in", async () => {
    const response = await fetch(`${guarded.url}/v1/models`, {
      headers: { authorization: "Bearer sk-alice" },
    });
    expect(response.status).toBe(200);
  });

  it("are not asked for by probes, metrics and documentation", async () => {
    for (const path of ["/healthz", "/metrics", "/docs", "/openapi.json"])
      expect((await fetch(guarded.url + path)).status).toBe(200);
    const document = await (await fetch(`${guarded.url}/openapi.json`)).json();
    expect(document).toMatchObject({ paths: { "/v1/models": { get: { security: [{ apiKey: [] }] } } } });
  });

  it("keep the configured size of bodies", async () => {
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

describe("the rate limit", () => {
  it("counts over all endpoints, for each key on its own", async () => {
    const port = await closedPort();
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
