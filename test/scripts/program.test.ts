import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { stripVTControlCharacters, styleText } from "node:util";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { parse } from "yaml";
import { fromRuntimeConfig, parseConfig, stackKinds } from "../../infra/config/config.ts";
import { CONFIG_NAMESPACE, ConfigError } from "../../infra/problems.ts";
import { propertyChanges } from "../../scripts/program/changes.ts";
import {
  makeUrn,
  SECRET_SIGNATURE,
  SIGNATURE_KEY,
  UNKNOWN_VALUE,
  urnParts,
} from "../../scripts/program/serialized.ts";
import { projectRoot, readStackFile, stackNames, stackReference } from "../../scripts/program/stack-file.ts";
import { forTerminal, hanging, highlighted } from "../../scripts/terminal-text.ts";
import { runCommand } from "./plan/run-plan.ts";

describe("stack files", () => {
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

  test("the project's own stack files are read", () => {
    expect(stackNames()).toEqual(expect.arrayContaining(["dev", "local", "onprem"]));
    const local = readStackFile(stackReference("local"));
    expect(parseConfig(fromRuntimeConfig(local.values)).platform).toBe("local");
  });

  test("a stack file's strings reach the program unchanged and other values as JSON", () => {
    expect(
      read(
        "config:\n  engine-room:platform: local\n  engine-room:models:\n    - name: a\n      threads: 2\n",
      ),
    ).toEqual({
      values: { "engine-room:platform": "local", "engine-room:models": '[{"name":"a","threads":2}]' },
      secretKeys: [],
    });
  });

  test("secure values of a stack file stay opaque, and their keys are secret", () => {
    const config = read(
      "config:\n  engine-room:token:\n    secure: v1:abc\n  engine-room:hub:\n    token: { secure: v1:def }\n",
    );
    expect(config.secretKeys).toEqual(["engine-room:token", "engine-room:hub"]);
    expect(config.values["engine-room:token"]).toBe('{"secure":"v1:abc"}');
  });

  test.each([
    ["is missing", undefined, "has no file"],
    ["is no YAML", "config: [", "Invalid YAML at line 1, column 10"],
    ["has a key a column too far", "config:\n   a: 1\n  b: 2\n", "at line 3, column 1: "],
    ["has a list for its config", "config: [1]", "It must be a mapping"],
  ])("a stack file that %s is one problem with a fix", (_title, text, sentence) => {
    const act = () =>
      text === undefined
        ? readStackFile(stackReference("absent", join(directory, "absent.yaml")))
        : read(text);
    expect(act).toThrow(sentence);
    expect(act).toThrow("Fix: ");
  });

  test.each(["", ".hidden", "a/b", "a b", "x".repeat(101)])("the stack name %j is refused", (name) => {
    expect(() => stackReference(name)).toThrow("A stack name has letters");
  });

  test("unknown keys of a stack file are reported with the most similar keys", () => {
    const act = () =>
      read("config:\n  engineroom:gateway: { port: 1 }\n  platform: local\n  aws:region: eu-west-1\n");
    expect(act).toThrow("2 problems");
    expect(act).toThrow("Write `engine-room:gateway`.");
    expect(act).toThrow("Write `engine-room:platform`.");
  });

  test("a namespace that is similar to engine-room is a mistake, also in a path", () => {
    const act = () => read('config:\n  enginroom:gateway.port: "1"\n');
    expect(act).toThrow("The namespace is engine-room, not enginroom");
  });

  test("keys of other namespaces are not touched", () => {
    const others = { "aws:region": "eu-west-1", "pulumi:tags": '{"team":"a"}', "random:region": "x" };
    const text = 'config:\n  aws:region: eu-west-1\n  pulumi:tags: { team: a }\n  random:region: "x"\n';
    expect(read(text).values).toEqual(others);
    expect(fromRuntimeConfig(others)).toEqual({});
  });

  test("a stack file that imports environments of Pulumi ESC says that they are not applied", () => {
    const { values, leftOut } = read("environment: [team/prod]\nconfig: { engine-room:platform: local }\n");
    expect(values).toEqual({ "engine-room:platform": "local" });
    expect(leftOut).toContain("Pulumi ESC");
  });

  test("`pulumi new` asks for keys that stack files have", () => {
    const { template } = parse(readFileSync(join(projectRoot, "Pulumi.yaml"), "utf8")) as {
      template: { config: Readonly<Record<string, { description: string }>> };
    };
    for (const [key, { description }] of Object.entries(template.config)) {
      const [namespace, name = ""] = key.split(":");
      expect(namespace).toBe(CONFIG_NAMESPACE);
      expect(stackKinds.some(({ schema }) => name in schema.shape)).toBe(true);
      expect(description).not.toBe("");
    }
  });

  test("an empty stack file has no values", () => {
    expect(read("")).toEqual({ values: {}, secretKeys: [] });
  });
});

