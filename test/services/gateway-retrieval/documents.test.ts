/** Documents, matches and answers, and their limits, over real database processes. */
import { imageProfile, requestProfile } from "@engine-room/triton-requests";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { visionTypes } from "../../../infra/plan/catalogue/vision-types.ts";
import { CHATML, errorOf, type RunningGateway, startGateway } from "../gateway/support.ts";
import { until } from "../service-process.ts";
import { agree, contentsOf, dataUrl, picture, useDatabasesAndTriton, useGateway } from "./support.ts";

const shared = useDatabasesAndTriton();
const { databases, triton } = shared;
const gateway = useGateway(shared);

const write = async (body: unknown) => {
  const response = await gateway().post("/v1/documents", body);
  return {
    status: response.status,
    ...((await response.json()) as { documents: Record<string, unknown>[] }),
  };
};

const read = (path: string, init?: RequestInit) => fetch(`${gateway().url}/v1${path}`, init);

test("a document is created, unchanged, updated, and deleted", async () => {
  const document = {
    id: "a/b c".replace(" ", "+"),
    text: "a grey cat",
    metadata: { year: 2020, tags: ["x", "y"] },
  };
  expect(await write(document)).toMatchObject({
    status: 200,
    documents: [{ id: document.id, status: "created" }],
  });
  expect(triton().encoderCalls).toHaveLength(1);
  expect(await write({ ...document, metadata: { tags: ["x", "y"], year: 2020 } })).toMatchObject({
    documents: [{ status: "unchanged" }],
  });
  expect(triton().encoderCalls).toHaveLength(1);
  expect(await write({ ...document, text: "a black cat" })).toMatchObject({
    documents: [{ status: "updated" }],
  });
  const path = `/documents/${encodeURIComponent(document.id)}`;
  expect(await (await read(path)).json()).toMatchObject({
    id: document.id,
    text: "a black cat",
    metadata: document.metadata,
    image: null,
    createdAt: expect.stringMatching(/Z$/),
  });
  for (let twice = 0; twice < 2; twice++) expect((await read(path, { method: "DELETE" })).status).toBe(204);
  expect(await errorOf(await read(path))).toMatchObject({ status: 404, code: "document_not_found" });
  expect(agree(await contentsOf(databases()))).toBe(true);
});

test("a document without an id gets a new id", async () => {
  const { documents } = await write({ text: "nameless" });
  const [{ id } = {}] = documents;
  expect(id).toMatch(/^[0-9a-f-]{36}$/);
  expect((await read(`/documents/${id}`, { method: "DELETE" })).status).toBe(204);
});

test("a document's image is served for caching by browsers", async () => {
  const image = dataUrl(await picture("red", "blue"));
  await write({ id: "flag", text: "a flag", image });
  const { image: shown } = (await (await read("/documents/flag")).json()) as {
    image: { url: string; width: number };
  };
  expect(shown.width).toBe(64);
  const first = await fetch(gateway().url + shown.url);
  expect(first.headers.get("content-type")).toBe("image/jpeg");
  expect(first.headers.get("cache-control")).toContain("immutable");
  expect(
    Buffer.from(await first.arrayBuffer())
      .subarray(0, 2)
      .toString("hex"),
  ).toBe("ffd8");
  const etag = first.headers.get("etag") ?? "";
  const plain = await read("/documents/flag/image", { headers: { "if-none-match": etag } });
  expect([plain.status, plain.headers.get("cache-control")]).toEqual([304, "private, no-cache"]);
  const other = await read(`/documents/flag/image?sha256=${"0".repeat(64)}`);
  expect(await errorOf(other)).toMatchObject({ status: 404 });
  expect(triton().encoderCalls).toMatchObject([{ model: "llava_ensemble", rows: 1 }]);
  await read("/documents/flag", { method: "DELETE" });
});

