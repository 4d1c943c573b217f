/** Answers and descriptions: what the language model is asked, what the client gets, and how it fails. */
import { imageProfile, requestProfile } from "@engine-room/triton-requests";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { CHATML, errorOf, type RunningGateway, startGateway, until } from "../gateway/support.ts";
import { useDatabasesAndTriton } from "./databases-and-triton.ts";
import { dataUrl, picture } from "./support.ts";

const { triton, config } = useDatabasesAndTriton();
let gateway: RunningGateway;
/** With a vision-language model beside the text model. */
let seeing: RunningGateway;
let cat: string;

beforeAll(async () => {
  const { models = [] } = config();
  const seer = {
    name: "seer",
    http: triton().url,
    profile: requestProfile("multimodal", {
      image: imageProfile("mllama", "multimodal", { maxImages: 1, tokensPerImage: 0 }),
    }),
    chatTemplate: CHATML,
  };
  const tiny = { name: "tiny", http: triton().url, chatTemplate: CHATML, maxTokens: 40, contextTokens: 200 };
  gateway = await startGateway(config({ models: [...models, tiny] }));
  seeing = await startGateway(config({ models: [...models, seer] }));
  cat = dataUrl(await picture("grey", "brown"));
  await gateway.post("/v1/documents", {
    documents: [
      { id: "cat", text: "A tabby cat sleeps\non a grey sofa.", image: cat },
      { id: "dog", text: "A brown dog runs on the beach.", image: dataUrl(await picture("yellow", "blue")) },
      { id: "long", text: `The history of lighthouses. ${"They shine far over the sea. ".repeat(400)}` },
      { id: "mute", image: dataUrl(await picture("black", "white")) },
    ],
  });
});
afterAll(async () => {
  await Promise.all([gateway?.app.close(), seeing?.app.close()]);
});
beforeEach(() => {
  triton().behaviour.breaksStream = false;
});

const prompt = () => String(triton().generations[0]?.text_input);

describe("an answer", () => {
  it("is greedy, from the documents that fit best, which are its sources", async () => {
    const response = await gateway.post("/v1/answer", { question: "Where does the dog run?", topK: 1 });
    expect(await response.json()).toMatchObject({
      answer: "It is a cat.",
      sources: [{ id: "dog", text: "A brown dog runs on the beach.", score: expect.any(Number) }],
      model: "small",
      imageUsed: false,
      finishReason: "stop",
      usage: { prompt_tokens: expect.any(Number), completion_tokens: expect.any(Number), estimated: true },
    });
    expect(triton().generations).toMatchObject([{ top_k: 1, path: "/v2/models/ensemble/generate" }]);
    expect(prompt()).toMatch(/A brown dog runs on the beach\.\n\nQuestion: Where does the dog run\?/);
    expect(triton().encoderCalls).toHaveLength(1);
  });

  it("to a question about a picture stands on the caption of the picture that looks like it", async () => {
    const response = await gateway.post("/v1/answer", {
      question: "Which animal is in the picture?",
      image: cat,
    });
    const body = (await response.json()) as { sources: { id: string }[]; note: string; imageUsed: boolean };
    expect(prompt()).toContain(
      "The picture shows: A tabby cat sleeps on a grey sofa.\n\nQuestion: Which animal",
    );
    expect(body.sources.map(({ id }) => id)).toContain("cat");
    expect(body.imageUsed).toBe(false);
    expect(body.note).toContain("small takes no images");
  });

  it("shows the image to a model that takes images", async () => {
    const response = await seeing.post("/v1/answer", {
      question: "Which animal?",
      image: cat,
      model: "seer",
    });
    expect(await response.json()).toMatchObject({ imageUsed: true, model: "seer" });
    expect(prompt()).toContain("<|image|>");
    expect(JSON.stringify(triton().generations[0])).toContain("data:image/jpeg;base64,");
  });

  it("fits the context of its model: what is cut off is no source", async () => {
    const ask = async (more: object) => {
      const response = await gateway.post("/v1/answer", { question: "lighthouses", model: "tiny", ...more });
      return (await response.json()) as { sources: { id: string }[] };
    };
    const { sources } = await ask({});
    // Two bytes a token at least: 200 tokens of context, 40 of them for the answer.
    expect(Buffer.byteLength(prompt())).toBeLessThan((200 - 40) * 2);
    expect(prompt()).toContain("The history of lighthouses. They shine");
    expect(sources.map(({ id }) => id)).toEqual(["long"]);
  });

  it("is empty, with a note, where nothing with a text was found", async () => {
    const ask = { question: "anything", filter: { "metadata.none": "x" } };
    expect(await (await gateway.post("/v1/answer", ask)).json()).toMatchObject({
      answer: "",
      sources: [],
      note: expect.stringContaining("No document"),
      usage: { total_tokens: 0 },
    });
    expect(triton().generations).toEqual([]);
  });

  it("refuses what its model can't do, before anything is looked for", async () => {
    for (const [body, status, code] of [
      [{ question: "a", model: "none" }, 404, "model_not_found"],
      [{ question: "a", model: "words" }, 400, "unsupported_model"],
      [{ question: "a", temperature: 1 }, 400, "invalid_value"],
    ] as const) {
      expect(await errorOf(await gateway.post("/v1/answer", body))).toMatchObject({ status, code });
    }
    expect(triton().encoderCalls).toEqual([]);
    const many = await gateway.post("/v1/answer", { question: "a", maxTokens: 5000 });
    expect(await errorOf(many)).toMatchObject({ status: 400, code: "max_tokens_too_large" });
    const long = await gateway.post("/v1/answer", { question: "a b ".repeat(2000) });
    expect(await errorOf(long)).toMatchObject({ status: 400, code: "no_room", param: "question" });
    expect(triton().generations).toEqual([]);
  });
});

