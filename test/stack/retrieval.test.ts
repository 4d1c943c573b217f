import { once } from "node:events";
import { readFileSync } from "node:fs";
import { MongoClient } from "mongodb";
import sharp from "sharp";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { StackOutputs } from "../../infra/outputs.ts";
import { sampleEntries } from "../../scripts/seed/sample-collection.ts";
import { isAnswered, sampleManifest } from "../../scripts/seed/sample-manifest.ts";
import { TestStack } from "../harness/stack.ts";

const WRITES = 120;
const WRITERS = 4;

interface Matches {
  readonly matches: readonly { readonly id: string; readonly image: string | null }[];
}

interface Answer {
  readonly answer: string;
  readonly sources: readonly { readonly id: string }[];
  readonly imageUsed: boolean;
}

const stack = new TestStack("retrieval");
let outputs: StackOutputs;
const { question, pictures } = sampleManifest();
/** The bundled photograph of a cat, which the bundled question is about. */
let cat: Buffer;

beforeAll(async () => {
  // The first load is killed in its middle, and goes on with the next start.
  const killed = stack.spawn("start");
  const closed = once(killed, "close");
  for await (const chunk of killed.stderr ?? [])
    if (/\d+ of \d+ documents/.test(String(chunk))) killed.kill("SIGKILL");
  await closed;
  await stack.succeed("start");
  outputs = await stack.outputs();
  const entries = await sampleEntries({ report: () => {}, signal: new AbortController().signal });
  cat = readFileSync(entries.find(({ id }) => id === question.picture)?.imageFile ?? "");
});
afterAll(() => stack.dispose());

