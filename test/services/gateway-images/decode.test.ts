/** The decoder on pictures, and on hostile or damaged files. */
import { createHash } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import sharp, { type Sharp } from "sharp";
import { beforeAll, describe, expect, test } from "vitest";
import { type DecodedImage, decodeImage } from "../../../containers/services/gateway/src/images/decode.ts";
import { DEFAULT_IMAGE_LIMITS, ImageError } from "../../../containers/services/gateway/src/images/limits.ts";
import { times } from "../../harness/thorough.ts";
import { refusalOf } from "./fetching.ts";
import {
  animatedWebp,
  BLUE,
  type Colour,
  colourAt,
  deflatedZeros,
  distance,
  GREEN,
  handmadePng,
  image,
  paint,
  plain,
  quarterColours,
  quarters,
  type Raster,
  RED,
  rasterOf,
  WHITE,
  withJpegSize,
  YELLOW,
} from "./pictures.ts";

const decode = (bytes: Uint8Array, limits = {}) => decodeImage(bytes, { ...DEFAULT_IMAGE_LIMITS, ...limits });

/** JPEG at quality 90 changes plain colours by a few steps of 255. */
const JPEG_ERROR = 12;

async function expectQuarters({ jpeg }: DecodedImage, colours: readonly Colour[]): Promise<void> {
  const found = quarterColours(await rasterOf(jpeg));
  for (const [index, colour] of colours.entries()) {
    expect(distance(found[index] ?? WHITE, colour), `quarter ${index}: ${found[index]}`).toBeLessThanOrEqual(
      JPEG_ERROR,
    );
  }
}

test.each(["jpeg", "png", "webp"] as const)("a %s becomes a JPEG with its size and hash", async (format) => {
  const bytes = await image(quarters(96, 64)).toFormat(format, { quality: 95 }).toBuffer();
  const decoded = await decode(bytes);
  expect(decoded).toMatchObject({
    width: 96,
    height: 64,
    sha256: createHash("sha256").update(decoded.jpeg).digest("hex"),
  });
  expect(await sharp(decoded.jpeg).metadata()).toMatchObject({
    format: "jpeg",
    width: 96,
    height: 64,
    space: "srgb",
  });
  await expectQuarters(decoded, [RED, GREEN, BLUE, YELLOW]);
});

test("the same input bytes give the same output bytes", async () => {
  const bytes = await image(quarters(300, 200)).png().toBuffer();
  expect((await decode(bytes)).sha256).toBe((await decode(Buffer.from(bytes))).sha256);
});

test.each([
  [3000, 1500, 1024, 512],
  [1500, 3000, 512, 1024],
  [1024, 1024, 1024, 1024],
  [1025, 10, 1024, 10],
  [16_384, 1, 1024, 1],
  [1, 16_384, 1, 1024],
  [100, 80, 100, 80],
  [1, 1, 1, 1],
])("a picture of %i × %i is kept as %i × %i", async (width, height, keptWidth, keptHeight) => {
  const decoded = await decode(await plain(width, height).png().toBuffer());
  expect([decoded.width, decoded.height]).toEqual([keptWidth, keptHeight]);
  expect(await rasterOf(decoded.jpeg)).toMatchObject({ width: keptWidth, height: keptHeight });
});

test("a JPEG with a wrong spectral selection, as phones write it, is decoded", async () => {
  const jpeg = Buffer.from(await image(quarters(64, 64)).jpeg({ quality: 95 }).toBuffer());
  // Behind SOS and its length: components, two bytes each, then the spectral selection, of which libjpeg expects 0 to 63.
  const scan = jpeg.indexOf(Buffer.from([0xff, 0xda]));
  const selectionEnd = scan + 4 + 1 + 2 * (jpeg[scan + 4] ?? 0) + 1;
  expect(jpeg[selectionEnd]).toBe(63);
  jpeg.writeUInt8(0, selectionEnd);
  await expect(sharp(jpeg, { failOn: "warning" }).raw().toBuffer()).rejects.toThrow("Invalid SOS parameters");
  await expectQuarters(await decode(jpeg), [RED, GREEN, BLUE, YELLOW]);
});

