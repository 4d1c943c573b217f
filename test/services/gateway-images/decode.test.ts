import { createHash } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import sharp from "sharp";
import { describe, expect, test } from "vitest";
import { type DecodedImage, decodeImage } from "../../../containers/services/gateway/src/images/decode.ts";
import { DEFAULT_IMAGE_LIMITS } from "../../../containers/services/gateway/src/images/limits.ts";
import {
  animatedWebp,
  BLUE,
  type Colour,
  colourAt,
  distance,
  GREEN,
  image,
  paint,
  plain,
  quarterColours,
  quarters,
  type Raster,
  RED,
  rasterOf,
  WHITE,
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

describe("what comes out", () => {
  test.each(["jpeg", "png", "webp"] as const)(
    "%s becomes a JPEG with its size, hash and origin",
    async (format) => {
      const bytes = await image(quarters(96, 64)).toFormat(format, { quality: 95 }).toBuffer();
      const decoded = await decode(bytes);
      expect(decoded).toMatchObject({
        width: 96,
        height: 64,
        sha256: createHash("sha256").update(decoded.jpeg).digest("hex"),
        original: { contentType: `image/${format}`, width: 96, height: 64, bytes: bytes.length },
      });
      expect(await sharp(decoded.jpeg).metadata()).toMatchObject({
        format: "jpeg",
        width: 96,
        height: 64,
        space: "srgb",
      });
      await expectQuarters(decoded, [RED, GREEN, BLUE, YELLOW]);
    },
  );

  test("the same bytes in give the same bytes out", async () => {
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
  ])("%i × %i is kept as %i × %i", async (width, height, keptWidth, keptHeight) => {
    const decoded = await decode(await plain(width, height).png().toBuffer());
    expect([decoded.width, decoded.height]).toEqual([keptWidth, keptHeight]);
    expect(decoded.original).toMatchObject({ width, height });
    expect(await rasterOf(decoded.jpeg)).toMatchObject({ width: keptWidth, height: keptHeight });
  });

  test("what phones get wrong is no damage", async () => {
    const jpeg = Buffer.from(await image(quarters(64, 64)).jpeg({ quality: 95 }).toBuffer());
    // Behind SOS and its length: components, two bytes each, then the spectral selection, of which libjpeg expects 0 to 63.
    const scan = jpeg.indexOf(Buffer.from([0xff, 0xda]));
    const selectionEnd = scan + 4 + 1 + 2 * (jpeg[scan + 4] ?? 0) + 1;
    expect(jpeg[selectionEnd]).toBe(63);
    jpeg.writeUInt8(0, selectionEnd);
    await expect(sharp(jpeg, { failOn: "warning" }).raw().toBuffer()).rejects.toThrow(
      "Invalid SOS parameters",
    );
    await expectQuarters(await decode(jpeg), [RED, GREEN, BLUE, YELLOW]);
  });

  test("the size and quality of the stored form are limits like any other", async () => {
    const bytes = await image(paint(400, 400, (x, y) => [(x * y) % 256, (x * 7) % 256, (y * 13) % 256]))
      .png()
      .toBuffer();
    const small = await decode(bytes, { storedSidePixels: 100 });
    expect([small.width, small.height]).toEqual([100, 100]);
    const [rough, fine] = [
      await decode(bytes, { storedQuality: 20 }),
      await decode(bytes, { storedQuality: 95 }),
    ];
    expect(rough.jpeg.length).toBeLessThan(fine.jpeg.length);
  });
});

/** EXIF: what lies in the file at (x, y) of a picture that is to be shown upright, by orientation. */
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
    expect(decoded).toMatchObject({ width: 96, height: 64, original: { width: 96, height: 64 } });
    await expectQuarters(decoded, [RED, GREEN, BLUE, YELLOW]);
    expect((await sharp(decoded.jpeg).metadata()).orientation).toBeUndefined();
  });

  test.each(["jpeg", "png", "webp"] as const)("place, owner and profile of a %s are gone", async (format) => {
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
    expect([after.exif, after.xmp, after.iptc, after.icc, after.comments]).toEqual(Array(5).fill(undefined));
    expect(jpeg.toString("latin1")).not.toMatch(/exif|xmp|OWNER|PLACE/i);
  });
});

describe("colours", () => {
  test("CMYK", async () => {
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

  test("16 bits a sample", async () => {
    const bytes = await image(quarters(64, 64)).toColourspace("rgb16").png().toBuffer();
    expect((await sharp(bytes).metadata()).depth).toBe("ushort");
    const decoded = await decode(bytes);
    expect((await sharp(decoded.jpeg).metadata()).depth).toBe("uchar");
    await expectQuarters(decoded, [RED, GREEN, BLUE, YELLOW]);
  });

  test("grey", async () => {
    const bytes = await plain(20, 20, [120, 120, 120]).toColourspace("b-w").png().toBuffer();
    expect((await sharp(bytes).metadata()).channels).toBe(1);
    const { jpeg } = await decode(bytes);
    expect(distance(colourAt(await rasterOf(jpeg), 10, 10), [120, 120, 120])).toBeLessThanOrEqual(JPEG_ERROR);
    expect(await sharp(jpeg).metadata()).toMatchObject({ space: "srgb", channels: 3 });
  });

  test.each([
    ["a palette", { palette: true }],
    ["an alpha channel", { palette: false }],
  ])("what is transparent through %s becomes white", async (_kind, options) => {
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
});

describe("importing the decoder", () => {
  test("leaves the process no loader of files and none of other formats", async () => {
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
    await expect(
      sharp(Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>')).metadata(),
    ).rejects.toThrow();
  });

  test("keeps nothing in a cache, and one thread for an image", () => {
    expect(sharp.cache().memory.max).toBe(0);
    expect(sharp.cache().files.max).toBe(0);
    expect(sharp.concurrency()).toBe(1);
  });

  test("an animation within the limit gives its first frame", async () => {
    const decoded = await decode(await animatedWebp(3), { frames: 3 });
    expect([decoded.width, decoded.height]).toEqual([16, 16]);
    expect(distance(colourAt(await rasterOf(decoded.jpeg), 8, 8), [0, 128, 255])).toBeLessThanOrEqual(
      JPEG_ERROR,
    );
  });
});
