import { EventEmitter, once } from "node:events";
import { afterEach, describe, expect, test, vi } from "vitest";
import { TryoutEngine } from "../../../scripts/tryout/engine.ts";
import { a, b, MemoryStack, operations } from "./memory-stack.ts";
import { program } from "./sequence/program.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

describe("an up of which a step fails", () => {
  test("ends the steps under way, begins no others, and names the first failure", async () => {
    const stack = new MemoryStack();
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

describe("an up whose program fails", () => {
  test("begins nothing more after that", async () => {
    const stack = new MemoryStack();
    const create = stack.provider.create.bind(stack.provider);
    const events = new EventEmitter();
    const [begun, failed] = [once(events, "begun"), once(events, "failed")];
    const { fail } = TryoutEngine.prototype;
    vi.spyOn(TryoutEngine.prototype, "fail").mockImplementation(function (this: TryoutEngine, error) {
      fail.call(this, error);
      events.emit("failed");
    });
    stack.provider.create = async (request) => {
      events.emit("begun");
      await failed;
      return create(request);
    };
    const failing = async () => {
      await program();
      await begun;
      throw new Error("the program is wrong");
    };
    const things = [a, b, { name: "c", value: "1", from: "b" }];
    await expect(stack.run(things, false, failing)).rejects.toThrow("the program is wrong");
    expect(stack.provider.calls).toEqual(["create a"]);
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(stack.provider.calls).toEqual(["create a"]);
  });
});

describe("an interrupted up", () => {
  test("of a resource that is no longer wanted deletes what it may have left", async () => {
    const stack = new MemoryStack();
    stack.provider.create = () => Promise.reject(new Error("power cut"));
    await expect(stack.run([a], false)).rejects.toThrow();
    await stack.run([], false);
    expect(stack.provider.calls).toEqual(["delete a"]);
    expect(stack.pending).toEqual([]);
  });

  test("is not forgotten by another up that fails earlier", async () => {
    const stack = new MemoryStack();
    await stack.run([a, b], false);
    const update = stack.provider.update.bind(stack.provider);
    stack.provider.update = () => Promise.reject(new Error("power cut"));
    await expect(stack.run([a, { ...b, value: "2" }], false)).rejects.toThrow("update of b");
    await expect(stack.run([{ ...a, value: "forbidden" }, b], false)).rejects.toThrow("forbidden");
    stack.provider.update = update;
    expect(operations(await stack.run([a, b], false))).toEqual(["update local:index:Thing b"]);
  });

  test("is done again: a create that failed is pending, then created", async () => {
    const stack = new MemoryStack();
    const create = stack.provider.create.bind(stack.provider);
    stack.provider.create = () => Promise.reject(new Error("power cut"));
    await expect(stack.run([a], false)).rejects.toThrow("create of a (local:index:Thing): power cut");
    expect(stack.pending).toMatchObject([{ type: "creating" }]);
    stack.provider.create = create;
    expect(operations(await stack.run([a], false))).toEqual(["create local:index:Thing a"]);
    expect(stack.pending).toEqual([]);
  });

  test("is done again: an update that failed is repeated even when its change was taken back", async () => {
    const stack = new MemoryStack();
    await stack.run([a], false);
    const update = stack.provider.update.bind(stack.provider);
    stack.provider.update = () => Promise.reject(new Error("power cut"));
    await expect(stack.run([{ ...a, value: "2" }], false)).rejects.toThrow("update of a");
    stack.provider.update = update;
    expect(operations(await stack.run([a], false))).toEqual(["update local:index:Thing a"]);
  });

  test("that made a resource which does not work yet keeps it, and updates it at the next run", async () => {
    const stack = new MemoryStack();
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
    const stack = new MemoryStack();
    stack.provider.create = () => Promise.reject(new Error("power cut"));
    await expect(stack.run([a], false)).rejects.toThrow();
    await stack.destroy();
    expect(stack.provider.calls).toEqual(["delete a"]);
    expect(stack.resources).toEqual([]);
  });

  test("of a replacement leaves the old one in the state until it is deleted", async () => {
    const stack = new MemoryStack();
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
