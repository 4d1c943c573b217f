import fc from "fast-check";
import sharp from "sharp";
import { beforeAll, describe, expect, test } from "vitest";
import { type DecodedImage, decodeImage } from "../../../containers/services/gateway/src/images/decode.ts";
import { ImageError } from "../../../containers/services/gateway/src/images/image-error.ts";
import { DEFAULT_IMAGE_LIMITS } from "../../../containers/services/gateway/src/images/limits.ts";
import {
  animatedWebp,
  deflatedZeros,
  handmadePng,
  image,
  plain,
  quarters,
  withJpegSize,
} from "./pictures.ts";

const decode = (bytes: Uint8Array, limits = {}, declaredType?: string) =>
  decodeImage(bytes, { ...DEFAULT_IMAGE_LIMITS, ...limits }, declaredType);

async function refusal(decoding: Promise<DecodedImage>): Promise<ImageError> {
  const result = await decoding.catch((error: unknown) => error);
  if (result instanceof ImageError) return result;
  throw result instanceof Error ? result : new Error("it was taken");
}

const SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>alert(1)</script></svg>';

describe("other formats", () => {
  test.each(["gif", "tiff", "avif"] as const)("%s is refused by its name", async (format) => {
    const error = await refusal(decode(await plain(8, 8).toFormat(format).toBuffer()));
    expect(error).toMatchObject({ status: 415, code: "unsupported_image_type" });
    expect(error.message.toLowerCase()).toContain(format);
    expect(error.message).toContain("send one of image/jpeg, image/png, image/webp");
  });

  test.each([
    ["SVG", SVG],
    ["SVG", `<?xml version="1.0"?>\n<!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/passwd">]>\n${SVG}`],
    ["a PDF document", "%PDF-1.7\n"],
    ["an HTML page", "<!doctype html><script>alert(1)</script>"],
    ["a ZIP archive", "PK\x03\x04"],
    ["no image that is known", "hello"],
    ["no image that is known", "\x1f\x8b\x08"],
  ])("%s", async (label, text) => {
    const error = await refusal(decode(Buffer.from(text, "latin1")));
    expect(error).toMatchObject({ status: 415, code: "unsupported_image_type" });
    expect(error.message).toContain(label);
  });

  test("the declared type decides nothing, and a refusal names it", async () => {
    const error = await refusal(decode(Buffer.from(SVG), {}, "image/png"));
    expect(error.message).toContain('The content is SVG, although declared as "image/png"');
    const png = await plain(8, 8).png().toBuffer();
    expect((await decode(png, {}, "image/svg+xml")).original.contentType).toBe("image/png");
  });

  test("a format can be left out", async () => {
    const error = await refusal(decode(await plain(8, 8).webp().toBuffer(), { formats: ["jpeg", "png"] }));
    expect(error.message).toBe("The content is WebP; send one of image/jpeg, image/png.");
  });

  test("nothing at all is told so", async () => {
    expect(await refusal(decode(new Uint8Array()))).toMatchObject({ status: 400, code: "empty_image" });
  });
});