describe("the entry of every command", () => {
  /** Records its arguments, and installs the content of the file `installed`. */
  const NPM = `#!/bin/sh
echo "$1" >> calls
[ -f failure ] && { cat failure >&2; exit 1; }
mkdir -p node_modules
cp installed node_modules/.package-lock.json
`;
  const PACKAGE = { version: "1.0.0", resolved: "https://registry.example.org/a.tgz", integrity: "sha512-a" };
  const OTHER = { ...PACKAGE, optional: true, os: ["nowhere"], cpu: ["none"] };

  let root: string;

  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), "engine-room-cli-"));
    mkdirSync(join(root, "scripts"));
    mkdirSync(join(root, "bin"));
    cpSync(join(projectRoot, "scripts/cli.mjs"), join(root, "scripts/cli.mjs"));
    lock({ "node_modules/a": PACKAGE, "node_modules/other": OTHER });
    writeFileSync(join(root, "installed"), JSON.stringify({ packages: { "node_modules/a": PACKAGE } }));
    writeFileSync(join(root, "bin/npm"), NPM, { mode: 0o755 });
  });

  afterEach(() => rmSync(root, { recursive: true }));

  function lock(packages: object) {
    writeFileSync(join(root, "package-lock.json"), JSON.stringify({ packages: { "": {}, ...packages } }));
  }

  /** Runs without other files: loading a command would fail. */
  function install(program = "scripts/cli.mjs") {
    const env = { ...process.env, PATH: `${join(root, "bin")}${delimiter}${process.env.PATH}` };
    return spawnSync(process.execPath, [program, "install"], { cwd: root, env, encoding: "utf8" });
  }

  const calls = () => {
    const file = join(root, "calls");
    return existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : [];
  };

  test("`cli.mjs install` installs the packages once for each lock file", () => {
    expect(install()).toMatchObject({ status: 0, stdout: "" });
    expect(install()).toMatchObject({ status: 0, stdout: "", stderr: "" });
    expect(calls()).toEqual(["ci"]);
    lock({ "node_modules/a": { ...PACKAGE, version: "1.0.1" } });
    expect(install().status).toBe(0);
    expect(calls()).toEqual(["ci", "ci"]);
  });

  test("of two processes at once one installs the packages, and the other waits for it", async () => {
    writeFileSync(join(root, "bin/npm"), NPM.replace("mkdir", "sleep 0.5\nmkdir"), { mode: 0o755 });
    const env = { ...process.env, PATH: `${join(root, "bin")}${delimiter}${process.env.PATH}` };
    const children = [1, 2].map(() =>
      spawn(process.execPath, ["scripts/cli.mjs", "install"], { cwd: root, env }),
    );
    const codes = await Promise.all(children.map(async (child) => (await once(child, "close"))[0]));
    expect(codes).toEqual([0, 0]);
    expect(calls()).toEqual(["ci"]);
    expect(existsSync(join(root, ".install-lock"))).toBe(false);
  });

  test("a process that was killed while it installed does not stop the next one", () => {
    writeFileSync(join(root, ".install-lock"), String(spawnSync("true").pid));
    expect(install().status).toBe(0);
    expect(calls()).toEqual(["ci"]);
  });

  test("packages that npm itself installed are not installed again, and the command has its link", () => {
    mkdirSync(join(root, "node_modules"));
    cpSync(join(root, "installed"), join(root, "node_modules/.package-lock.json"));
    expect(install()).toMatchObject({ status: 0, stdout: "", stderr: "" });
    expect(install("node_modules/.bin/engine-room")).toMatchObject({ status: 0, stderr: "" });
    expect(calls()).toEqual([]);
  });

  test.each([
    ["lacks a package", { "node_modules/a": PACKAGE, "node_modules/b": PACKAGE }],
    ["has a package too many", {}],
    [
      "lacks this platform's part of a package",
      {
        "node_modules/a": PACKAGE,
        "node_modules/b": { ...OTHER, os: [process.platform], cpu: [process.arch] },
      },
    ],
  ])("an installation that %s is repeated", (_what, packages) => {
    lock(packages);
    mkdirSync(join(root, "node_modules"));
    cpSync(join(root, "installed"), join(root, "node_modules/.package-lock.json"));
    expect(install().status).toBe(0);
    expect(calls()).toEqual(["ci"]);
  });

  test.each([
    [
      "npm error code ECONNREFUSED\nnpm error errno ECONNREFUSED\nnpm error FetchError: request to https://registry.example.org/a failed, reason: connect\nnpm error     at ClientRequest.<anonymous> (x.js:1)\n",
      "The npm registry https://registry.example.org can't be reached (ECONNREFUSED). Check the network and its proxy, and try again.\n",
    ],
    [
      "npm warn old\nnpm error code EINTEGRITY\nnpm error sha512-a integrity checksum failed\nnpm error A complete log of this run can be found in: /x\n",
      "npm error code EINTEGRITY\nnpm error sha512-a integrity checksum failed\n`npm ci` failed with exit code 1.\n",
    ],
  ])("a failed `npm ci` gives the reason: %j", (output, expected) => {
    writeFileSync(join(root, "failure"), output);
    expect(install()).toMatchObject({
      status: 1,
      stderr: `Installing npm packages of the lock file …\n${expected}`,
    });
  });
});

