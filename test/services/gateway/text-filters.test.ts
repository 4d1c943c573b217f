import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  CumulativeFilter,
  EchoFilter,
  StopFilter,
  type TextFilter,
} from "../../../containers/services/gateway/src/text/filters.ts";

function run(filter: TextFilter, pieces: readonly string[]): string {
  return pieces.map((piece) => filter.push(piece)).join("") + filter.flush();
}

/** A text and one way to cut it into pieces. Few letters, so that stop words do occur. */
const piecesOfFewLetters = fc.array(fc.string({ unit: fc.constantFrom("a", "b", "c"), maxLength: 5 }), {
  maxLength: 12,
});
const word = fc.string({ unit: fc.constantFrom("a", "b", "c"), minLength: 1, maxLength: 4 });

describe("stop words", () => {
  it("end the text before the word, also when it comes in pieces", () => {
    const filter = new StopFilter(["<|im_end|>"]);
    expect(["Hel", "lo<|im", "_e", "nd|>more"].map((piece) => filter.push(piece))).toEqual([
      "Hel",
      "lo",
      "",
      "",
    ]);
    expect(filter.isStopped).toBe(true);
    expect(filter.push("still more") + filter.flush()).toBe("");
  });

  it("give back what only looked like a stop word", () => {
    expect(run(new StopFilter(["<|im_end|>"]), ["a <", "b"])).toBe("a <b");
    expect(run(new StopFilter(["<|im_end|>"]), ["a <|im"])).toBe("a <|im");
  });

  it("give the same text whatever the pieces are, and never a whole stop word", () => {
    fc.assert(
      fc.property(piecesOfFewLetters, fc.array(word, { maxLength: 4 }), (pieces, words) => {
        const text = run(new StopFilter(words), pieces);
        expect(text).toBe(run(new StopFilter(words), [...pieces.join("")]));
        expect(pieces.join("").startsWith(text)).toBe(true);
        expect(words.some((stop) => text.includes(stop))).toBe(false);
        if (!words.some((stop) => pieces.join("").includes(stop))) expect(text).toBe(pieces.join(""));
      }),
    );
  });

  it("hold back no more than a stop word could need", () => {
    fc.assert(
      fc.property(piecesOfFewLetters, word, (pieces, stop) => {
        const filter = new StopFilter([stop]);
        const shown = pieces.map((piece) => filter.push(piece)).join("");
        if (!filter.isStopped) expect(pieces.join("").length - shown.length).toBeLessThan(stop.length);
      }),
    );
  });
});

describe("prompt echo", () => {
  it("is cut off, whatever the pieces are", () => {
    fc.assert(
      fc.property(fc.string(), piecesOfFewLetters, fc.nat(20), (prompt, pieces, cut) => {
        const text = prompt + pieces.join("");
        expect(run(new EchoFilter(prompt), [text.slice(0, cut), text.slice(cut)])).toBe(pieces.join(""));
      }),
    );
  });

  it("leaves an answer alone that has none", () => {
    expect(run(new EchoFilter("What is ML?"), ["What", " is that", "?"])).toBe("What is that?");
    expect(run(new EchoFilter("What is ML?"), ["Wha"])).toBe("Wha");
  });
});

describe("cumulative text", () => {
  it("becomes what is new", () => {
    const filter = new CumulativeFilter();
    expect(["I", "I am", "I am", "I am here"].map((text) => filter.push(text))).toEqual([
      "I",
      " am",
      "",
      " here",
    ]);
  });

  it("waits for the rest of a character", () => {
    const filter = new CumulativeFilter();
    expect(filter.push("ok \uFFFD\uFFFD")).toBe("ok ");
    expect(filter.push("ok 👍")).toBe("👍");
  });

  it("gives an unfinished character at the end rather than nothing", () => {
    expect(run(new CumulativeFilter(), ["a", "a\uFFFD"])).toBe("a\uFFFD");
  });
});