test("a document can come as a form with a file", async () => {
  const form = new FormData();
  form.set("id", "form");
  form.set("metadata", '{"from":"form"}');
  form.set(
    "image",
    new Blob([new Uint8Array(await picture("green", "white", { format: "webp" }))]),
    "a.webp",
  );
  const response = await fetch(`${gateway().url}/v1/documents`, { method: "POST", body: form });
  expect(await response.json()).toEqual({ documents: [{ id: "form", status: "created" }] });
  expect(await (await read("/documents/form")).json()).toMatchObject({
    text: null,
    metadata: { from: "form" },
    image: { height: 64 },
  });
  expect(triton().encoderCalls).toMatchObject([{ model: "vision_encoder" }]);
  const query = new FormData();
  query.set(
    "image",
    new Blob([new Uint8Array(await picture("green", "white", { size: 40, format: "jpeg" }))]),
  );
  query.set("topK", "1");
  const found = await fetch(`${gateway().url}/v1/match`, { method: "POST", body: query });
  expect(await found.json()).toMatchObject({
    matches: [{ id: "form", scores: { image: { rank: 1 } } }],
    fusion: null,
  });
  await read("/documents/form", { method: "DELETE" });
});

describe("prefixes", () => {
  const { config } = shared.inArea("prefixes");

  /** Each encoder's texts, and those of `requests` in their order. */
  const textsOf = async (requests: () => Promise<unknown>) => {
    triton().encoderCalls.length = 0;
    await requests();
    return triton().encoderCalls.map(({ model, texts }) => [model, ...texts]);
  };

  const start = async (document: string, collection: string) => {
    const { encoders, databases: both } = config();
    const gateway = await startGateway(
      config({
        encoders: encoders && { ...encoders, prefixes: { query: "query: ", document } },
        databases: both && { ...both, vector: { ...both.vector, collection } },
      }),
    );
    await gateway.post("/v1/reindex", {});
    return gateway;
  };

  test("texts of documents and of searches get their prefixes, and those of /v1/embeddings none", async () => {
    const longest = "a".repeat(65_536);
    const image = dataUrl(await picture("red", "blue"));
    const { post, app } = await start("passage: ", "first");
    try {
      const documents = [{ text: "a grey cat" }, { text: longest }, { image }, { text: "a flag", image }];
      const written = await textsOf(() =>
        post("/v1/documents", { documents: documents.map((one, index) => ({ id: `p${index}`, ...one })) }),
      );
      expect(new Set(written)).toEqual(
        new Set([
          ["text_encoder", "passage: a grey cat", `passage: ${longest}`],
          ["vision_encoder"],
          ["llava_ensemble", "passage: a flag"],
        ]),
      );
      const searched = await textsOf(async () => {
        await post("/v1/match", { text: "a cat" });
        await post("/v1/match", { image });
        await post("/v1/match", { text: "a flag", image });
        await post("/v1/answer", { question: "Which cat?", model: "small" });
      });
      expect(searched).toEqual([
        ["text_encoder", "query: a cat"],
        ["vision_encoder"],
        ["llava_ensemble", "query: a flag"],
        ["text_encoder", "query: Which cat?"],
      ]);
      expect(JSON.stringify(triton().generations)).toContain("Which cat?");
      expect(JSON.stringify(triton().generations)).not.toMatch(/query: |passage: /);
      const made = await post("/v1/embeddings", { model: "words", input: "a cat" });
      expect(await made.json()).toMatchObject({ usage: { prompt_tokens: 2 } });
      expect((await post("/v1/match", { text: " " })).status).toBe(400);
      expect(triton().encoderCalls.at(-1)?.texts).toEqual(["a cat"]);
    } finally {
      await app.close();
    }
  });

  test("a collection for another prefix is filled from the same documents", async () => {
    const first = await start("passage: ", "first");
    await first.post("/v1/documents", { id: "kept", text: "a white dog" });
    await first.app.close();
    let second: RunningGateway | undefined;
    const indexed = await textsOf(async () => {
      second = await start("text: ", "second");
    });
    expect(indexed.flat()).toContain("text: a white dog");
    try {
      const found = await second?.post("/v1/match", { text: "a white dog", topK: 1 });
      expect(await found?.json()).toMatchObject({ matches: [{ id: "kept", text: "a white dog" }] });
    } finally {
      await second?.app.close();
    }
  });
});

