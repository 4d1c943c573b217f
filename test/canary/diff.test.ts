/** Secrets that a change replaces: neither the former nor the new one is in any form of the difference. */
import { describe, expect, test } from "vitest";
import { markdownComment } from "../../scripts/diff/report/markdown.ts";
import { textReport } from "../../scripts/diff/report/text.ts";
import { prettyJson } from "../../scripts/pretty-json.ts";
import { stackFileText } from "../harness/stack-files.ts";
import { diffOfFiles } from "../scripts/diff/fixtures.ts";
import type { SecretPlace } from "./places.ts";
import { type BaseName, bases, canaryOf, placesOf, planted } from "./stacks.ts";

/** Those whose stack file holds the secret itself: of a file no command reads more than `up` needs. */
const names = (Object.keys(bases) as BaseName[]).filter((name) =>
  placesOf(name).some(({ kind }) => kind === "text"),
);

test("there are such stacks", () => {
  expect(names.length).toBeGreaterThan(3);
});

describe.each(names)("%s", (name) => {
  const secretAt = (place: SecretPlace, side: string) => {
    const canary = `${canaryOf(name, place)}${side}`;
    return place.path.at(-1) === "uri" ? `mongodb://user:${canary}@db.example.org/` : canary;
  };
  const file = (side: string) => stackFileText(planted(name, (place) => secretAt(place, side)));

  test("each one shows as changed, and nothing of it shows", async () => {
    const diff = await diffOfFiles(file("former"), file("newer"));
    expect([diff.base.problems, diff.head.problems]).toEqual([[], []]);
    expect(diff.secrets).toEqual(
      placesOf(name)
        .map(({ path }) => path.join("."))
        .toSorted()
        .map((path) => ({ path, kind: "update" })),
    );
    for (const text of [textReport(diff), markdownComment([diff]), prettyJson(diff)]) {
      for (const place of placesOf(name)) {
        expect(text).toContain(place.path.join("."));
        expect(text).not.toContain(canaryOf(name, place));
      }
    }
  });
});
