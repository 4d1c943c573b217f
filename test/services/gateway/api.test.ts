/** The API over its port, as far as it needs no model. */
import { Validator } from "@seriousme/openapi-schema-validator";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CHAT, closedPort, configOf, errorOf, type RunningGateway, sha256, startGateway } from "./support.ts";

let gateway: RunningGateway;

beforeAll(async () => {
  const port = await closedPort();
  gateway = await startGateway(configOf({ encoders: port, model: port }));
});
afterAll(() => gateway.app.close());

const chat = (more: object) => gateway.post("/v1/chat/completions", { ...CHAT, ...more });

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