const narrow = { isTTY: true, columns: 40 };

test("a text for a terminal is wrapped with the indentation of its lines and lists", () => {
  const text = new ConfigError([
    {
      path: "models[0].model",
      value: '"gpt"',
      reason: "There is no model of that name in it.",
      fix: "Write one.",
    },
  ]).message;
  expect(forTerminal(text, narrow)).toBe(`1 problem in the stack's configuration:
  1. models[0].model = "gpt"
     There is no model of that name in
     it.
     Fix: Write one.`);
});

test("a wrapped text does not break commands", () => {
  const text = "It is not up; `npx engine-room up --stack a-name-of-many-letters` brings it up.";
  expect(forTerminal(text, narrow)).toBe(
    "It is not up;\n`npx engine-room up --stack a-name-of-many-letters`\nbrings it up.",
  );
});

test("a wrapped text keeps spaces and empty lines", () => {
  const text = "a  b\n\n  c";
  expect(forTerminal(text, narrow)).toBe(text);
});

test.each([
  ["a pipe", { isTTY: false, columns: 40 }],
  ["a terminal that does not know its width", { isTTY: true, columns: 0 }],
])("a text for %s is not wrapped", (_what, stream) => {
  const text = "word ".repeat(40);
  expect(forTerminal(text, stream)).toBe(text);
});

test("a text behind columns wraps below itself, with any colour of the columns", () => {
  const head = `${styleText("green", "ok", { validateStream: false })}  gateway  `;
  expect(hanging(head, "answers with a picture and a text", narrow)).toBe(
    `${head}answers with a picture and\n             a text`,
  );
});

test("words of a state have a colour only on a terminal", () => {
  vi.stubEnv("NO_COLOR", undefined);
  vi.stubEnv("FORCE_COLOR", "1");
  expect(highlighted("gateway RUNNING\ndisk  2 problems")).toBe(
    "gateway \u001b[32mRUNNING\u001b[39m\ndisk  \u001b[31m2 problems\u001b[39m",
  );
  expect(highlighted("1. Pulumi.dev.yaml:7  models = []")).toBe(
    "1. \u001b[1mPulumi.dev.yaml:7\u001b[22m  models = []",
  );
  vi.stubEnv("FORCE_COLOR", undefined);
  vi.stubEnv("NO_COLOR", "1");
  expect(highlighted("gateway RUNNING")).toBe("gateway RUNNING");
});

