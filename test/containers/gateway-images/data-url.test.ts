import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isDataUrl, parseDataUrl } from "../../../containers/services/gateway/src/images/data-url.ts";
import { sniff } from "../../../containers/services/gateway/src/images/formats.ts";
import { ImageError } from "../../../containers/services/gateway/src/images/image-error.ts";
import { DEFAULT_IMAGE_LIMITS } from "../../../containers/services/gateway/src/images/limits.ts";

const limits = { ...DEFAULT_IMAGE_LIMITS, bytes: 1000 };
const parse = (url: string) => parseDataUrl(url, limits);
const PNG_HEAD = Buffer.from("\x89PNG\r\n\x1a\n", "latin1");

function refusal(url: string): ImageError {
  try {
    parse(url);
  } catch (error) {
    if (error instanceof ImageError) return error;
    throw error;
  }
  throw new Error("it was taken");
}

describe("data URLs", () => {
  test("any bytes within the limit come out as they went in", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 1000 }), (bytes) => {
        const { bytes: parsed } = parse(`data:;base64,${Buffer.from(bytes).toString("base64")}`);
        expect(Buffer.compare(parsed, bytes)).toBe(0);
      }),
    );
  });

  test.each([
    ["data:image/png;base64,", "image/png"],
    ["DATA:IMAGE/PNG;BASE64,", "IMAGE/PNG"],
    ["data:image/png;charset=utf-8;base64,", "image/png"],
    ["data:application/octet-stream;base64,", "application/octet-stream"],
    ["data:;base64,", ""],
  ])("%s", (head, declaredType) => {
    const url = head + PNG_HEAD.toString("base64");
    expect(isDataUrl(url)).toBe(true);
    expect(parse(url)).toEqual({ bytes: PNG_HEAD, declaredType });
  });

  test.each([
    "data:",
    "data:image/png",
    "data:image/png,abc",
    "data:image/png;base64",
    "data:image/png;base64;x,AAAA",
    `data:image/png;${"a".repeat(300)};base64,AAAA`,
    "data:image/svg+xml;utf8,<svg/>",
    "data:image/svg+xml,%3Csvg%2F%3E",
  ])("%s is not base64", (url) => {
    expect(refusal(url)).toMatchObject({ status: 400, code: "invalid_data_url" });
  });

  test.each([
    ["AAAA\nAAAA", 'Character 5 of the base64 text is "\\n"'],
    ["AA-_", 'Character 3 of the base64 text is "-"'],
    ["AAAA ", 'Character 5 of the base64 text is " "'],
    ["AA==AAAA", 'Character 3 of the base64 text is "="'],
    ["A===", 'Character 2 of the base64 text is "="'],
    ["%41AA", 'Character 1 of the base64 text is "%"'],
    ["AAÄA", 'Character 3 of the base64 text is "Ä"'],
    ["AAA", "has 3 characters"],
    ["AA=", "has 3 characters"],
    ["AAAAA", "has 5 characters"],
  ])("the base64 text %j is refused: %s", (text, words) => {
    const error = refusal(`data:;base64,${text}`);
    expect(error).toMatchObject({ status: 400, code: "invalid_data_url" });
    expect(error.message).toContain(words);
  });

  test("the size is refused before the text is looked at", () => {
    const error = refusal(`data:;base64,${"-".repeat(1336)}`);
    expect(error).toMatchObject({ status: 413, code: "image_too_large" });
    expect(error.message).toContain("1002 bytes, and at most 1000");
    expect(parse(`data:;base64,${Buffer.alloc(1000).toString("base64")}`).bytes).toHaveLength(1000);
    expect(refusal(`data:;base64,${Buffer.alloc(1001).toString("base64")}`).status).toBe(413);
  });

  test("20 million characters need no stack", () => {
    const text = "A".repeat(20_000_000);
    const wide = { ...limits, bytes: 2 ** 30 };
    expect(parseDataUrl(`data:;base64,${text}`, wide).bytes).toHaveLength(15_000_000);
  });

  test.each(["image/jpeg", "image/webp", "image/svg+xml", "text/html"])(
    "a PNG that is called %s is told so",
    (type) => {
      const error = refusal(`data:${type};base64,${PNG_HEAD.toString("base64")}`);
      expect(error).toMatchObject({ status: 415, code: "image_type_mismatch" });
      expect(error.message).toContain(`says "${type}" and its content is image/png`);
    },
  );
});

describe("what bytes are", () => {
  test.each([
    ["JPEG", "\xff\xd8\xff\xe0"],
    ["PNG", "\x89PNG\r\n\x1a\n"],
    ["WebP", "RIFF\x10\0\0\0WEBPVP8 "],
    ["GIF", "GIF89a"],
    ["TIFF", "II*\0"],
    ["TIFF", "MM\0*"],
    ["HEIF or AVIF", "\0\0\0\x18ftypheic"],
    ["HEIF or AVIF", "\0\0\0\x18ftypavif"],
    ["JPEG XL", "\xff\x0a"],
    ["BMP", "BM\0\0"],
    ["a PDF document", "%PDF-1.7"],
    ["a ZIP archive", "PK\x03\x04"],
    ["SVG", '<svg xmlns="http://www.w3.org/2000/svg"/>'],
    ["SVG", '\xef\xbb\xbf \n<?xml version="1.0"?><!-- x --><svg:svg>'],
    ["SVG", "\xff\xfe<\0s\0v\0g\0>\0"],
    ["SVG", "\xfe\xff\0<\0s\0v\0g\0>"],
    ["an HTML page", "<!DOCTYPE html><html>"],
    [undefined, "hello"],
    [undefined, "RIFF\x10\0\0\0WAVEfmt "],
    [undefined, "svg"],
    [undefined, "\xff\xd8"],
    [undefined, ""],
  ])("%s", (label, latin1) => expect(sniff(Buffer.from(latin1, "latin1"))?.label).toBe(label));

  test("a view into a larger buffer is read where it begins", () => {
    const buffer = Buffer.concat([Buffer.from("GIF89a"), PNG_HEAD]);
    expect(sniff(buffer.subarray(6))?.format).toBe("png");
  });

  test("any bytes are looked at without an error", () => {
    fc.assert(fc.property(fc.uint8Array(), (bytes) => void sniff(bytes)));
  });
});