test("only the wrong document of a batch fails, with its own status", async () => {
  triton().behaviour.refuses = "POISON";
  const { status, documents } = await write({
    documents: [
      { id: "b0", text: "zero" },
      { id: "b1", text: 5 },
      { id: "b2", text: "POISON" },
      { id: "b3", text: "three", image: "data:image/png;base64,AAAA" },
      { id: "b0", text: "again" },
      { id: "b4", text: "four", colour: "red" },
      ...Array.from({ length: 20 }, (_, index) => ({ id: `c${index}`, text: `text ${index}` })),
      { id: "../x", text: "y" },
    ],
  });
  triton().behaviour.refuses = undefined;
  expect(status).toBe(200);
  expect(documents.slice(0, 6)).toEqual([
    { id: "b0", status: "created" },
    { id: "b1", status: "failed", error: expect.objectContaining({ param: "documents[1].text" }) },
    { id: "b2", status: "failed", error: expect.objectContaining({ code: "refused_by_model" }) },
    { id: "b3", status: "failed", error: expect.objectContaining({ param: "documents[3].image" }) },
    { id: "b0", status: "failed", error: expect.objectContaining({ code: "duplicate_id" }) },
    { id: "b4", status: "failed", error: expect.objectContaining({ param: "documents[5].colour" }) },
  ]);
  expect(documents.slice(6, 26).map(({ status: one }) => one)).toEqual(Array(20).fill("created"));
  expect(documents[26]).toMatchObject({ id: null, status: "failed" });
  const contents = await contentsOf(databases());
  expect(agree(contents)).toBe(true);
  expect(contents.documents.has("b2")).toBe(false);
});

test("a batch is embedded in the encoder's batch size", async () => {
  await write({
    documents: Array.from({ length: 20 }, (_, index) => ({ id: `d${index}`, text: `t ${index}` })),
  });
  expect(triton().encoderCalls.map(({ rows }) => rows)).toEqual([8, 8, 4]);
});

test("documents are listed by id, a page at a time", async () => {
  const ids: string[] = [];
  for (let after: string | null = null, pages = 0; ; pages++) {
    const response = await read(
      `/documents?limit=15${after === null ? "" : `&after=${encodeURIComponent(after)}`}`,
    );
    const page = (await response.json()) as { documents: { id: string }[]; next: string | null };
    ids.push(...page.documents.map(({ id }) => id));
    after = page.next;
    if (after === null) break;
    expect(pages).toBeLessThan(10);
  }
  expect(ids).toEqual([...(await contentsOf(databases())).documents.keys()].sort());
});

test("the last of concurrent writes of one document wins", async () => {
  const texts = Array.from({ length: 12 }, (_, index) => `version ${index}`);
  await Promise.all(texts.map((text) => write({ id: "contested", text })));
  await write({ id: "contested", text: "the last one" });
  const contents = await contentsOf(databases());
  expect(contents.documents.get("contested")?.text).toBe("the last one");
  expect(agree(contents)).toBe(true);
});

describe("refused documents", () => {
  const nested = (depth: number): object => (depth === 0 ? {} : { a: nested(depth - 1) });
  test.each<[string, object, string, string]>([
    ["neither text nor image", { id: "x" }, "", "needs a text, an image, or both"],
    ["an id with a space", { id: "a b", text: "t" }, "id", "letters"],
    ["an id of 257 characters", { id: "x".repeat(257), text: "t" }, "id", "1 to 256"],
    ["metadata that is a list", { text: "t", metadata: [1] }, "metadata", ""],
    ["metadata with a dot in a key", { text: "t", metadata: { "a.b": 1 } }, "metadata", 'the key "a.b"'],
    [
      "metadata with a dollar in an inner key",
      { text: "t", metadata: { a: [{ $set: 1 }] } },
      "metadata",
      "$set",
    ],
    ["deep metadata", { text: "t", metadata: nested(7) }, "metadata", "6 levels deep"],
    ["large metadata", { text: "t", metadata: { a: "x".repeat(20_000) } }, "metadata", "16384"],
    ["half of a surrogate pair", { text: "\ud83d" }, "text", "Unicode"],
    ["257 documents", { documents: Array(257).fill({ text: "t" }) }, "documents", "256"],
    ["no documents", { documents: [] }, "documents", ""],
    ["documents beside a text", { documents: [{ text: "t" }], text: "t" }, "text", "unknown parameter"],
  ])("a write with %s is refused", async (_what, body, param, message) => {
    const error = await errorOf(await gateway().post("/v1/documents", body));
    expect(error).toMatchObject({ status: 400, message: expect.stringContaining(message) });
    expect(error.param ?? "").toBe(param);
  });

  test("a form that can't be read, or names a field twice, is refused", async () => {
    const type = { "content-type": "multipart/form-data; boundary=x" };
    expect(await errorOf(await gateway().post("/v1/documents", "--y", type))).toMatchObject({
      status: 400,
      code: "invalid_form",
    });
    const twice = new FormData();
    twice.append("text", "a");
    twice.append("text", "b");
    const response = await fetch(`${gateway().url}/v1/documents`, { method: "POST", body: twice });
    expect(await errorOf(response)).toMatchObject({ status: 400, param: "text", code: "invalid_form" });
  });
});

