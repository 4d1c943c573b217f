import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { markdownComment, textReport } from "../../../scripts/diff/print.ts";
import type { StackDiff } from "../../../scripts/diff/types.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { commentPicture, pictureHash, textHash, visibleText } from "./comment-picture.ts";
import { base, change, head, noPlanDifferences, stackDiff, withPlan } from "./diffs.ts";
import { exampleDiffs } from "./example.ts";

/** GitHub's limit of a comment. */
const MOST_CHARACTERS = 65_536;

const COMPARED =
  "Compared with `origin/main` at `0123456789ab`; both versions were rendered, and no cloud was asked.";

test("a comparison without changes is one sentence", () => {
  expect(markdownComment([stackDiff()])).toBe(
    `- \`dev\`: **nothing changes**: 12 unchanged.\n\n${COMPARED}\n`,
  );
  expect(markdownComment([])).toBe(`There is no stack to compare.\n`);
});

test("each of several stacks has a summary, and those that change have sections", () => {
  const changed = stackDiff({
    stack: "prod",
    resources: [change()],
    secrets: [{ path: "hub.token", kind: "update" }],
  });
  expect(markdownComment([stackDiff(), changed])).toBe(`- \`dev\`: **nothing changes**: 12 unchanged.
- \`prod\`: **1 resource**: 1 updated, 12 unchanged; 1 secret changed.

${COMPARED}

### Stack \`prod\`

#### Secrets

- \`hub.token\`: changed

<details><summary>Updated (1)</summary>

- \`Deployment models/gpt\`
  - \`spec.replicas\`: \`1\` → \`2\`

</details>
`);
});

test("stacks with different bases each have their base", () => {
  const other = stackDiff({ source: "pulumi-preview", resources: [change()] });
  const comment = markdownComment([other, { ...other, stack: "prod", source: "rendered" }]);
  expect(comment).toContain(`### Stack \`prod\`\n\n${COMPARED}`);
  expect(comment).toContain(
    "### Stack `dev`\n\nCompared with `origin/main` at `0123456789ab`; resources as `pulumi preview` found them against the stack's state.",
  );
});

test("the comment has the reason why a base can't be rendered, and the problems of the head", () => {
  const problem = { path: "models[0].size", value: "1", reason: "There is no such key.", fix: "Remove it." };
  const failed = stackDiff({ base: { ...base, failure: "npm ci failed." }, resources: null, plan: null });
  const broken = stackDiff({ head: head({ problems: [problem] }), resources: null, plan: null });
  expect(markdownComment([failed])).toContain("**resources can't be compared**.");
  expect(markdownComment([failed])).toContain("\n\nThe base: npm ci failed.\n");
  expect(markdownComment([broken])).toContain("**1 problem of the stack file: it can't be deployed**.");
  expect(markdownComment([broken])).toContain("- `models[0].size` = `1`: There is no such key. Remove it.\n");
});

/** A stack in which every list and text is long. */
function large(stack: string, models: number): StackDiff {
  const names = Array.from({ length: models }, (_, index) => `model-${index}`);
  const problem = (path: string) => ({
    path,
    value: "1",
    reason: `${"Reason ".repeat(40)}.`,
    fix: "Fix it.",
  });
  const properties = Array.from(
    { length: 60 },
    (_, index) =>
      ({ path: `data.${index}`, kind: "update", before: "a", after: "b", effect: "update" }) as const,
  );
  return withPlan(
    {
      engines: {
        ...noPlanDifferences.engines,
        rebuilt: names.map((model) => ({
          model,
          before: `${model}/a`,
          after: `${model}/b`,
          reasons: [
            { field: "gpu", before: "a", after: "b", sentence: `engine ${model}: rebuild - gpu a → b` },
          ],
        })),
      },
      coldStarts: names.map((model) => ({ model, beforeSeconds: 100, afterSeconds: 200 })),
      warnings: { appeared: names.map(problem), gone: [] },
    },
    {
      stack,
      secrets: [{ path: "hub.token", kind: "update" }],
      resources: names.flatMap((name) =>
        (["replace", "delete", "update", "create"] as const).map((kind) =>
          change({
            kind,
            label: `ConfigMap models/${kind}-${name}`,
            properties,
          }),
        ),
      ),
    },
  );
}

