import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { fromRuntimeConfig, parseConfig } from "../../infra/config/config.ts";
import { readStackFile, stackNames, stackReference } from "../../scripts/program/stack-file.ts";

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "engine-room-stack-file-"));
});
afterAll(() => rmSync(directory, { recursive: true }));

function read(text: string) {
  const file = join(directory, "Pulumi.test.yaml");
  writeFileSync(file, text);
  return readStackFile(stackReference("test", file));
}

describe("a stack file", () => {
  test("of the project parses: every one that is committed", () => {
    expect(stackNames()).toEqual(expect.arrayContaining(["dev", "local", "onprem"]));
    const local = readStackFile(stackReference("local"));
    expect(parseConfig(fromRuntimeConfig(local.values, "engine-room")).platform).toBe("local");
  });

  test("reaches the runtime as the CLI would pass it: texts as they are, the rest as JSON", () => {
    expect(
      read(
        "config:\n  engine-room:platform: local\n  engine-room:models:\n    - name: a\n      threads: 2\n",
      ),
    ).toEqual({
      values: { "engine-room:platform": "local", "engine-room:models": '[{"name":"a","threads":2}]' },
      secretKeys: [],
    });
  });

  test("keeps what is secure opaque, and marks its key as secret", () => {
    const config = read(
      "config:\n  engine-room:token:\n    secure: v1:abc\n  engine-room:hub:\n    token: { secure: v1:def }\n",
    );
    expect(config.secretKeys).toEqual(["engine-room:token", "engine-room:hub"]);
    expect(config.values["engine-room:token"]).toBe('{"secure":"v1:abc"}');
  });

  test.each([
    ["is missing", undefined, "has no file"],
    ["is no YAML", "config: [", "This is no YAML"],
    ["has a key a column too far", "config:\n   a: 1\n  b: 2\n", "at line 3, column 1.\n"],
    ["has a list for its config", "config: [1]", "It must be a mapping"],
  ])("that %s is one problem with a fix", (_title, text, sentence) => {
    const act = () =>
      text === undefined
        ? readStackFile(stackReference("absent", join(directory, "absent.yaml")))
        : read(text);
    expect(act).toThrow(sentence);
    expect(act).toThrow("Fix: ");
  });

  test.each(["", ".hidden", "a/b", "a b", "x".repeat(101)])("is not looked for under the name %j", (name) => {
    expect(() => stackReference(name)).toThrow("A stack name has letters");
  });

  test("with keys that nobody reads names them, each with the key that was meant", () => {
    const act = () =>
      read("config:\n  engineroom:gateway: { port: 1 }\n  platform: local\n  aws:region: eu-west-1\n");
    expect(act).toThrow("2 problems");
    expect(act).toThrow("Write `engine-room:gateway`.");
    expect(act).toThrow("Write `engine-room:platform`.");
  });

  test("without any configuration is an empty one", () => {
    expect(read("")).toEqual({ values: {}, secretKeys: [] });
  });
});