describe("match", () => {
  const gateway = useGateway(shared.inArea("matches"));

  const match = async (body: object) => {
    const response = await gateway().post("/v1/match", body);
    return (await response.json()) as {
      matches: { id: string; [key: string]: unknown }[];
      [key: string]: unknown;
    };
  };

  describe("matches", () => {
    beforeAll(async () => {
      await gateway().post("/v1/documents", {
        documents: [
          {
            id: "cat",
            text: "a cat sleeps on a sofa",
            image: dataUrl(await picture("grey", "brown")),
            metadata: { kind: "animal", legs: 4, wild: false, weight: 4.5 },
          },
          {
            id: "dog",
            text: "a dog runs on the beach",
            image: dataUrl(await picture("yellow", "blue")),
            metadata: { kind: "animal", legs: 4, wild: false, weight: 20 },
          },
          { id: "bird", text: "a bird sings", metadata: { kind: "animal", legs: 2, wild: true } },
          {
            id: "bicycle",
            text: "a red bicycle",
            image: dataUrl(await picture("red", "white")),
            metadata: { kind: "thing", size: { wheel: 28 } },
          },
        ],
      });
    });

    test("a match of a text finds texts, with one embedding", async () => {
      const { matches, ...rest } = await match({ text: "a cat", topK: 2 });
      expect(rest).toEqual({ fusion: null, via: "vectors" });
      expect(matches).toHaveLength(2);
      expect(matches[0]).toEqual({
        id: "cat",
        score: expect.any(Number),
        scores: { text: { score: matches[0]?.score, rank: 1 } },
        text: "a cat sleeps on a sofa",
        textTruncated: false,
        metadata: { kind: "animal", legs: 4, wild: false, weight: 4.5 },
        image: expect.stringMatching(/^\/v1\/documents\/cat\/image\?sha256=[0-9a-f]{64}$/),
      });
      expect(triton().encoderCalls).toMatchObject([{ model: "text_encoder", rows: 1 }]);
    });

    test("a match of an image finds the picture that was scaled and encoded again", async () => {
      const image = dataUrl(await picture("yellow", "blue", { size: 200, format: "webp" }), "image/webp");
      const { matches } = await match({ image: { url: image } });
      expect(matches[0]).toMatchObject({ id: "dog", scores: { image: { rank: 1 } } });
      expect(triton().encoderCalls).toMatchObject([{ model: "vision_encoder" }]);
    });

    test("a match of text and image fuses the ranks, and its numbers say how", async () => {
      const { matches, fusion } = (await match({
        text: "a dog runs on the beach",
        image: dataUrl(await picture("grey", "brown", { size: 90 })),
      })) as unknown as {
        matches: { id: string; score: number; scores: Record<string, { rank: number }> }[];
        fusion: { method: string; k: number };
      };
      expect(fusion.method).toBe("rrf");
      const byId = new Map(matches.map(({ id, scores }) => [id, scores]));
      expect([byId.get("dog")?.text?.rank, byId.get("cat")?.image?.rank]).toEqual([1, 1]);
      for (const { score, scores } of matches) {
        const sum = Object.values(scores).reduce((total, { rank }) => total + 1 / (fusion.k + rank), 0);
        expect(score).toBeCloseTo(sum, 5);
      }
      expect(triton().encoderCalls).toMatchObject([{ model: "llava_ensemble" }]);
    });

    test.each<[string, object, string[]]>([
      ["a text", { "metadata.kind": "thing" }, ["bicycle"]],
      ["a boolean", { "metadata.wild": true }, ["bird"]],
      ["a number", { "metadata.legs": 2 }, ["bird"]],
      ["a fraction", { "metadata.weight": 4.5 }, ["cat"]],
      ["a range", { "metadata.weight": { gte: 4.5, lt: 20 } }, ["cat"]],
      ["a list of several kinds", { "metadata.legs": { in: [2, "x", 28.5, true] } }, ["bird"]],
      ["a nested key", { "metadata.size.wheel": { gt: 27 } }, ["bicycle"]],
      ["two conditions", { "metadata.kind": "animal", "metadata.wild": false }, ["cat", "dog"]],
      ["a key that no document has", { "metadata.colour": "red" }, []],
    ])("a match is filtered by %s", async (_what, filter, expected) => {
      const { matches } = await match({ text: "anything", filter, topK: 100 });
      expect(matches.map(({ id }) => id).sort()).toEqual(expected);
    });

    test.each<[string, object, string, string]>([
      [
        "an unknown operator",
        { text: "a", filter: { "metadata.a": { regex: "x" } } },
        "filter.metadata.a.regex",
        "in, gt",
      ],
      [
        "a field that is no metadata",
        { text: "a", filter: { contentHash: "x" } },
        "filter.contentHash",
        "metadata.KEY",
      ],
      ["an empty range", { text: "a", filter: { "metadata.a": {} } }, "filter.metadata.a", "in, gt"],
      ["a topK of 10^9", { text: "a", topK: 1e9 }, "topK", "100 or less"],
      ["an unknown parameter", { text: "a", colour: "red" }, "colour", "unknown parameter"],
      ["nothing", {}, "", "The request needs a text, an image, or both"],
      ["a text without words", { text: "  " }, "text", "must not be empty"],
      ["a long text", { text: "x".repeat(70_000) }, "text", "65536"],
      ["a text and via: describe", { text: "a", via: "describe" }, "via", "takes an image"],
      ["an image of an unknown host", { image: "https://example.org/a.jpg" }, "image", ""],
    ])("a match with %s is refused", async (_what, body, param, message) => {
      const error = await errorOf(await gateway().post("/v1/match", body));
      expect(error).toMatchObject({ status: 400, message: expect.stringContaining(message) });
      expect(error.param ?? "").toBe(param);
      expect(triton().encoderCalls).toEqual([]);
    });

    test("a match via describe needs a vision-language model, and says how to get it", async () => {
      const image = dataUrl(await picture("grey", "brown"));
      const error = await errorOf(await gateway().post("/v1/match", { image, via: "describe" }));
      expect(error).toMatchObject({
        status: 409,
        code: "no_vision_language_model",
        message: expect.stringContaining("engine-room:models"),
      });
    });
  });
});

