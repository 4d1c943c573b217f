import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Message, quote, renderTextFormat } from "../../../../infra/plan/repository/text-format.ts";

/** Reads a literal as the specification says: named escapes, and bytes in three octal digits. */
function unquote(literal: string): string {
  const named: Record<string, number> = { n: 10, r: 13, t: 9, '"': 34, "\\": 92 };
  const bytes: number[] = [];
  for (const [part] of literal.slice(1, -1).matchAll(/\\[0-7]{3}|\\[nrt"\\]|[^"\\\n]/g)) {
    const escaped = part.slice(1);
    if (part.length === 1) bytes.push(part.charCodeAt(0));
    else bytes.push(named[escaped] ?? Number.parseInt(escaped, 8));
  }
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(bytes));
}

describe("a string literal", () => {
  it.each([
    ["plain", '"plain"'],
    ["", '""'],
    ['a "b" \\ c', '"a \\"b\\" \\\\ c"'],
    ["line\nnext\r\ttab", '"line\\nnext\\r\\ttab"'],
    ["\u0000\u007f", '"\\000\\177"'],
    ["é", '"\\303\\251"'],
    ["😀", '"\\360\\237\\230\\200"'],
    ["\u00007", '"\\0007"'],
    ['" } parameters { key: "x', '"\\" } parameters { key: \\"x"'],
  ])("escapes %j", (text, literal) => {
    expect(quote(text)).toBe(literal);
  });

  it("is printable ASCII and reads back as the text, whatever the text", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 60 }), (text) => {
        const literal = quote(text);
        expect(literal).toMatch(/^"[ -~]*"$/);
        expect(unquote(literal)).toBe(text);
      }),
    );
  });

  it("refuses half a surrogate pair", () => {
    expect(() => quote("a\ud83d")).toThrow(/half a surrogate pair/);
  });
});

describe("a message", () => {
  it("has its fields in the object's order, lists repeated, and nothing for undefined or empty", () => {
    const message: Message = {
      name: "m",
      count: -1,
      absent: undefined,
      none: [],
      dims: [3, 224],
      kind: { enumValue: "KIND_CPU" },
      inner: { flag: true, deeper: [{ key: "a" }, {}] },
    };
    expect(renderTextFormat(message)).toBe(
      [
        'name: "m"',
        "count: -1",
        "dims: 3",
        "dims: 224",
        "kind: KIND_CPU",
        "inner {",
        "  flag: true",
        "  deeper {",
        '    key: "a"',
        "  }",
        "  deeper {",
        "  }",
        "}",
        "",
      ].join("\n"),
    );
  });

  it.each([0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53])("refuses the number %d", (value) => {
    expect(() => renderTextFormat({ max_batch_size: value })).toThrow(
      /max_batch_size is .*must be an integer/,
    );
  });
});
