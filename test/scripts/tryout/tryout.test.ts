import { execFileSync } from "node:child_process";
import { EventEmitter, once } from "node:events";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as pulumi from "@pulumi/pulumi";
import { afterEach, describe, expect, test, vi } from "vitest";
import { ProgramMonitor } from "../../../scripts/program/monitor.ts";
import { findProgram } from "../../../scripts/stack/pulumi-cli.ts";
import { loadState, newDeployment, type ResourceState, saveState } from "../../../scripts/tryout/state.ts";
import { needs } from "../../harness/requirements.ts";
import recorded from "../../recorded/engine-operations.json" with { type: "json" };
import { a, b, MemoryStack, operations } from "./memory-stack.ts";
import { program } from "./sequence/program.ts";
import { type RecordedStep, recordWithRealEngine } from "./sequence/real-engine.ts";
import { steps } from "./sequence/steps.ts";

async function recordWithRunner(): Promise<RecordedStep[]> {
  const stack = new MemoryStack();
  const result: RecordedStep[] = [];
  for (const { title, things } of steps) {
    const preview = operations(await stack.run(things, true));
    result.push({ title, preview, up: operations(await stack.run(things, false)) });
  }
  return result;
}

test("operations of a history of changes equal those recorded from the real engine", async () => {
  expect(await recordWithRunner()).toEqual(recorded.steps);
});

const NO_CLI = "no Pulumi CLI on PATH";

const cli = findProgram("pulumi");
test("operations of a history of changes equal the installed engine's", {
  timeout: 180_000,
  ...needs(cli === undefined ? NO_CLI : undefined),
}, async () => {
  const now = recordWithRealEngine(cli ?? "").map((step) => ({
    ...step,
    preview: [...step.preview].sort(),
    up: [...step.up].sort(),
  }));
  expect(now).toEqual(await recordWithRunner());
});

test("an unchanged `up` calls no provider function that acts", async () => {
  const stack = new MemoryStack();
  await stack.run([a, b], false);
  stack.things.calls.length = 0;
  await stack.run([a, b], false);
  expect(stack.things.calls).toEqual([]);
});

test("`up` keeps the stack's outputs and the order of dependencies in its state", async () => {
  const stack = new MemoryStack();
  await stack.run([b, a].toReversed(), false);
  expect(stack.state.resources.map((resource) => resource.urn.split("::").at(-1))).toEqual([
    "engine-room-test",
    "default_0_1_0",
    "a",
    "b",
  ]);
  expect(stack.state.resources[0]?.outputs).toEqual({ a: "plain-none", b: "plain-none" });
  expect(stack.state.resources[3]?.dependencies).toEqual([stack.state.resources[2]?.urn]);
});

test("`up` deletes dependents before their dependencies", async () => {
  const stack = new MemoryStack();
  await stack.run([a, b, { name: "c", value: "1", from: "b" }], false);
  stack.things.calls.length = 0;
  await stack.run([], false);
  expect(stack.things.calls).toEqual(["delete c", "delete b", "delete a"]);
});

test("`down` deletes dependents concurrently, and then their dependencies", async () => {
  const stack = new MemoryStack();
  await stack.run([a, b, { name: "c", value: "1", from: "a" }], false);
  const begun: string[] = [];
  const ends: (() => void)[] = [];
  stack.things.delete = (id) =>
    new Promise((resolve) => {
      begun.push(id);
      ends.push(resolve);
    });
  const run = stack.destroy();
  await vi.waitFor(() => expect(begun).toEqual(["c", "b"]));
  for (const end of ends.splice(0)) end();
  await vi.waitFor(() => expect(begun).toEqual(["c", "b", "a"]));
  for (const end of ends) end();
  await run;
  expect(stack.state.resources).toEqual([]);
});

test("`down` begins no deletion after a failure, and keeps the remaining resources in the state", async () => {
  const stack = new MemoryStack();
  await stack.run([a, b, { name: "c", value: "1", from: "b" }, { name: "d", value: "1" }], false);
  const begun: string[] = [];
  stack.things.delete = async (id) => {
    begun.push(id);
    if (id === "c") throw new Error("power cut");
  };
  await expect(stack.destroy()).rejects.toThrow("power cut");
  expect(begun.toSorted()).toEqual(["c", "d"]);
  const left = stack.state.resources.map(({ urn }) => urn.split("::").at(-1));
  expect(left).toEqual(expect.arrayContaining(["a", "b", "c"]));
  expect(left).not.toContain("d");
});

