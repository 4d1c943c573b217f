/** Images in chats, and models of other repositories, against a Triton that records what it is asked. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { imageProfile, type RequestProfile, requestProfile } from "@engine-room/triton-requests";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { errorOf, type RunningGateway, startGateway } from "./support.ts";

const PNG = Buffer.from("89504e470d0a1a0a0000000d", "hex").toString("base64");
const PNG_URL = `data:image/png;base64,${PNG}`;
/** All text of the messages, one behind the other. */
const TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}";
const BODY_BYTES = 100_000;

const PROFILES: Readonly<Record<string, RequestProfile>> = {
  mllama: requestProfile("multimodal", {
    image: imageProfile("mllama", "multimodal", { maxImages: 2, tokensPerImage: 0 }),
  }),
  onevision: requestProfile("multimodal", {
    image: imageProfile("llava_onevision", "multimodal", { maxImages: 1, tokensPerImage: 700 }),
    kvCacheReuse: true,
  }),
  tutorial: requestProfile("llava"),
  processed: requestProfile("multimodal", {
    image: imageProfile("llava", "multimodal", { maxImages: 1, tokensPerImage: 576 }),
  }),
  blind: requestProfile("llava", { image: null }),
  llmapi: requestProfile("llmapi", { decoupled: true }),
};

interface Asked {
  readonly path: string;
  readonly body: Readonly<Record<string, unknown>>;
}

let triton: Server;
let gateway: RunningGateway;
let asked: Asked[] = [];
/** What Triton answers: one object for /generate, a list of events for /generate_stream. */
let answer: object | readonly object[] = {};

beforeAll(async () => {
  triton = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    asked.push({ path: request.url ?? "", body: JSON.parse(Buffer.concat(chunks).toString()) });
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
  gateway = await startGateway({
    models: Object.entries(PROFILES).map(([name, profile]) => ({
      name,
      http,
      profile,
      chatTemplate: TEMPLATE,
      stopWords: ["<end>"],
    })),
    limits: { bodyBytes: BODY_BYTES },
    log: { level: "silent" },
  });
});
afterAll(async () => {
  await gateway.app.close();
  await new Promise((resolve) => triton.close(resolve));
});
beforeEach(() => {
  asked = [];
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

describe("an image in a chat", () => {
  it("reaches Triton in the form that its preprocessing decodes, with its mark in the prompt", async () => {
    answer = { text_output: "Singapore" };
    const response = await chat("mllama", [image(PNG_URL), text("Which city is this?")], { temperature: 0 });
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

  it("reaches the tutorials' model, which fetches none then", async () => {
    answer = { text: "Singapore", finish_reason: "stop", completion_tokens: 1, prompt_tokens: 592 };
    const response = await chat("tutorial", [image(PNG_URL), text("Which city is this?")]);
    expect(await response.json()).toMatchObject({ choices: [{ message: { content: "Singapore" } }] });
    expect(asked[0]?.body).toMatchObject({
      prompt: "<image>Which city is this?",
      image: `data:image/jpeg;base64,${PNG}`,
    });
  });

  it("may have company, and an answer in pieces", async () => {
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

  it("has an id of its content where the KV cache is reused", async () => {
    answer = { text_output: "a" };
    await chat("onevision", [image(PNG_URL), text("a")]);
    await chat("onevision", [text("b"), image(PNG_URL)]);
    const ids = asked.map(({ body }) => body.prompt_table_extra_id);
    expect(ids[0]).toEqual(expect.any(Number));
    expect(ids[0]).toBe(ids[1]);
  });
});

describe("refused before Triton is asked", () => {
  it.each<[string, string, object[], Record<string, unknown>, string]>([
    [
      "an address, in upper case too",
      "mllama",
      [text("a"), image("HTTPS://example.org/a.png")],
      { param: "messages[0].content[1]", code: "unsupported_content" },
      "only data URLs are accepted",
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
      "has 3 images, and this model takes 2 at most",
    ],
    [
      "a mark that somebody wrote",
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
      "the request has none",
    ],
    [
      "an image for a repository that takes prepared pixels",
      "processed",
      [image(PNG_URL)],
      { param: "messages[0].content[0]", code: "unsupported_content" },
      "takes images as processedPixels only",
    ],
    [
      "an image for a text model",
      "llmapi",
      [image(PNG_URL)],
      { param: "messages[0].content[0]", code: "unsupported_content" },
      "llmapi reads text only",
    ],
    [
      "sound",
      "mllama",
      [{ type: "input_audio", input_audio: {} }],
      { code: "unsupported_content" },
      "reads text and images, and this part is of type input_audio",
    ],
    [
      "an image without URL",
      "mllama",
      [{ type: "image_url", image_url: PNG_URL }],
      { param: "messages[0].content[0].image_url" },
      "messages[0].content[0].image_url",
    ],
  ])("%s", async (_what, model, content, error, message) => {
    for (const stream of [false, true]) {
      const received = await errorOf(await chat(model, content, { stream }));
      expect(received).toMatchObject({ status: 400, type: "invalid_request_error", ...error });
      expect(received.message).toContain(message);
    }
    expect(asked).toEqual([]);
  });

  it("an image larger than a body may be", async () => {
    const large = `${PNG_URL}${"A".repeat(BODY_BYTES)}`;
    expect(await errorOf(await chat("mllama", [image(large)]))).toMatchObject({
      status: 413,
      code: "body_too_large",
    });
    expect(asked).toEqual([]);
  });

  it("a parameter for which the repository has no input", async () => {
    expect(await errorOf(await chat("blind", "a", { top_p: 0.5 }))).toMatchObject({
      status: 400,
      param: "top_p",
      code: "unsupported_option",
    });
    expect(asked).toEqual([]);
  });
});

describe("a model of TensorRT-LLM's llmapi repository", () => {
  it("is asked by its own names, and cut at stop words that it does not take", async () => {
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
          sampling_param_seed: 3,
          sampling_param_exclude_input_from_output: true,
          return_finish_reason: true,
        },
      },
    ]);
  });

  it("streams all text so far in each event, and says why it ended", async () => {
    answer = [
      { text_output: "Par", finish_reason: "None" },
      { text_output: "Paris", finish_reason: "length" },
    ];
    const body = await (await chat("llmapi", "a", { stream: true })).text();
    expect([...body.matchAll(/"content":"(.*?)"/g)].map((match) => match[1]).join("")).toBe("Paris");
    expect(body).toContain('"finish_reason":"length"');
  });
});

it("Triton's error in the middle of a stream ends it with an error event", async () => {
  answer = [{ text_output: "a" }, { error: "out of memory on /dev/nvidia0" }];
  const body = await (await chat("llmapi", "a", { stream: true })).text();
  expect(body).toContain('"code":"upstream_failed"');
  expect(body).not.toContain("nvidia0");
  expect(body).not.toContain("[DONE]");
});
