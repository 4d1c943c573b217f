import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { runProgram } from "../../../scripts/program/run-program.ts";
import type { RuntimeConfig } from "../../../scripts/program/stack-file.ts";
import { findPulumi } from "../../../scripts/setup/pulumi-cli.ts";
import { type Step, TryoutEngine } from "../../../scripts/tryout/engine.ts";
import { destroy, refresh } from "../../../scripts/tryout/refresh.ts";
import {
  loadState,
  newDeployment,
  type PendingOperation,
  type ResourceState,
} from "../../../scripts/tryout/state.ts";
import recorded from "../../recorded/engine-operations.json" with { type: "json" };
import { program, type ThingConfig } from "./sequence/program.ts";
import { type RecordedStep, recordWithRealEngine } from "./sequence/real-engine.ts";
import { steps } from "./sequence/steps.ts";
import { ThingProvider } from "./sequence/things.ts";

/** A stack that lives in memory. */
class TestStack {
  readonly provider = new ThingProvider();
  resources: ResourceState[] = [];
  pending: PendingOperation[] = [];
  saves = 0;

  async run(things: readonly ThingConfig[], preview: boolean): Promise<Step[]> {
    const done: Step[] = [];
    const config: RuntimeConfig = {
      values: { "engine-room:things": JSON.stringify(things) },
      secretKeys: [],
    };
    const engine = new TryoutEngine({
      project: "engine-room",
      stack: "test",
      preview,
      ...this.#common(done),
    });
    await runProgram({ stack: "test", config, preview, owner: engine, program });
    await engine.deleteUnregistered();
    return done;
  }