test("a preview shows each changed property", async () => {
  const stack = new MemoryStack();
  await stack.run([a], false);
  const done = await stack.run([{ ...a, value: "2", kind: "fancy" }], true);
  expect(done.find((step) => step.name === "a")).toMatchObject({
    operation: "replace",
    replaceReasons: ["kind"],
    changes: [
      { path: "kind", kind: "update", before: '"plain"', after: '"fancy"' },
      { path: "value", kind: "update", before: '"1"', after: '"2"' },
    ],
  });
});

test.each([
  [true, ["delete it", "create it"]],
  [false, ["create it", "delete it"]],
])("with deleteBeforeReplace: %s a replacement has that order", async (deleteBeforeReplace, calls) => {
  const stack = new MemoryStack();
  const Resource = class extends pulumi.CustomResource {};
  const up = (kind: string) =>
    stack.run([], false, async () => {
      const options = { deleteBeforeReplace, version: "0.1.0" };
      return { urn: new Resource("local:index:Thing", "it", { kind }, options).urn };
    });
  await up("plain");
  stack.things.calls.length = 0;
  await up("fancy");
  expect(stack.things.calls).toEqual(calls);
});

test("`up` reports why a provider refuses a resource, and creates nothing", async () => {
  const stack = new MemoryStack();
  await expect(stack.run([{ name: "a", value: "forbidden" }], false)).rejects.toThrow(
    "a.value: It is forbidden.",
  );
  expect(stack.things.calls).toEqual([]);
});

test("a refresh drops a resource that is gone, and the next `up` creates it again", async () => {
  const stack = new MemoryStack();
  await stack.run([a, b], false);
  const read = stack.things.read.bind(stack.things);
  stack.things.read = async (id, outputs) => (outputs.from === undefined ? undefined : read(id, outputs));
  expect(operations(await stack.refresh())).toEqual(["delete local:index:Thing a"]);
  expect(stack.state.resources.find((resource) => resource.urn.endsWith("::b"))?.dependencies).toEqual([]);
  expect(operations(await stack.run([a, b], false))).toEqual(["create local:index:Thing a"]);
});

/** Runs a program that registers one resource. */
async function register(
  type: string,
  inputs: object,
  opts: pulumi.CustomResourceOptions = {},
): Promise<unknown> {
  const Resource = class extends pulumi.CustomResource {};
  return new MemoryStack().run([], false, async () => ({ urn: new Resource(type, "it", inputs, opts).urn }));
}

test.each([
  ["another package's resource", "aws:s3:Bucket", {}, "is not a local: resource"],
  ["a protected resource", "local:index:Thing", { protect: true }, "resource option protect"],
  [
    "a resource kept on delete",
    "local:index:Thing",
    { retainOnDelete: true },
    "resource option retainOnDelete",
  ],
])("the runner refuses %s", async (_title, type, opts, sentence) => {
  await expect(register(type, {}, opts)).rejects.toThrow(sentence);
});

test("the runner refuses a secret input without showing its value", async () => {
  const run = register("local:index:Thing", { value: pulumi.secret("hush") });
  await expect(run).rejects.toThrow("takes a secret in value");
  await expect(run).rejects.not.toThrow("hush");
});