test("the size of the stored JPEG is configurable", async () => {
  const bytes = await image(paint(400, 400, (x, y) => [(x * y) % 256, (x * 7) % 256, (y * 13) % 256]))
    .png()
    .toBuffer();
  const small = await decode(bytes, { storedSidePixels: 100 });
  expect([small.width, small.height]).toEqual([100, 100]);
});

/** Upright position of a pixel that is at (x, y) in the file, by EXIF orientation. */
const FILE_TO_UPRIGHT: Readonly<
  Record<number, (x: number, y: number, w: number, h: number) => [number, number]>
> = {
  1: (x, y) => [x, y],
  2: (x, y, w) => [w - 1 - x, y],
  3: (x, y, w, h) => [w - 1 - x, h - 1 - y],
  4: (x, y, _w, h) => [x, h - 1 - y],
  5: (x, y) => [y, x],
  6: (x, y, w) => [w - 1 - y, x],
  7: (x, y, w, h) => [w - 1 - y, h - 1 - x],
  8: (x, y, _w, h) => [y, h - 1 - x],
};

describe("EXIF", () => {
  const upright: Raster = quarters(96, 64);
  const cases = [1, 2, 3, 4, 5, 6, 7, 8].flatMap((orientation) =>
    (["jpeg", "png", "webp"] as const).map((format) => [orientation, format] as const),
  );

  test.each(cases)("orientation %i of a %s gives the upright picture", async (orientation, format) => {
    const toUpright = FILE_TO_UPRIGHT[orientation];
    if (!toUpright) throw new Error("there is no such orientation");
    const [width, height] = orientation < 5 ? [96, 64] : [64, 96];
    const inFile = paint(width, height, (x, y) => colourAt(upright, ...toUpright(x, y, 96, 64)));
    const bytes = await image(inFile)
      .withMetadata({ orientation })
      .toFormat(format, { quality: 95 })
      .toBuffer();
    expect((await sharp(bytes).metadata()).orientation).toBe(orientation);

    const decoded = await decode(bytes);
    expect(decoded).toMatchObject({ width: 96, height: 64 });
    await expectQuarters(decoded, [RED, GREEN, BLUE, YELLOW]);
    expect((await sharp(decoded.jpeg).metadata()).orientation).toBeUndefined();
  });

  test.each(["jpeg", "png", "webp"] as const)(
    "place, owner and profile of a %s are removed",
    async (format) => {
      const bytes = await image(upright)
        .withExif({
          IFD0: { Copyright: "OWNER-IN-EXIF" },
          IFD3: { GPSLatitudeRef: "N", GPSLatitude: "51/1 30/1 3230/100", GPSMapDatum: "PLACE-IN-EXIF" },
        })
        .withXmp('<x:xmpmeta xmlns:x="adobe:ns:meta/"><!-- PLACE-IN-XMP --></x:xmpmeta>')
        .withIccProfile("p3", { attach: true })
        .toFormat(format)
        .toBuffer();
      const before = await sharp(bytes).metadata();
      expect(before.exif?.toString("latin1")).toContain("PLACE-IN-EXIF");
      expect(before.xmp?.toString("latin1")).toContain("PLACE-IN-XMP");
      expect(before.icc).toBeDefined();

      const { jpeg } = await decode(bytes);
      const after = await sharp(jpeg).metadata();
      expect([after.exif, after.xmp, after.iptc, after.icc, after.comments]).toEqual(
        Array(5).fill(undefined),
      );
      expect(jpeg.toString("latin1")).not.toMatch(/exif|xmp|OWNER|PLACE/i);
    },
  );
});

test("a CMYK picture becomes sRGB", async () => {
  const bytes = await image(quarters(64, 64)).toColourspace("cmyk").jpeg({ quality: 95 }).toBuffer();
  expect((await sharp(bytes).metadata()).space).toBe("cmyk");
  const { jpeg } = await decode(bytes);
  expect(await sharp(jpeg).metadata()).toMatchObject({ space: "srgb", channels: 3 });
  // Printing inks can't show all of sRGB: each quarter must still be nearest to its own colour.
  const colours = [RED, GREEN, BLUE, YELLOW];
  const found = quarterColours(await rasterOf(jpeg));
  const nearest = found.map((colour) =>
    colours.indexOf([...colours].sort((a, b) => distance(colour, a) - distance(colour, b))[0] ?? WHITE),
  );
  expect(nearest).toEqual([0, 1, 2, 3]);
});

