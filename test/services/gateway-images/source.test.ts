import { setMaxListeners } from "node:events";
import fc from "fast-check";
import sharp from "sharp";
import { afterEach, describe, expect, test } from "vitest";
import { ApiError } from "../../../containers/services/gateway/src/errors.ts";
import { ImageError } from "../../../containers/services/gateway/src/images/image-error.ts";
import {
  createImageContext,
  type ImageContext,
  readImage,
} from "../../../containers/services/gateway/src/images/source.ts";
import { plain } from "./pictures.ts";
import { networkOf, type Site, startSite, until } from "./web.ts";

const { signal } = new AbortController();
// All tests share it; a request of the gateway has one of its own.
setMaxListeners(0, signal);
const png = await plain(40, 30).png().toBuffer();
const dataUrl = (type: string, bytes: Buffer) => `data:${type};base64,${bytes.toString("base64")}`;

let site: Site | undefined;
afterEach(async () => {
  await site?.close();
  site = undefined;
});

async function expectUnused({ decodes, fetches }: ImageContext): Promise<void> {
  expect([decodes.taken, decodes.waiting, fetches.taken, fetches.waiting]).toEqual([0, 0, 0, 0]);
  expect(sharp.counters()).toEqual({ queue: 0, process: 0 });
}

describe("every way in gives the same picture", () => {
  test("bytes, data URL and http", async () => {
    site = await startSite((_request, response) => response.end(png));
    const context = createImageContext({
      hosts: [`pictures.test:${site.port}`],
      network: networkOf([site.port]),
    });
    const pictures = await Promise.all([
      readImage({ bytes: png, declaredType: "image/png" }, context, signal),
      readImage({ url: dataUrl("image/png", png) }, context, signal),
      readImage({ url: `http://pictures.test:${site.port}/a.png` }, context, signal),
    ]);
    expect(new Set(pictures.map(({ sha256 }) => sha256)).size).toBe(1);
    expect(pictures[0]).toMatchObject({
      width: 40,
      height: 30,
      original: { contentType: "image/png", bytes: png.length },
    });
    await expectUnused(context);
  });
});

describe("wrong types", () => {
  const context = createImageContext();
  const refusal = async (reading: Promise<unknown>) => {
    const result = await reading.catch((error: unknown) => error);
    if (result instanceof ImageError) return result;
    throw result;
  };

  test("a data URL must say what it holds", async () => {
    expect(await refusal(readImage({ url: dataUrl("image/jpeg", png) }, context, signal))).toMatchObject({
      status: 415,
      code: "image_type_mismatch",
    });
  });

  test("a part of a form and a server may be wrong: their types are guesses from names", async () => {
    site = await startSite((_request, response) => response.setHeader("content-type", "text/plain").end(png));
    const served = createImageContext({
      hosts: [`pictures.test:${site.port}`],
      network: networkOf([site.port]),
    });
    const sources = [
      { bytes: png, declaredType: "image/jpeg" },
      { url: `http://pictures.test:${site.port}/` },
    ];
    for (const source of sources) {
      expect((await readImage(source, served, signal)).original.contentType).toBe("image/png");
    }
  });

  test("what is no image is told with the type that it came with", async () => {
    const html = "<!doctype html><title>Not found</title>";
    site = await startSite((_request, response) => response.setHeader("content-type", "image/png").end(html));
    const served = createImageContext({
      hosts: [`pictures.test:${site.port}`],
      network: networkOf([site.port]),
    });
    const words = 'The content is an HTML page, although declared as "image/png"';
    for (const source of [
      { url: `http://pictures.test:${site.port}/` },
      { url: dataUrl("image/png", Buffer.from(html)) },
      { bytes: Buffer.from(html), declaredType: "image/png" },
    ]) {
      expect((await refusal(readImage(source, served, signal))).message).toContain(words);
    }
    await expectUnused(served);
  });

  test("a refusal becomes an answer of the gateway", async () => {
    const error = await refusal(readImage({ bytes: Buffer.from("GIF89a") }, context, signal));
    const answer = error.toApiError("image");
    expect(answer).toBeInstanceOf(ApiError);
    expect(answer.message).toBe(error.message);
    expect(answer.details).toMatchObject({
      status: 415,
      type: "invalid_request_error",
      code: "unsupported_image_type",
      param: "image",
    });
  });
});