describe("the state", () => {
  const directories: string[] = [];
  afterEach(() => {
    for (const directory of directories.splice(0)) rmSync(directory, { recursive: true });
  });

  test("an unreadable state file is named in the error", () => {
    const directory = mkdtempSync(join(tmpdir(), "engine-room-state-"));
    directories.push(directory);
    const path = join(directory, "state.json");
    writeFileSync(path, '{"version": 3, "deploy');
    expect(() => loadState(path)).toThrow(`${path}, the state of the stack, can't be read`);
  });

  test(
    "a full disk leaves the old state whole",
    needs(process.getuid?.() === 0 ? undefined : "not root, who can mount a small disk"),
    () => {
      const directory = mkdtempSync(join(tmpdir(), "engine-room-state-"));
      execFileSync("mount", ["-t", "tmpfs", "-o", "size=64k", "tmpfs", directory]);
      try {
        const path = join(directory, "state.json");
        const resource: ResourceState = { urn: "urn:a", custom: true, type: "t", inputs: { text: "small" } };
        saveState(path, { resources: [resource], pending: [] });
        const large = { ...resource, inputs: { text: "x".repeat(200_000) } };
        expect(() => saveState(path, { resources: [large], pending: [] })).toThrow(
          "the state of the stack, can't be written",
        );
        expect(loadState(path).resources).toEqual([resource]);
        expect(readdirSync(directory)).toEqual(["state.json"]);
      } finally {
        execFileSync("umount", [directory]);
        rmSync(directory, { recursive: true });
      }
    },
  );

  test("a state of another version is refused", () => {
    const directory = mkdtempSync(join(tmpdir(), "engine-room-state-"));
    directories.push(directory);
    const path = join(directory, "state.json");
    writeFileSync(path, JSON.stringify({ ...newDeployment({ resources: [], pending: [] }), version: 2 }));
    expect(() => loadState(path)).toThrow("deployment version 2; this program reads version 3");
  });

  test("the real engine imports the state unchanged", {
    timeout: 60_000,
    ...needs(cli === undefined ? NO_CLI : undefined),
  }, async () => {
    const stack = new MemoryStack();
    await stack.run([a, b], false);
    const directory = mkdtempSync(join(tmpdir(), "engine-room-import-"));
    directories.push(directory);
    writeFileSync(join(directory, "Pulumi.yaml"), "name: engine-room\nruntime: nodejs\n");
    writeFileSync(join(directory, "state.json"), JSON.stringify(newDeployment(stack.state)));
    const pulumi = (...args: string[]) =>
      execFileSync(findProgram("pulumi") ?? "", [...args, "--stack", "test", "--non-interactive"], {
        cwd: directory,
        env: {
          ...process.env,
          PULUMI_BACKEND_URL: `file://${directory}`,
          PULUMI_CONFIG_PASSPHRASE: "test",
          PULUMI_SKIP_UPDATE_CHECK: "true",
        },
        stdio: ["ignore", "pipe", "pipe"],
      }).toString();
    pulumi("stack", "init");
    pulumi("stack", "import", "--file", "state.json");
    const exported = JSON.parse(pulumi("stack", "export")) as {
      deployment: { resources: { urn: string }[] };
    };
    expect(exported.deployment.resources.map((resource) => resource.urn)).toEqual(
      stack.state.resources.map((resource) => resource.urn),
    );
  });
});

afterEach(() => {
  vi.restoreAllMocks();
});

test("an `up` with a failed step finishes running steps, begins no others, and reports the first failure", async () => {
  const stack = new MemoryStack();
  const create = stack.things.create.bind(stack.things);
  stack.things.create = async (name, inputs) => {
    if (name === "slow") await new Promise((resolve) => setTimeout(resolve, 100));
    if (name === "bad") throw new Error("no room");
    return create(name, inputs);
  };
  const things = [
    { name: "slow", value: "1" },
    { name: "bad", value: "1" },
    { name: "later", value: "1", from: "slow" },
  ];
  await expect(stack.run(things, false)).rejects.toThrow(/^create of bad \(local:index:Thing\): no room$/);
  expect(stack.things.calls).toEqual(["create slow"]);
  expect(stack.state.resources.some((resource) => resource.urn.endsWith("::slow"))).toBe(true);
});

test("an `up` whose program failed begins no more steps", async () => {
  const stack = new MemoryStack();
  const create = stack.things.create.bind(stack.things);
  const events = new EventEmitter();
  const [begun, failed] = [once(events, "begun"), once(events, "failed")];
  const { fail } = ProgramMonitor.prototype;
  vi.spyOn(ProgramMonitor.prototype, "fail").mockImplementation(function (this: ProgramMonitor, error) {
    fail.call(this, error);
    events.emit("failed");
  });
  stack.things.create = async (name, inputs) => {
    events.emit("begun");
    await failed;
    return create(name, inputs);
  };
  const failing = async () => {
    await program();
    await begun;
    throw new Error("the program is wrong");
  };
  const things = [a, b, { name: "c", value: "1", from: "b" }];
  await expect(stack.run(things, false, failing)).rejects.toThrow("the program is wrong");
  expect(stack.things.calls).toEqual(["create a"]);
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(stack.things.calls).toEqual(["create a"]);
});