interface ServerEvent {
  readonly event: string;
  readonly data: Record<string, unknown>;
}

async function eventsOf(response: Response): Promise<ServerEvent[]> {
  return (await response.text())
    .trimEnd()
    .split("\n\n")
    .map((block) => {
      const [, event = "", data = ""] = /^event: (\w+)\ndata: (.*)$/.exec(block) ?? [];
      return { event, data: JSON.parse(data) as Record<string, unknown> };
    });
}

describe("a streamed answer", () => {
  it("sends sources, then text, then usage", async () => {
    const response = await gateway.post("/v1/answer", { question: "the dog", stream: true });
    expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    const events = await eventsOf(response);
    expect(events.map(({ event }) => event)).toEqual(["sources", "delta", "delta", "done"]);
    expect(events[0]?.data).toMatchObject({ sources: [{ id: "dog" }, {}], model: "small", imageUsed: false });
    expect(
      events
        .slice(1, 3)
        .map(({ data }) => data.text)
        .join(""),
    ).toBe("It is a cat.");
    expect(events[3]?.data).toMatchObject({ finishReason: "stop", usage: { completion_tokens: 2 } });
    expect(triton().generations).toMatchObject([{ path: "/v2/models/ensemble/generate_stream" }]);
  });

  it("ends with an error where the model breaks off", async () => {
    triton().behaviour.breaksStream = true;
    const events = await eventsOf(await gateway.post("/v1/answer", { question: "the dog", stream: true }));
    expect(events.at(-1)).toMatchObject({ event: "error", data: { error: { code: "upstream_broken" } } });
  });

  it("ends at once where nothing was found", async () => {
    const body = { question: "the dog", stream: true, filter: { "metadata.none": 1 } };
    const events = await eventsOf(await gateway.post("/v1/answer", body));
    expect(events.map(({ event }) => event)).toEqual(["sources", "done"]);
  });

  it("leaves nothing behind when its client leaves", async () => {
    const leaver = new AbortController();
    const response = await fetch(`${gateway.url}/v1/answer`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ question: "the dog", stream: true }),
      signal: leaver.signal,
    });
    await response.body?.getReader().read();
    leaver.abort();
    await until(() => gateway.gateway.inFlight === 0 && gateway.gateway.limiter.taken === 0);
  });
});

describe("via: describe", () => {
  it("looks for what a vision-language model says of the image", async () => {
    triton().behaviour.answer = [" A brown dog ", "runs on the beach. "];
    const response = await seeing.post("/v1/match", { image: cat, via: "describe", topK: 1 });
    triton().behaviour.answer = ["It is ", "a cat."];
    expect(await response.json()).toMatchObject({
      via: "describe",
      description: "A brown dog runs on the beach.",
      matches: [{ id: "dog", scores: { text: { rank: 1 } } }],
      fusion: null,
    });
    expect(triton().encoderCalls).toMatchObject([
      { model: "text_encoder", texts: ["A brown dog runs on the beach."] },
    ]);
  });
});
