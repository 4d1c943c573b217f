/** The provider as Pulumi's engine starts it, and its parts without state. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { credentials } from "@grpc/grpc-js";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { UNKNOWN_VALUE, unwrap, wrap } from "../../../components/local/provider/contract.ts";
import { projectRoot } from "../../../components/local/provider/files.ts";
import { fillPlaceholders } from "../../../components/local/provider/process-files.ts";
import { canonicalJson } from "../../../infra/plan/plain-data.ts";
import { makeProject, removeProject, SUPERVISOR_LOCK, sha256, until } from "./fixtures.ts";

// The last test ends the plugin.
describe("plugin", { shuffle: false }, () => {
  const require = createRequire(import.meta.url);

  const { ResourceProviderClient } = require("@pulumi/pulumi/proto/provider_grpc_pb.js");

  const messages = require("@pulumi/pulumi/proto/provider_pb.js");

  const { Struct } = require("google-protobuf/google/protobuf/struct_pb.js");

  const SECRET = { "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270" };

  const PLUGIN = join(import.meta.dirname, "../../../components/local/provider/pulumi-resource-local");

  let root: string;

  let engine: ChildProcess;

  let pluginPid: number;

  // biome-ignore lint/suspicious/noExplicitAny: the SDK's generated client has no types.
  let client: any;

  beforeAll(async () => {
    root = makeProject();
    // The shell stands for the engine: the plugin's parent, which the last test kills.
    engine = spawn("sh", ["-c", '"$0" & echo "pid $!"; wait', PLUGIN], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const lines: string[] = [];
    createInterface({ input: engine.stdout as NodeJS.ReadableStream }).on("line", (line) => lines.push(line));
    await until(() => (lines.length >= 2 ? true : undefined));
    pluginPid = Number(lines.find((line) => line.startsWith("pid "))?.slice(4));
    const port = lines.find((line) => /^\d+$/.test(line));
    client = new ResourceProviderClient(`127.0.0.1:${port}`, credentials.createInsecure());
  });

  afterAll(async () => {
    client.close();
    engine.kill("SIGKILL");
    await removeProject(root);
  });

  // biome-ignore lint/suspicious/noExplicitAny: the SDK's generated messages have no types either.
  type Message = any;

  /** One call with a message of the given kind whose properties are set. */
  async function call(method: string, kind: string, properties: Record<string, unknown>): Promise<Message> {
    const request = new messages[kind]();
    for (const [name, value] of Object.entries(properties)) request[`set${name}`](value);
    return new Promise((resolve, reject) =>
      client[method](request, (error: Error | null, response: unknown) =>
        error === null ? resolve(response) : reject(error),
      ),
    );
  }

  const struct = (value: object) => Struct.fromJavaScript(value);

  const urnOf = (type: string) => `urn:pulumi:dev::engine-room::my:Parent$local:index:${type}::name`;

  const environment = {
    directory: ".stacks/s/python",
    requirements: "requirements.lock",
    requirementsSha256: sha256(SUPERVISOR_LOCK),
  };

  test("a check keeps secrets wrapped and unknown values unknown", async () => {
    const news = {
      ...environment,
      directory: { ...SECRET, value: environment.directory },
      requirements: UNKNOWN_VALUE,
    };
    const response = await call("check", "CheckRequest", {
      Urn: urnOf("PythonEnvironment"),
      Olds: struct({}),
      News: struct(news),
    });
    expect(response.getFailuresList()).toEqual([]);
    expect(response.getInputs().toJavaScript()).toEqual(news);
  });

  test("the plugin creates, reads and deletes, reads nothing afterwards, and calls that a change", async () => {
    const Urn = urnOf("PythonEnvironment");
    const created = await call("create", "CreateRequest", { Urn, Properties: struct(environment) });
    const Properties = created.getProperties();
    expect(Properties.toJavaScript()).toMatchObject({
      ...environment,
      python: ".stacks/s/python/bin/python",
    });
    const Id = created.getId();
    expect((await call("read", "ReadRequest", { Id, Urn, Properties })).getId()).toBe(Id);
    const asked = { Id, Urn, Olds: Properties, News: struct(environment) };
    const { DIFF_NONE, DIFF_SOME } = messages.DiffResponse.DiffChanges;
    expect((await call("diff", "DiffRequest", asked)).getChanges()).toBe(DIFF_NONE);
    await call("delete", "DeleteRequest", { Id, Urn, Properties });
    const gone = await call("diff", "DiffRequest", asked);
    expect([gone.getChanges(), gone.getReplacesList()]).toEqual([DIFF_SOME, []]);
    expect((await call("read", "ReadRequest", { Id, Urn, Properties })).getId()).toBe("");
  });

  test("the plugin refuses a type that it does not have", async () => {
    const request = { Urn: urnOf("Nothing"), Properties: struct({}) };
    await expect(call("create", "CreateRequest", request)).rejects.toThrow(
      "local:index:Nothing is not a resource of the package local",
    );
  });

  test("the plugin ends when the engine is killed", async () => {
    expect(existsSync(`/proc/${pluginPid}`)).toBe(true);
    engine.kill("SIGKILL");
    await until(() => (existsSync(`/proc/${pluginPid}`) ? undefined : true));
  });
});

test("canonical JSON does not depend on the order of keys, and differs for any two values", () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), (a, b) => {
      const reversed = JSON.parse(JSON.stringify(a), (_key, value) =>
        typeof value === "object" && value !== null && !Array.isArray(value)
          ? Object.fromEntries(Object.entries(value).toReversed())
          : value,
      );
      expect(canonicalJson(reversed)).toBe(canonicalJson(a));
      expect(JSON.parse(canonicalJson(a))).toEqual(JSON.parse(JSON.stringify(a)));
      if (canonicalJson(a) === canonicalJson(b))
        expect(JSON.parse(JSON.stringify(a))).toEqual(JSON.parse(JSON.stringify(b)));
    }),
  );
});

test("secrets are unwrapped at any depth, and the properties with some wrapped again", () => {
  const secret = (value: unknown) => ({
    "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270",
    value,
  });
  const { properties, secretNames } = unwrap({
    plain: [1, null, "x", UNKNOWN_VALUE],
    password: secret({ inner: secret("p") }),
    environment: { KEY: secret("k"), LIST: [secret("l")], OTHER: "o" },
  });
  const environment = { KEY: "k", LIST: ["l"], OTHER: "o" };
  expect(properties).toEqual({
    plain: [1, null, "x", UNKNOWN_VALUE],
    password: { inner: "p" },
    environment,
  });
  expect(wrap({ environment, ports: { http: 1 } }, secretNames)).toEqual({
    environment: secret(environment),
    ports: { http: 1 },
  });
});

test("known placeholders are filled and other braces stay", () => {
  expect(fillPlaceholders("{port.http} {root}/{a} {{root}}", { http: 8000 })).toBe(
    `8000 ${projectRoot()}/{a} {${projectRoot()}}`,
  );
  expect(() => fillPlaceholders("{port.x}", { http: 8000 })).toThrow(/requestedPorts/);
});