test("no text as a URL is anything but a refusal", async () => {
  const context = createImageContext({ hosts: ["pictures.test"], network: networkOf([]) });
  const part = fc.constantFrom(
    "http:",
    "https:",
    "data:",
    "//",
    "pictures.test",
    "127.0.0.1",
    "@",
    ":",
    "image/png",
    ";base64",
    ",",
    "AAAA",
  );
  const texts = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.webUrl(),
    fc.array(fc.oneof(part, fc.string({ maxLength: 5 }))).map((parts) => parts.join("")),
  );
  await fc.assert(
    fc.asyncProperty(texts, async (url) => {
      await expect(readImage({ url }, context, signal)).rejects.toBeInstanceOf(ImageError);
    }),
    { numRuns: 1000 },
  );
  await expectUnused(context);
});

describe("many at a time", () => {
  /**
   * The largest number of images that sharp itself had in work while something ran. Its queue is not counted: a task that
   * leaves the queue between the readings of the two counters would be in both.
   */
  async function mostAtOnce(work: () => Promise<unknown>): Promise<number> {
    let most = 0;
    const timer = setInterval(() => {
      most = Math.max(most, sharp.counters().process);
    }, 1);
    try {
      await work();
    } finally {
      clearInterval(timer);
    }
    return most;
  }

  test("20 large images are decoded two at a time, and all of them are", async () => {
    const large = await plain(6000, 6000).png({ compressionLevel: 1 }).toBuffer();
    // Other work on the machine must not decide: only the number at a time is looked at.
    const context = createImageContext({ limits: { decodeSeconds: 100 } });
    const read = () => readImage({ bytes: large }, context, signal);
    const most = await mostAtOnce(async () => {
      const pictures = await Promise.all(Array.from({ length: 20 }, read));
      expect(new Set(pictures.map(({ sha256 }) => sha256)).size).toBe(1);
    });
    expect(most).toBe(context.limits.concurrentDecodes);
    await expectUnused(context);
  });

  test("more than places and queue hold are turned away with 503", async () => {
    const context = createImageContext({ limits: { concurrentDecodes: 2, queuedDecodes: 5 } });
    const results = await Promise.allSettled(
      Array.from({ length: 20 }, () => readImage({ url: dataUrl("image/png", png) }, context, signal)),
    );
    const refused = results.flatMap((result) => (result.status === "rejected" ? [result.reason] : []));
    expect(refused).toHaveLength(20 - 2 - 5);
    for (const error of refused)
      expect(error).toMatchObject({ details: { status: 503, code: "overloaded" } });
    await expectUnused(context);
  });

  test("a fetched image keeps its place until it is decoded, so no more than that many are in memory", async () => {
    site = await startSite((_request, response) => response.end(png));
    const context = createImageContext({
      hosts: [`pictures.test:${site.port}`],
      network: networkOf([site.port]),
      limits: { concurrentDecodes: 1, concurrentFetches: 2 },
    });
    const releaseDecoder = await context.decodes.acquire(signal);
    const url = `http://pictures.test:${site.port}/`;
    const reading = Promise.all(Array.from({ length: 5 }, () => readImage({ url }, context, signal)));
    await until(() => context.decodes.waiting === 2);
    expect([site.requests.length, context.fetches.taken, context.fetches.waiting]).toEqual([2, 2, 3]);
    releaseDecoder();
    expect(await reading).toHaveLength(5);
    await expectUnused(context);
  });

  test("a refusal gives its place back, and so does a client that leaves the queue", async () => {
    const context = createImageContext({ limits: { concurrentDecodes: 1 } });
    await expect(readImage({ bytes: Buffer.from("x") }, context, signal)).rejects.toBeInstanceOf(ImageError);
    await expect(readImage({ url: "data:,x" }, context, signal)).rejects.toBeInstanceOf(ImageError);
    await expect(readImage({ url: "http://pictures.test/" }, context, signal)).rejects.toBeInstanceOf(
      ImageError,
    );
    const release = await context.decodes.acquire(signal);
    const leaving = new AbortController();
    const reading = readImage({ bytes: png }, context, leaving.signal);
    leaving.abort(new Error("the client left"));
    await expect(reading).rejects.toThrow("the client left");
    release();
    await expectUnused(context);
  });
});
