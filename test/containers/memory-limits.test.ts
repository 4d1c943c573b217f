/** What memory the databases of a stack take at most, with all of their limits reached. */
import { worstCaseBytes } from "@engine-room/service-process";
import { describe, expect, test } from "vitest";
import * as mongo from "../../containers/services/mock-mongo/src/limits.ts";
import * as vector from "../../containers/services/mock-vector/src/limits.ts";
import { DATABASE_REQUEST } from "../../infra/plan/pool-space.ts";

const CONTAINER_BYTES = DATABASE_REQUEST.memoryMiB * 1024 * 1024;

describe.each([
  ["document", mongo.memoryUses(mongo.DEFAULT_LIMITS), mongo.LIMITS],
  ["vector", vector.memoryUses(vector.DEFAULT_LIMITS, CONTAINER_BYTES), vector.LIMITS],
] as const)("the %s database", (_name, uses, limits) => {
  test("takes less memory than its container has", () => {
    expect(worstCaseBytes(uses)).toBeLessThan(CONTAINER_BYTES);
  });

  test("has a sentence for each limit", () => {
    for (const { means } of Object.values(limits)) expect(means).toMatch(/^[A-Z].*\.$/);
  });
});

test("points may take half of the memory that the process has", () => {
  expect(vector.pointBytesOf(1001)).toBe(500);
  expect(vector.pointBytesOf()).toBeGreaterThan(0);
});
