/** Requests that are refused before any model is asked, each with what the client is told. */
import { request as httpRequest } from "node:http";
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CHAT, closedPort, configOf, errorOf, type RunningGateway, startGateway } from "./support.ts";

let gateway: RunningGateway;

beforeAll(async () => {
  const port = await closedPort();
  gateway = await startGateway(configOf({ encoders: port, model: port }));
});
afterAll(() => gateway.app.close());

const chat = (more: object) => gateway.post("/v1/chat/completions", { ...CHAT, ...more });

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

  it("does not cut off a client that is still sending its large body", async () => {
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
