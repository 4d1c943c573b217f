import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { markdownComment, textReport } from "../../../scripts/diff/print.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { CHANGES, changeDiff, STACKS } from "./changes.ts";
import { visibleText } from "./comment-picture.ts";

const MOST_VISIBLE_CHARACTERS = 2_500;

const CASES = Object.entries(CHANGES).flatMap(([name, change]) =>
  STACKS.filter((stack) => change.except?.[stack] === undefined).map((stack) => ({ name, stack, change })),
);

describe.each(CASES)("$name in $stack", ({ name, stack, change }) => {
  test("a change is a comment that a reader sees at once", async () => {
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

test("other versions of providers and of the SDK are in the verdict, with the resources and release of each below", async () => {
  const { dependencies } = JSON.parse(readFileSync(join(projectRoot, "package.json"), "utf8"));
  const comment = markdownComment([await changeDiff("onprem", CHANGES["providers upgraded"] ?? {})]);
  const [sdk, kubernetes] = [dependencies["@pulumi/pulumi"], dependencies["@pulumi/kubernetes"]];
  expect(comment).toContain(
    `**no resource changes**; **\`@pulumi/pulumi\` 3.247.0 → ${sdk}**; **kubernetes 4.33.0 → ${kubernetes}**;`,
  );
  expect(comment).toContain(
    `- **\`@pulumi/pulumi\` 3.247.0 → ${sdk}** runs the program; [what changed](https://github.com/pulumi/pulumi/releases/tag/v${sdk})\n- **kubernetes`,
  );
  expect(comment).toMatch(/ makes \d+ resources; \[what changed]\(.*\)\n {2}- \d+ `kubernetes:/);
});
