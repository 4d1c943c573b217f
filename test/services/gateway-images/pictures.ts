/** Pictures for the tests: valid pictures by sharp, damaged and hostile pictures by this module. */
import { constants, crc32, deflateRawSync } from "node:zlib";
import sharp, { type Sharp } from "sharp";

export type Colour = readonly [red: number, green: number, blue: number];

export const RED: Colour = [220, 30, 30];
export const GREEN: Colour = [20, 180, 40];
export const BLUE: Colour = [30, 50, 210];
export const YELLOW: Colour = [240, 220, 30];
export const WHITE: Colour = [255, 255, 255];

/** Raw 8-bit RGB samples, rows from the top. */
export interface Raster {
  readonly width: number;
  readonly height: number;
  readonly samples: Uint8Array;
}

export function paint(width: number, height: number, colourAt: (x: number, y: number) => Colour): Raster {
  const samples = new Uint8Array(width * height * 3);
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) samples.set(colourAt(x, y), (y * width + x) * 3);
  return { width, height, samples };
}

/** A colour for each quarter: red and green above, blue and yellow below. Every rotation or mirror image is different. */
export function quarters(width: number, height: number): Raster {
  return paint(width, height, (x, y) =>
    y < height / 2 ? (x < width / 2 ? RED : GREEN) : x < width / 2 ? BLUE : YELLOW,
  );
}

export function colourAt({ width, samples }: Raster, x: number, y: number): Colour {
  const at = (y * width + x) * 3;
  return [samples[at] ?? -1, samples[at + 1] ?? -1, samples[at + 2] ?? -1];
}

/** The colours in the middle of the quarters: left above, right above, left below, right below. */
export function quarterColours(raster: Raster): Colour[] {
  const { width, height } = raster;
  return [1, 3].flatMap((y) =>
    [1, 3].map((x) => colourAt(raster, Math.floor((x * width) / 4), Math.floor((y * height) / 4))),
  );
}

export function image({ width, height, samples }: Raster): Sharp {
  return sharp(samples, { raw: { width, height, channels: 3 } });
}

/** One colour, of any size. */
export function plain(width: number, height: number, [r, g, b]: Colour = GREEN): Sharp {
  return sharp({ create: { width, height, channels: 3, background: { r, g, b } } });
}

/** Samples of an encoded picture, without its EXIF rotation. */
export async function rasterOf(encoded: Buffer): Promise<Raster> {
  const { data, info } = await sharp(encoded).removeAlpha().raw().toBuffer({ resolveWithObject: true });
  return { width: info.width, height: info.height, samples: data };
}

/** Difference of two colours in the channel where they differ most. */
export function distance(a: Colour, b: Colour): number {
  return Math.max(...a.map((value, channel) => Math.abs(value - (b[channel] ?? 0))));
}

export interface PngHeader {
  readonly width: number;
  readonly height: number;
  readonly bitDepth?: number;
  /** 0 grey, 2 RGB, 3 palette, 6 RGBA. */
  readonly colourType?: number;
}

/** A PNG of any header and chunks, with right check sums. */
export function handmadePng(
  header: PngHeader,
  chunks: readonly (readonly [type: string, data: Buffer])[],
): Buffer {
  const { width, height, bitDepth = 8, colourType = 2 } = header;
  const ihdr = Buffer.alloc(13);
  ihdr.writeUInt32BE(width, 0);
  ihdr.writeUInt32BE(height, 4);
  ihdr.writeUInt8(bitDepth, 8);
  ihdr.writeUInt8(colourType, 9);
  return Buffer.concat([
    Buffer.from("\x89PNG\r\n\x1a\n", "latin1"),
    pngChunk("IHDR", ihdr),
    ...chunks.map(([type, data]) => pngChunk(type, data)),
    pngChunk("IEND", Buffer.alloc(0)),
  ]);
}

function pngChunk(type: string, data: Buffer): Buffer {
  const typed = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(data.length);
  const check = Buffer.alloc(4);
  check.writeUInt32BE(crc32(typed));
  return Buffer.concat([length, typed, check]);
}

const MIB = 2 ** 20;

/** A zlib stream (RFC 1950) of that many zeros, which repeats the same packed mebibyte. */
export function deflatedZeros(bytes: number): Buffer {
  const mebibyte = deflateRawSync(Buffer.alloc(MIB), { level: 9, finishFlush: constants.Z_FULL_FLUSH });
  // Adler-32 of zeros: the sum stays 1, and the sum of sums counts the bytes.
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32BE((bytes % 65_521) * 2 ** 16 + 1);
  return Buffer.concat([
    Buffer.from([0x78, 0x01]),
    ...Array<Buffer>(Math.floor(bytes / MIB)).fill(mebibyte),
    deflateRawSync(Buffer.alloc(bytes % MIB)),
    checksum,
  ]);
}

/** A JPEG whose frame header claims another size. */
export function withJpegSize(jpeg: Buffer, width: number, height: number): Buffer {
  const changed = Buffer.from(jpeg);
  const frame = changed.indexOf(Buffer.from([0xff, 0xc0]));
  if (frame < 0) throw new Error("the JPEG is not a baseline one");
  changed.writeUInt16BE(height, frame + 5);
  changed.writeUInt16BE(width, frame + 7);
  return changed;
}

/** An animated WebP in which every frame has another colour, so that none is merged. */
export async function animatedWebp(frames: number): Promise<Buffer> {
  const height = 16;
  const strip = paint(16, height * frames, (_x, y) => [Math.floor(y / height) * 7, 128, 255]);
  return sharp(strip.samples, {
    raw: { width: 16, height: height * frames, channels: 3, pageHeight: height },
  })
    .webp({ loop: 0 })
    .toBuffer();
}
