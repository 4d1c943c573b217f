import { writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { markdownComment, textReport } from "../../../scripts/diff/print.ts";
import { CHANGES, changeDiff, STACKS } from "./changes.ts";
import { visibleText } from "./comment-picture.ts";

const MOST_VISIBLE_CHARACTERS = 2_500;

const CASES = Object.entries(CHANGES).flatMap(([name, change]) =>
  STACKS.filter((stack) => change.except?.[stack] === undefined).map((stack) => ({ name, stack, change })),
);

describe.each(CASES)("$name in $stack", ({ name, stack, change }) => {
  test("is a comment that a reader sees at once", async () => {
    const diff = await changeDiff(stack, change);
    expect([diff.base.problems, diff.head.problems, diff.head.failure]).toEqual([[], [], null]);
    const comment = markdownComment([diff]);
    const out = process.env.COMMENTS_OUT;
    if (out !== undefined) {
      const file = `${out}/${stack}-${name.replaceAll(/[ ,]+/g, "-")}`;
      writeFileSync(`${file}.md`, comment);
      writeFileSync(`${file}.txt`, textReport(diff));
    }
    expect(visibleText(comment).length).toBeLessThanOrEqual(MOST_VISIBLE_CHARACTERS);
  });
});
