import { afterAll, describe, expect, test } from "vitest";
import { stackConfig, TestStack } from "../harness/stack.ts";

const KILLS = 20;
/** A kill comes at a moment up to here: an `up` from nothing takes about this long once packages are cached. */
const LATEST_KILL_MILLISECONDS = 10_000;
/** Every so often the stack starts from nothing; in between, each `up` has a changed setting to apply. */
const FROM_NOTHING_EVERY = 5;

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

describe(`an up that is killed (seed ${seed})`, () => {
  const stack = new TestStack("killed");
  afterAll(() => stack.dispose());

  test(`at ${KILLS} random moments ends right when it is repeated, with nothing running twice`, {
    timeout: 900_000,
  }, async () => {
    const random = generator(seed);
    let killed = 0;
    for (let round = 0; round < KILLS; round++) {
      if (round % FROM_NOTHING_EVERY === 0) await stack.succeed("down");
      stack.configure(
        stackConfig({ encoders: { visionWeights: "package", maxQueueDelayMicroseconds: round } }),
      );
      const up = stack.spawn("up");
      const closed = new Promise<void>((resolve) => up.on("close", () => resolve()));
      const longest =
        round % FROM_NOTHING_EVERY === 0 ? LATEST_KILL_MILLISECONDS : LATEST_KILL_MILLISECONDS / 2;
      const moment = setTimeout(() => up.kill("SIGKILL"), random() * longest);
      await closed;
      clearTimeout(moment);
      if (up.signalCode === "SIGKILL") killed += 1;

      await stack.succeed("up");
      const status = await stack.status();
      expect(status.map(({ name, state }) => `${name} ${state}`).sort()).toEqual([
        "encoders RUNNING",
        "gateway RUNNING",
        "smollm2 RUNNING",
      ]);
      expect(stack.instances()).toEqual({ supervisord: 1, encoders: 1, gateway: 1, smollm2: 1 });
    }
    expect(killed).toBeGreaterThan(KILLS / 2);
    expect((await stack.run("smoke")).code).toBe(0);
    await stack.succeed("down");
    expect(stack.processes()).toEqual(new Map());
  });
});
