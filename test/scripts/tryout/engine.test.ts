import * as pulumi from "@pulumi/pulumi";
import { describe, expect, test } from "vitest";
import { findPulumi } from "../../../scripts/setup/pulumi-cli.ts";
import recorded from "../../recorded/engine-operations.json" with { type: "json" };
import { a, b, MemoryStack, operations } from "./memory-stack.ts";
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

describe("operations of a history of changes", () => {
  test("equal those recorded from the real engine", async () => {
    expect(await recordWithRunner()).toEqual(recorded.steps);
  });

  const cli = findPulumi();
  test.skipIf(cli === undefined)(
    "equal those of the engine at hand (skipped without a Pulumi CLI on PATH)",
    { timeout: 180_000 },
    async () => {
      const now = recordWithRealEngine(cli ?? "").map((step) => ({
        ...step,
        preview: [...step.preview].sort(),
        up: [...step.up].sort(),
      }));
      expect(now).toEqual(await recordWithRunner());
    },
  );
});

describe("an up", () => {
  test("that changes nothing calls no provider function that acts", async () => {
    const stack = new MemoryStack();
    await stack.run([a, b], false);
    stack.provider.calls.length = 0;
    await stack.run([a, b], false);
    expect(stack.provider.calls).toEqual([]);
  });

  test("keeps the stack's outputs and the order of dependencies in its state", async () => {
    const stack = new MemoryStack();
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
    const stack = new MemoryStack();
    await stack.run([a, b, { name: "c", value: "1", from: "b" }], false);
    stack.provider.calls.length = 0;
    await stack.run([], false);
    expect(stack.provider.calls).toEqual(["delete c", "delete b", "delete a"]);
  });

  test("shows each changed property", async () => {
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

  test("that a provider refuses says why, and creates nothing", async () => {
    const stack = new MemoryStack();
    await expect(stack.run([{ name: "a", value: "forbidden" }], false)).rejects.toThrow(
      "a.value: It is forbidden.",
    );
    expect(stack.provider.calls).toEqual([]);
  });
});

describe("a refresh", () => {
  test("drops what is gone, and the next up makes it again", async () => {
    const stack = new MemoryStack();
    await stack.run([a, b], false);
    const read = stack.provider.read.bind(stack.provider);
    stack.provider.read = (request) =>
      request.outputs.from === undefined ? Promise.resolve(undefined) : read(request);
    expect(operations(await stack.refresh())).toEqual(["delete local:index:Thing a"]);
    expect(stack.resources.find((resource) => resource.urn.endsWith("::b"))?.dependencies).toEqual([]);
    expect(operations(await stack.run([a, b], false))).toEqual(["create local:index:Thing a"]);
  });
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
    [
      "an order of replacement",
      "local:index:Thing",
      { deleteBeforeReplace: true },
      "resource option deleteBeforeReplace",
    ],
  ])("%s is refused in a sentence", async (_title, type, opts, sentence) => {
    await expect(register(type, {}, opts)).rejects.toThrow(sentence);
  });

  test("a secret input is refused, and its value is not in the message", async () => {
    const run = register("local:index:Thing", { value: pulumi.secret("hush") });
    await expect(run).rejects.toThrow("takes a secret in value");
    await expect(run).rejects.not.toThrow("hush");
  });
});
