/** Batches, refusals and ids of a load, in this process. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { DocumentsClient, retryAfterSeconds } from "../../../scripts/seed/documents-client.ts";
import { derivedId, type Entry } from "../../../scripts/seed/entry.ts";
import { load } from "../../../scripts/seed/load.ts";
import { Progress } from "../../../scripts/seed/progress.ts";
import { FakeGateway, fakeOutput } from "./fake-gateway.ts";

let gateway: FakeGateway;
let folder: string;

beforeEach(async () => {
  gateway = new FakeGateway();
  await gateway.start();
  folder = mkdtempSync(join(tmpdir(), "engine-room-seed-"));
});

afterEach(async () => {
  await gateway.close();
  rmSync(folder, { recursive: true, force: true });
});

const textEntry = (index: number): Entry => ({
  label: `line ${index}`,
  text: `Document ${index}.`,
  metadata: {},
});

function pictureEntry(name: string, bytes: Buffer): Entry {
  const imageFile = join(folder, name);
  writeFileSync(imageFile, bytes);
  return { label: name, text: name, imageFile, metadata: {} };
}

describe("load", () => {
  test("sends batches of 64 documents or 2 MiB, and counts every one", async () => {
    const pictures = [0, 1, 2].map((index) => pictureEntry(`${index}.jpg`, Buffer.alloc(900_000, index + 1)));
    const entries = [...Array.from({ length: 65 }, (_, index) => textEntry(index)), ...pictures];
    let done = 0;
    const summary = await load(entries, new DocumentsClient({ gateway: gateway.url }), {
      onProgress: (count) => {
        done = count;
      },
    });
    expect(summary).toEqual({ total: 68, created: 68, updated: 0, unchanged: 0, failures: [] });
    expect(gateway.requests.toSorted((a, b) => b - a)).toEqual([64, 3, 1]);
    expect(done).toBe(68);
    expect([...gateway.documents.values()].filter(({ image }) => image?.length === 900_000)).toHaveLength(3);
  });

  test("halves what the gateway refuses as a whole until the one that is too large is alone", async () => {
    gateway.bodyLimit = 30_000;
    const entries = [1, 2, 3, 4].map((index) =>
      pictureEntry(`${index}.jpg`, Buffer.alloc(index === 3 ? 40_000 : 9000, index)),
    );
    const summary = await load(entries, new DocumentsClient({ gateway: gateway.url }));
    expect(summary).toMatchObject({
      created: 3,
      failures: [{ label: "3.jpg", reason: "HTTP 413: the body is too large" }],
    });
  });

  test("refuses a second entry with the same id, by name", async () => {
    const entries = [textEntry(1), { ...textEntry(1), label: "line 9" }];
    const summary = await load(entries, new DocumentsClient({ gateway: gateway.url }));
    expect(summary.created).toBe(1);
    expect(summary.failures).toEqual([
      { label: "line 9", reason: expect.stringMatching(/^it has the id text-\w+ of line 1; give one/) },
    ]);
  });

  test("gives up on a gateway that is gone when its patience is over", async () => {
    await gateway.close();
    const waits: number[] = [];
    const client = new DocumentsClient({
      gateway: gateway.url,
      patienceSeconds: 0.6,
      onWait: (_, seconds) => waits.push(seconds),
    });
    const summary = await load([textEntry(1)], client);
    expect(waits).toEqual([0.5]);
    expect(summary).toMatchObject({ created: 0, failures: [] });
    expect(summary.stopped).toMatch(/^the gateway http:\S+ took nothing for \d s \(.*ECONNREFUSED/);
  });

  test("knows whether a gateway has any document", async () => {
    const client = new DocumentsClient({ gateway: gateway.url });
    const { signal } = new AbortController();
    expect(await client.isEmpty(signal)).toBe(true);
    await load([textEntry(1)], client);
    expect(await client.isEmpty(signal)).toBe(false);
  });
});

describe("ids", () => {
  const picture = { name: "Größe & Schwärze (1).JPG", contentType: "image/jpeg", bytes: Buffer.from("x") };

  test("come from the content, a picture's with its name, and a caption does not change them", () => {
    expect(derivedId("a", picture)).toMatch(/^gro-e-schwarze-1-[0-9a-f]{32}$/);
    expect(derivedId("a", picture)).toBe(derivedId("b", picture));
    expect(derivedId("a", { ...picture, bytes: Buffer.from("y") })).not.toBe(derivedId("a", picture));
    expect(derivedId("a", undefined)).toMatch(/^text-[0-9a-f]{32}$/);
    expect(derivedId("a", undefined)).not.toBe(derivedId("b", undefined));
  });

  test("are ones that the gateway takes, whatever the name", () => {
    for (const name of ["猫.png", "...jpg", `${"long".repeat(99)}.jpg`, "-_-.png"])
      expect(derivedId(undefined, { ...picture, name })).toMatch(/^[A-Za-z0-9][A-Za-z0-9-]{0,127}$/);
  });
});

test("Retry-After is seconds or a date", () => {
  const now = Date.parse("2025-01-01T00:00:00Z");
  expect(retryAfterSeconds("7", now)).toBe(7);
  expect(retryAfterSeconds("Wed, 01 Jan 2025 00:00:30 GMT", now)).toBe(30);
  expect(retryAfterSeconds("Tue, 31 Dec 2024 00:00:00 GMT", now)).toBe(0);
  expect(retryAfterSeconds("soon", now)).toBeUndefined();
  expect(retryAfterSeconds(null, now)).toBeUndefined();
});

describe("progress", () => {
  test("on a terminal one line is drawn again, and taken away at the end", () => {
    const { out, text } = fakeOutput(true);
    const progress = new Progress(4, out);
    progress.update(1);
    progress.note("waiting");
    progress.update(4);
    progress.close();
    const lines = text().split("\r\x1b[K");
    expect(lines[1]).toMatch(/^ {2}█{8}░{22} 1 of 4 documents \(25 %\), \d+ s left$/);
    expect(lines[2]).toBe("  waiting\n");
    expect(lines.at(-2)).toBe(`  ${"█".repeat(30)} 4 of 4 documents (100 %)`);
    expect(lines.at(-1)).toBe("");
  });

  test("elsewhere a line every tenth", () => {
    const { out, text } = fakeOutput(false);
    const progress = new Progress(1000, out);
    for (let done = 1; done <= 1000; done++) progress.update(done);
    progress.close();
    const lines = text().split("\n");
    expect(lines).toHaveLength(11);
    expect(lines[0]).toBe("  100 of 1000 documents (10 %)");
    expect(lines[9]).toBe("  1000 of 1000 documents (100 %)");
  });
});