test("a picture of 16 bits a sample becomes a picture of 8 bits", async () => {
  const bytes = await image(quarters(64, 64)).toColourspace("rgb16").png().toBuffer();
  expect((await sharp(bytes).metadata()).depth).toBe("ushort");
  const decoded = await decode(bytes);
  expect((await sharp(decoded.jpeg).metadata()).depth).toBe("uchar");
  await expectQuarters(decoded, [RED, GREEN, BLUE, YELLOW]);
});

test("a grey picture becomes sRGB", async () => {
  const bytes = await plain(20, 20, [120, 120, 120]).toColourspace("b-w").png().toBuffer();
  expect((await sharp(bytes).metadata()).channels).toBe(1);
  const { jpeg } = await decode(bytes);
  expect(distance(colourAt(await rasterOf(jpeg), 10, 10), [120, 120, 120])).toBeLessThanOrEqual(JPEG_ERROR);
  expect(await sharp(jpeg).metadata()).toMatchObject({ space: "srgb", channels: 3 });
});

test.each([
  ["a palette", { palette: true }],
  ["an alpha channel", { palette: false }],
])("a picture that is transparent through %s gets a white background", async (_kind, options) => {
  // Black below the transparency, so that dropping alpha would show.
  const samples = new Uint8Array(64 * 64 * 4);
  for (let at = 0; at < samples.length; at += 4) {
    if ((at / 4) % 64 < 32) samples.set([...BLUE, 255], at);
  }
  const bytes = await sharp(samples, { raw: { width: 64, height: 64, channels: 4 } })
    .png(options)
    .toBuffer();
  expect(await sharp(bytes).metadata()).toMatchObject({
    hasAlpha: true,
    isPalette: options.palette,
  });
  await expectQuarters(await decode(bytes), [BLUE, WHITE, BLUE, WHITE]);
});