test("the `up` after an interrupted create deletes a resource that is no longer wanted", async () => {
  const stack = new MemoryStack();
  stack.things.create = () => Promise.reject(new Error("power cut"));
  await expect(stack.run([a], false)).rejects.toThrow();
  await stack.run([], false);
  // Its id is unknown.
  expect(stack.things.calls).toEqual(["delete "]);
  expect(stack.state.pending).toEqual([]);
});

test("an interrupted update is repeated even after another `up` failed earlier", async () => {
  const stack = new MemoryStack();
  await stack.run([a, b], false);
  const update = stack.things.update.bind(stack.things);
  stack.things.update = () => Promise.reject(new Error("power cut"));
  await expect(stack.run([a, { ...b, value: "2" }], false)).rejects.toThrow("update of b");
  await expect(stack.run([{ ...a, value: "forbidden" }, b], false)).rejects.toThrow("forbidden");
  stack.things.update = update;
  expect(operations(await stack.run([a, b], false))).toEqual(["update local:index:Thing b"]);
});

test("a failed create is pending, and the next `up` creates the resource", async () => {
  const stack = new MemoryStack();
  const create = stack.things.create.bind(stack.things);
  stack.things.create = () => Promise.reject(new Error("power cut"));
  await expect(stack.run([a], false)).rejects.toThrow("create of a (local:index:Thing): power cut");
  expect(stack.state.pending).toMatchObject([{ type: "creating" }]);
  stack.things.create = create;
  expect(operations(await stack.run([a], false))).toEqual(["create local:index:Thing a"]);
  expect(stack.state.pending).toEqual([]);
});

test("a failed update is repeated even when its change was reverted", async () => {
  const stack = new MemoryStack();
  await stack.run([a], false);
  const update = stack.things.update.bind(stack.things);
  stack.things.update = () => Promise.reject(new Error("power cut"));
  await expect(stack.run([{ ...a, value: "2" }], false)).rejects.toThrow("update of a");
  stack.things.update = update;
  expect(operations(await stack.run([a], false))).toEqual(["update local:index:Thing a"]);
});

test("a created resource that is not ready yet is kept, and the next `up` updates it", async () => {
  const stack = new MemoryStack();
  const create = stack.things.create.bind(stack.things);
  stack.things.create = async (name, inputs) => {
    const { id, outs } = await create(name, inputs);
    throw Object.assign(new Error("it does not answer"), {
      name: "InitializationError",
      id,
      properties: outs,
    });
  };
  await expect(stack.run([a], false)).rejects.toThrow("it does not answer");
  expect(stack.state.resources.at(-1)).toMatchObject({ id: "a", outputs: { token: "plain-none" } });
  stack.things.calls.length = 0;
  await stack.run([a], false);
  expect(stack.things.calls).toEqual(["update a"]);
  expect(stack.state.pending).toEqual([]);
});

test("`down` deletes a resource of which only the create is recorded", async () => {
  const stack = new MemoryStack();
  stack.things.create = () => Promise.reject(new Error("power cut"));
  await expect(stack.run([a], false)).rejects.toThrow();
  await stack.destroy();
  // Its id is unknown.
  expect(stack.things.calls).toEqual(["delete "]);
  expect(stack.state.resources).toEqual([]);
});

test("an interrupted replacement keeps the old resource in the state until it is deleted", async () => {
  const stack = new MemoryStack();
  await stack.run([a], false);
  const remove = stack.things.delete.bind(stack.things);
  stack.things.delete = () => Promise.reject(new Error("power cut"));
  await expect(stack.run([{ ...a, kind: "fancy" }], false)).rejects.toThrow("power cut");
  expect(
    stack.state.resources
      .filter((resource) => resource.urn.endsWith("::a"))
      .map((resource) => resource.delete),
  ).toEqual([undefined, true]);
  stack.things.delete = remove;
  stack.things.calls.length = 0;
  await stack.run([{ ...a, kind: "fancy" }], false);
  expect(stack.things.calls).toEqual(["delete a"]);
  expect(stack.state.resources.filter((resource) => resource.urn.endsWith("::a"))).toHaveLength(1);
});
