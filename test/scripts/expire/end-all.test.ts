import { describe, expect, test } from "vitest";
import { endAll } from "../../../scripts/expire/end-all.ts";
import type { Ending, SurveyedStack } from "../../../scripts/expire/expire.ts";
import type { Lifetime } from "../../../scripts/expire/lifetime.ts";
import { PulumiState } from "../../../scripts/expire/pulumi-states.ts";

const STARTED = 1_790_000_000_000;
const MINUTE = 60_000;
const OVER: Lifetime = { kind: "over", ttlHours: 8, ageHours: 9 };
const ENDED: Ending = { kind: "ended", isRestKnown: true };

function stack(name: string, hoursQuiet: number, lifetime = OVER): SurveyedStack {
  const lastOperation = STARTED - hoursQuiet * 60 * MINUTE;
  const state = new PulumiState("/nowhere/pulumi", "s3://room-state");
  return { state, record: { name, isUpdating: false, lastOperation }, lifetime, cost: "$1.00" };
}

/** @param minutes - How long each end takes, by the clock that is handed in. */
async function run(stacks: readonly SurveyedStack[], minutes: number, beginWithinMinutes?: number) {
  let clock = STARTED;
  const begun: string[] = [];
  let said = "";
  const isDone = await endAll(stacks, {
    started: STARTED,
    beginWithinMinutes,
    now: () => clock,
    say: (text) => {
      said += text;
    },
    end: async ({ record }) => {
      begun.push(record.name);
      clock += minutes * MINUTE;
      return ENDED;
    },
  });
  return { isDone, begun, said };
}

describe("with a time in which stacks are begun", () => {
  test("none is begun after it, which is said and is no success", async () => {
    const { isDone, begun, said } = await run([stack("one", 3), stack("two", 2), stack("three", 1)], 10, 15);
    expect(begun).toEqual(["one", "two"]);
    expect(isDone).toBe(false);
    expect(said).toMatch(/^three: not begun, and costs money still: 15 minutes are over, /m);
    expect(said).not.toContain("Ending three");
  });

  test("one that is begun at its end is ended", async () => {
    const { isDone, begun } = await run([stack("one", 2), stack("two", 1)], 15, 15);
    expect([isDone, begun]).toEqual([true, ["one", "two"]]);
  });

  test("one that took all of it the last time stands behind the others", async () => {
    const { begun } = await run([stack("fails", 1), stack("waits", 9)], 30, 15);
    expect(begun).toEqual(["waits"]);
  });
});

test("without one all are ended, however long it takes, and no others", async () => {
  const running: Lifetime = { kind: "running", ttlHours: 8, leftHours: 7 };
  const stacks = [stack("one", 2), stack("runs", 3, running), stack("two", 1)];
  const { isDone, begun } = await run(stacks, 600);
  expect([isDone, begun]).toEqual([true, ["one", "two"]]);
});