describe("bombs", () => {
  const idat = (bytes: number) => ["IDAT", deflatedZeros(bytes)] as const;

  test.each([
    [100_000, 100_000],
    [16_385, 1],
    [1, 16_385],
    [6325, 6325],
    [1_000_000, 1_000_000],
  ])("a PNG of a few bytes that claims %i × %i", async (width, height) => {
    const png = handmadePng({ width, height }, [idat(1000)]);
    const error = await refusal(decode(png));
    expect(error).toMatchObject({ status: 413, code: "image_too_many_pixels" });
    expect(error.message).toContain(
      `${width} × ${height} pixels, and at most 40000000 pixels with no side above 16384`,
    );
  });

  test.each([
    [0, 0],
    [0, 10],
    [2 ** 31 - 1, 2 ** 31 - 1],
    [2 ** 32 - 1, 1],
  ])("a PNG with the impossible size %i × %i", async (width, height) => {
    expect((await refusal(decode(handmadePng({ width, height }, [idat(1000)])))).code).toBe(
      "image_unreadable",
    );
  });

  test("a JPEG that claims 65500 × 65500", async () => {
    const jpeg = withJpegSize(await plain(16, 16).jpeg().toBuffer(), 65_500, 65_500);
    expect(await refusal(decode(jpeg))).toMatchObject({ status: 413, code: "image_too_many_pixels" });
  });

  test("a JPEG with fewer pixels than it claims, within the limit, is grey where it has none", async () => {
    const jpeg = withJpegSize(await plain(16, 16).jpeg().toBuffer(), 6000, 6000);
    expect(await decode(jpeg)).toMatchObject({ width: 1024, height: 1024 });
  });

  test("a WebP that claims 16384 × 16384", async () => {
    const webp = Buffer.from(await plain(16, 16).webp().toBuffer());
    // VP8's frame header: 14 bits a side behind the start code 9d 01 2a (RFC 6386, 9.1).
    const start = webp.indexOf(Buffer.from([0x9d, 0x01, 0x2a]));
    webp.writeUInt16LE(0x3fff, start + 3);
    webp.writeUInt16LE(0x3fff, start + 5);
    expect((await refusal(decode(webp))).code).toBe("image_too_many_pixels");
  });

  test("a picture of 1 × 1 whose data unpack to 512 MiB", async () => {
    const png = handmadePng({ width: 1, height: 1 }, [idat(2 ** 29)]);
    expect(png.length).toBeLessThan(DEFAULT_IMAGE_LIMITS.bytes);
    expect(await decode(png)).toMatchObject({ width: 1, height: 1 });
  });

  test.each([
    ["zTXt", "a\0\0"],
    ["iTXt", "a\0\x01\0\0\0"],
    ["iCCP", "a\0\0"],
  ])("a %s chunk that unpacks to 512 MiB is not kept", async (type, head) => {
    const chunk = Buffer.concat([Buffer.from(head, "latin1"), deflatedZeros(2 ** 29)]);
    const decoded = await decode(handmadePng({ width: 8, height: 8 }, [[type, chunk], idat(200)]));
    expect(decoded).toMatchObject({ width: 8, height: 8 });
    expect(decoded.jpeg.length).toBeLessThan(2000);
  });

  test("an animation", async () => {
    const error = await refusal(decode(await animatedWebp(30)));
    expect(error).toMatchObject({ status: 422, code: "image_animated" });
    expect(error.message).toContain("30 frames, and at most 1");
  });

  test("more bytes than the limit are not even looked at", async () => {
    const error = await refusal(decode(Buffer.alloc(DEFAULT_IMAGE_LIMITS.bytes + 1)));
    expect(error).toMatchObject({ status: 413, code: "image_too_large" });
    expect(error.message).toContain("10485761 bytes, and at most 10485760 (10 MiB)");
    expect((await refusal(decode(Buffer.alloc(DEFAULT_IMAGE_LIMITS.bytes)))).code).toBe(
      "unsupported_image_type",
    );
  });

  test("a picture that takes longer than it may is given up", async () => {
    // 10 thousand million pixels of one bit: far more than a second of work on any machine, in 1.3 MB.
    const side = 100_000;
    const png = handmadePng({ width: side, height: side, bitDepth: 1, colourType: 0 }, [
      idat((side / 8 + 1) * side),
    ]);
    const error = await refusal(decode(png, { pixels: side * side, sidePixels: side, decodeSeconds: 1 }));
    expect(error).toMatchObject({ status: 422, code: "image_decode_timeout" });
    expect(error.message).toContain("longer than the 1 s");
    expect(sharp.counters()).toEqual({ queue: 0, process: 0 });
  });
});

