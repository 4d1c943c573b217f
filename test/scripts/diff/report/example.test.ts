import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { markdownComment } from "../../../../scripts/diff/report/markdown.ts";
import { textReport } from "../../../../scripts/diff/report/text.ts";
import { projectRoot } from "../../../../scripts/program/stack-file.ts";
import { exampleDiffs } from "./example.ts";

const FILE = "docs/pull-request-comment.md";

const INTRODUCTION = `# A comment of a pull request

\`npm run diff -- --stack NAME --base origin/main --format markdown\` says what merging a change would do, without credentials:
each side is planned and rendered by its own code. Below is the comment of a change to three stacks: another machine for
\`chat\`; a comment in the file of \`kind\`; larger batches, a second model and a new token for \`onprem\`. So it looks on a phone:

![The comment on a phone: a line for each stack, then engines that are rebuilt and why, memory, cold start and cost](pull-request-comment.png)

---
`;

/** With UPDATE_RECORDED=1 the file is written instead; the test then shows the difference in Git. */
test("the comment in docs is what a realistic change gives", async () => {
  const comment = markdownComment(await exampleDiffs());
  const text = `${INTRODUCTION}\n${comment}`;
  const path = join(projectRoot, FILE);
  if (process.env.UPDATE_RECORDED === "1") writeFileSync(path, text);
  expect(
    text,
    `${FILE} changed; UPDATE_RECORDED=1 npx vitest run test/scripts/diff/report writes it anew`,
  ).toBe(readFileSync(path, "utf8"));
});

test("as text it keeps to the page, without ciphertext and escape codes", async () => {
  for (const diff of await exampleDiffs()) {
    const text = textReport(diff);
    expect(text.split("\n").filter((line) => line.length > 100)).toEqual([]);
    for (const hidden of ["\u001b", "Zm9ybWVy", "bmV3ZXIg"]) expect(text).not.toContain(hidden);
  }
});
