/** A start that is killed at random moments, each time mended by the next `up`. */
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, expect, test } from "vitest";
import { stackConfig, TestStack } from "../harness/stack.ts";
import { times } from "../harness/thorough.ts";

const KILLS = times(2, 30);
/** Every so often the stack starts from nothing; in between, each start has a changed setting to apply. */
const FROM_NOTHING_EVERY = 5;
/** Every so often it is Ctrl-C, which a terminal sends, in place of a kill -9. */
const CONTROL_C_EVERY = 4;
/** Lines of a whole start that come before something is left to do: its title, and a line for each step but the last. */
const LINES = { fromNothing: 14, change: 2 } as const;
/** The step that comes after a line takes longer. */
const MOST_DELAY_MILLISECONDS = 800;

/** A changed seed makes other moments; this one is printed when a run fails, by the test's name. */
const seed = Number(process.env.ENGINE_ROOM_KILL_SEED ?? 1);

/** Mulberry32: small, seeded, good enough to spread moments. */
function generator(state: number): () => number {
  let s = state;
  return () => {
    s = (s + 0x6d2b79f5) | 0;
    let t = Math.imul(s ^ (s >>> 15), 1 | s);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

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

describe(`a start that is killed (seed ${seed})`, () => {
  const stack = new TestStack("killed");
  afterAll(() => stack.dispose());

  test(`up mends a start that was killed at ${KILLS} random moments, and nothing runs twice`, {
    timeout: 1_800_000,
  }, async () => {
    const random = generator(seed);
    let killed = 0;
    for (let round = 0; round < KILLS; round++) {
      const kind = round % FROM_NOTHING_EVERY === 0 ? "fromNothing" : "change";
      if (kind === "fromNothing") await stack.succeed("down");
      stack.configure(
        stackConfig({ encoders: { visionWeights: "package", maxQueueDelayMicroseconds: round } }),
      );
      const signal = round % CONTROL_C_EVERY === 0 ? "SIGINT" : "SIGKILL";
      const wasAtWork = await killAfter(stack.spawn("start", "--no-samples"), signal, {
        lines: 1 + Math.floor(random() * LINES[kind]),
        milliseconds: random() * MOST_DELAY_MILLISECONDS,
      });
      if (wasAtWork) killed += 1;

      await stack.succeed("up");
      expect(await stack.states()).toEqual({
        encoders: "RUNNING",
        gateway: "RUNNING",
        mongo: "RUNNING",
        smollm2: "RUNNING",
        vector: "RUNNING",
      });
      expect(stack.instances()).toEqual({
        supervisord: 1,
        encoders: 1,
        gateway: 1,
        mongo: 1,
        smollm2: 1,
        vector: 1,
      });
    }
    expect(killed).toBeGreaterThan(KILLS / 2);
    expect((await stack.run("smoke")).code).toBe(0);
    await stack.succeed("down");
    expect(stack.processes()).toEqual(new Map());
  });
});
