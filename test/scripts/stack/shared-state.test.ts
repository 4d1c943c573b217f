/** A shared state, with a stand-in for the CLI that keeps a list of stacks where a real one keeps them at the address. */
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { projectRoot, stackReference } from "../../../scripts/program/stack-file.ts";
import { openStack, stackPaths } from "../../../scripts/stack/backend.ts";
import { isListed, sharedStateUrl } from "../../../scripts/stack/shared-state.ts";

/** Writes down what it is asked, and knows stacks by a file of their names. */
const FAKE_PULUMI = `#!/usr/bin/env node
const fs = require("node:fs");
const path = require("node:path");
const here = path.dirname(process.argv[1]);
const [...args] = process.argv.slice(2);
const words = args.filter((word) => !word.startsWith("--")).slice(0, 2).join(" ");
fs.appendFileSync(path.join(here, "calls"), JSON.stringify([process.env.PULUMI_BACKEND_URL, ...args]) + "\\n");
const file = path.join(here, "stacks");
const stacks = fs.existsSync(file) ? JSON.parse(fs.readFileSync(file)) : [];
const keep = (names) => fs.writeFileSync(file, JSON.stringify(names));
const name = args[args.indexOf("--stack") + 1];
if (words === "stack ls") console.log(JSON.stringify(stacks.map((stack) => ({ name: "organization/engine-room/" + stack }))));
else if (words.startsWith("stack init")) {
  keep([...stacks, args[2]]);
  fs.writeFileSync("Pulumi." + args[2] + ".yaml", "encryptionsalt: v1:salt\\n");
} else if (words.startsWith("stack rm")) keep(stacks.filter((stack) => stack !== name));
else if (words.startsWith("stack export")) console.log(process.env.FAKE_EXPORT ?? "{}");
else if (words.startsWith("stack output")) console.log('{"endpoints":{"gateway":"http://gateway"}}');
`;

const URL_OF_STATE = "s3://room-state/pulumi";
const NAME = "shared-state-test";
let folder: string;
let stack: ReturnType<typeof stackReference>;

const calls = () =>
  readFileSync(join(folder, "calls"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as string[]);
const operations = () =>
  calls().map(([, ...args]) =>
    args
      .filter((word) => !word.startsWith("--"))
      .slice(0, 2)
      .join(" ")
      .replace(/ \/.*| shared.*/, ""),
  );
const known = () => JSON.parse(readFileSync(join(folder, "stacks"), "utf8")) as string[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "engine-room-shared-"));
  writeFileSync(join(folder, "pulumi"), FAKE_PULUMI);
  chmodSync(join(folder, "pulumi"), 0o755);
  stack = { ...stackReference(NAME), configFile: join(projectRoot, "Pulumi.kind.yaml") };
  vi.stubEnv("PATH", `${folder}:${process.env.PATH}`);
  vi.stubEnv("ENGINE_ROOM_STATE_URL", URL_OF_STATE);
  vi.stubEnv("ENGINE_ROOM_RUNNER", "");
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
  rmSync(stackPaths(NAME).directory, { recursive: true, force: true });
});

describe("with a shared state", () => {
  test("a stack is made there once, and found by a machine that has nothing of it", async () => {
    await (await openStack(stack)).up();
    expect(known()).toEqual([NAME]);
    rmSync(stackPaths(NAME).directory, { recursive: true });
    await (await openStack(stack)).up();
    expect(operations().filter((operation) => operation === "stack init")).toHaveLength(1);
    expect(new Set(calls().map(([url]) => url))).toEqual(new Set([URL_OF_STATE]));
  });

  test("policies end an `up` in a preview that goes before, and in the update itself", async () => {
    const withPack = () =>
      calls()
        .filter((args) => args.includes("--policy-pack"))
        .map(([, command]) => command);
    await (await openStack(stack)).up();
    expect(withPack()).toEqual([]);
    await (await openStack(stack)).up({ enforcesPolicies: true });
    expect(withPack()).toEqual(["preview", "up"]);
  });

  test("outputs are read from there, and there are none of a stack that it does not have", async () => {
    const backend = await openStack(stack);
    expect(await backend.outputs()).toBeUndefined();
    writeFileSync(join(folder, "stacks"), JSON.stringify([NAME]));
    expect(await backend.outputs()).toEqual({ endpoints: { gateway: "http://gateway" } });
  });

  test("down leaves no stack there, and nothing here", async () => {
    await (await openStack(stack)).up();
    await (await openStack(stack)).down();
    expect(known()).toEqual([]);
    expect(operations().slice(-2)).toEqual(["stack ls", "stack rm"]);
    expect(calls().at(-1)).toContain("--preserve-config");
    expect(existsSync(stackPaths(NAME).directory)).toBe(false);
  });

  test("down deletes nothing of a stack with a protected resource", async () => {
    await (await openStack(stack)).up();
    const urn = "urn:pulumi:room::engine-room::aws:efs/fileSystem:FileSystem::files";
    const unprotected = {
      urn: "urn:pulumi:room::engine-room::aws:lb/listener:Listener::door",
      protect: false,
    };
    vi.stubEnv(
      "FAKE_EXPORT",
      JSON.stringify({ deployment: { resources: [{ urn, protect: true }, unprotected] } }),
    );
    await expect((await openStack(stack)).down()).rejects.toThrow(
      /^1 of the resources of the stack shared-state-test are protected \(files\), so nothing is deleted\. To end/,
    );
    expect(known()).toEqual([NAME]);
    expect(operations()).not.toContain("destroy");
  });

  test("a preview of a stack that is not there leaves nothing; of one that is, it stays", async () => {
    await (await openStack(stack)).preview();
    expect(known()).toEqual([]);
    writeFileSync(join(folder, "stacks"), JSON.stringify([NAME]));
    await (await openStack(stack)).preview();
    expect(known()).toEqual([NAME]);
  });

  test("a machine without the CLI refuses, in place of making the stack a second time", async () => {
    vi.stubEnv("ENGINE_ROOM_RUNNER", "tryout");
    await expect(openStack(stack)).rejects.toThrow(
      "A shared state (ENGINE_ROOM_STATE_URL) takes the Pulumi CLI",
    );
  });
});

test("the address is one, or is refused", () => {
  expect(sharedStateUrl({})).toBeUndefined();
  expect(sharedStateUrl({ ENGINE_ROOM_STATE_URL: "" })).toBeUndefined();
  expect(sharedStateUrl({ ENGINE_ROOM_STATE_URL: "file:///state" })).toBe("file:///state");
  expect(() => sharedStateUrl({ ENGINE_ROOM_STATE_URL: "bucket" })).toThrow(
    'is "bucket", which is no address',
  );
});

test("a stack is listed by its own name", () => {
  expect(isListed('[{"name":"a/b/room"}]', "room")).toBe(true);
  expect(isListed('[{"name":"bathroom"}]', "room")).toBe(false);
});