describe("errors of commands", () => {
  const before = { isTTY: process.stderr.isTTY, columns: process.stderr.columns };
  afterEach(() => {
    Object.assign(process.stderr, before);
  });

  test.each([
    ["a stack without a file", ["plan", "--stack", "a-stack-that-nobody-has"]],
    ["a wrong command line", ["wake"]],
  ])("the error of %s is wrapped only on a terminal", async (_what, argv) => {
    Object.assign(process.stderr, { isTTY: false });
    const piped = (await runCommand(...argv)).stderr;
    expect(Math.max(...piped.split("\n").map((line) => line.length))).toBeGreaterThan(70);
    Object.assign(process.stderr, { isTTY: true, columns: 70 });
    const stderr = stripVTControlCharacters((await runCommand(...argv)).stderr);
    expect(Math.max(...stderr.split("\n").map((line) => line.length))).toBeLessThanOrEqual(70);
    expect(stderr.replaceAll(/\s+/g, " ")).toBe(piped.replaceAll(/\s+/g, " "));
  });
});

test("changed properties are listed by their path", () => {
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

test("a changed text of several lines shows the changed lines", () => {
  const [change] = propertyChanges({ text: "a\nb\nc\n" }, { text: "a\nB\nc\n" });
  expect(change?.lines).toEqual(["- b", "+ B"]);
  const many = Array.from({ length: 40 }, (_, index) => `line ${index}`).join("\n");
  expect(propertyChanges({ text: "\n" }, { text: many })[0]?.lines?.at(-1)).toMatch(/^… \d+ more lines$/);
});

test("changes hide secrets, mark unknown values, and cut long values", () => {
  const secret = (value: string) => ({ [SIGNATURE_KEY]: SECRET_SIGNATURE, value });
  const changes = propertyChanges(
    { key: secret("old"), list: [{ key: secret("deep") }], later: 1, long: "" },
    { key: secret("new"), later: UNKNOWN_VALUE, long: "x".repeat(500) },
  );
  expect(JSON.stringify(changes)).not.toMatch(/old|new|deep/);
  expect(changes.find((change) => change.path === "later")?.after).toBe('"[known after up]"');
  expect(changes.find((change) => change.path === "long")?.after).toHaveLength(101);
});

const STACK = "urn:pulumi:kind::engine-room::pulumi:pulumi:Stack::engine-room-kind";

const own = { stack: "kind", project: "engine-room" };

test("a URN has the types of all parents except the stack", () => {
  const server = makeUrn({ ...own, parent: STACK, type: "engine-room:kubernetes:Gateway", name: "gateway" });
  expect(server).toBe("urn:pulumi:kind::engine-room::engine-room:kubernetes:Gateway::gateway");
  const service = makeUrn({ ...own, parent: server, type: "kubernetes:core/v1:Service", name: "door" });
  expect(service).toBe(
    "urn:pulumi:kind::engine-room::engine-room:kubernetes:Gateway$kubernetes:core/v1:Service::door",
  );
  expect(makeUrn({ ...own, parent: "", type: "pulumi:pulumi:Stack", name: "engine-room-kind" })).toBe(STACK);
});

test("a URN is split into its parts, including colons of the name", () => {
  const parent = makeUrn({ ...own, parent: STACK, type: "a:b:C", name: "outer" });
  const parts = { ...own, type: "d:e/f:G", name: "one::two" };
  expect(urnParts(makeUrn({ ...parts, parent }))).toEqual({ ...parts, qualifiedType: "a:b:C$d:e/f:G" });
});

test("a text that is not a URN has empty parts", () => {
  expect(urnParts("")).toEqual({ stack: "", project: "", qualifiedType: "", type: "", name: "" });
});