  async destroy(): Promise<Step[]> {
    const done: Step[] = [];
    await destroy(this.#common(done));
    return done;
  }

  async refresh(): Promise<Step[]> {
    const done: Step[] = [];
    await refresh(this.#common(done));
    return done;
  }

  #common(done: Step[]) {
    return {
      provider: this.provider,
      state: { resources: this.resources, pending: this.pending },
      save: (resources: ResourceState[], pending: PendingOperation[]) => {
        this.saves += 1;
        this.resources = structuredClone(resources);
        this.pending = structuredClone(pending);
      },
      onStart: () => {},
      onEnd: (step: Step) => void done.push(step),
    };
  }
}

function operations(done: readonly Step[]): string[] {
  return done
    .filter((step) => step.operation !== "same" && step.operation !== "delete-replaced")
    .map((step) => `${step.operation} ${step.type} ${step.name}`)
    .toSorted();
}

async function recordWithRunner(): Promise<RecordedStep[]> {
  const stack = new TestStack();
  const result: RecordedStep[] = [];
  for (const { title, things } of steps) {
    const preview = operations(await stack.run(things, true));
    result.push({ title, preview, up: operations(await stack.run(things, false)) });
  }
  return result;
}

describe("operations of a history of changes", () => {
  test("equal those recorded from the real engine", async () => {
    expect(await recordWithRunner()).toEqual(recorded.steps);
  });

  const pulumi = findPulumi();
  test.skipIf(pulumi === undefined)(
    "equal those of the engine at hand (skipped without a Pulumi CLI on PATH)",
    { timeout: 180_000 },
    async () => {
      const now = recordWithRealEngine(pulumi ?? "").map((step) => ({
        ...step,
        preview: [...step.preview].sort(),
        up: [...step.up].sort(),
      }));
      expect(now).toEqual(await recordWithRunner());
    },
  );
});

const a: ThingConfig = { name: "a", value: "1" };
const b: ThingConfig = { name: "b", value: "1", from: "a" };

describe("an up", () => {
  test("that changes nothing calls no provider function that acts", async () => {
    const stack = new TestStack();
    await stack.run([a, b], false);
    stack.provider.calls.length = 0;
    await stack.run([a, b], false);
    expect(stack.provider.calls).toEqual([]);
  });

  test("keeps the stack's outputs and the order of dependencies in its state", async () => {
    const stack = new TestStack();
    await stack.run([b, a].toReversed(), false);
    expect(stack.resources.map((resource) => resource.urn.split("::").at(-1))).toEqual([
      "engine-room-test",
      "default_0_1_0",
      "a",
      "b",
    ]);
    expect(stack.resources[0]?.outputs).toEqual({ a: "plain-none", b: "plain-none" });
    expect(stack.resources[3]?.dependencies).toEqual([stack.resources[2]?.urn]);
  });

  test("deletes dependents before what they depend on", async () => {
    const stack = new TestStack();
    await stack.run([a, b, { name: "c", value: "1", from: "b" }], false);
    stack.provider.calls.length = 0;
    await stack.run([], false);
    expect(stack.provider.calls).toEqual(["delete c", "delete b", "delete a"]);
  });

  test("shows each changed property", async () => {
    const stack = new TestStack();
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

  test("that a provider refuses says why, and creates nothing", async () => {
    const stack = new TestStack();
    await expect(stack.run([{ name: "a", value: "forbidden" }], false)).rejects.toThrow(
      "a.value: It is forbidden.",
    );
    expect(stack.provider.calls).toEqual([]);
  });
});

describe("an up of which a step fails", () => {
  test("ends the steps under way, begins no others, and names the first failure", async () => {
    const stack = new TestStack();
    const create = stack.provider.create.bind(stack.provider);
    stack.provider.create = async (request) => {
      if (request.name === "slow") await new Promise((resolve) => setTimeout(resolve, 100));
      if (request.name === "bad") throw new Error("no room");
      return create(request);
    };
    const things = [
      { name: "slow", value: "1" },
      { name: "bad", value: "1" },
      { name: "later", value: "1", from: "slow" },
    ];
    await expect(stack.run(things, false)).rejects.toThrow(/^create of bad \(local:index:Thing\): no room$/);
    expect(stack.provider.calls).toEqual(["create slow"]);
    expect(stack.resources.some((resource) => resource.urn.endsWith("::slow"))).toBe(true);
  });
});

describe("an interrupted up", () => {
  test("is done again: a create that failed is pending, then created", async () => {
    const stack = new TestStack();
    const create = stack.provider.create.bind(stack.provider);
    stack.provider.create = () => Promise.reject(new Error("power cut"));
    await expect(stack.run([a], false)).rejects.toThrow("create of a (local:index:Thing): power cut");
    expect(stack.pending).toMatchObject([{ type: "creating" }]);
    stack.provider.create = create;
    expect(operations(await stack.run([a], false))).toEqual(["create local:index:Thing a"]);
    expect(stack.pending).toEqual([]);
  });

  test("is done again: an update that failed is repeated even when its change was taken back", async () => {
    const stack = new TestStack();
    await stack.run([a], false);
    const update = stack.provider.update.bind(stack.provider);
    stack.provider.update = () => Promise.reject(new Error("power cut"));
    await expect(stack.run([{ ...a, value: "2" }], false)).rejects.toThrow("update of a");
    stack.provider.update = update;
    expect(operations(await stack.run([a], false))).toEqual(["update local:index:Thing a"]);
  });

  test("that made a resource which does not work yet keeps it, and updates it at the next run", async () => {
    const stack = new TestStack();
    const create = stack.provider.create.bind(stack.provider);
    stack.provider.create = async (request) => {
      const { id, outputs } = await create(request);
      throw Object.assign(new Error("it does not answer"), {
        name: "InitializationError",
        id,
        properties: outputs,
      });
    };
    await expect(stack.run([a], false)).rejects.toThrow("it does not answer");
    expect(stack.resources.at(-1)).toMatchObject({ id: "a", outputs: { token: "plain-none" } });
    stack.provider.calls.length = 0;
    await stack.run([a], false);
    expect(stack.provider.calls).toEqual(["update a"]);
    expect(stack.pending).toEqual([]);
  });

  test("of which only the create is known is cleaned by down", async () => {
    const stack = new TestStack();
    stack.provider.create = () => Promise.reject(new Error("power cut"));
    await expect(stack.run([a], false)).rejects.toThrow();
    await stack.destroy();
    expect(stack.provider.calls).toEqual(["delete "]);
    expect(stack.resources).toEqual([]);
  });

  test("of a replacement leaves the old one in the state until it is deleted", async () => {
    const stack = new TestStack();
    await stack.run([a], false);
    const remove = stack.provider.delete.bind(stack.provider);
    stack.provider.delete = () => Promise.reject(new Error("power cut"));
    await expect(stack.run([{ ...a, kind: "fancy" }], false)).rejects.toThrow("power cut");
    expect(
      stack.resources.filter((resource) => resource.urn.endsWith("::a")).map((resource) => resource.delete),
    ).toEqual([undefined, true]);
    stack.provider.delete = remove;
    stack.provider.calls.length = 0;
    await stack.run([{ ...a, kind: "fancy" }], false);
    expect(stack.provider.calls).toEqual(["delete a"]);
    expect(stack.resources.filter((resource) => resource.urn.endsWith("::a"))).toHaveLength(1);
  });
});

describe("a refresh", () => {
  test("drops what is gone, and the next up makes it again", async () => {
    const stack = new TestStack();
    await stack.run([a, b], false);
    const read = stack.provider.read.bind(stack.provider);
    stack.provider.read = (request) =>
      request.outputs.from === undefined ? Promise.resolve(undefined) : read(request);
    expect(operations(await stack.refresh())).toEqual(["delete local:index:Thing a"]);
    expect(stack.resources.find((resource) => resource.urn.endsWith("::b"))?.dependencies).toEqual([]);
    expect(operations(await stack.run([a, b], false))).toEqual(["create local:index:Thing a"]);
  });
});

function newResource(sdk: typeof import("@pulumi/pulumi"), type: string, inputs: object, opts: object = {}) {
  const Resource = class extends sdk.CustomResource {};
  return new Resource(type, "it", inputs, opts);
}

describe("what the runner does not understand", () => {
  test.each([
    ["another package's resource", "aws:s3:Bucket", {}, "is no local: resource"],
    ["a protected resource", "local:index:Thing", { protect: true }, "resource option protect"],
    [
      "a resource kept on delete",
      "local:index:Thing",
      { retainOnDelete: true },
      "resource option retainOnDelete",
    ],
  ])("%s is refused in a sentence", async (_title, type, opts, sentence) => {
    const pulumi = await import("@pulumi/pulumi");
    const stack = new TestStack();
    const engine = new TryoutEngine({
      project: "engine-room",
      stack: "test",
      preview: false,
      provider: stack.provider,
      state: { resources: [], pending: [] },
      save: () => {},
      onStart: () => {},
      onEnd: () => {},
    });
    const withResource = async () => ({ resource: newResource(pulumi, type, {}, opts).urn });
    await expect(
      runProgram({
        stack: "test",
        config: { values: {}, secretKeys: [] },
        preview: false,
        owner: engine,
        program: withResource,
      }),
    ).rejects.toThrow(sentence);
  });

  test("a secret input is refused, and its value is not in the message", async () => {
    const stack = new TestStack();
    const pulumi = await import("@pulumi/pulumi");
    const owner = new TryoutEngine({
      project: "engine-room",
      stack: "test",
      preview: false,
      provider: stack.provider,
      state: { resources: [], pending: [] },
      save: () => {},
      onStart: () => {},
      onEnd: () => {},
    });
    const withSecret = async () => ({
      urn: newResource(pulumi, "local:index:Thing", { value: pulumi.secret("hush") }).urn,
    });
    const run = runProgram({
      stack: "test",
      config: { values: {}, secretKeys: [] },
      preview: false,
      owner,
      program: withSecret,
    });
    await expect(run).rejects.toThrow("takes a secret in value");
    await expect(run).rejects.not.toThrow("hush");
  });
});

describe("the state", () => {
  const directories: string[] = [];
  afterEach(() => {
    for (const directory of directories.splice(0)) rmSync(directory, { recursive: true });
  });

  test("of another version is refused", () => {
    const directory = mkdtempSync(join(tmpdir(), "engine-room-state-"));
    directories.push(directory);
    const path = join(directory, "state.json");
    writeFileSync(path, JSON.stringify({ ...newDeployment([], []), version: 2 }));
    expect(() => loadState(path)).toThrow("deployment version 2; this program reads version 3");
  });

  test.skipIf(findPulumi() === undefined)(
    "is imported by the real engine as it is (skipped without a Pulumi CLI on PATH)",
    { timeout: 60_000 },
    async () => {
      const stack = new TestStack();
      await stack.run([a, b], false);
      const directory = mkdtempSync(join(tmpdir(), "engine-room-import-"));
      directories.push(directory);
      writeFileSync(join(directory, "Pulumi.yaml"), "name: engine-room\nruntime: nodejs\n");
      writeFileSync(join(directory, "state.json"), JSON.stringify(newDeployment(stack.resources, [])));
      const pulumi = (...args: string[]) =>
        execFileSync(findPulumi() ?? "", [...args, "--stack", "test", "--non-interactive"], {
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
        stack.resources.map((resource) => resource.urn),
      );
      expect(readFileSync(join(directory, "state.json"), "utf8")).toContain('"version":3');
    },
  );
});
