/** A stack from its first `up` to its last `down`: changes, kills, kept data and refusals. */
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createServer } from "node:net";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { stackPaths } from "../../scripts/stack/stack-paths.ts";
import { printedSeed, randomOf } from "../harness/random.ts";
import { eventually, stackConfig, TestStack } from "../harness/stack.ts";
import { times } from "../harness/thorough.ts";

const services = ["encoders", "gateway", "mongo", "smollm2", "vector"];
const oneOfEach = { supervisord: 1, encoders: 1, gateway: 1, mongo: 1, smollm2: 1, vector: 1 };

const stack = new TestStack("lifecycle");
afterAll(() => stack.dispose());

// Each test continues with the stack of the test before it.
describe("a stack", { shuffle: false }, () => {
  describe("an up that is refused", () => {
    test("an up with ten mistakes in its stack file names all of them and creates nothing", async () => {
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
      expect(stderr).toMatch(/^10 problems in .*:$/m);
      expect(existsSync(stack.directory)).toBe(false);
    });

    test("an up whose port is taken names the port and its holder, and succeeds once the port is free", async () => {
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
      expect(stack.outputs().endpoints.gateway).toBe(`http://127.0.0.1:${port}`);
    });
  });

  describe("a stack that is up", () => {
    beforeAll(async () => {
      stack.configure(stackConfig());
      await stack.succeed("up");
    });

    test("a second up changes nothing", async () => {
      const before = await stack.pids();
      const { stderr } = await stack.succeed("up");
      expect(stderr).toMatch(/^ {2}\d+ unchanged$/m);
      expect(await stack.pids()).toEqual(before);
      expect((await stack.succeed("preview", "--expect-no-changes")).stdout).toMatch(/^\d+ unchanged$/m);
    });

    test("changed settings restart only the services that they reach, as the preview says, and a second up meanwhile names the lock's holder", async () => {
      const { endpoints } = stack.outputs();
      const before = await stack.pids();
      stack.configure(
        stackConfig({
          encoders: { visionWeights: "package", maxQueueDelayMicroseconds: 1000 },
          gateway: { limits: { bodyMiB: 2 } },
        }),
      );
      const preview = await stack.succeed("preview");
      expect(preview.stdout).toMatch(/~ update +encoders-repository/);
      expect(preview.stdout).toMatch(/~ update +encoders-server/);
      expect(preview.stdout).toMatch(/~ update +gateway-server/);
      expect(preview.stdout).not.toMatch(/update +(mongo|smollm2|vector)/);
      const first = stack.spawn("up");
      const ended = new Promise((resolve) => first.on("close", resolve));
      // Its first step is done, and others wait for processes.
      await new Promise((resolve) => first.stderr?.once("data", resolve));
      const second = await stack.run("up");
      expect(second.code).toBe(1);
      expect(second.stderr).toContain(`locked by process ${first.pid} (\`up\``);
      expect(await ended).toBe(0);
      const after = await stack.pids();
      const restarted = services.filter((service) => after[service] !== before[service]);
      expect(restarted).toEqual(["encoders", "gateway"]);
      expect(stack.outputs().endpoints).toEqual(endpoints);
    });

    test("supervisord starts every service again after a kill -9", async () => {
      const before = await stack.pids();
      for (const service of services) stack.kill(before[service]);
      await eventually(async () => {
        const now = await stack.pids();
        const isBack = (service: string) => now[service] !== undefined && now[service] !== before[service];
        return services.every(isBack) ? true : undefined;
      });
      const ready = `${stack.outputs().endpoints.gateway}/readyz`;
      await eventually(async () => ((await fetch(ready)).ok ? true : undefined));
      expect((await stack.run("smoke")).code).toBe(0);
    });

    test("refresh finds a stack whose supervisord was killed, and up restores it with nothing running twice", async () => {
      stack.kill(stack.supervisordPid());
      const refresh = await stack.succeed("refresh");
      for (const service of services) expect(refresh.stderr).toContain(`${service}-server`);
      await stack.succeed("up");
      expect((await stack.run("smoke")).code).toBe(0);
      const running = await stack.pids();
      for (const service of services) expect(running[service]).toBeTypeOf("number");
      expect(stack.instances()).toEqual(oneOfEach);
    });
  });

  describe("a stack that goes down", () => {
    const { data } = stackPaths(stack.name);
    const documents = () => `${stack.outputs().endpoints.gateway}/v1/documents`;

    test("down leaves no process and no file", async () => {
      const stored = await fetch(documents(), {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ id: "kept", text: "A document that outlives its stack." }),
      });
      expect(stored.status).toBe(200);
      expect((await stack.succeed("down")).stderr).toContain("--delete-data");
      expect(stack.processes()).toEqual(new Map());
      expect(existsSync(stack.directory)).toBe(false);
      await stack.succeed("down");
    });

    const KILLS = times(1, 30);
    /** Number of rounds from one start from nothing to the next; other starts have a changed setting to apply. */
    const FROM_NOTHING_EVERY = 5;
    /** Number of rounds from one Ctrl-C to the next; other rounds have a kill -9. */
    const CONTROL_C_EVERY = 4;
    /** Lines of a start before its last step: its title, and a line for each step except the last. */
    const LINES = { fromNothing: 14, change: 2 } as const;
    /** The step that comes after a line takes longer. */
    const MOST_DELAY_MILLISECONDS = 800;
    /** Kill of the only round by default: after half of the steps, before servers start. */
    const FIRST_MOMENT = { lines: 7, milliseconds: 0 };

    test(`up completes a start that was killed, and nothing runs twice (rounds: ${KILLS})`, {
      timeout: 1_800_000,
    }, async () => {
      const random = randomOf(printedSeed());
      let killed = 0;
      for (let round = 0; round < KILLS; round++) {
        const kind = round % FROM_NOTHING_EVERY === 0 ? "fromNothing" : "change";
        if (kind === "fromNothing" && round > 0) await stack.succeed("down");
        stack.configure(
          stackConfig({ encoders: { visionWeights: "package", maxQueueDelayMicroseconds: round } }),
        );
        const signal = round % CONTROL_C_EVERY === CONTROL_C_EVERY - 1 ? "SIGINT" : "SIGKILL";
        const moment =
          round === 0
            ? FIRST_MOMENT
            : { lines: 1 + random.below(LINES[kind]), milliseconds: random.below(MOST_DELAY_MILLISECONDS) };
        const wasAtWork = await killAfter(stack.spawn("start", "--no-samples"), signal, moment);
        if (wasAtWork) killed += 1;

        await stack.succeed("up");
        const running = Object.fromEntries(services.map((service) => [service, "RUNNING"]));
        expect(await stack.states()).toEqual(running);
        expect(stack.instances()).toEqual(oneOfEach);
      }
      expect(killed).toBeGreaterThan(KILLS / 2);
      expect((await stack.run("smoke")).code).toBe(0);
    });

    test("a stack that is up again has its documents, and down --delete-data deletes them", async () => {
      const answer = (await (await fetch(documents())).json()) as { documents: { id: string }[] };
      expect(answer.documents.map(({ id }) => id)).toEqual(["kept"]);
      await stack.succeed("down", "--delete-data");
      expect(stack.processes()).toEqual(new Map());
      expect(existsSync(data)).toBe(false);
    });
  });
});

/** @returns Whether it was still at work when the signal came, some time after so many lines. */
async function killAfter(
  start: ChildProcess,
  signal: NodeJS.Signals,
  { lines, milliseconds }: { readonly lines: number; readonly milliseconds: number },
): Promise<boolean> {
  const closed = once(start, "close");
  let seen = 0;
  createInterface({ input: start.stderr as NodeJS.ReadableStream }).on("line", async () => {
    seen += 1;
    if (seen !== lines) return;
    await sleep(milliseconds);
    start.kill(signal);
  });
  await closed;
  return start.exitCode !== 0;
}