test("a comment of 5 stacks with 50 models each fits GitHub's limit, and each section counts omitted entries", () => {
  const comment = markdownComment(["a", "b", "c", "d", "e"].map((stack) => large(stack, 50)));
  expect(comment.length).toBeLessThan(MOST_CHARACTERS);
  expect(comment.length).toBeGreaterThan(0.5 * MOST_CHARACTERS);
  for (const stack of ["a", "b", "c", "d", "e"]) {
    expect(comment).toContain(
      `- \`${stack}\`: **200 resources**: 50 created, 50 updated, 50 replaced, 50 deleted`,
    );
    expect(comment).toContain(`prints.\n`);
    expect(comment).toContain(`\`npx engine-room diff --stack ${stack} --base origin/main --format json\``);
  }
  // Short lists are not cut.
  expect(comment.match(/- `hub\.token`/g)).toHaveLength(5);
  expect(comment.match(/<details>/g)?.length).toBe(comment.match(/<\/details>/g)?.length);
  // Every section accounts for all of its entries.
  const replaced = /<summary>Replaced \(50\)<\/summary>\n\n(.*?)\n\n<\/details>/s.exec(comment)?.[1] ?? "";
  const shown = replaced.match(/^- `ConfigMap /gm)?.length ?? 0;
  const leftOut = Number(/^- _(\d+) more_/m.exec(replaced)?.[1] ?? 0);
  expect(shown + leftOut).toBe(50);
});

test("a comment keeps to every limit, down to only the verdicts", () => {
  const diffs = Array.from({ length: 30 }, (_, index) => large(`stack-${index}`, 3));
  for (const limit of [10_000, 30_000, 64_000]) {
    const comment = markdownComment(diffs, limit);
    expect(comment.length).toBeLessThanOrEqual(limit);
    expect(comment.match(/^- `stack-\d+`: /gm)).toHaveLength(30);
    const bodies = comment.match(/^### Stack /gm)?.length ?? 0;
    expect(bodies).toBe(comment.includes("_There is no room for more than 30 verdicts._") ? 0 : 30);
  }
});

test("resources are cut before other sections", () => {
  const comment = markdownComment([large("a", 20)], 20_000);
  expect(comment).toContain("- `model-19`: 2 min → 3 min");
  expect(comment).toContain("- **rebuilt** for `model-19`");
  expect(comment).not.toContain("`data.5`");
});

test("a stack's part fits a screen before anything is unfolded, with any change", () => {
  for (const models of [1, 5, 50])
    expect(visibleText(markdownComment([large("a", models)])).length).toBeLessThanOrEqual(2_500);
});

test("the same differences give the same bytes", () => {
  expect(markdownComment([large("a", 50)])).toBe(markdownComment([large("a", 50)]));
});

test("lists that fit a screen are open, and longer ones are folded", () => {
  const warnings = (count: number, words = 100) =>
    withPlan({
      warnings: {
        appeared: Array.from({ length: count }, (_, index) => ({
          path: `p${index}`,
          value: "1",
          reason: "R ".repeat(words),
          fix: "F",
        })),
        gone: [],
      },
    });
  expect(markdownComment([warnings(2)])).toContain("#### New warnings\n");
  expect(markdownComment([warnings(7)])).toContain("#### New warnings\n");
  expect(markdownComment([warnings(20)])).toContain(
    "<details><summary>New warnings, the others (14)</summary>",
  );
  expect(markdownComment([warnings(7, 1000)])).toContain("<details><summary>New warnings (7)</summary>");
});

const FILE = "docs/pull-request-comment.md";

const INTRODUCTION = `# A comment of a pull request

\`npx engine-room diff --stack NAME --base origin/main --format markdown\` shows the effect of merging a change, without credentials:
each side is planned and rendered by its own code. A stack's part begins with losses, which models are unavailable and for how long, what
is no longer protected and who gets access; then come builds and why, their cost, and all else, folded if it is long. Below is the comment of a change to three stacks: another machine for
\`chat\`; a comment in the file of \`kind\`; larger batches, a second model and a new token for \`onprem\`. So it looks on a phone:

![The comment on a phone: a line for each stack, then downtime, engines that are rebuilt and why, cost and memory](pull-request-comment.png)

---
`;

/** With UPDATE_RECORDED=1 file and picture are written instead; Git then shows the difference. */
test("the comment in docs is that of a realistic change, and its picture shows the same text", async () => {
  const comment = markdownComment(await exampleDiffs());
  const text = `${INTRODUCTION}\n${comment}`;
  const [path, picture] = [FILE, FILE.replace(/\.md$/, ".png")].map((name) => join(projectRoot, name)) as [
    string,
    string,
  ];
  const isShown = () => pictureHash(readFileSync(picture)) === textHash(comment);
  if (process.env.UPDATE_RECORDED === "1") {
    writeFileSync(path, text);
    if (!isShown()) writeFileSync(picture, await commentPicture(comment));
  }
  const way = "UPDATE_RECORDED=1 npx vitest run test/scripts/diff/print.test.ts renews it";
  expect(text, `${FILE} changed; ${way}`).toBe(readFileSync(path, "utf8"));
  expect(isShown(), `The picture shows another text than ${FILE}; ${way}, with a browser`).toBe(true);
}, 60_000);

test("the comment in docs does not change with the sources of images", async () => {
  const tags = JSON.stringify(await exampleDiffs()).match(/(?<=\/trtllm:[\d.]+-)\w+/g);
  expect(new Set(tags)).toEqual(new Set(["0123456789ab"]));
});

test("the same change as text has no ciphertext and no escape codes", async () => {
  for (const diff of await exampleDiffs()) {
    const text = textReport(diff);
    for (const hidden of ["\u001b", "Zm9ybWVy", "bmV3ZXIg"]) expect(text).not.toContain(hidden);
  }
});

test("a comment that omits entries names the complete report, with the preview if that was against the state", () => {
  const resources = Array.from({ length: 1_002 }, (_, index) =>
    change({ label: `Deployment models/m${index}` }),
  );
  const rendered = markdownComment([stackDiff({ resources })]);
  expect(rendered).toContain(
    "The rest is in the run's artifact, and in what `npx engine-room diff --stack dev --base origin/main --format json` prints.",
  );
  const previewed = markdownComment([stackDiff({ resources, source: "pulumi-preview" })]);
  expect(previewed).toContain(
    "The rest is in what `npx engine-room diff --stack dev --base origin/main --preview state.json --format json` prints after `npx engine-room ci state-preview --stack dev > state.json`.",
  );
  expect(previewed).not.toContain("artifact");
});