async function post<T>(path: string, body: FormData | object): Promise<T> {
  const isForm = body instanceof FormData;
  const response = await fetch(`${outputs.endpoints.gateway}${path}`, {
    method: "POST",
    ...(isForm ? { body } : { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
  });
  const text = await response.text();
  expect(response.status, text).toBe(200);
  return JSON.parse(text) as T;
}

function form(fields: Record<string, string>, image: Buffer): FormData {
  const data = new FormData();
  for (const [name, value] of Object.entries(fields)) data.set(name, value);
  data.set("image", new Blob([new Uint8Array(image)]), "picture.jpg");
  return data;
}

describe("a started stack", () => {
  test("has the sample pictures, once, until they are deleted", async () => {
    const list = async () =>
      (await (await fetch(`${outputs.endpoints.gateway}/v1/documents?limit=500`)).json()) as {
        documents: { id: string }[];
      };
    const ids = pictures.map(({ id }) => id).sort();
    expect((await list()).documents.map(({ id }) => id)).toEqual(ids);
    await stack.succeed("start");
    expect((await list()).documents.map(({ id }) => id)).toEqual(ids);
    expect((await stack.succeed("seed")).stdout).toContain(`${ids.length} unchanged, 0 failed`);
    for (const id of ids)
      await fetch(`${outputs.endpoints.gateway}/v1/documents/${id}`, { method: "DELETE" });
    await stack.succeed("start");
    expect((await list()).documents).toEqual([]);
    expect((await stack.succeed("smoke")).stdout).toMatch(/, 1 skipped\.\n$/);
    expect((await stack.succeed("seed")).stdout).toContain(`${ids.length} created`);
  });

  test("finds the cat by words", async () => {
    const { matches } = await post<Matches>("/v1/match", { text: "a cat" });
    expect(matches[0]?.id).toBe(question.picture);
  });

  test("finds the cat by its own picture, cropped by a tenth, scaled and encoded anew", async () => {
    const { width, height } = await sharp(cat).metadata();
    const changed = await sharp(cat)
      .extract({
        left: Math.round(width * 0.05),
        top: Math.round(height * 0.05),
        width: Math.round(width * 0.9),
        height: Math.round(height * 0.9),
      })
      .resize({ width: Math.round(width * 0.6) })
      .jpeg({ quality: 70 })
      .toBuffer();
    const { matches } = await post<Matches>("/v1/match", form({}, changed));
    expect(matches[0]?.id).toBe(question.picture);
    const picture = await fetch(`${outputs.endpoints.gateway}${matches[0]?.image}`);
    expect(picture.headers.get("content-type")).toBe("image/jpeg");
  });

  test("names the animal of the bundled question, with its document first among the sources", async () => {
    const stored = await fetch(`${outputs.endpoints.gateway}/v1/documents/${question.picture}/image`);
    // The original, and the picture as the gateway keeps it, which the page and the README send.
    for (const picture of [cat, Buffer.from(await stored.arrayBuffer())]) {
      const answer = await post<Answer>("/v1/answer", form({ question: question.text }, picture));
      expect(answer.answer).toSatisfy((text: string) => isAnswered(question, text));
      expect(answer.sources[0]?.id).toBe(question.picture);
      // The language model of this platform reads no pictures, and the answer says so.
      expect(answer.imageUsed).toBe(false);
    }
  });

  test("says what `describe` needs", async () => {
    const response = await fetch(`${outputs.endpoints.gateway}/v1/match`, {
      method: "POST",
      body: form({ via: "describe" }, cat),
    });
    expect([response.status, await response.text()]).toEqual([409, expect.stringContaining("llava")]);
  });

  test("answers every endpoint", async () => {
    expect((await stack.succeed("smoke")).stdout).not.toMatch(/FAILED|skipped/);
  });
});

describe("the databases of a stack", () => {
  test("hold every document both, after one of them was killed under writes", async () => {
    const { mongo, vector } = await stack.pids();
    const acknowledged: string[] = [];
    let next = 0;
    const write = async () => {
      for (let index = next++; index < WRITES; index = next++) {
        if (index === WRITES / 4) process.kill(vector ?? 0, "SIGKILL");
        if (index === WRITES / 2) process.kill(mongo ?? 0, "SIGKILL");
        const id = `note-${index}`;
        const response = await fetch(`${outputs.endpoints.gateway}/v1/documents`, {
          method: "POST",
          body: JSON.stringify({ id, text: `Note number ${index}.` }),
          headers: { "content-type": "application/json" },
        });
        await response.arrayBuffer();
        if (response.status === 200) acknowledged.push(id);
      }
    };
    await Promise.all(Array.from({ length: WRITERS }, write));
    expect(acknowledged.length).toBeGreaterThan(0);
    // The gateway finishes what it left half done by itself: it looks again seconds after a failure.
    await expect
      .poll(
        async () => {
          const [documents, vectors] = [await documentIds(), await vectorIds()];
          const missing = acknowledged.filter((id) => !documents.includes(id));
          return {
            missing,
            unfinished: documents.filter((id) => !vectors.includes(id)),
            orphans: vectors.filter((id) => !documents.includes(id)),
          };
        },
        { timeout: 120_000, interval: 2000 },
      )
      .toEqual({ missing: [], unfinished: [], orphans: [] });
  });
});

async function documentIds(): Promise<string[]> {
  const client = new MongoClient(outputs.endpoints.mongo ?? "", { serverSelectionTimeoutMS: 5000 });
  try {
    const documents = await client
      .db("engine_room")
      .collection<{ _id: string }>("documents")
      .find({ state: "ready" })
      .toArray();
    return documents.map(({ _id }) => _id).sort();
  } catch {
    return ["(away)"];
  } finally {
    await client.close();
  }
}

async function vectorIds(): Promise<string[]> {
  const response = await fetch(`${outputs.endpoints.vector}/collections/documents/points/scroll`, {
    method: "POST",
    body: JSON.stringify({ limit: 1000, with_payload: true }),
    headers: { "content-type": "application/json" },
  }).catch(() => undefined);
  if (response === undefined || !response.ok) return ["(away)"];
  const { result } = (await response.json()) as { result: { points: { payload: { documentId: string } }[] } };
  return result.points.map(({ payload }) => payload.documentId).sort();
}
