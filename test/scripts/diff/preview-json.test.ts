import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { previewChanges } from "../../../scripts/diff/preview-json.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { summary } from "./fixtures.ts";

/** Output of `pulumi preview --json --show-sames` of Pulumi 3.260, without durations and source positions. */
const recorded = (name: string) =>
  readFileSync(join(projectRoot, "test/recorded/previews", `${name}.json`), "utf8");

test("a first up creates everything but components", () => {
  const { changes, unchanged } = previewChanges(recorded("first-up"));
  expect(changes.map(summary)).toEqual([
    "create Process mongo-server",
    "create Process vector-server",
    "create Process gateway-server",
    "create ModelRepository encoders-repository",
    "create ModelRepository smollm2-repository",
    "create Process encoders-server",
    "create Process smollm2-server",
    "create PythonEnvironment python",
  ]);
  expect(unchanged).toBe(0);
});

test("each operation, with what the provider says of it", () => {
  const { changes, unchanged } = previewChanges(recorded("each-operation"));
  expect(changes.map(({ kind, name, kept, deletedFirst }) => [kind, name, kept, deletedFirst])).toEqual([
    ["replace", "vector-server", null, true],
    ["delete", "former-server", "retained", null],
    ["update", "mongo-server", null, null],
    ["update", "gateway-server", null, null],
    ["update", "encoders-server", null, null],
    ["create", "smollm2-server", null, null],
  ]);
  expect(unchanged).toBe(3);
  const [replaced] = changes;
  expect(replaced?.properties.filter(({ effect }) => effect === "replace")).toEqual([
    {
      path: "stackDirectory",
      kind: "update",
      before: '".stacks/former"',
      after: '".stacks/local"',
      effect: "replace",
    },
  ]);
  const rotated = changes.find(({ name }) => name === "mongo-server")?.properties;
  expect(rotated).toContainEqual({
    path: "environment.TOKEN",
    kind: "delete",
    before: "[secret]",
    effect: "update",
  });
});

test("encrypted values, notes of providers and the steps of a replacement", () => {
  const mark = { "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270" };
  const state = (ciphertext: string, size: number) => ({
    type: "docker:index/volume:Volume",
    custom: true,
    inputs: { key: { ...mark, ciphertext }, size, __defaults: ["size"] },
  });
  const step = (op: string) => ({
    op,
    urn: "urn:pulumi:a::b::docker:index/volume:Volume::store",
    oldState: state("v1:one", 1),
    newState: state("v1:two", 2),
    detailedDiff: { size: { kind: "update-replace" }, driverOpts: { kind: "add" } },
  });
  const text = JSON.stringify({
    steps: ["delete-replaced", "replace", "create-replacement"].map(step),
    changeSummary: { same: 4 },
  });
  const { changes, unchanged } = previewChanges(text);
  expect(unchanged).toBe(4);
  expect(changes).toMatchObject([
    {
      kind: "replace",
      deletedFirst: true,
      before: { key: "[secret]", size: 1 },
      properties: [
        { path: "driverOpts", before: "(not in the inputs)", effect: "update" },
        { path: "key", before: "[secret]", after: "[secret]", effect: "update" },
        { path: "size", before: "1", after: "2", effect: "replace" },
      ],
    },
  ]);
  expect(JSON.stringify(changes)).not.toMatch(/v1:|__defaults/);
});

test("a variable before others is one difference, wherever the provider says that the others moved", () => {
  const state = (...names: readonly string[]) => ({
    type: "kubernetes:batch/v1:Job",
    custom: true,
    inputs: { spec: { template: { containers: [{ name: "main", env: names.map((name) => ({ name })) }] } } },
  });
  const env = (index: number) => `spec.template.containers[0].env[${index}]`;
  const text = JSON.stringify({
    steps: [
      {
        op: "replace",
        urn: "urn:pulumi:a::b::kubernetes:batch/v1:Job::build",
        oldState: state("A", "B"),
        newState: state("C", "A", "B"),
        detailedDiff: {
          [`${env(0)}.name`]: { kind: "update-replace" },
          [`${env(1)}.name`]: { kind: "update-replace" },
          [env(2)]: { kind: "add-replace" },
        },
      },
    ],
    changeSummary: {},
  });
  expect(previewChanges(text).changes[0]?.properties).toEqual([
    { path: "spec.template.containers[main].env[C]", kind: "add", after: '{"name":"C"}', effect: "replace" },
  ]);
});

test("something else is refused in a sentence", () => {
  for (const text of ["Previewing update", "{}", "[]"])
    expect(() => previewChanges(text)).toThrow("no output of `pulumi preview --json`");
});