/** As Triton's preprocessing takes a picture. */
const ONE_JPEG = /^data:image\/jpeg;base64,[A-Za-z0-9+/]+=*$/;

/** A chat with a model whose preprocessing writes the marks of the turns. */
function chatOf(name: keyof typeof visionTypes) {
  const { chat } = visionTypes[name];
  return chat === undefined ? {} : { chatTemplate: chat.template, stopWords: [...chat.stopWords] };
}

describe("answers", () => {
  const { config } = shared.inArea("answers");

  let gateway: RunningGateway;

  /** With a vision-language model beside the text model. */
  let seeing: RunningGateway;

  let cat: string;

  beforeAll(async () => {
    const { models = [] } = config();
    const seers = (["mllama", "blip2", "llava", "vila"] as const).map((name) => ({
      name,
      http: triton().url,
      profile: requestProfile("multimodal", {
        image: imageProfile(name, "multimodal", {
          maxImages: name === "vila" ? 4 : 1,
          tokensPerImage: name === "mllama" ? 0 : 196,
          hasProcessor: true,
        }),
      }),
      chatTemplate: CHATML,
      ...chatOf(name),
    }));
    const tiny = {
      name: "tiny",
      http: triton().url,
      chatTemplate: CHATML,
      maxTokens: 40,
      contextTokens: 200,
    };
    gateway = await startGateway(config({ models: [...models, tiny] }));
    seeing = await startGateway(config({ models: [...models, ...seers] }));
    cat = dataUrl(await picture("grey", "brown"));
    await gateway.post("/v1/documents", {
      documents: [
        { id: "cat", text: "A tabby cat sleeps\non a grey sofa.", image: cat },
        {
          id: "dog",
          text: "A brown dog runs on the beach.",
          image: dataUrl(await picture("yellow", "blue")),
        },
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

  test("an answer is greedy, and its sources are the documents that fit best", async () => {
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

  test("a text model gets the caption of the picture that looks like the question's", async () => {
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
    expect(body.note).toContain("small cannot see the image");
  });

  test.each([
    ["mllama", /^<\|im_start\|>.*<\|image\|>.*Which animal\?/s],
    ["blip2", /^Question: Other pictures .*\n\nQuestion: Which animal\?\n.* Answer:$/s],
    ["llava", /^Other pictures .*\n\nQuestion: Which animal\?\n[^\n]*\.$/s],
    ["vila", /^<image>\nOther pictures .*\n\nQuestion: Which animal\?\n[^\n]*\.$/s],
  ])("%s gets the question's image, with the marks of its kind", async (model, text) => {
    const response = await seeing.post("/v1/answer", { question: "Which animal?", image: cat, model });
    expect(await response.json()).toMatchObject({ imageUsed: true, model });
    expect(triton().generations).toMatchObject([
      { text_input: expect.stringMatching(text), image_url_input: expect.stringMatching(ONE_JPEG) },
    ]);
  });

  test("an answer fits the context of its model, and its sources exclude documents that are cut off", async () => {
    const ask = async (more: object) => {
      const response = await gateway.post("/v1/answer", {
        question: "lighthouses",
        model: "tiny",
        ...more,
      });
      return (await response.json()) as { sources: { id: string }[] };
    };
    const { sources } = await ask({});
    // Two bytes a token at least: 200 tokens of context, 40 of them for the answer.
    expect(Buffer.byteLength(prompt())).toBeLessThan((200 - 40) * 2);
    expect(prompt()).toContain("The history of lighthouses. They shine");
    expect(sources.map(({ id }) => id)).toEqual(["long"]);
  });

  test("an answer without documents is empty, with a note", async () => {
    const ask = { question: "anything", filter: { "metadata.none": "x" } };
    expect(await (await gateway.post("/v1/answer", ask)).json()).toMatchObject({
      answer: "",
      sources: [],
      note: expect.stringContaining("No document"),
      usage: { total_tokens: 0 },
    });
    expect(triton().generations).toEqual([]);
  });

  test("a question that the model can't answer is refused before any search", async () => {
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

  test("a streamed answer sends sources, then text, then usage", async () => {
    const response = await gateway.post("/v1/answer", { question: "the dog", stream: true });
    expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    const events = await eventsOf(response);
    expect(events.map(({ event }) => event)).toEqual(["sources", "delta", "delta", "done"]);
    expect(events[0]?.data).toMatchObject({
      sources: [{ id: "dog" }, {}],
      model: "small",
      imageUsed: false,
    });
    expect(
      events
        .slice(1, 3)
        .map(({ data }) => data.text)
        .join(""),
    ).toBe("It is a cat.");
    expect(events[3]?.data).toMatchObject({ finishReason: "stop", usage: { completion_tokens: 2 } });
    expect(triton().generations).toMatchObject([{ path: "/v2/models/ensemble/generate_stream" }]);
  });

  test("a streamed answer ends with an error when the model breaks off", async () => {
    triton().behaviour.breaksStream = true;
    const events = await eventsOf(await gateway.post("/v1/answer", { question: "the dog", stream: true }));
    expect(events.at(-1)).toMatchObject({ event: "error", data: { error: { code: "upstream_broken" } } });
  });

  test("a streamed answer without documents ends at once", async () => {
    const body = { question: "the dog", stream: true, filter: { "metadata.none": 1 } };
    const events = await eventsOf(await gateway.post("/v1/answer", body));
    expect(events.map(({ event }) => event)).toEqual(["sources", "done"]);
  });

  test("a client that leaves a streamed answer frees its place", async () => {
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

  test("a match via describe searches for the vision-language model's description of the image", async () => {
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