test("sharp reads no files and no other formats once the decoder is imported", async () => {
  const folder = await mkdtemp(join(tmpdir(), "gateway-images-"));
  try {
    const png = join(folder, "picture.png");
    await writeFile(png, await plain(4, 4).png().toBuffer());
    await expect(sharp(png).metadata()).rejects.toThrow("unsupported image format");
  } finally {
    await rm(folder, { recursive: true });
  }
  for (const format of ["gif", "tiff", "avif"] as const) {
    const bytes = await plain(4, 4).toFormat(format).toBuffer();
    await expect(sharp(bytes).metadata(), format).rejects.toThrow("unsupported image format");
  }
  await expect(sharp(Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>')).metadata()).rejects.toThrow();
});

test("sharp keeps no cache and uses one thread for an image", () => {
  expect(sharp.cache().memory.max).toBe(0);
  expect(sharp.cache().files.max).toBe(0);
  expect(sharp.concurrency()).toBe(1);
});

describe("hostile images", () => {
  const refusal = (decoding: Promise<DecodedImage>) => refusalOf(() => decoding);

  const SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>alert(1)</script></svg>';

  test.each(["gif", "tiff", "avif"] as const)("a %s file is refused", async (format) => {
    const error = await refusal(decode(await plain(8, 8).toFormat(format).toBuffer()));
    expect(error).toMatchObject({ status: 415, code: "unsupported_image_type" });
    expect(error.message).toContain("send a JPEG, PNG or WebP image");
  });

  test.each([
    ["SVG", SVG],
    [
      "SVG with an entity",
      `<?xml version="1.0"?>\n<!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/passwd">]>\n${SVG}`,
    ],
    ["SVG with a prefix", '\xef\xbb\xbf \n<?xml version="1.0"?><!-- x --><svg:svg>'],
    ["a PDF document", "%PDF-1.7\n"],
    ["an HTML page", "<!doctype html><script>alert(1)</script>"],
    ["a ZIP archive", "PK\x03\x04"],
    ["text", "hello"],
    ["a sound", "RIFF\x10\0\0\0WAVEfmt "],
    ["gzip", "\x1f\x8b\x08"],
    ["HEIF", "\0\0\0\x18ftypheic"],
    ["JPEG XL", "\xff\x0a"],
    ["BMP", "BM\0\0"],
  ])("%s is refused because it is not an image", async (_what, text) => {
    const error = await refusal(decode(Buffer.from(text, "latin1")));
    expect(error).toMatchObject({ status: 415, code: "unsupported_image_type" });
  });

  test("an empty image is refused", async () => {
    expect(await refusal(decode(new Uint8Array()))).toMatchObject({ status: 400, code: "empty_image" });
  });

  describe("bombs", () => {
    const idat = (bytes: number) => ["IDAT", deflatedZeros(bytes)] as const;

    test.each([
      [100_000, 100_000],
      [16_385, 1],
      [1, 16_385],
      [6325, 6325],
      [1_000_000, 1_000_000],
    ])("a PNG of a few bytes that claims %i × %i pixels is refused", async (width, height) => {
      const png = handmadePng({ width, height }, [idat(1000)]);
      const error = await refusal(decode(png));
      expect(error).toMatchObject({ status: 413, code: "image_too_many_pixels" });
      expect(error.message).toContain(
        `${width} × ${height} pixels, and the limits are 40000000 pixels and 16384 per side`,
      );
    });

    test.each([
      [0, 0],
      [0, 10],
      [2 ** 31 - 1, 2 ** 31 - 1],
      [2 ** 32 - 1, 1],
    ])("a PNG with the impossible size %i × %i is refused", async (width, height) => {
      expect((await refusal(decode(handmadePng({ width, height }, [idat(1000)])))).code).toBe(
        "image_unreadable",
      );
    });

    test("a JPEG that claims 65500 × 65500 pixels is refused", async () => {
      const jpeg = withJpegSize(await plain(16, 16).jpeg().toBuffer(), 65_500, 65_500);
      expect(await refusal(decode(jpeg))).toMatchObject({ status: 413, code: "image_too_many_pixels" });
    });

    test("a JPEG with fewer pixels than it claims, within the limit, is grey where pixels are missing", async () => {
      const jpeg = withJpegSize(await plain(16, 16).jpeg().toBuffer(), 6000, 6000);
      expect(await decode(jpeg)).toMatchObject({ width: 1024, height: 1024 });
    });

    test("a WebP that claims 16384 × 16384 pixels is refused", async () => {
      const webp = Buffer.from(await plain(16, 16).webp().toBuffer());
      // VP8's frame header: 14 bits a side behind the start code 9d 01 2a (RFC 6386, 9.1).
      const start = webp.indexOf(Buffer.from([0x9d, 0x01, 0x2a]));
      webp.writeUInt16LE(0x3fff, start + 3);
      webp.writeUInt16LE(0x3fff, start + 5);
      expect((await refusal(decode(webp))).code).toBe("image_too_many_pixels");
    });

    test("a picture that must be in memory at once is refused by its bytes, and is accepted line by line", async () => {
      const wholeBytes = 64 * 64 * 3;
      const decodeAs = (picture: Sharp) => picture.toBuffer().then((bytes) => decode(bytes, { wholeBytes }));
      const refused = { status: 413, code: "image_too_many_pixels" };
      const picture = () => plain(65, 64);
      expect(await refusal(decodeAs(picture().png({ progressive: true })))).toMatchObject(refused);
      expect(await refusal(decodeAs(picture().jpeg({ progressive: true })))).toMatchObject(refused);
      const fullColour = { progressive: true, chromaSubsampling: "4:4:4" };
      expect(await refusal(decodeAs(plain(33, 64).jpeg(fullColour)))).toMatchObject(refused);
      expect(await refusal(decodeAs(plain(49, 64).webp()))).toMatchObject(refused);
      const sixteenBits = plain(33, 64).toColourspace("rgb16").png({ progressive: true });
      expect(await refusal(decodeAs(sixteenBits))).toMatchObject(refused);
      for (const taken of [picture().png(), picture().jpeg(), plain(64, 64).png({ progressive: true })])
        expect(await decodeAs(taken)).toMatchObject({ height: 64 });
    });

    test("a picture of 1 × 1 whose data unpack to 512 MiB is decoded", async () => {
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

    test("an animation is refused with its number of frames", async () => {
      const error = await refusal(decode(await animatedWebp(30)));
      expect(error).toMatchObject({ status: 422, code: "image_animated" });
      expect(error.message).toContain("an animation of 30 frames");
    });

    test("a file larger than the limit is refused before it is decoded", async () => {
      const error = await refusal(decode(Buffer.alloc(DEFAULT_IMAGE_LIMITS.bytes + 1)));
      expect(error).toMatchObject({ status: 413, code: "image_too_large" });
      expect(error.message).toContain("10485761 bytes, and the limit is 10485760 (10 MiB)");
      expect((await refusal(decode(Buffer.alloc(DEFAULT_IMAGE_LIMITS.bytes)))).code).toBe(
        "unsupported_image_type",
      );
    });

    test("a picture that takes longer than the time limit is refused", async () => {
      // 10 thousand million pixels of one bit: far more than a second of work on any machine, in 1.3 MB.
      const side = 100_000;
      const png = handmadePng({ width: side, height: side, bitDepth: 1, colourType: 0 }, [
        idat((side / 8 + 1) * side),
      ]);
      const error = await refusal(decode(png, { pixels: side * side, sidePixels: side, decodeSeconds: 1 }));
      expect(error).toMatchObject({ status: 422, code: "image_decode_timeout" });
      expect(error.message).toContain("longer than the limit of 1 s");
      expect(sharp.counters()).toEqual({ queue: 0, process: 0 });
    });
  });

  describe("damaged images", () => {
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

    /** A PNG has 12 bytes after its last pixel, which only mark its end. */
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

    test("a PNG with a wrong check sum is refused", async () => {
      const png = Buffer.from(bytesOf("png"));
      const at = png.indexOf("IDAT") + 20;
      png.writeUInt8((png[at] ?? 0) ^ 0xff, at);
      const error = await refusal(decode(png));
      expect(error).toMatchObject({ status: 422, code: "image_unreadable" });
      expect(error.message).toContain("truncated or damaged");
    });

    test("a picture with changed bytes is decoded or refused", async () => {
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
        { numRuns: times(100, 2000) },
      );
    });

    test("a valid beginning with random bytes is decoded or refused", async () => {
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
        { numRuns: times(100, 2000) },
      );
    });

    async function expectPictureOrRefusal(bytes: Buffer): Promise<void> {
      const result = await decode(bytes).catch((error: unknown) => error);
      if (result instanceof ImageError) return;
      expect(result).toMatchObject({ sha256: expect.stringMatching(/^[0-9a-f]{64}$/) });
    }
  });

  test.each([
    ["HTML", "<html><script>alert(1)</script>"],
    ["a ZIP archive", "PK\x03\x04payload"],
    ["PHP", "<?php system($_GET['c']); ?>"],
  ])("%s behind a picture is not kept", async (_kind, payload) => {
    for (const format of ["jpeg", "png", "webp"] as const) {
      const picture = await plain(8, 8).toFormat(format).toBuffer();
      const { jpeg } = await decode(Buffer.concat([picture, Buffer.from(payload, "latin1")]));
      expect(jpeg.includes(Buffer.from(payload, "latin1"))).toBe(false);
    }
  });

  test("a script in a JPEG's comment or a PNG's text is not kept", async () => {
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

  test("a GIF or SVG that hides a picture is refused", async () => {
    const jpeg = await plain(8, 8).jpeg().toBuffer();
    for (const head of ["GIF89a", SVG]) {
      expect((await refusal(decode(Buffer.concat([Buffer.from(head), jpeg])))).code).toBe(
        "unsupported_image_type",
      );
    }
  });
});
