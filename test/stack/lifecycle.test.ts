import { existsSync } from "node:fs";
import { createServer } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually, stackConfig, TestStack } from "../harness/stack.ts";

const services = ["encoders", "gateway", "mongo", "smollm2", "vector"];

describe("a stack", () => {
  const stack = new TestStack("lifecycle");
  beforeAll(() => stack.succeed("up"));
  afterAll(() => stack.dispose());

  test("answers at every endpoint of its outputs", async () => {
    const { stdout } = await stack.succeed("smoke");
    expect(stdout).toMatch(/(\d+) of \1 checks passed/);
  });

  test("has outputs as the contract says, and nothing else", async () => {
    const outputs = await stack.outputs();
    expect(Object.keys(outputs).sort()).toEqual([
      "cost",
      "endpoints",
      "engineStore",
      "models",
      "notes",
      "release",
    ]);
    expect(outputs.models).toEqual([
      {
        name: "smollm2",
        model: "smollm2-135m-instruct",
        release: outputs.release,
        engineKey: null,
        nodePool: "host",
      },
    ]);
    expect(outputs.endpoints.gateway).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(outputs.cost).toEqual({
      hourlyUsd: 0,
      monthlyUsd: 0,
      withoutPrice: [],
      buildUsd: 0,
      pricesAsOf: null,
    });
    expect(outputs.notes.join()).toContain("efficientnet-lite0");
  });

  test("shows the log of a service, and says which services there are", async () => {
    expect((await stack.succeed("logs", "encoders", "--lines", "1000")).stdout).toContain(
      "Started GRPCInferenceService",
    );
    expect((await stack.succeed("logs", "gateway", "--lines", "1")).stdout.trim().split("\n")).toHaveLength(
      1,
    );
    const unknown = await stack.run("logs", "redis");
    expect([unknown.code, unknown.stderr.split("\n")[0]]).toEqual([
      2,
      "Say which service: encoders, gateway, mongo, smollm2, vector (not redis).",
    ]);
    expect((await stack.run("logs", "gateway", "--lines", "many")).code).toBe(2);
  });

  test("says which version really serves", async () => {
    const { release, endpoints } = await stack.outputs();
    const { version } = (await (await fetch(`${endpoints.encoders?.http}/v2`)).json()) as { version: string };
    expect(release).toContain(`Triton ${version}`);
  });

  test("is left alone by a second up", async () => {
    const before = await stack.pids();
    const { stderr } = await stack.succeed("up");
    expect(stderr).toMatch(/^ {2}\d+ same$/m);
    expect(await stack.pids()).toEqual(before);
    expect((await stack.succeed("preview", "--expect-no-changes")).stdout).toMatch(/^\d+ same$/m);
  });

  test("restarts only what a changed setting reaches, and previews just that", async () => {
    const before = await stack.pids();
    stack.configure(stackConfig({ encoders: { visionWeights: "package", maxQueueDelayMicroseconds: 1000 } }));
    const preview = await stack.succeed("preview");
    expect(preview.stdout).toMatch(/~ update +encoders-repository/);
    expect(preview.stdout).toMatch(/~ update +encoders-server/);
    expect(preview.stdout).not.toMatch(/update +(gateway|smollm2)/);
    await stack.succeed("up");
    const after = await stack.pids();
    expect(after.encoders).not.toBe(before.encoders);
    expect([after.gateway, after.smollm2]).toEqual([before.gateway, before.smollm2]);
    expect((await stack.run("preview", "--expect-no-changes")).code).toBe(0);
  });

  test("keeps its ports over updates", async () => {
    const { endpoints } = await stack.outputs();
    stack.configure(stackConfig({ gateway: { limits: { bodyMiB: 2 } } }));
    await stack.succeed("up");
    expect((await stack.outputs()).endpoints).toEqual(endpoints);
  });

  test.each(services)("gets %s back after a kill -9, by itself", async (service) => {
    const before = (await stack.pids())[service];
    process.kill(before ?? 0, "SIGKILL");
    await eventually(async () => {
      const now = (await stack.pids())[service];
      return typeof now === "number" && now !== before ? now : undefined;
    });
    await eventually(async () => ((await stack.run("smoke")).code === 0 ? true : undefined));
  });

  test("whose supervisord was killed is found by refresh and mended by up, with nothing running twice", async () => {
    process.kill(stack.supervisordPid() ?? 0, "SIGKILL");
    const refresh = await stack.succeed("refresh");
    for (const service of services) expect(refresh.stderr).toContain(`${service}-server`);
    await stack.succeed("up");
    expect((await stack.run("smoke")).code).toBe(0);
    const running = await stack.pids();
    for (const service of services) expect(running[service]).toBeTypeOf("number");
    expect(stack.instances()).toEqual({
      supervisord: 1,
      encoders: 1,
      gateway: 1,
      mongo: 1,
      smollm2: 1,
      vector: 1,
    });
  });

  test("tells a second operation who holds the lock", async () => {
    stack.configure(stackConfig({ encoders: { visionWeights: "package", maxQueueDelayMicroseconds: 2000 } }));
    const first = stack.spawn("up");
    const ended = new Promise((resolve) => first.on("close", resolve));
    await new Promise((resolve) => first.stderr?.once("data", resolve));
    const second = await stack.run("up");
    expect(second.code).toBe(1);
    expect(second.stderr).toContain(`locked by process ${first.pid} (\`up\``);
    expect(await ended).toBe(0);
  });

  test("that is down leaves no process and no file", async () => {
    await stack.succeed("down");
    expect(stack.processes()).toEqual(new Map());
    expect(existsSync(stack.directory)).toBe(false);
    await stack.succeed("down");
  });

  test("has its documents again when it comes up again, until they are deleted on purpose", async () => {
    await stack.succeed("up");
    const documents = async () => {
      const { gateway } = (await stack.outputs()).endpoints;
      const answer = (await (await fetch(`${gateway}/v1/documents`)).json()) as {
        documents: { id: string }[];
      };
      return answer.documents.map(({ id }) => id);
    };
    const { gateway } = (await stack.outputs()).endpoints;
    const stored = await fetch(`${gateway}/v1/documents`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ id: "kept", text: "A document that outlives its stack." }),
    });
    expect(stored.status).toBe(200);
    expect((await stack.succeed("down")).stderr).toContain("--delete-data");
    await stack.succeed("up");
    expect(await documents()).toEqual(["kept"]);
    await stack.succeed("down", "--delete-data");
    await stack.succeed("up");
    expect(await documents()).toEqual([]);
  });
});