describe("damage", () => {
  const whole = new Map<string, Buffer>();
  beforeAll(async () => {
    const picture = image(quarters(64, 48));
    whole.set("jpeg", await picture.clone().jpeg().toBuffer());
    whole.set("progressive jpeg", await picture.clone().jpeg({ progressive: true }).toBuffer());
    whole.set("png", await picture.clone().png().toBuffer());
    whole.set("interlaced png", await picture.clone().png({ progressive: true }).toBuffer());
    whole.set("webp", await picture.clone().webp().toBuffer());
    whole.set("lossless webp", await picture.clone().webp({ lossless: true }).toBuffer());
  });
  const kinds = ["jpeg", "progressive jpeg", "png", "interlaced png", "webp", "lossless webp"];
  const bytesOf = (kind: string) => whole.get(kind) ?? Buffer.alloc(0);

  /** Behind a PNG's last pixel there are 12 bytes that only say that it ends. */
  const IEND_BYTES = 12;

  test.each(kinds)("a %s that is cut off anywhere is refused", async (kind) => {
    const bytes = bytesOf(kind);
    const shortest = bytes.length - (kind.endsWith("png") ? IEND_BYTES : 0);
    await expect(decode(bytes)).resolves.toMatchObject({ width: 64, height: 48 });
    for (let length = 1; length < shortest; length++) {
      const { status } = await refusal(decode(bytes.subarray(0, length)));
      expect([415, 422], `${length} of ${bytes.length} bytes`).toContain(status);
    }
  });

  test("a wrong check sum in a PNG is refused", async () => {
    const png = Buffer.from(bytesOf("png"));
    const at = png.indexOf("IDAT") + 20;
    png.writeUInt8((png[at] ?? 0) ^ 0xff, at);
    const error = await refusal(decode(png));
    expect(error).toMatchObject({ status: 422, code: "image_unreadable" });
    expect(error.message).toContain("begins as PNG");
  });

  test("whatever bytes are changed, there is a picture or a refusal", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...kinds),
        fc.array(fc.tuple(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), fc.nat(255)), {
          minLength: 1,
          maxLength: 8,
        }),
        async (kind, changes) => {
          const bytes = Buffer.from(bytesOf(kind));
          for (const [at, value] of changes) bytes.writeUInt8(value, Math.floor(at * bytes.length));
          await expectPictureOrRefusal(bytes);
        },
      ),
      { numRuns: 500 },
    );
  });

  test("whatever follows a right beginning, there is a picture or a refusal", async () => {
    const heads = [
      "",
      "\xff\xd8\xff",
      "\x89PNG\r\n\x1a\n",
      "RIFF\xff\0\0\0WEBPVP8 ",
      "RIFF\xff\0\0\0WEBPVP8X",
      "GIF89a",
      "<svg",
    ];
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...heads), fc.uint8Array({ maxLength: 300 }), async (head, tail) => {
        await expectPictureOrRefusal(Buffer.concat([Buffer.from(head, "latin1"), tail]));
      }),
      { numRuns: 500 },
    );
  });

  async function expectPictureOrRefusal(bytes: Buffer): Promise<void> {
    const result = await decode(bytes).catch((error: unknown) => error);
    if (result instanceof ImageError) return;
    expect(result).toMatchObject({ sha256: expect.stringMatching(/^[0-9a-f]{64}$/) });
  }
});

describe("polyglots", () => {
  test.each([
    ["HTML", "<html><script>alert(1)</script>"],
    ["a ZIP archive", "PK\x03\x04payload"],
    ["PHP", "<?php system($_GET['c']); ?>"],
  ])("%s behind a picture does not come out", async (_kind, payload) => {
    for (const format of ["jpeg", "png", "webp"] as const) {
      const picture = await plain(8, 8).toFormat(format).toBuffer();
      const { jpeg } = await decode(Buffer.concat([picture, Buffer.from(payload, "latin1")]));
      expect(jpeg.includes(Buffer.from(payload, "latin1"))).toBe(false);
    }
  });

  test("a script in a JPEG's comment or a PNG's text does not come out", async () => {
    const script = Buffer.from("<script>alert(1)</script>");
    const jpeg = await plain(8, 8).jpeg().toBuffer();
    const comment = Buffer.concat([Buffer.from([0xff, 0xfe, 0, script.length + 2]), script]);
    const commented = Buffer.concat([jpeg.subarray(0, 2), comment, jpeg.subarray(2)]);
    const texted = handmadePng({ width: 8, height: 8 }, [
      ["tEXt", Buffer.concat([Buffer.from("Comment\0"), script])],
      ["IDAT", deflatedZeros(200)],
    ]);
    for (const bytes of [commented, texted]) {
      expect(bytes.includes(script)).toBe(true);
      expect((await decode(bytes)).jpeg.includes(script)).toBe(false);
    }
  });

  test("a GIF or SVG that hides a picture is what it begins with", async () => {
    const jpeg = await plain(8, 8).jpeg().toBuffer();
    for (const head of ["GIF89a", SVG]) {
      expect((await refusal(decode(Buffer.concat([Buffer.from(head), jpeg])))).code).toBe(
        "unsupported_image_type",
      );
    }
  });
});
