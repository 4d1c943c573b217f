import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AnswerText } from "../../../scripts/ask/answer-text.ts";

/** All that is shown of an answer that comes in these texts. */
function shown(streamedText: "delta" | "cumulative", echo: string, texts: readonly string[]): string {
  const text = new AnswerText({ streamedText, echo });
  return [...texts.map((piece) => text.push(piece)), text.end()].join("");
}

const pieces = fc.array(fc.string({ unit: "grapheme" }), { maxLength: 8 });

describe("AnswerText", () => {
  test("shows the same text in whatever pieces it comes, and whether these are new text or all so far", () => {
    fc.assert(
      fc.property(pieces, (texts) => {
        const sums = texts.map((_, index) => texts.slice(0, index + 1).join(""));
        expect(shown("delta", "", texts)).toBe(texts.join(""));
        expect(shown("cumulative", "", sums)).toBe(texts.join(""));
      }),
    );
  });

  test("leaves out a prompt that comes back, and only at the head", () => {
    fc.assert(
      fc.property(fc.string({ minLength: 1 }), pieces, fc.nat(5), (prompt, texts, cut) => {
        const whole = [prompt.slice(0, cut), prompt.slice(cut), ...texts];
        expect(shown("delta", prompt, whole)).toBe(texts.join(""));
      }),
    );
    expect(shown("delta", "Question", ["Answer to the Question"])).toBe("Answer to the Question");
    expect(shown("delta", "Question", ["Quest"])).toBe("Quest");
  });

  test("holds back half a character until it is whole, or the end", () => {
    const text = new AnswerText({ streamedText: "cumulative", echo: "" });
    expect(text.push("tea \uFFFD")).toBe("tea ");
    expect(text.push("tea ☕")).toBe("☕");
    expect(shown("cumulative", "", ["tea \uFFFD"])).toBe("tea \uFFFD");
  });
});
