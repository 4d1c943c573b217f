/** Documents and their limits, over real database processes. */
import { describe, expect, it } from "vitest";
import { errorOf } from "../gateway/support.ts";
import { useRetrieval } from "./databases-and-triton.ts";
import { agree, contentsOf, dataUrl, picture } from "./support.ts";

const { databases, triton, gateway } = useRetrieval();

const write = async (body: unknown) => {
  const response = await gateway().post("/v1/documents", body);
  return {
    status: response.status,
    ...((await response.json()) as { documents: Record<string, unknown>[] }),
  };
};
const read = (path: string, init?: RequestInit) => fetch(`${gateway().url}/v1${path}`, init);

describe("a document", () => {
  it("is created, unchanged, updated, and gone", async () => {
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

  it("gets an id where it brings none", async () => {
    const { documents } = await write({ text: "nameless" });
    const [{ id } = {}] = documents;
    expect(id).toMatch(/^[0-9a-f-]{36}$/);
    expect((await read(`/documents/${id}`, { method: "DELETE" })).status).toBe(204);
  });

  it("shows its image, which browsers keep", async () => {
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

  it("comes as a form with a file", async () => {
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
});

describe("several documents at once", () => {
  it("are written beside a wrong one, each with its own status", async () => {
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

  it("are embedded in the encoder's batches", async () => {
    await write({
      documents: Array.from({ length: 20 }, (_, index) => ({ id: `d${index}`, text: `t ${index}` })),
    });
    expect(triton().encoderCalls.map(({ rows }) => rows)).toEqual([8, 8, 4]);
  });

  it("are listed by id, a page at a time", async () => {
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

  it("take the last content of concurrent writes of one id", async () => {
    const texts = Array.from({ length: 12 }, (_, index) => `version ${index}`);
    await Promise.all(texts.map((text) => write({ id: "contested", text })));
    await write({ id: "contested", text: "the last one" });
    const contents = await contentsOf(databases());
    expect(contents.documents.get("contested")?.text).toBe("the last one");
    expect(agree(contents)).toBe(true);
  });
});

describe("a document that is not taken", () => {
  const nested = (depth: number): object => (depth === 0 ? {} : { a: nested(depth - 1) });
  it.each<[string, object, string, string]>([
    ["neither text nor image", { id: "x" }, "", "needs text"],
    ["an id with a space", { id: "a b", text: "t" }, "id", "letters"],
    ["an id of 257 characters", { id: "x".repeat(257), text: "t" }, "id", "1 to 256"],
    ["metadata that is a list", { text: "t", metadata: [1] }, "metadata", ""],
    ["metadata with a dot in a key", { text: "t", metadata: { "a.b": 1 } }, "metadata.a.b", "none of"],
    [
      "metadata with a dollar in an inner key",
      { text: "t", metadata: { a: [{ $set: 1 }] } },
      "metadata",
      "$set",
    ],
    ["deep metadata", { text: "t", metadata: nested(7) }, "metadata", "6 deep"],
    ["large metadata", { text: "t", metadata: { a: "x".repeat(20_000) } }, "metadata", "16384"],
    ["half of a surrogate pair", { text: "\ud83d" }, "text", "Unicode"],
    ["257 documents", { documents: Array(257).fill({ text: "t" }) }, "documents", "256"],
    ["no documents", { documents: [] }, "documents", ""],
    ["documents beside a text", { documents: [{ text: "t" }], text: "t" }, "text", "no such parameter"],
  ])("has %s", async (_what, body, param, message) => {
    const error = await errorOf(await gateway().post("/v1/documents", body));
    expect(error).toMatchObject({ status: 400, message: expect.stringContaining(message) });
    expect(error.param ?? "").toBe(param);
  });

  it("is a form that can't be read, or names a field twice", async () => {
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
