import { expect, test } from "vitest";
import { propertyChanges } from "../../scripts/program/changes.ts";
import { SECRET_SIGNATURE, SIGNATURE_KEY, UNKNOWN_VALUE } from "../../scripts/program/marks.ts";

test("leaves that differ are listed by their path", () => {
  const before = { same: 1, list: ["a", "b"], map: { "a/b": 1, gone: true }, type: "x" };
  const after = { same: 1, list: ["a", "c"], map: { "a/b": 2, come: null }, type: ["x"] };
  expect(propertyChanges(before, after)).toEqual([
    { path: "list[1]", kind: "update", before: '"b"', after: '"c"' },
    { path: 'map."a/b"', kind: "update", before: "1", after: "2" },
    { path: "map.come", kind: "add", after: "null" },
    { path: "map.gone", kind: "delete", before: "true" },
    { path: "type", kind: "update", before: '"x"', after: '["x"]' },
  ]);
});

test("a text of several lines shows the lines that differ", () => {
  const [change] = propertyChanges({ text: "a\nb\nc\n" }, { text: "a\nB\nc\n" });
  expect(change?.lines).toEqual(["- b", "+ B"]);
  const many = Array.from({ length: 40 }, (_, index) => `line ${index}`).join("\n");
  expect(propertyChanges({ text: "\n" }, { text: many })[0]?.lines?.at(-1)).toMatch(/^… \d+ more lines$/);
});

test("a secret is never shown, an unknown value says so, a long one is cut", () => {
  const secret = (value: string) => ({ [SIGNATURE_KEY]: SECRET_SIGNATURE, value });
  const changes = propertyChanges(
    { key: secret("old"), list: [{ key: secret("deep") }], later: 1, long: "" },
    { key: secret("new"), later: UNKNOWN_VALUE, long: "x".repeat(500) },
  );
  expect(JSON.stringify(changes)).not.toMatch(/old|new|deep/);
  expect(changes.find((change) => change.path === "later")?.after).toBe('"[known after up]"');
  expect(changes.find((change) => change.path === "long")?.after).toHaveLength(101);
});
