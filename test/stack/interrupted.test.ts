import { afterAll, describe, expect, test } from "vitest";
import { stackConfig, TestStack } from "../harness/stack.ts";

const KILLS = 20;
/** Every so often the stack starts from nothing; in between, each start has a changed setting to apply. */
const FROM_NOTHING_EVERY = 5;
/** Every so often it is Ctrl-C, which a terminal sends, in place of a kill -9. */
const CONTROL_C_EVERY = 4;

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

async function timed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

describe(`a start that is killed (seed ${seed})`, () => {
  const stack = new TestStack("killed");
  afterAll(() => stack.dispose());

  test(`at ${KILLS} random moments is mended by the next up, with nothing running twice`, {
    timeout: 900_000,
  }, async () => {
    const random = generator(seed);
    let killed = 0;
    // The moments are spread over the time that a whole one takes on this machine.
    const wholeMilliseconds = {
      fromNothing: await timed(() => stack.succeed("up")),
      change: await timed(() => {
        stack.configure(
          stackConfig({ encoders: { visionWeights: "package", maxQueueDelayMicroseconds: KILLS } }),
        );
        return stack.succeed("up");
      }),
    };
    for (let round = 0; round < KILLS; round++) {
      const kind = round % FROM_NOTHING_EVERY === 0 ? "fromNothing" : "change";
      if (kind === "fromNothing") await stack.succeed("down");
      stack.configure(
        stackConfig({ encoders: { visionWeights: "package", maxQueueDelayMicroseconds: round } }),
      );
      const start = stack.spawn("start", "--no-samples");
      const closed = new Promise<void>((resolve) => start.on("close", () => resolve()));
      const signal = round % CONTROL_C_EVERY === 0 ? "SIGINT" : "SIGKILL";
      const moment = setTimeout(() => start.kill(signal), random() * wholeMilliseconds[kind]);
      await closed;
      clearTimeout(moment);
      if (start.signalCode !== null) killed += 1;

      await stack.succeed("up");
      const status = await stack.status();
      expect(status.map(({ name, state }) => `${name} ${state}`).sort()).toEqual([
        "encoders RUNNING",
        "gateway RUNNING",
        "mongo RUNNING",
        "smollm2 RUNNING",
        "vector RUNNING",
      ]);
      expect(stack.instances()).toEqual({
        supervisord: 1,
        encoders: 1,
        gateway: 1,
        mongo: 1,
        smollm2: 1,
        vector: 1,
      });
    }
    expect(killed).toBeGreaterThan(0);
    expect((await stack.run("smoke")).code).toBe(0);
    await stack.succeed("down");
    expect(stack.processes()).toEqual(new Map());
  });
});