describe("two stacks", () => {
  const stacks = [new TestStack("left"), new TestStack("right")];
  afterAll(() => Promise.all(stacks.map((stack) => stack.dispose())));

  test("run side by side, and one goes down alone", async () => {
    await Promise.all(stacks.map((stack) => stack.succeed("up")));
    const [left, right] = stacks as [TestStack, TestStack];
    expect((await left.outputs()).endpoints.gateway).not.toBe((await right.outputs()).endpoints.gateway);
    await left.succeed("down");
    expect((await right.run("smoke")).code).toBe(0);
    expect(left.processes()).toEqual(new Map());
  });
});

describe("an up that can't be done", () => {
  const stack = new TestStack("refused");
  afterAll(() => stack.dispose());

  test("because of a dozen mistakes names all of them and creates nothing", async () => {
    stack.configure({
      platform: "local",
      colour: "blue",
      models: [
        { name: "My Model", model: "gpt-5", threads: "four", paralelRequests: 2 },
        { name: "gateway", model: "smollm2-135m-instruct", maxTokens: 1_000_000_000 },
      ],
      encoders: { maxBatchSize: 0, dynamicBatching: "yes" },
      gateway: { port: 70_000, apiKeys: [{ name: "alice", sha256: "secret" }] },
    });
    const { code, stderr } = await stack.run("up");
    expect(code).toBe(1);
    expect(stderr).toContain("12 problems in the stack's configuration; nothing was changed");
    expect(existsSync(stack.directory)).toBe(false);
  });

  test("because a port is taken says which, by whom, and what to do", async () => {
    const holder = createServer();
    await new Promise<void>((resolve) => holder.listen(0, "127.0.0.1", resolve));
    const { port } = holder.address() as { port: number };
    stack.configure(stackConfig({ gateway: { port } }));
    const { code, stderr } = await stack.run("up");
    holder.close();
    expect(code).toBe(1);
    expect(stderr).toContain(`${port}`);
    expect(stderr).toContain(`${process.pid}`);
    await stack.succeed("up");
    expect((await stack.outputs()).endpoints.gateway).toBe(`http://127.0.0.1:${port}`);
  });
});
