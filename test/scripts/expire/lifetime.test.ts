import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  LONGEST_OPERATION_HOURS,
  lifetimeOf,
  needsPerson,
  type StackRecord,
} from "../../../scripts/expire/lifetime.ts";
import { lifetimeWords } from "../../../scripts/expire/report.ts";

const NOW = Date.parse("2026-11-21T12:00:00Z");
const hoursAgo = (hours: number) => NOW - hours * 3_600_000;

function record(changes: Partial<StackRecord> & { ageHours?: number; values?: object } = {}): StackRecord {
  const { ageHours = 9, values = { guard: { ttlHours: 8 } }, ...rest } = changes;
  return {
    name: "trial",
    isUpdating: false,
    lastOperation: hoursAgo(ageHours),
    lastUp: { endTime: hoursAgo(ageHours), values: { ...values } },
    ...rest,
  };
}
const lifetime = (changes?: Parameters<typeof record>[0]) => lifetimeOf(record(changes), NOW);

describe("the time of a stack", () => {
  test("is over once its last `up` is longer ago than its ttl", () => {
    expect(lifetime()).toEqual({ kind: "over", ttlHours: 8, ageHours: 9 });
    expect(lifetime({ ageHours: 8 })).toEqual({ kind: "running", ttlHours: 8, leftHours: 0 });
    expect(lifetime({ ageHours: 1.5 })).toEqual({ kind: "running", ttlHours: 8, leftHours: 6.5 });
  });

  test("does not begin anew with a `down` that failed, or a refresh", () => {
    expect(lifetime({ lastOperation: hoursAgo(0) }).kind).toBe("over");
  });

  test.each([{}, { guard: {} }, { guard: { emails: ["ops@example.org"] } }])(
    "has no end where %j has no ttl",
    (values) => {
      expect(lifetime({ values, ageHours: 10_000 })).toEqual({ kind: "unlimited" });
    },
  );

  test("ends nothing that its own `retain` names, and another name is another stack", () => {
    const guard = { ttlHours: 8 };
    expect(lifetime({ values: { guard, retain: ["other", "trial"] } })).toEqual({
      kind: "retained",
      ttlHours: 8,
    });
    expect(lifetime({ values: { guard, retain: ["trial-2"] } }).kind).toBe("over");
  });

  test("is left to an operation that is under way, until that is longer than any", () => {
    const busy = (ageHours: number) => lifetime({ isUpdating: true, ageHours });
    expect(busy(9)).toEqual({ kind: "updating", ttlHours: 8, ageHours: 9, isStuck: false });
    expect(busy(8 + LONGEST_OPERATION_HOURS)).toMatchObject({ isStuck: false });
    expect(busy(9 + LONGEST_OPERATION_HOURS)).toMatchObject({ isStuck: true });
    expect(busy(7).kind).toBe("running");
  });

  test("is not known before the first `up` has ended, and a person looks when none can be under way", () => {
    const killed = (hours: number | null) =>
      lifetime({ lastUp: null, lastOperation: hours === null ? null : hoursAgo(hours) });
    expect(killed(1)).toMatchObject({ kind: "unknown", isStuck: false });
    expect(killed(LONGEST_OPERATION_HOURS + 1)).toMatchObject({ kind: "unknown", isStuck: true });
    expect(killed(null)).toMatchObject({ kind: "unknown", isStuck: false });
  });

  test.each([
    [{ guard: "(secret)" }, "guard"],
    [{ guard: { ttlHours: "8" } }, "guard.ttlHours"],
    [{ guard: { ttlHours: 8 }, retain: "(secret)" }, "retain"],
    [{ guard: { ttlHours: 8 }, retain: [1] }, "retain.0"],
  ])("is not guessed where %j can't be read", (values, path) => {
    const unreadable = lifetime({ values });
    expect(unreadable).toMatchObject({ kind: "unknown", isStuck: true });
    expect(lifetimeWords(unreadable)).toContain(`can't be read: ${path};`);
  });

  test("comes once, and stays", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 8760 }), fc.integer({ min: 0, max: 20_000 }), (ttlHours, age) => {
        const at = lifetime({ values: { guard: { ttlHours } }, ageHours: age });
        expect(at.kind).toBe(age > ttlHours ? "over" : "running");
        expect(needsPerson(at)).toBe(false);
      }),
    );
  });
});

test("words have the hours that decide", () => {
  expect(lifetimeWords(lifetime({ ageHours: 11.25 }))).toBe(
    "its last `up` ended 11.3 h ago, and its ttl is 8 h",
  );
  expect(lifetimeWords(lifetime({ ageHours: 3 }))).toBe("5 h left of 8 h after its last `up`");
  expect(lifetimeWords(lifetime({ ageHours: 20, isUpdating: true }))).toContain("`pulumi cancel`");
  expect(lifetimeWords(lifetime({ ageHours: 9, isUpdating: true }))).not.toContain("cancel");
});
